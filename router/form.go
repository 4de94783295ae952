package router

import (
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/llmgw/llmgw/router/openai"
)

// formWork is the memory that reading a form takes beside what is held of it: a
// buffer, and what the scanner keeps.
const (
	formRead = 32 << 10
	formWork = 3 * formRead
)

// serveForm serves a request with a multipart/form-data body.
func (c *call) serveForm() *openai.Error {
	f, err := openai.NewForm(c.req.Header.Get("Content-Type"))
	if err != nil {
		return openai.FormFailed(err)
	}
	c.spool = &spool{all: &c.rt.spools, mem: body{mem: c.rt.spools.mem}}
	if err := c.readForm(f); err != nil {
		return err
	}
	c.spool.seal()
	c.whole = true
	// What the other steps ask of a body, a form has, too. Files count for
	// nothing in the prompt: how many tokens a second of sound is only the
	// engine knows.
	c.peek = openai.Peek{
		Model: f.Model, ModelSpan: f.ModelSpan, Stream: f.Stream, User: f.User,
		PromptSpan: openai.Span{End: f.PromptBytes},
	}
	return c.infer(nil)
}

// readForm reads the whole form into the spool and through f.
func (c *call) readForm(f *openai.Form) *openai.Error {
	cfg, mem := &c.rt.cfg, &c.rt.memory
	if c.req.ContentLength > cfg.MaxFormBytes {
		return openai.FormTooLarge(cfg.MaxFormBytes)
	}
	if !mem.take(formWork) {
		return openai.Overloaded(bodyRetryAfter)
	}
	defer mem.give(formWork)
	src, _, done, refusal := mem.source(c.req, cfg.MaxFormBytes)
	if refusal != nil {
		return refusal
	}
	defer done()
	rc := http.NewResponseController(c.w)
	bounded := rc.SetReadDeadline(time.Now().Add(cfg.BodyTimeout)) == nil
	buf := mem.buffer(formRead)
	defer mem.recycle(buf)
	if err := c.copyForm(f, src, (*buf)[:formRead]); err != nil {
		return err // the deadline stays, as that of a JSON body
	}
	if bounded {
		_ = rc.SetReadDeadline(time.Time{})
	}
	return nil
}

// copyForm moves the form through buf.
func (c *call) copyForm(f *openai.Form, src io.Reader, buf []byte) *openai.Error {
	limit := c.rt.cfg.MaxFormBytes
	for {
		n, err := src.Read(buf)
		if c.spool.size+int64(n) > limit {
			return openai.FormTooLarge(limit)
		}
		// First the scanner: what it refuses need not be kept.
		if _, err := f.Write(buf[:n]); err != nil {
			return openai.FormFailed(err)
		}
		if _, err := c.spool.Write(buf[:n]); err != nil {
			if !errors.Is(err, errSpoolFull) && !errors.Is(err, errSpoolMemory) {
				c.rt.log.Error("form not spooled; is there space in spool_dir?", "request", c.id, "dir", c.rt.spools.dir, "err", err)
			}
			return c.spool.refusal(err)
		}
		switch {
		case errors.Is(err, io.EOF):
			if err := f.Close(); err != nil {
				return openai.FormFailed(err)
			}
			return nil
		case errors.Is(err, errTooLong):
			return openai.FormTooLarge(limit)
		case err != nil:
			return bodyError(err, c.req.Header.Get("Content-Encoding"), limit)
		}
	}
}
