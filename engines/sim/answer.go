package sim

import (
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"
)

// errEnded says that a fault has ended the answer.
var errEnded = errors.New("sim: answer ended by a fault")

// answer writes one HTTP answer, spoiling it as its faults say. Handler's
// goroutine only.
type answer struct {
	engine *Engine
	w      http.ResponseWriter
	rc     *http.ResponseController
	r      *http.Request
	faults *Faults
	buf    []byte // events not yet written
	events int
	gzip   *gzip.Writer
}

// header sends the head of a stream.
func (a *answer) header() error {
	a.w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	if a.faults.Gzip {
		a.w.Header().Set("Content-Encoding", "gzip")
		a.gzip = gzip.NewWriter(pieces{a})
	}
	a.w.WriteHeader(http.StatusOK)
	return a.rc.Flush()
}

// event adds one event, named if name is not empty, to what flush writes.
func (a *answer) event(name string, data []byte) error {
	f := a.faults
	eol := "\n"
	if f.CRLF {
		eol = "\r\n"
	}
	if f.CommentEvery > 0 && a.events%f.CommentEvery == 0 {
		a.buf = append(append(a.buf, ": keep-alive"...), eol...)
	}
	if name != "" {
		a.buf = append(append(append(a.buf, "event: "...), name...), eol...)
	}
	a.buf = append(a.buf, "data:"...)
	if !f.NoSpace {
		a.buf = append(a.buf, ' ')
	}
	a.buf = append(append(append(a.buf, data...), eol...), eol...)
	a.events++
	return a.after()
}

// after acts on the faults that wait for this many events.
func (a *answer) after() error {
	f := a.faults
	switch a.events {
	case 0:
		return nil
	case f.HangAfterEvents:
		return a.hang()
	case f.CloseAfterEvents:
		return a.hangUp(false)
	case f.ResetAfterEvents:
		return a.hangUp(true)
	case f.ErrorAfterEvents:
		body := errorNested("EngineCore encountered an issue. See stack trace (above) for the root cause.",
			"InternalServerError", "", http.StatusInternalServerError)
		a.buf = append(append(append(a.buf, "data: "...), body...), "\n\ndata: [DONE]\n\n"...)
		if err := a.flush(); err != nil {
			return err
		}
		return errEnded
	}
	return nil
}

// flush writes the pending events in one write, and out to the client.
func (a *answer) flush() error {
	if len(a.buf) == 0 {
		return nil
	}
	var err error
	if a.gzip != nil {
		if _, err = a.gzip.Write(a.buf); err == nil {
			err = a.gzip.Flush()
		}
	} else {
		_, err = pieces{a}.Write(a.buf)
	}
	a.buf = a.buf[:0]
	if err != nil {
		return err
	}
	return a.rc.Flush()
}

// end finishes a stream.
func (a *answer) end() error {
	if err := a.flush(); err != nil || a.gzip == nil {
		return err
	}
	return a.gzip.Close()
}

// json answers with a whole body.
func (a *answer) json(status int, body []byte) error {
	h := a.w.Header()
	if h.Get("Content-Type") == "" {
		h.Set("Content-Type", "application/json")
	}
	f := a.faults
	if f.WrongLength != 0 {
		return a.wrongLength(status, body)
	}
	half := len(body)
	if f.HangAfterEvents > 0 || f.CloseAfterEvents > 0 || f.ResetAfterEvents > 0 {
		half /= 2
	}
	if f.Gzip {
		h.Set("Content-Encoding", "gzip")
		a.gzip = gzip.NewWriter(pieces{a})
	} else {
		h.Set("Content-Length", strconv.Itoa(len(body)))
	}
	a.w.WriteHeader(status)
	for _, part := range [][]byte{body[:half], body[half:]} {
		if len(part) == 0 {
			break
		}
		a.buf = append(a.buf, part...)
		if half < len(body) {
			a.events++
			if err := a.after(); err != nil {
				return err
			}
		}
	}
	if a.gzip != nil {
		return a.end()
	}
	_, err := pieces{a}.Write(a.buf) // net/http flushes when the handler returns
	return err
}

// hang sends what is pending and waits for the client to leave or for Close;
// it returns which, never nil.
func (a *answer) hang() error {
	if err := a.flush(); err != nil {
		return err
	}
	select {
	case <-a.r.Context().Done():
		return context.Cause(a.r.Context())
	case <-a.engine.done:
		return ErrClosed
	}
}

// hangUp sends what is pending and closes the connection, or resets it.
func (a *answer) hangUp(reset bool) error {
	if err := a.flush(); err != nil {
		return err
	}
	conn, _, err := a.rc.Hijack()
	if err != nil { // HTTP/2, or a recorder in a test
		panic(http.ErrAbortHandler)
	}
	if l, ok := conn.(interface{ SetLinger(int) error }); ok && reset {
		_ = l.SetLinger(0)
	}
	_ = conn.Close()
	return errEnded
}

// wrongLength answers with a false Content-Length past net/http, which would
// not allow it.
func (a *answer) wrongLength(status int, body []byte) error {
	declared := max(0, len(body)+a.faults.WrongLength)
	contentType := a.w.Header().Get("Content-Type")
	conn, rw, err := a.rc.Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer func() { _ = conn.Close() }()
	_, _ = rw.WriteString("HTTP/1.1 " + strconv.Itoa(status) + " " + http.StatusText(status) +
		"\r\nContent-Type: " + contentType + "\r\nContent-Length: " + strconv.Itoa(declared) + "\r\n\r\n")
	_, _ = rw.Write(body)
	if err := rw.Flush(); err != nil {
		return err
	}
	if declared < len(body) {
		drain(conn) // leaves the surplus for whoever reuses the connection
	}
	return errEnded
}

// drain reads until the peer closes, or for 5 s.
func drain(conn net.Conn) {
	_ = conn.SetReadDeadline(time.Now().Add(5 * time.Second))
	_, _ = io.Copy(io.Discard, conn)
}

// pieces writes to the client, cut as the faults say.
type pieces struct{ a *answer }

func (p pieces) Write(b []byte) (int, error) {
	a := p.a
	n := a.faults.SplitBytes
	if n == 0 {
		return a.w.Write(b)
	}
	for rest := b; len(rest) > 0; {
		k := min(n, len(rest))
		if _, err := a.w.Write(rest[:k]); err != nil {
			return 0, err
		}
		if err := a.rc.Flush(); err != nil {
			return 0, err
		}
		rest = rest[k:]
		if a.faults.SplitPause > 0 && len(rest) > 0 {
			time.Sleep(a.faults.SplitPause)
		}
	}
	return len(b), nil
}
