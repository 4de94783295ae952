package proxy

import (
	"io"
	"time"
)

// unframe takes the raw bytes of one read and returns the body bytes in them.
// It sets done at the body's end and leaves what follows it in conn.data.
func (r *Response) unframe(b []byte) ([]byte, error) {
	switch r.head.framing {
	case bodyLength:
		if int64(len(b)) >= r.left {
			r.conn.data = b[r.left:]
			b = b[:r.left]
			r.done = true
		}
		r.left -= int64(len(b))
	case bodyChunked:
		out, used, err := r.chunked.decode(b)
		if err != nil {
			return nil, err
		}
		if r.chunked.done() {
			r.done = true
			r.conn.data = b[used:]
		}
		return out, nil
	}
	return b, nil
}

// next returns the body bytes of one read, waiting until limit. They are valid
// until the next call. The error is io.EOF at the body's end.
func (r *Response) next(limit time.Time) ([]byte, error) {
	if r.http != nil {
		return r.nextHTTP(limit)
	}
	c := r.conn
	for !r.done {
		if len(c.data) == 0 {
			s := oneRead{c: c, until: limit}
			if err := c.pump(r.ctx, &s); err != nil {
				if err == io.EOF && r.head.framing == bodyUntilClose {
					r.done = true
				} else if err == io.EOF {
					err = io.ErrUnexpectedEOF
				}
				return nil, err
			}
			c.data = c.buf[:s.n]
		}
		b := c.data
		c.data = nil
		b, err := r.unframe(b)
		if err != nil || len(b) > 0 {
			return b, err
		}
	}
	return nil, io.EOF
}

// oneRead takes the bytes of one read.
type oneRead struct {
	c     *conn
	until time.Time
	n     int
}

func (s *oneRead) limit() time.Time { return s.until }
func (s *oneRead) room() []byte     { return s.c.buf }
func (s *oneRead) took(n int) bool  { s.n = n; return false }
