package proxy_test

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/llmgw/llmgw/router/proxy"
)

// hold runs n exchanges at once, so that as many connections are open, and
// returns when all are over.
func hold(t *testing.T, b *bench, n int) {
	t.Helper()
	var all, done sync.WaitGroup
	all.Add(n)
	for range n {
		done.Go(func() {
			resp, err := b.Send(t.Context(), b.target, post())
			all.Done()
			if err != nil {
				t.Error(err)
				return
			}
			all.Wait()
			if _, err := resp.ReadAll(100, 0); err != nil {
				t.Error(err)
			}
		})
	}
	done.Wait()
}

func TestPoolReusesTheLatest(t *testing.T) {
	t.Parallel()
	served := make(chan int, 100)
	e := newEngine(t, func(p *peer) {
		for p.request() != nil {
			served <- p.n
			p.say(hello)
		}
	})
	b := newBench(t, e.url(), nil)
	hold(t, b, 3)
	for range 3 {
		<-served
	}
	b.do(t.Context(), post()).want(t, 200, "hello")
	latest := <-served
	for range 10 {
		b.do(t.Context(), post()).want(t, 200, "hello")
		if n := <-served; n != latest {
			t.Fatalf("connection %d was used, and before it %d", n, latest)
		}
	}
	if e.dials() != 3 {
		t.Errorf("%d connections, want 3", e.dials())
	}
	if n := b.metric(t, "dials_total", "ok"); n != 3 {
		t.Errorf("%d dials counted, want 3", n)
	}
}

func TestPoolSize(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		mod  func(c *proxy.Config)
		want int
	}{
		{"two", func(c *proxy.Config) { c.PoolSize = 2 }, 2},
		{"none by size", func(c *proxy.Config) { c.PoolSize = 0 }, 0},
		{"none by age", func(c *proxy.Config) { c.PoolIdle = 0 }, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := answering(t, hello)
			b := newBench(t, e.url(), tt.mod)
			hold(t, b, 4)
			e.waitOpen(t, tt.want)
		})
	}
}

func TestPoolIdle(t *testing.T) {
	t.Parallel()
	e := answering(t, hello)
	b := newBench(t, e.url(), func(c *proxy.Config) { c.PoolIdle = time.Nanosecond })
	for range 3 {
		b.do(t.Context(), post()).want(t, 200, "hello")
	}
	if e.dials() != 3 {
		t.Errorf("%d connections, want 3", e.dials())
	}
	if n := b.metric(t, "stale_connections_total"); n != 2 {
		t.Errorf("%d stale connections counted, want 2", n)
	}
	e.waitOpen(t, 1) // the last one, until somebody looks
}

func TestRunSweeps(t *testing.T) {
	t.Parallel()
	e := answering(t, hello)
	b := newBench(t, e.url(), func(c *proxy.Config) { c.PoolIdle = 10 * time.Millisecond })
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = b.Run(ctx) })
	hold(t, b, 3)
	e.waitOpen(t, 0)
	cancel()
	wg.Wait()
}

func TestRunClosesAllAtItsEnd(t *testing.T) {
	t.Parallel()
	e := answering(t, hello)
	b := newBench(t, e.url(), nil)
	hold(t, b, 3)
	e.waitOpen(t, 3)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.Run(ctx); err != nil {
		t.Error(err)
	}
	e.waitOpen(t, 0)
}

func TestClosedTargetKeepsNothing(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	e := newEngine(t, func(p *peer) {
		for p.request() != nil {
			p.say(ok5)
			<-release
			p.say("hello")
		}
	})
	b := newBench(t, e.url(), nil)
	resp, err := b.Send(t.Context(), b.target, post())
	if err != nil {
		t.Fatal(err)
	}
	if err := b.target.Close(); err != nil {
		t.Fatal(err)
	}
	close(release)
	w := newRecorder()
	if _, err := resp.Relay(w, &lineTap{}, proxy.Options{}); err != nil || w.body() != "hello" {
		t.Errorf("an exchange under way gave %q, %v", w.body(), err)
	}
	e.waitOpen(t, 0)
	b.do(t.Context(), post()).want(t, 200, "hello") // still works, on a connection of its own
	e.waitOpen(t, 0)
	if err := b.target.Close(); err != nil {
		t.Errorf("closing twice: %v", err)
	}
}

// A reused connection that turns out dead is replaced once by a fresh one, and
// nobody else hears of it.
func TestDeadConnectionIsReplaced(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("x", 300<<10)
	for _, tt := range []struct {
		name   string
		unused bool          // it dies before the second request
		die    func(p *peer) // after the first answer
	}{
		{"closed while unused", true, func(p *peer) { _ = p.Close() }},
		{"reset while unused", true, (*peer).reset},
		{"half closed while unused", true, func(p *peer) { _ = p.CloseWrite() }},
		{"an answer nobody asked for", true, func(p *peer) {
			p.say("HTTP/1.1 408 Request Timeout\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbad")
		}},
		{"closes as we write", false, func(p *peer) { _, _ = p.br.Peek(1) }},
		{"resets as we write", false, func(p *peer) { _, _ = p.br.Peek(1); p.reset() }},
		{"closes after the request", false, func(p *peer) { p.request() }},
		{"resets after the request", false, func(p *peer) { p.request(); p.reset() }},
	} {
		for _, body := range []string{"small", large} {
			name := tt.name
			if body == large {
				name += "/large"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				answered, dead := make(chan struct{}), make(chan struct{})
				e := newEngine(t, func(p *peer) {
					if p.request() == nil {
						return
					}
					p.say(hello)
					switch {
					case p.n > 0:
					case tt.unused:
						<-answered
						tt.die(p)
						close(dead)
						_ = p.gone()
						return
					default:
						tt.die(p)
						return
					}
					for p.request() != nil {
						p.say(hello)
					}
				})
				b := newBench(t, e.url(), nil)
				b.do(t.Context(), post()).want(t, 200, "hello")
				close(answered)
				if tt.unused {
					<-dead
					settle(t)
				}
				b.do(t.Context(), post(body)).want(t, 200, "hello")
				if e.dials() != 2 {
					t.Errorf("%d connections, want 2", e.dials())
				}
				if n := b.metric(t, "replays_total"); n != 1 {
					t.Errorf("%d replays counted, want 1", n)
				}
				if n := b.metric(t, "failures_total"); n != 0 {
					t.Errorf("%d failures counted, want none", n)
				}
				reqs := e.requests()
				if got := reqs[len(reqs)-1].body; got != body {
					t.Errorf("the fresh connection got a body of %d bytes, want %d", len(got), len(body))
				}
				b.do(t.Context(), post()).want(t, 200, "hello")
			})
		}
	}
}

// settle lets what an engine did to an unused connection arrive, which on the
// loopback takes less than exchanges on another one.
func settle(t *testing.T) {
	t.Helper()
	e := answering(t, hello)
	b := newBench(t, e.url(), nil)
	for range 3 {
		b.do(t.Context(), post()).want(t, 200, "hello")
	}
}

// The replay is one: an engine that takes connections and drops them is lost.
func TestReplayIsOne(t *testing.T) {
	t.Parallel()
	e := newEngine(t, func(p *peer) {
		if p.request() == nil || p.n > 0 {
			return
		}
		p.say(hello)
		p.request()
	})
	b := newBench(t, e.url(), nil)
	b.do(t.Context(), post()).want(t, 200, "hello")
	got := b.do(t.Context(), post())
	got.wantKind(t, proxy.KindLost)
	if e.dials() != 2 {
		t.Errorf("%d connections, want 2", e.dials())
	}
	if n := b.metric(t, "failures_total", "lost"); n != 1 {
		t.Errorf("%d failures counted, want 1", n)
	}
}

func TestFreshConnectionIsNotReplayed(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		script func(p *peer)
	}{
		{"closes at once", func(*peer) {}},
		{"resets at once", (*peer).reset},
		{"half closes at once", func(p *peer) { _ = p.CloseWrite(); _ = p.gone() }},
		{"closes after the request", func(p *peer) { p.request() }},
		{"resets after the request", func(p *peer) { p.request(); p.reset() }},
		{"half closes after the request", func(p *peer) { p.request(); _ = p.CloseWrite(); _ = p.gone() }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := newEngine(t, tt.script)
			b := newBench(t, e.url(), nil)
			start := time.Now()
			want := proxy.KindLost
			got := b.do(t.Context(), post())
			if tt.name == "resets at once" && kindOf(got.err) == proxy.KindDial {
				want = proxy.KindDial // the reset overtook the dial's end
			}
			got.wantKind(t, want)
			if d := time.Since(start); d > patient/2 {
				t.Errorf("noticed after %v", d)
			}
			if e.dials() != 1 || b.metric(t, "replays_total") != 0 {
				t.Errorf("%d connections and %d replays, want 1 and 0", e.dials(), b.metric(t, "replays_total"))
			}
			if n := b.metric(t, "failures_total", want.String()); n != 1 {
				t.Errorf("%d failures counted, want 1", n)
			}
		})
	}
}

// An engine that refuses at once, before it has read anything, is heard.
func TestAnswerBeforeTheRequest(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"and waits", "and closes"} {
		t.Run(end, func(t *testing.T) {
			t.Parallel()
			e := newEngine(t, func(p *peer) {
				p.say("HTTP/1.1 503 Busy\r\nContent-Length: 4\r\nConnection: close\r\n\r\nbusy")
				if end == "and waits" {
					_ = p.gone()
					return
				}
				_ = p.CloseWrite()
				_ = p.gone()
			})
			b := newBench(t, e.url(), nil)
			for range 20 {
				b.do(t.Context(), post()).want(t, 503, "busy")
			}
		})
	}
}

func TestNobodyListens(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + ln.Addr().String()
	_ = ln.Close()
	b := newBench(t, url, nil)
	got := b.do(t.Context(), post())
	got.wantKind(t, proxy.KindDial)
	if !got.atSend {
		t.Error("Send gave an answer")
	}
	if b.metric(t, "dials_total", "failed") != 1 || b.metric(t, "failures_total", "dial") != 1 {
		t.Error("the failed dial is not counted")
	}
}
