package proxy

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"
)

// Tap looks at an answer's body on its way to the client, and may cut from it
// what the gateway itself asked the engine for. It is used by one goroutine.
type Tap interface {
	// Feed is given the body bytes of one read and returns those to send on. It
	// may return p itself or a part of it; p is not valid after the next call.
	Feed(p []byte) []byte
	// Flush returns what was held back, at the body's end.
	Flush() []byte
	// Progress grows with every token; bytes that are none, such as comments,
	// leave it as it is.
	Progress() int
	// Content reports whether content has come: a token, not a role.
	Content() bool
	// Whole reports whether a body may end here that nothing but the end of its
	// connection ends. It is asked after Flush.
	Whole() bool
	// Err is why the answer is none and its rest is not worth waiting for. It is
	// asked whenever Feed returned nothing; if it is not nil, the relay stops with
	// a KindRefused error that wraps it.
	Err() error
}

// Options steer a relay.
type Options struct {
	// KeepLength sends the engine's Content-Length on: the tap changes no byte.
	KeepLength bool
	// BoundWrites sets the client's write deadline from the first byte on, and
	// not only once more than a socket's buffer has been written: the windows of
	// HTTP/2 can stop an answer at its first byte.
	BoundWrites bool
	// NeedBody says that an answer without a byte for the client is none: its end
	// is then a KindCut error, and not an empty body.
	NeedBody bool
}

// Outcome is what a relay did.
type Outcome struct {
	// Started says that bytes have gone to the client: no other engine may be
	// tried.
	Started bool
	// FirstContent is when the first content was written to the client; zero if
	// none was.
	FirstContent time.Time
	// Bytes counts the body bytes written to the client.
	Bytes int64
}

// shortDocument is how long a document of known length may be to be held until
// it is whole: its head goes out with its end anyhow, in one write, and until
// then an engine that breaks off costs another try and not a broken answer.
const shortDocument = 4 << 10

// writeArmed is how much of an answer is written before the client's write
// deadline is set: as much fits into any socket's buffer.
const writeArmed = 16 << 10

// Relay writes the answer to w: status, headers and body, one write and one
// flush for each read from the engine, none of which waits for another event.
// Nothing is written before the tap has given a byte of the body out, or at its
// end, so that until then the caller may try another engine. It ends the
// exchange.
//
// On error the body so far ends where the engine stopped; what to write after
// it is the caller's. Errors are of type *Error.
func (r *Response) Relay(w http.ResponseWriter, tap Tap, opts Options) (Outcome, error) {
	defer r.Close()
	r.decode()
	var x *relay
	if r.conn != nil {
		x = &r.conn.relay
	} else {
		x = new(relay)
	}
	*x = relay{r: r, w: w, tap: tap, exact: opts.KeepLength && r.plain == nil, bound: opts.BoundWrites, need: opts.NeedBody, last: r.sent}
	err := x.run()
	if !x.armed.IsZero() {
		// The next answer on this connection starts without a deadline; bytes
		// that still stand in a buffer go out under this one.
		_ = x.flush()
		_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
	}
	out := x.out
	*x = relay{}
	return out, err
}

// relay moves one body. It is the sink of the engine's connection.
type relay struct {
	r     *Response
	w     http.ResponseWriter
	tap   Tap
	exact bool   // the engine's length is the client's
	bound bool   // every write to the client has a deadline
	need  bool   // an empty body is no answer
	held  []byte // of a short document, until it is whole

	out      Outcome
	progress int
	last     time.Time // of the last token
	armed    time.Time // the client's write deadline; zero: none
	err      error     // what stopped the sink
}

func (x *relay) run() error {
	r := x.r
	if r.http != nil || r.plain != nil {
		for {
			b, err := r.read(x.limit())
			if errors.Is(err, io.EOF) {
				return x.end()
			}
			if err != nil {
				return r.classify(err, x.timeout())
			}
			if err := x.pass(b); err != nil {
				return err
			}
		}
	}
	c := r.conn
	more := !r.done
	if len(c.data) > 0 && more {
		b := c.data
		c.data = nil
		more = x.raw(b)
	}
	if more {
		switch err := c.pump(r.ctx, x); {
		case errors.Is(err, io.EOF) && r.head.framing == bodyUntilClose:
			r.done = true
		case err != nil:
			return r.classify(err, x.timeout())
		}
	}
	if x.err != nil {
		return x.err
	}
	return x.end()
}

func (x *relay) room() []byte    { return x.r.conn.buf }
func (x *relay) took(n int) bool { return x.raw(x.r.conn.buf[:n]) }

// raw passes the body bytes among the raw bytes of one read.
func (x *relay) raw(b []byte) (more bool) {
	b, err := x.r.unframe(b)
	if err != nil {
		x.err = x.r.classify(err, 0)
		return false
	}
	if len(b) > 0 {
		if x.err = x.pass(b); x.err != nil {
			return false
		}
	}
	return !x.r.done
}

// limit is when the wait for the next bytes ends: for the first content, then
// for the next token, and never later than the request's end.
func (x *relay) limit() time.Time {
	t := &x.r.proxy.cfg.Timeouts
	if x.tap.Content() {
		return minTime(x.last.Add(t.Idle), x.r.total)
	}
	return minTime(x.r.sent.Add(t.FirstToken), x.r.total)
}

// timeout is what it means that limit has passed.
func (x *relay) timeout() Kind {
	if x.tap.Content() {
		return KindIdleTimeout
	}
	return KindFirstTokenTimeout
}

// pass sends the body bytes of one read on.
func (x *relay) pass(b []byte) error {
	if x.exact && !x.out.Started && (len(x.held) > 0 || !x.r.done) && x.r.length() <= shortDocument {
		if x.held = append(x.held, b...); !x.r.done {
			return nil
		}
		b, x.held = x.held, nil
	}
	b = x.tap.Feed(b)
	now := time.Now()
	if n := x.tap.Progress(); n != x.progress {
		x.progress, x.last = n, now
		x.r.target.works(now)
	}
	if len(b) == 0 {
		if err := x.tap.Err(); err != nil {
			return x.r.fail(KindRefused, err)
		}
		return nil
	}
	if err := x.write(b, now); err != nil {
		return err
	}
	if x.out.FirstContent.IsZero() && x.tap.Content() {
		x.out.FirstContent = now
	}
	if x.exact || x.r.done {
		return nil // the last bytes leave with the end of the message, in one write
	}
	if err := x.flush(); err != nil {
		return x.clientError(err)
	}
	if x.out.Bytes > writeArmed {
		x.last = x.last.Add(time.Since(now)) // a slow client is no silent engine
	}
	return nil
}

// flush sends what is written; a writer that cannot is no error.
func (x *relay) flush() error {
	err := http.NewResponseController(x.w).Flush()
	if err != nil && errors.Is(err, http.ErrNotSupported) {
		return nil
	}
	return err
}

// end sends what the tap held back. A body that only its connection's end could
// end was cut unless the tap knows better.
func (x *relay) end() error {
	r := x.r
	if len(x.held) > 0 { // net/http tells of the end in a read of its own
		b := x.held
		x.held = nil
		r.done = true
		if err := x.pass(b); err != nil {
			return err
		}
	}
	rest := x.tap.Flush()
	if len(rest) == 0 {
		if err := x.tap.Err(); err != nil {
			return r.fail(KindRefused, err)
		}
	}
	cut := r.untilClose() && !x.tap.Whole()
	switch {
	case x.out.Started:
	case cut:
		return r.fail(KindCut, errShort)
	case x.need && len(rest) == 0:
		return r.fail(KindCut, errNothing)
	}
	now := time.Now()
	r.target.works(now) // a document is no token, and an answer all the same
	if err := x.write(rest, now); err != nil {
		return err
	}
	if cut {
		return r.fail(KindCut, errShort)
	}
	return nil
}

func (x *relay) write(b []byte, now time.Time) error {
	if !x.out.Started {
		x.writeHead()
		x.out.Started = true
	}
	if len(b) == 0 {
		return nil
	}
	if x.out.Bytes += int64(len(b)); x.out.Bytes > writeArmed || x.bound {
		patience := x.r.proxy.cfg.ClientWrite
		if want := now.Add(patience); want.Sub(x.armed) > patience/8 {
			_ = http.NewResponseController(x.w).SetWriteDeadline(want)
			x.armed = want
		}
	}
	if _, err := x.w.Write(b); err != nil {
		return x.clientError(err)
	}
	return nil
}

func (x *relay) writeHead() {
	h := x.w.Header()
	x.r.CopyHeader(h)
	if x.exact {
		if n := x.r.length(); n >= 0 {
			h["Content-Length"] = []string{strconv.FormatInt(n, 10)}
		}
	}
	x.w.WriteHeader(x.r.Status)
}

func (x *relay) clientError(err error) error {
	if x.r.ctx.Err() != nil {
		return x.r.fail(KindCanceled, context.Cause(x.r.ctx))
	}
	return x.r.fail(KindClient, err)
}

// untilClose reports whether nothing but the connection's end ends the body.
func (r *Response) untilClose() bool {
	if r.http != nil {
		h := r.http.resp
		return h.ProtoMajor == 1 && h.Body != http.NoBody && h.ContentLength < 0 && len(h.TransferEncoding) == 0
	}
	return r.head.framing == bodyUntilClose
}

// length is the body's length, or -1 if the head does not tell.
func (r *Response) length() int64 {
	switch {
	case r.http != nil:
		return r.http.resp.ContentLength
	case r.head.framing == bodyLength:
		return r.head.length
	case r.head.framing == bodyNone && r.head.length == 0:
		return 0
	}
	return -1
}
