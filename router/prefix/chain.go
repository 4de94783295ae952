package prefix

import (
	"encoding/binary"
	"math/bits"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// maxChunks bounds a chain: 4 MiB of text, some million tokens. What a prompt
// has beyond is not told apart.
const maxChunks = 1 << 16

// Chain is the fingerprint of one prompt: a hash for each whole chunk of
// ChunkBytes of it, each over all bytes before. It keeps no text but less than
// one chunk. Call Reset, Write the prompt in pieces of any size, then hand it
// to an index. The zero Chain is the empty prompt of the empty root. A Chain
// that is Reset keeps its memory. Not safe for concurrent use while written.
type Chain struct {
	hashes []uint64
	last   uint64
	bytes  int
	rest   [ChunkBytes]byte
	held   int // bytes of rest in use
}

// Reset empties c and begins a prompt below root: what engines never share
// (model, LoRA) must have different roots. See [Root].
func (c *Chain) Reset(root uint64) {
	c.hashes, c.last, c.bytes, c.held = c.hashes[:0], root, 0, 0
}

// Root is the start of the chains whose prompts may share: those of one model,
// LoRA or salt. The parts are told apart: ("ab", "c") is not ("a", "bc").
func Root(parts ...string) uint64 {
	var h uint64
	for _, p := range parts {
		h = link(h, xxhash.Sum64String(p)+uint64(len(p)))
	}
	return h
}

// Write continues the prompt with p, which it does not keep. It returns len(p)
// and no error.
func (c *Chain) Write(p []byte) (int, error) {
	n := len(p)
	c.bytes += n
	if c.held > 0 {
		k := copy(c.rest[c.held:], p)
		c.held += k
		p = p[k:]
		if c.held < ChunkBytes {
			return n, nil
		}
		c.held = 0
		c.add(c.rest[:])
	}
	p = c.add(p)
	c.held = copy(c.rest[:], p)
	return n, nil
}

// WriteString is Write for a string.
func (c *Chain) WriteString(s string) (int, error) {
	n := len(s)
	for len(s) > 0 {
		var buf [4 * ChunkBytes]byte
		k := copy(buf[:], s)
		_, _ = c.Write(buf[:k])
		s = s[k:]
	}
	return n, nil
}

// Bytes is how many bytes were written since Reset.
func (c *Chain) Bytes() int { return c.bytes }

// Chunks is how many whole chunks of ChunkBytes were written and are told apart.
func (c *Chain) Chunks() int { return len(c.hashes) }

// Hash is the hash of all up to the end of a chunk, by index. Two chains below one
// root have the same there if they are the same up to there.
func (c *Chain) Hash(chunk int) uint64 { return c.hashes[chunk] }

// add takes the whole chunks of p and returns what is left.
func (c *Chain) add(p []byte) []byte {
	n := len(p) / ChunkBytes
	if room := maxChunks - len(c.hashes); n > room {
		c.take(p[:room*ChunkBytes], room)
	} else {
		c.take(p, n)
	}
	return p[n*ChunkBytes:]
}

// take adds the first n chunks of p, which is all the work of a chain: four
// products that wait neither for each other nor for the chunk before, after wyhash,
// and one that ties them to it. BenchmarkHash compares it with other hashes.
func (c *Chain) take(p []byte, n int) {
	c.hashes = slices.Grow(c.hashes, n)
	next := c.hashes[len(c.hashes) : len(c.hashes)+n]
	last := c.last
	le := binary.LittleEndian
	for i := range next {
		b := (*[ChunkBytes]byte)(p)
		chunk := mix(le.Uint64(b[0:])^mix0, le.Uint64(b[8:])^mix1) ^
			mix(le.Uint64(b[16:])^mix2, le.Uint64(b[24:])^mix3) ^
			mix(le.Uint64(b[32:])^mix4, le.Uint64(b[40:])^mix5) ^
			mix(le.Uint64(b[48:])^mix6, le.Uint64(b[56:])^mix7)
		last = mix(last^mix0, chunk^mix1)
		next[i] = last
		p = p[ChunkBytes:]
	}
	c.last, c.hashes = last, c.hashes[:len(c.hashes)+n]
}

// What words are mixed with, so that no text of zeros or of one letter stands out:
// the secret of wyhash, and the first digits of pi.
const (
	mix0, mix1 = 0x2d358dccaa6c78a5, 0x8bb84b93962eacc9
	mix2, mix3 = 0x4b33a62ed433d4a3, 0x4d5a2da51de1aa47
	mix4, mix5 = 0x243f6a8885a308d3, 0x13198a2e03707344
	mix6, mix7 = 0xa4093822299f31d0, 0x082efa98ec4e6c89
)

// mix is the product of two words, its halves folded together.
func mix(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}

// link is the hash of what before stands for followed by what next does. Order
// matters: the multiplication is of the one, the sum of the other.
func link(before, next uint64) uint64 {
	hi, lo := bits.Mul64(before^0x9e3779b97f4a7c15, next|1)
	hi, lo = bits.Mul64(hi^lo^next, 0xd6e8feb86659fd93^before)
	return hi ^ lo ^ bits.RotateLeft64(next, 23)
}
