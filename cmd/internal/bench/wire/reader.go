package wire

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strconv"
	"time"
)

// maxHeadBytes bounds a message's head and one chunk-size line.
const maxHeadBytes = 64 << 10

// ErrMalformed says that what came is not HTTP/1.1 as this package reads it.
var ErrMalformed = errors.New("wire: malformed HTTP message")

// Head is the start of a message. Its slices are valid until the next call of
// the reader that returned it.
type Head struct {
	Start  []byte // request or status line
	Close  bool   // the sender closes the connection behind this message
	Length int64  // of the body; -1 when the head gives none
	Chunks bool   // the body is chunked
}

// state says what of a body comes next.
type state uint8

const (
	stateNone    state = iota // no body, or all of it read
	stateFixed                // left bytes
	stateSize                 // a chunk's size line
	stateChunk                // left bytes of a chunk
	stateUntil                // everything until the connection ends
	stateTrailer              // lines behind the last chunk
)

// Reader reads HTTP/1.1 messages, one after another, from a connection. It is
// made for measuring: a body's pieces come back as they arrived, never waiting
// for more, with the time of the read that brought them. One goroutine at a time.
type Reader struct {
	src     io.Reader
	buf     []byte
	r, w    int
	body    state
	left    int64
	arrived time.Time
}

// NewReader returns a reader of src.
func NewReader(src io.Reader) *Reader { return &Reader{src: src, buf: make([]byte, 8<<10)} }

// Reset makes r read src and forget what it had.
func (r *Reader) Reset(src io.Reader) {
	r.src, r.r, r.w, r.body, r.left = src, 0, 0, stateNone, 0
}

// Arrived is when the read returned that brought the last head or piece. It is
// taken once a read, since one read often brings several events.
func (r *Reader) Arrived() time.Time { return r.arrived }

// fill reads once more, behind what is buffered.
func (r *Reader) fill() error {
	if r.r == r.w {
		r.r, r.w = 0, 0
	}
	if r.w == len(r.buf) {
		if r.r > 0 {
			r.w = copy(r.buf, r.buf[r.r:r.w])
			r.r = 0
		} else {
			if len(r.buf) >= maxHeadBytes {
				return ErrMalformed
			}
			r.buf = append(r.buf, make([]byte, len(r.buf))...)
		}
	}
	n, err := r.src.Read(r.buf[r.w:])
	r.arrived = time.Now()
	r.w += n
	if n > 0 {
		return nil
	}
	return err
}

// until returns what comes before sep and skips both.
func (r *Reader) until(sep string) ([]byte, error) {
	seen := 0
	for {
		if i := bytes.Index(r.buf[r.r+seen:r.w], []byte(sep)); i >= 0 {
			b := r.buf[r.r : r.r+seen+i]
			r.r += seen + i + len(sep)
			return b, nil
		}
		seen = max(0, r.w-r.r-len(sep)+1)
		if err := r.fill(); err != nil {
			if err == io.EOF && r.w > r.r {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
}

// Head reads the next message's head. io.EOF means that the connection ended
// between messages. hasBody says whether a message without a length has a body
// that ends with the connection, as an answer has and a request has not.
func (r *Reader) Head(hasBody bool) (Head, error) {
	b, err := r.until("\r\n\r\n")
	if err != nil {
		return Head{}, err
	}
	h := Head{Length: -1}
	var line []byte
	h.Start, b, _ = bytes.Cut(b, []byte("\r\n"))
	h.Close = bytes.Contains(h.Start, []byte("HTTP/1.0"))
	for len(b) > 0 {
		line, b, _ = bytes.Cut(b, []byte("\r\n"))
		key, value, ok := bytes.Cut(line, []byte(":"))
		if !ok {
			return h, ErrMalformed
		}
		value = bytes.TrimSpace(value)
		switch {
		case bytes.EqualFold(key, []byte("Content-Length")):
			if h.Length, err = strconv.ParseInt(string(value), 10, 64); err != nil || h.Length < 0 {
				return h, ErrMalformed
			}
		case bytes.EqualFold(key, []byte("Transfer-Encoding")):
			h.Chunks = bytes.EqualFold(value, []byte("chunked"))
		case bytes.EqualFold(key, []byte("Connection")):
			h.Close = bytes.EqualFold(value, []byte("close")) || h.Close && !bytes.EqualFold(value, []byte("keep-alive"))
		}
	}
	switch {
	case h.Chunks:
		r.body = stateSize
	case h.Length > 0:
		r.body, r.left = stateFixed, h.Length
	case h.Length < 0 && hasBody:
		r.body, h.Close = stateUntil, true
	default:
		r.body = stateNone
	}
	return h, nil
}

// Piece returns the bytes of the body that have arrived next, at least one, or
// io.EOF when the body is complete. They are valid until the next call. A
// connection that ends too early is io.ErrUnexpectedEOF, or its own error.
func (r *Reader) Piece() ([]byte, error) {
	for {
		switch r.body {
		case stateNone:
			return nil, io.EOF
		case stateFixed, stateChunk:
			return r.take()
		case stateUntil:
			if r.r == r.w {
				if err := r.fill(); err != nil {
					r.body = stateNone
					return nil, err
				}
			}
			b := r.buf[r.r:r.w]
			r.r = r.w
			return b, nil
		case stateSize:
			line, err := r.line()
			if err != nil {
				return nil, err
			}
			size, _, _ := bytes.Cut(line, []byte(";"))
			if r.left, err = strconv.ParseInt(string(bytes.TrimSpace(size)), 16, 32); err != nil || r.left < 0 {
				return nil, ErrMalformed
			}
			r.body = stateChunk
			if r.left == 0 {
				r.body = stateTrailer
			}
		case stateTrailer:
			line, err := r.line()
			if err != nil {
				return nil, err
			}
			if len(line) == 0 {
				r.body = stateNone
			}
		}
	}
}

// take returns what has arrived of the left bytes of a fixed body or a chunk.
func (r *Reader) take() ([]byte, error) {
	if r.left == 0 { // a chunk's bytes are read; its line end is not
		line, err := r.line()
		if err != nil {
			return nil, err
		}
		if len(line) != 0 {
			return nil, ErrMalformed
		}
		r.body = stateSize
		return r.Piece()
	}
	if r.r == r.w {
		if err := r.fill(); err != nil {
			return nil, noEOF(err)
		}
	}
	n := int(min(int64(r.w-r.r), r.left))
	b := r.buf[r.r : r.r+n]
	r.r += n
	r.left -= int64(n)
	if r.left == 0 && r.body == stateFixed {
		r.body = stateNone
	}
	return b, nil
}

// line reads a line of the body's framing; the body cannot end before it.
func (r *Reader) line() ([]byte, error) {
	b, err := r.until("\r\n")
	return b, noEOF(err)
}

// AppendBody appends the rest of the body to dst. A body of known length is
// read straight into dst.
func (r *Reader) AppendBody(dst []byte) ([]byte, error) {
	for {
		if r.body == stateFixed && r.r == r.w {
			at := len(dst)
			dst = slices.Grow(dst, int(r.left))[:at+int(r.left)]
			r.left, r.body = 0, stateNone
			_, err := io.ReadFull(r.src, dst[at:])
			r.arrived = time.Now()
			return dst, noEOF(err)
		}
		b, err := r.Piece()
		if err == io.EOF {
			return dst, nil
		}
		if err != nil {
			return dst, err
		}
		dst = append(dst, b...)
	}
}

// noEOF turns the end of a connection inside a message into what it is.
func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
