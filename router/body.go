package router

import (
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/llmgw/llmgw/router/openai"
)

// body is a request's body, held while it may have to be sent.
type body struct {
	mem  *bodyMemory
	buf  *[]byte // nil: nothing is held
	held int64   // counted in mem
}

// release gives the memory back. It may be called twice.
func (b *body) release() {
	if b.buf != nil {
		b.mem.recycle(b.buf)
		b.buf = nil
	}
	b.forget()
}

// forget gives the memory back to be counted, but not to be reused: somebody may
// still be reading it.
func (b *body) forget() {
	if b.held != 0 {
		b.mem.give(b.held)
		b.held = 0
	}
	b.buf = nil
}

// grow makes room for n bytes in all.
func (b *body) grow(n int) bool {
	if b.buf != nil && cap(*b.buf) >= n {
		return true
	}
	// Counted before it is there: what is refused must not have cost memory.
	more := int64(b.mem.room(n)) - b.held
	if !b.mem.take(more) {
		return false
	}
	b.held += more
	next := b.mem.buffer(n)
	if b.buf != nil {
		*next = append(*next, *b.buf...)
		b.mem.recycle(b.buf)
	}
	b.buf = next
	return true
}

// read reads the whole body of req, decoded. What it holds is released by the
// caller, also after an error.
func (b *body) read(w http.ResponseWriter, req *http.Request, cfg *Config) *openai.Error {
	if req.ContentLength > cfg.MaxBodyBytes {
		return openai.BodyTooLarge(cfg.MaxBodyBytes)
	}
	if req.ContentLength == 0 {
		b.buf = b.mem.buffer(0)
		return nil
	}
	rc := http.NewResponseController(w)
	bounded := rc.SetReadDeadline(time.Now().Add(cfg.BodyTimeout)) == nil
	if err := b.fill(req, cfg); err != nil {
		return err // the deadline stays: the rest of the body is not worth a wait
	}
	if bounded {
		// The wait for the client to leave, which lasts as long as the request,
		// must not run into the body's deadline.
		_ = rc.SetReadDeadline(time.Time{})
	}
	return nil
}

// fill reads the body, decoded.
func (b *body) fill(req *http.Request, cfg *Config) *openai.Error {
	src, size, done, err := b.mem.source(req, cfg.MaxBodyBytes)
	if err != nil {
		return err
	}
	defer done()
	if size >= 0 {
		return b.readExactly(src, int(size))
	}
	return b.readAll(src, cfg.MaxBodyBytes, req.Header.Get("Content-Encoding"))
}

// source returns the body of req, decoded, and its length, or -1 where only its
// end tells. A coded body may have limit bytes. done gives back what the decoding
// takes.
func (m *bodyMemory) source(req *http.Request, limit int64) (src io.Reader, size int64, done func(), err *openai.Error) {
	encodings := req.Header["Content-Encoding"]
	switch {
	case len(encodings) > 1:
		return nil, 0, nil, openai.UnsupportedEncoding(strings.Join(encodings, ", "), acceptedEncodings)
	case len(encodings) == 0 || encodings[0] == "" || strings.EqualFold(encodings[0], "identity"):
		return req.Body, req.ContentLength, nothing, nil
	}
	dec, err := newDecoder(encodings[0], req.Body, limit)
	if err != nil {
		return nil, 0, nil, err
	}
	if !m.take(dec.uses) {
		dec.close()
		return nil, 0, nil, openai.Overloaded(bodyRetryAfter)
	}
	return dec, -1, func() { m.give(dec.uses); dec.close() }, nil
}

func nothing() {}

// firstRoom is what a body gets before a byte of it has come. Memory is given
// out as it is filled, so that a client which announces much and sends nothing
// holds nearly nothing.
const firstRoom = 64 << 10

// readExactly reads a body of n bytes.
func (b *body) readExactly(src io.Reader, n int) *openai.Error {
	for have, room := 0, min(n, firstRoom); ; room = min(n, 32*room) {
		if !b.grow(room) {
			return openai.Overloaded(bodyRetryAfter)
		}
		buf := (*b.buf)[:room]
		*b.buf = buf
		got, err := io.ReadFull(src, buf[have:])
		if have += got; err != nil {
			return bodyError(err, "", 0)
		}
		if have == n {
			return nil
		}
	}
}

// readAll reads a body whose length nobody has told.
func (b *body) readAll(src io.Reader, limit int64, encoding string) *openai.Error {
	for n := smallestBody; ; {
		if !b.grow(n) {
			return openai.Overloaded(bodyRetryAfter)
		}
		buf := *b.buf
		room := buf[len(buf):cap(buf)]
		if int64(cap(buf)) > limit {
			room = buf[len(buf) : limit+1] // one byte more tells too long from just fitting
		}
		got, err := src.Read(room)
		*b.buf = buf[:len(buf)+got]
		if int64(len(*b.buf)) > limit {
			return openai.BodyTooLarge(limit)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return bodyError(err, encoding, limit)
		}
		if len(*b.buf) == cap(*b.buf) {
			n = int(min(2*int64(cap(*b.buf)), limit+1))
		}
	}
}

// bodyRetryAfter is when a client may come again that found the memory for
// bodies full: by then some have been sent.
const bodyRetryAfter = time.Second

func bodyError(err error, encoding string, limit int64) *openai.Error {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return openai.BodyTimeout()
	case errors.Is(err, errTooLong):
		return openai.BodyTooLarge(limit)
	case errors.Is(err, errCorrupt):
		return openai.CorruptEncoding(encoding)
	}
	return openai.BodyTruncated()
}
