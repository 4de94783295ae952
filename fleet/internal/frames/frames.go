// Package frames has each message that an agent streams go out in one frame.
//
// Connect writes a message in two parts, its length and its bytes, and net/http
// sends what it is given as it comes: two frames, which are two TLS records, and
// wake the other end twice. For a heartbeat that is a fifth of what it costs a
// control plane.
package frames

import (
	"encoding/binary"
	"errors"
	"io"
	"net/http"
)

// Whole returns a transport that sends by next, and gives it each message of a
// request's body in one piece, or in pieces of 4 KiB. The requests must be streams
// of Connect or gRPC, whose messages begin with five bytes, the last four of them
// the length.
func Whole(next http.RoundTripper) http.RoundTripper { return transport{next} }

type transport struct{ http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (t transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body == nil || req.Body == http.NoBody {
		return t.RoundTripper.RoundTrip(req)
	}
	whole := *req
	whole.Body = &body{ReadCloser: req.Body}
	return t.RoundTripper.RoundTrip(&whole)
}

// CloseIdleConnections does what [http.Client.CloseIdleConnections] asks for.
func (t transport) CloseIdleConnections() {
	if c, ok := t.RoundTripper.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

const (
	headBytes = 5
	// mostBytes bounds a frame. A heartbeat has room in it. A Hello has not, and goes
	// out in several: of each connection net/http keeps memory for the largest
	// frame that came.
	mostBytes = 4 << 10
)

// body is a request's body. Its Close may be called while it is read.
type body struct {
	io.ReadCloser

	left uint64 // bytes of the message that was begun
	lost bool   // it is not known where messages begin
}

// Read waits for a message, and then for as much of it as there is room for.
func (b *body) Read(p []byte) (n int, err error) {
	b.lost = b.lost || b.left == 0 && len(p) < headBytes
	p = p[:min(len(p), mostBytes)]
	if b.lost {
		return b.ReadCloser.Read(p)
	}
	if b.left == 0 {
		if n, err = io.ReadFull(b.ReadCloser, p[:headBytes]); err != nil {
			return n, unwrap(err)
		}
		b.left = uint64(binary.BigEndian.Uint32(p[1:]))
	}
	want := p[n:]
	if uint64(len(want)) > b.left {
		want = want[:b.left]
	}
	if len(want) == 0 {
		return n, nil
	}
	m, err := io.ReadFull(b.ReadCloser, want)
	b.left -= uint64(m) //nolint:gosec // not below zero
	return n + m, unwrap(err)
}

// unwrap makes of a body that ends within a message one that ends.
func unwrap(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return io.EOF
	}
	return err
}
