package proxy_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/llmgw/llmgw/router/proxy"
)

// short is a deadline that a test waits for; long is one within which something
// happens before, even on a busy machine.
const (
	short = 60 * time.Millisecond
	long  = 300 * time.Millisecond
)

// silent reads the request, says the pieces and then nothing until the relay
// leaves.
func silent(t testing.TB, pieces ...string) *engine {
	t.Helper()
	return newEngine(t, func(p *peer) {
		if p.request() != nil {
			p.say(pieces...)
			_ = p.gone()
		}
	})
}

// pacing answers with the head and then with one event a period, whichever f
// gives for its number, until the relay leaves or f gives none.
func pacing(t testing.TB, period time.Duration, head string, f func(i int) string) *engine {
	t.Helper()
	return newEngine(t, func(p *peer) {
		if p.request() == nil {
			return
		}
		p.say(head)
		tick := time.NewTicker(period)
		defer tick.Stop()
		for i := 0; ; i++ {
			<-tick.C
			s := f(i)
			if _, err := p.Write([]byte(s)); err != nil || s == "" {
				return
			}
		}
	})
}

// Each of the five deadlines ends an exchange by itself and says so, and the
// engine sees its connection close. For dial see TestDialDeadline.
func TestDeadlines(t *testing.T) {
	t.Parallel()
	token := chunk("data: token\n\n")
	for _, tt := range []struct {
		name    string
		mod     func(to *proxy.Timeouts)
		engine  func(t testing.TB) *engine
		want    proxy.Kind
		started bool
	}{
		{
			"header: no answer", func(to *proxy.Timeouts) { to.ResponseHeader = short },
			func(t testing.TB) *engine { return silent(t) }, proxy.KindHeaderTimeout, false,
		},
		{
			"header: half a head", func(to *proxy.Timeouts) { to.ResponseHeader = short },
			func(t testing.TB) *engine { return silent(t, "HTTP/1.1 200 OK\r\nConte") }, proxy.KindHeaderTimeout, false,
		},
		{
			"header: interim answers only", func(to *proxy.Timeouts) { to.ResponseHeader = short },
			func(t testing.TB) *engine { return silent(t, "HTTP/1.1 102 Processing\r\n\r\n") }, proxy.KindHeaderTimeout, false,
		},
		{
			"header: a head that drips", func(to *proxy.Timeouts) { to.ResponseHeader = short },
			func(t testing.TB) *engine {
				return pacing(t, short/20, "HTTP/1.1 200 OK\r\n", func(int) string { return "X: y\r\n" })
			}, proxy.KindHeaderTimeout, false,
		},
		{
			"first token: a head only", func(to *proxy.Timeouts) { to.FirstToken = short },
			func(t testing.TB) *engine { return silent(t, okChunked) }, proxy.KindFirstTokenTimeout, false,
		},
		{
			"first token: comments", func(to *proxy.Timeouts) { to.FirstToken = long },
			func(t testing.TB) *engine {
				return pacing(t, short/20, okChunked, func(int) string { return chunk(": ping\n\n") })
			}, proxy.KindFirstTokenTimeout, true,
		},
		{
			"first token: a role is none", func(to *proxy.Timeouts) { to.FirstToken = long },
			func(t testing.TB) *engine { return silent(t, okChunked, chunk("data: role\n\n")) }, proxy.KindFirstTokenTimeout, true,
		},
		{
			"idle", func(to *proxy.Timeouts) { to.Idle = short },
			func(t testing.TB) *engine { return silent(t, okChunked, token, token) }, proxy.KindIdleTimeout, true,
		},
		{
			// The limit for the next token is nearer than the one for the first.
			"idle: after a slow first token", func(to *proxy.Timeouts) { to.Idle = short },
			func(t testing.TB) *engine {
				return newEngine(t, func(p *peer) {
					if p.request() != nil {
						p.say(okChunked)
						<-time.After(short)
						p.say(token)
						_ = p.gone()
					}
				})
			}, proxy.KindIdleTimeout, true,
		},
		{
			"idle: comments", func(to *proxy.Timeouts) { to.Idle = short },
			func(t testing.TB) *engine {
				return pacing(t, short/20, okChunked+token, func(int) string { return chunk(": ping\n\n") })
			}, proxy.KindIdleTimeout, true,
		},
		{
			"idle: a chunk that drips", func(to *proxy.Timeouts) { to.Idle = short },
			func(t testing.TB) *engine {
				return pacing(t, short/20, okChunked+token+"fff\r\n", func(int) string { return "x" })
			}, proxy.KindIdleTimeout, true,
		},
		{
			"total: no answer", func(to *proxy.Timeouts) { to.Total = short },
			func(t testing.TB) *engine { return silent(t) }, proxy.KindTotalTimeout, false,
		},
		{
			"total: no token", func(to *proxy.Timeouts) { to.Total = short },
			func(t testing.TB) *engine { return silent(t, okChunked) }, proxy.KindTotalTimeout, false,
		},
		{
			"total: silence", func(to *proxy.Timeouts) { to.Total = long },
			func(t testing.TB) *engine { return silent(t, okChunked, token) }, proxy.KindTotalTimeout, true,
		},
		{
			"total: a stream that goes on", func(to *proxy.Timeouts) { to.Total = long },
			func(t testing.TB) *engine { return pacing(t, short/20, okChunked, func(int) string { return token }) },
			proxy.KindTotalTimeout, true,
		},
	} {
		for _, lasting := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/lasting=%v", tt.name, lasting), func(t *testing.T) {
				t.Parallel()
				e := tt.engine(t)
				b := newBench(t, e.url(), func(c *proxy.Config) { tt.mod(&c.Timeouts) })
				start := time.Now()
				req := post()
				req.Lasting = lasting
				got := b.do(t.Context(), req)
				took := time.Since(start)
				got.wantKind(t, tt.want)
				if got.out.Started != tt.started {
					t.Errorf("Started is %v, passed on %q", got.out.Started, got.body())
				}
				if !kindOf(got.err).Timeout() {
					t.Errorf("%v is no timeout", got.err)
				}
				if took < short || took > patient/2 {
					t.Errorf("ended after %v, want %v", took, short)
				}
				e.waitOpen(t, 0)
				if n := b.metric(t, "failures_total", tt.want.String()); n != 1 {
					t.Errorf("%d failures counted, want 1", n)
				}
			})
		}
	}
}

// Request.Deadline is the end of the whole request, retries included.
func TestRequestDeadline(t *testing.T) {
	t.Parallel()
	e := silent(t, okChunked)
	b := newBench(t, e.url(), nil)
	req := post()
	req.Deadline = time.Now().Add(short)
	b.do(t.Context(), req).wantKind(t, proxy.KindTotalTimeout)
	req.Deadline = time.Now().Add(-time.Hour)
	b.do(t.Context(), req).wantKind(t, proxy.KindTotalTimeout)
	req.Deadline = time.Time{}
	ctx, cancel := context.WithTimeout(t.Context(), short)
	defer cancel()
	b.do(ctx, req).wantKind(t, proxy.KindCanceled)
}

// A slow stream is no wedged one: tokens a little apart than the limit pass for
// as long as they come, whatever the time to the first one was.
func TestSlowStreamSurvives(t *testing.T) {
	t.Parallel()
	const tokens = 9
	e := pacing(t, short, okChunked, func(i int) string {
		switch {
		case i < tokens:
			return chunk("data: token\n\n")
		case i == tokens:
			return chunk("data: [DONE]\n\n") + chunk("")
		}
		return ""
	})
	b := newBench(t, e.url(), func(c *proxy.Config) {
		c.Timeouts.Idle, c.Timeouts.FirstToken, c.Timeouts.ResponseHeader = 6*short, 6*short, 6*short
	})
	b.do(t.Context(), post()).want(t, 200, strings.Repeat("data: token\n\n", tokens)+"data: [DONE]\n\n")
}

// The body of an error is read within Timeouts.Idle, all of it.
func TestReadAllDeadline(t *testing.T) {
	t.Parallel()
	e := pacing(t, short/20, "HTTP/1.1 500 Oops\r\nContent-Length: 99999\r\n\r\n", func(int) string { return "x" })
	b := newBench(t, e.url(), func(c *proxy.Config) { c.Timeouts.Idle = short })
	resp, err := b.Send(t.Context(), b.target, post())
	if err != nil {
		t.Fatal(err)
	}
	got, err := resp.ReadAll(1<<20, 0)
	if kindOf(err) != proxy.KindIdleTimeout || !strings.HasPrefix(string(got), "x") {
		t.Errorf("got %q, %v", got, err)
	}
	e.waitOpen(t, 0)
}

func TestReadAll(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, answer string
		limit        int
		want         string
		kind         proxy.Kind
		reused       bool
	}{
		{"length", hello, 100, "hello", 0, true},
		{"exactly the limit", hello, 5, "hello", 0, true},
		{"longer than the limit", hello, 3, "hel", 0, true}, // one read brought all of it
		{"limit zero", hello, 0, "", 0, true},
		{"chunked", okChunked + chunk("hel") + chunk("lo") + chunk(""), 100, "hello", 0, true},
		{"until close", okClose + "hello", 100, "hello", 0, false},
		{"cut length", ok5 + "hel", 100, "hel", proxy.KindCut, false},
		{"cut chunks", okChunked + chunk("hello"), 100, "hello", proxy.KindCut, false},
		{"bad chunks", okChunked + chunk("hello") + "x", 100, "", proxy.KindProtocol, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := newEngine(t, func(p *peer) {
				for p.request() != nil {
					p.say(tt.answer)
					if !tt.reused {
						return
					}
				}
			})
			b := newBench(t, e.url(), nil)
			for range 2 {
				resp, err := b.Send(t.Context(), b.target, post())
				if err != nil {
					t.Fatal(err)
				}
				got, err := resp.ReadAll(tt.limit, 0)
				if kindOf(err) != tt.kind || string(got) != tt.want {
					t.Errorf("got %q, %v", got, err)
				}
			}
			if want := map[bool]int{true: 1, false: 2}[tt.reused]; e.dials() != want {
				t.Errorf("%d connections, want %d", e.dials(), want)
			}
		})
	}
}
