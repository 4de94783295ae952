package prefix

import (
	"math/bits"

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
	for len(p) >= ChunkBytes {
		c.add(p[:ChunkBytes])
		p = p[ChunkBytes:]
	}
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

func (c *Chain) add(chunk []byte) {
	if len(c.hashes) == maxChunks {
		return
	}
	c.last = link(c.last, xxhash.Sum64(chunk))
	c.hashes = append(c.hashes, c.last)
}

// link is the hash of what before stands for followed by what next does. Order
// matters: the multiplication is of the one, the sum of the other.
func link(before, next uint64) uint64 {
	hi, lo := bits.Mul64(before^0x9e3779b97f4a7c15, next|1)
	hi, lo = bits.Mul64(hi^lo^next, 0xd6e8feb86659fd93^before)
	return hi ^ lo ^ bits.RotateLeft64(next, 23)
}
