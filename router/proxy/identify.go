package proxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// Identify is how an engine that proves nothing of itself is asked who it is: on
// each new connection, before anything else goes out on it. A connection leads to
// one process for as long as it lasts, so what that process said holds for every
// request on it, even if another engine comes to listen at the address.
type Identify struct {
	// Path is asked for with GET, below the target's base path.
	Path string
	// Check judges the answer. An error makes the connection one to a stranger:
	// it is closed, and the exchange fails with KindStranger. It is not asked
	// about a status of 500 and more, which says that the engine is not ready.
	// It may be called concurrently.
	Check func(status int, body []byte) error
}

// maxIdentity bounds the body of an engine's answer about itself, and with
// maxIdentityHead more all that is read of it.
const (
	maxIdentity     = 1 << 20
	maxIdentityHead = 1 << 20 // head, the frames of chunks, trailers
)

// introduced opens a connection with dial and, where t asks engines who they
// are, does so within the time given. Errors about the engine are of type
// *Error; those of dial stay as they are.
func (t *Target) introduced(ctx context.Context, within time.Duration, dial func() (net.Conn, error)) (net.Conn, error) {
	nc, err := dial()
	if err != nil || t.identify == nil {
		return nc, err
	}
	keeps, err := t.identifyOn(ctx, nc, within)
	if err != nil {
		_ = nc.Close()
		return nil, err
	}
	if keeps {
		return nc, nil
	}
	// An engine that closes after every answer can be asked only just before.
	_ = nc.Close()
	return dial()
}

// identifyOn asks on nc. keeps reports whether the connection can be used on.
func (t *Target) identifyOn(ctx context.Context, nc net.Conn, within time.Duration) (keeps bool, err error) {
	_ = nc.SetDeadline(time.Now().Add(within))
	stop := context.AfterFunc(ctx, func() { _ = nc.SetDeadline(pastDeadline) })
	status, body, keeps, err := t.ask(nc)
	left := !stop()
	switch {
	case left && ctx.Err() != nil:
		return false, &Error{KindCanceled, t.addr, context.Cause(ctx)}
	case isTimeout(err):
		return false, &Error{KindHeaderTimeout, t.addr, errDeadline}
	case err != nil:
		return false, &Error{KindLost, t.addr, eofIs(err, errClosed)}
	case status >= http.StatusInternalServerError:
		return false, &Error{KindLost, t.addr, fmt.Errorf("status %d to GET %s: the engine is not ready", status, t.identify.Path)}
	}
	if err := t.identify.Check(status, body); err != nil {
		return false, &Error{KindStranger, t.addr, err}
	}
	return keeps, nc.SetDeadline(time.Time{})
}

func (t *Target) ask(nc net.Conn) (status int, body []byte, keeps bool, err error) {
	_, err = fmt.Fprintf(nc, "GET %s%s HTTP/1.1\r\nHost: %s\r\n%sAccept: application/json\r\n\r\n", t.base, t.identify.Path, t.host, t.auth)
	if err != nil {
		return 0, nil, false, err
	}
	all := &io.LimitedReader{R: nc, N: maxIdentity + maxIdentityHead}
	br := bufio.NewReader(all)
	resp, err := http.ReadResponse(br, nil)
	if err != nil {
		return 0, nil, false, endless(all, err)
	}
	body, err = io.ReadAll(io.LimitReader(resp.Body, maxIdentity+1))
	switch {
	case err != nil:
		return 0, nil, false, endless(all, err)
	case len(body) > maxIdentity:
		return 0, nil, false, errors.New("its list of models is longer than 1 MiB")
	}
	return resp.StatusCode, body, !resp.Close && br.Buffered() == 0, nil
}

// endless is err, or what it comes from where the answer had no end.
func endless(all *io.LimitedReader, err error) error {
	if all.N > 0 {
		return err
	}
	return fmt.Errorf("its answer is longer than %d bytes: %w", maxIdentity+maxIdentityHead, err)
}
