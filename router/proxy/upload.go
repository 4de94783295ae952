package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// uploadPiece is how much of a body that is read from elsewhere is in memory at
// a time.
const uploadPiece = 64 << 10

// errBody marks what went wrong while a request's body was read.
var errBody = errors.New("the request's body could not be read")

// sendFrom writes the head and the body that req.Open gives, as send does with
// one in memory. The connection's deadline is set.
func (c *conn) sendFrom(ctx context.Context, head []byte, req *Request) (whole bool, err error) {
	if _, err := c.nc.Write(head); err != nil {
		return false, err
	}
	buf, _ := c.t.proxy.uploads.Get().(*[uploadPiece]byte)
	if buf == nil {
		buf = new([uploadPiece]byte)
	}
	defer c.t.proxy.uploads.Put(buf)
	src := exactly{r: req.Open(), left: req.Length}
	for src.left > 0 {
		b := buf[:min(src.left, uploadPiece)]
		if _, err := io.ReadFull(&src, b); err != nil {
			return false, err
		}
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		if _, err := c.nc.Write(b); err != nil {
			return false, err
		}
		if src.left > 0 && c.answered() {
			return false, nil
		}
	}
	return true, nil
}

// exactly reads a body of known length. Its errors are errBody, but for the
// io.EOF after all of it.
type exactly struct {
	r    io.Reader
	left int
}

func (e *exactly) Read(b []byte) (int, error) {
	if e.left == 0 {
		return 0, io.EOF
	}
	n, err := e.r.Read(b[:min(len(b), e.left)])
	e.left -= n
	if err != nil && e.left > 0 {
		return n, fmt.Errorf("%w: %w", errBody, eofIs(err, io.ErrUnexpectedEOF))
	}
	return n, nil
}

// opener returns what makes readers of the request's body for net/http.
func opener(req *Request) func() (io.ReadCloser, error) {
	if open, n := req.Open, req.Length; open != nil {
		return func() (io.ReadCloser, error) { return io.NopCloser(&exactly{open(), n}), nil }
	}
	parts := req.Body
	return func() (io.ReadCloser, error) { return io.NopCloser(&pieces{parts: parts}), nil }
}
