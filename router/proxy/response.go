package proxy

import (
	"cmp"
	"compress/gzip"
	"compress/zlib"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"
)

// Response is the answer of an engine whose head was read and whose body was
// not. It must be ended by exactly one of Relay, ReadAll and Close, and must not
// be used after. It belongs to one goroutine.
type Response struct {
	// Status is the answer's status code, 200 to 999.
	Status int

	proxy  *Proxy
	target *Target
	ctx    context.Context //nolint:containedctx // of the one exchange that this value is
	stop   func() bool     // unregisters the connection's abort; nil: it is not registered
	sent   time.Time       // when the request's last byte was written
	total  time.Time

	conn    *conn // nil for https and h2c
	head    head
	chunked chunked
	left    int64
	done    bool // the body's last byte was read

	http *httpExchange

	plain io.Reader // decodes the content coding; nil: none
	pull  *puller
}

// Get returns the value of the answer's header name (canonical form), or "".
func (r *Response) Get(name string) string {
	if r.http != nil {
		return r.http.resp.Header.Get(name)
	}
	for _, f := range r.head.fields {
		if foldEqual(r.conn.hbuf[f.name:f.nameEnd], name) {
			return valueOf(r.conn.hbuf[f.value:f.valueEnd])
		}
	}
	return ""
}

// Sent is when the request's last byte was written.
func (r *Response) Sent() time.Time { return r.sent }

// SharesBody reports whether the request's body may still be read while the
// answer comes, so that its memory must not be used again.
func (r *Response) SharesBody() bool { return r.http != nil }

// CopyHeader adds to dst the answer's headers that a client gets: not framing,
// not what concerns one connection, not what the engine's web server says of
// itself. dst's own values stay.
func (r *Response) CopyHeader(dst http.Header) {
	if r.http != nil {
		r.http.copyHeader(dst)
	} else {
		copyHeader(dst, r.head.fields, r.conn.hbuf)
	}
	if r.plain != nil {
		delete(dst, "Content-Encoding")
	}
}

// watch asks for the connection's abort at the context's end.
func (r *Response) watch() {
	if r.stop == nil {
		r.stop = context.AfterFunc(r.ctx, r.conn.abort)
	}
}

// Close gives the exchange up. The engine sees its connection close, unless the
// answer had already ended.
func (r *Response) Close() {
	if r.http != nil {
		r.http.close()
		return
	}
	c := r.conn
	ours := r.stop == nil || r.stop() // false: abort has run, or is running
	if ours && r.done && r.head.keep && len(c.data) == 0 {
		c.t.put(c, time.Now())
		return
	}
	c.close()
}

// ReadAll reads the body, at most limit bytes of it, and ends the exchange. It
// is meant for the bodies of engines' errors: the whole of it may take patience,
// or Timeouts.Idle if that is 0. What was read is returned with the error.
func (r *Response) ReadAll(limit int, patience time.Duration) ([]byte, error) {
	defer r.Close()
	r.decode()
	var body []byte
	end := minTime(time.Now().Add(cmp.Or(patience, r.proxy.cfg.Timeouts.Idle)), r.total)
	for {
		b, err := r.read(end)
		body = append(body, b[:min(len(b), limit-len(body))]...)
		switch {
		case errors.Is(err, io.EOF):
			return body, nil
		case err != nil:
			return body, r.classify(err, KindIdleTimeout)
		case len(body) == limit:
			return body, nil
		}
	}
}

// decode sets up the decoding of the body's content coding where there is one
// that is known. Engines are not asked for any; one that uses it all the same
// must not hide its usage, or bytes of ours, in it.
func (r *Response) decode() {
	open := decoder(r.coding())
	if open == nil || r.done {
		return // passed whole, coding and all
	}
	r.pull = &puller{r: r, buf: make([]byte, readBuffer)}
	r.plain = &lateReader{open: open, src: r.pull}
}

// coding is the body's content coding, empty if it has none.
func (r *Response) coding() string {
	coding := r.head.encoding
	if r.http != nil {
		coding = r.http.resp.Header.Get("Content-Encoding")
	}
	if strings.EqualFold(coding, "identity") {
		return ""
	}
	return coding
}

// Opaque reports whether the body has a content coding that Relay does not
// decode: its bytes mean nothing to a tap, and nothing can be added to them.
func (r *Response) Opaque() bool {
	coding := r.coding()
	return coding != "" && decoder(coding) == nil
}

// decoder is how to open a body of a content coding, nil if it is not known.
func decoder(coding string) func(io.Reader) (io.Reader, error) {
	switch strings.ToLower(coding) {
	case "gzip", "x-gzip":
		return func(src io.Reader) (io.Reader, error) { return gzip.NewReader(src) }
	case "deflate":
		return func(src io.Reader) (io.Reader, error) { return zlib.NewReader(src) }
	}
	return nil
}

// read returns the next bytes of the body, decoded, waiting until limit.
func (r *Response) read(limit time.Time) ([]byte, error) {
	if r.plain == nil {
		return r.next(limit)
	}
	r.pull.limit = limit
	n, err := r.plain.Read(r.pull.buf)
	if n > 0 {
		return r.pull.buf[:n], nil
	}
	if err == nil {
		return nil, nil
	}
	if r.pull.err != nil {
		return nil, r.pull.err
	}
	if errors.Is(err, io.EOF) {
		// Whatever follows the coded stream is no part of the answer.
		if !r.done && r.http == nil {
			r.head.keep = false
		}
		return nil, io.EOF
	}
	return nil, errors.Join(errEncoding, err)
}

// Decoded reports whether the body's bytes go on without the content coding
// they came in.
func (r *Response) Decoded() bool { return r.plain != nil }

// puller is the coded body as an io.Reader.
type puller struct {
	r     *Response
	limit time.Time
	rest  []byte
	buf   []byte // for decoded bytes
	err   error  // what the connection said, which the decoder may hide
}

func (p *puller) Read(b []byte) (int, error) {
	if len(p.rest) == 0 {
		var err error
		if p.rest, err = p.r.next(p.limit); err != nil {
			if !errors.Is(err, io.EOF) {
				p.err = err
			}
			return 0, err
		}
	}
	n := copy(b, p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

// lateReader opens its decoder at the first read, since a decoder reads its
// header when it is made.
type lateReader struct {
	open func(io.Reader) (io.Reader, error)
	src  io.Reader
	dec  io.Reader
}

func (l *lateReader) Read(b []byte) (int, error) {
	if l.dec == nil {
		dec, err := l.open(l.src)
		if err != nil {
			return 0, err
		}
		l.dec = dec
	}
	return l.dec.Read(b)
}

// classify turns an error of read into an *Error; timeout is what a passed
// deadline means here.
func (r *Response) classify(err error, timeout Kind) error {
	switch {
	case r.ctx.Err() != nil:
		return r.fail(KindCanceled, context.Cause(r.ctx))
	case errors.Is(err, errDeadline):
		if !time.Now().Before(r.total) {
			timeout = KindTotalTimeout
		}
		return r.fail(timeout, err)
	case isProtocol(err):
		return r.fail(KindProtocol, err)
	}
	return r.fail(KindCut, eofIs(err, errShort))
}

func (r *Response) fail(k Kind, err error) error {
	r.proxy.metrics.failure(k)
	return &Error{k, r.target.addr, err}
}

func minTime(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
