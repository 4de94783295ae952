package weights

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"math"
)

// What headers may have. Each bound is some times what the largest known models
// have, and is there so that a file that lies is refused early.
const (
	// maxHeaderBytes: headers of GGUF are mostly the tokenizer's words, up to some
	// 20 MB.
	maxHeaderBytes = 128 << 20
	// maxKeys: known models have under 100.
	maxKeys = 1 << 14
	// maxTensors: a mixture of 58 layers and 256 experts has 92,000 in all its
	// safetensors, GGUF has one tensor for all experts of a layer.
	maxTensors = 1 << 18
	// maxLayers: known models have up to 162.
	maxLayers = 1 << 12
	// maxName is for keys and names of tensors. GGUF allows keys of 65,535 bytes.
	maxName = 1 << 16
	// maxText is the longest text that is kept, maxKept how many numbers of arrays
	// are: known models have up to three for each layer.
	maxText = 256
	maxKept = 1 << 16
)

// cursor reads a header from its beginning. The first fault stays, and what is
// read after it is zero.
type cursor struct {
	src  io.ReaderAt
	size int64
	path string
	buf  *bufio.Reader
	at   int64
	kept uint64 // numbers of arrays
	err  error
}

func newCursor(src io.ReaderAt, size int64, path string) *cursor {
	c := &cursor{src: src, size: size, path: path}
	c.buf = bufio.NewReaderSize(c.rest(), 1<<17) // holds the longest name
	return c
}

// rest is what is still to be read of the header, at most.
func (c *cursor) rest() io.Reader {
	return io.NewSectionReader(c.src, c.at, max(min(c.size, maxHeaderBytes)-c.at, 0))
}

func (c *cursor) fail(kind error, format string, args ...any) {
	if c.err == nil {
		e := readError(kind, c.path, format, args...)
		e.Offset = c.at
		c.err = e
	}
}

// fits reports whether n items of some bytes each can follow, and fails
// otherwise.
func (c *cursor) fits(n, width uint64, what string) bool {
	switch {
	case c.err != nil:
		return false
	case n > maxHeaderBytes/width || n*width > uint64(maxHeaderBytes-c.at):
		c.fail(ErrCorrupt, "%s of %d x %d bytes would end behind the largest header, %d bytes", what, n, width, maxHeaderBytes)
		return false
	case n*width > uint64(c.size-c.at):
		c.fail(ErrIncomplete, "the file ends within its header, after %d bytes: %s has %d more at least; fetch it again", c.size, what, n*width)
		return false
	}
	return true
}

// take returns the next n bytes, valid until the next call. n is at most maxName.
func (c *cursor) take(n int) []byte {
	if c.err != nil {
		return nil
	}
	b, err := c.buf.Peek(n)
	switch {
	case err == nil:
		c.at += int64(n)
		_, _ = c.buf.Discard(n) // it is in the buffer
		return b
	case !errors.Is(err, io.EOF):
		c.fail(err, "reading the header")
	case c.at+int64(n) > c.size:
		c.fail(ErrIncomplete, "the file ends within its header, after %d bytes; fetch it again", c.size)
	default:
		c.fail(ErrCorrupt, "the header is longer than %d bytes", maxHeaderBytes)
	}
	return nil
}

// skip passes over n bytes that fits found to be there, without reading them
// where that is possible.
func (c *cursor) skip(n uint64) {
	if c.err != nil {
		return
	}
	c.at += int64(n)
	if n <= uint64(c.buf.Buffered()) {
		_, _ = c.buf.Discard(int(n)) // it is in the buffer
		return
	}
	c.buf.Reset(c.rest())
}

func (c *cursor) u32() uint32 {
	if b := c.take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (c *cursor) u64() uint64 {
	if b := c.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// number reads a whole number of 1, 2, 4 or 8 bytes. One too large for an int64
// becomes the largest.
func (c *cursor) number(width int, signed bool) int64 {
	b := c.take(width)
	if b == nil {
		return 0
	}
	var word [8]byte
	copy(word[:], b)
	u := binary.LittleEndian.Uint64(word[:])
	if signed {
		shift := 64 - 8*width
		return int64(u<<shift) >> shift
	}
	return int64(min(u, math.MaxInt64))
}

// name reads a text with its length before it, as keys and names are written.
func (c *cursor) name(what string) string {
	n := c.u64()
	if c.err == nil && n > maxName {
		c.fail(ErrCorrupt, "%s has %d bytes, and %d are the most", what, n, maxName)
	}
	return string(c.take(int(n)))
}
