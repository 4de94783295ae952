package proxy_test

import (
	"testing"
	"time"

	"github.com/llmgw/llmgw/router/proxy"
)

// Tokens and whole answers show that an engine works; comments, and an engine that
// was never asked, do not.
func TestLastByte(t *testing.T) {
	t.Parallel()
	quit := make(chan struct{})
	comments := newEngine(t, func(p *peer) {
		if p.request() == nil {
			return
		}
		p.say(okChunked + chunk(": ping\n\n"))
		<-quit
	})
	defer close(quit)
	silent := newBench(t, comments.url(), nil)
	if at, ever := silent.target.LastByte(); ever {
		t.Errorf("an engine that was never asked worked at %v", at)
	}
	w := newRecorder()
	passed := make(chan struct{}, 1)
	w.onWrite = func([]byte) error { passed <- struct{}{}; return nil }
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		silent.relay(t.Context(), post(), w, &lineTap{}, proxy.Options{})
	}()
	<-passed
	if at, ever := silent.target.LastByte(); ever {
		t.Errorf("a comment is taken for work, at %v", at)
	}
	quit <- struct{}{}
	<-ended

	for name, answer := range map[string]string{
		"tokens":   okChunked + chunk("data: a\n\n") + chunk(""),
		"document": "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
	} {
		before := time.Now()
		b := newBench(t, answering(t, answer).url(), nil)
		b.do(t.Context(), post())
		if at, ever := b.target.LastByte(); !ever || at.Before(before) || at.After(time.Now()) {
			t.Errorf("%s: last worked at %v, %t", name, at, ever)
		}
	}
}
