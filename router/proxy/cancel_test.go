package proxy_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/llmgw/llmgw/router/proxy"
)

var errLeft = errors.New("the client left")

// A client that leaves is noticed at once, wherever the exchange stands, and the
// engine sees its connection close.
func TestCancel(t *testing.T) {
	// On a machine that does nothing else it takes less than a millisecond.
	const soon = 500 * time.Millisecond
	for _, tt := range []struct {
		name   string
		script func(p *peer, reached chan<- struct{})
		large  bool
	}{
		{"waiting for the head", func(p *peer, reached chan<- struct{}) {
			p.request()
			close(reached)
		}, false},
		{"within the head", func(p *peer, reached chan<- struct{}) {
			p.request()
			p.say("HTTP/1.1 200 OK\r\nX-")
			close(reached)
		}, false},
		{"waiting for the first token", func(p *peer, reached chan<- struct{}) {
			p.request()
			p.say(okChunked)
			close(reached)
		}, false},
		{"within the stream", func(p *peer, reached chan<- struct{}) {
			p.request()
			p.say(okChunked, chunk("data: token\n\n"))
			close(reached)
		}, false},
		{"late in the stream", func(p *peer, reached chan<- struct{}) {
			p.request()
			p.say(okChunked, chunk("data: token\n\n"))
			for range 4 { // past the time after which the relay asks to be told
				<-time.After(15 * time.Millisecond)
				p.say(chunk("data: token\n\n"))
			}
			close(reached)
		}, false},
		{"writing the request", func(p *peer, reached chan<- struct{}) {
			p.head()
			close(reached)
			<-p.e.quit // reads nothing: the relay's write is blocked
		}, true},
	} {
		for _, lasting := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/lasting=%v", tt.name, lasting), func(t *testing.T) {
				reached, left := make(chan struct{}), make(chan time.Time, 1)
				e := newEngine(t, func(p *peer) {
					if p.n > 0 {
						p.request()
						p.say(hello)
						return
					}
					tt.script(p, reached)
					if p.gone() == nil {
						left <- time.Now()
					}
				})
				b := newBench(t, e.url(), nil)
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				var canceled time.Time
				go func() {
					<-reached
					canceled = time.Now()
					cancel(errLeft)
				}()
				req := post()
				if tt.large {
					req = huge(64)
				}
				req.Lasting = lasting
				got := b.do(ctx, req)
				returned := time.Now()
				got.wantKind(t, proxy.KindCanceled)
				if !errors.Is(got.err, errLeft) {
					t.Errorf("the cause is lost: %v", got.err)
				}
				if d := returned.Sub(canceled); d > soon {
					t.Errorf("noticed after %v, want within %v", d, soon)
				}
				if tt.large {
					e.halt()
				} else if d := (<-left).Sub(canceled); d > soon {
					t.Errorf("the engine saw it after %v, want within %v", d, soon)
				}
				b.do(t.Context(), post()).want(t, 200, "hello")
				if e.dials() != 2 {
					t.Errorf("the connection of a cancelled exchange was used again")
				}
			})
		}
	}
}

// A context that ended before has the exchange fail whatever it costs.
func TestCanceledBefore(t *testing.T) {
	t.Parallel()
	e := silent(t)
	b := newBench(t, e.url(), nil)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errLeft)
	for _, req := range []*proxy.Request{post(), huge(64)} {
		if got := b.do(ctx, req); kindOf(got.err) != proxy.KindCanceled || !errors.Is(got.err, errLeft) {
			t.Errorf("got %v", got.err)
		}
	}
}

// A cancel that comes as the deadline moves is not lost. The stream's period is
// such that deadlines move all the time.
func TestCancelRacesWithDeadlines(t *testing.T) {
	t.Parallel()
	e := newEngine(t, func(p *peer) {
		for p.request() != nil {
			p.say(okChunked)
			for range 20 {
				p.say(chunk("data: role\n\n"), chunk("data: token\n\n"))
			}
			// No end: only the cancel ends it.
		}
	})
	b := newBench(t, e.url(), func(c *proxy.Config) { c.Timeouts.FirstToken = time.Hour })
	workers, rounds := 8, 25
	errs := make(chan error, workers*rounds)
	for i := range workers {
		go func() {
			for j := range rounds {
				ctx, cancel := context.WithCancelCause(t.Context())
				// From before the dial to past the registration of the cancel.
				time.AfterFunc(time.Duration(i*rounds+j)*150*time.Microsecond, func() { cancel(errLeft) })
				req := post()
				req.Lasting = j%2 == 1
				errs <- b.do(ctx, req).err
			}
		}()
	}
	for range workers * rounds {
		select {
		case err := <-errs:
			if kindOf(err) != proxy.KindCanceled {
				t.Errorf("got %v", err)
			}
		case <-time.After(patient):
			t.Fatal("a cancel was lost")
		}
	}
	e.waitOpen(t, 0)
}

// An engine's end that comes in one piece with its last bytes is seen at once or
// after a second, although nothing tells of it twice.
func TestEndWithLastBytes(t *testing.T) {
	t.Parallel()
	e := newEngine(t, func(p *peer) {
		if p.request() == nil {
			return
		}
		if p.n%2 == 1 { // the relay has come to its long deadlines
			p.say(okChunked)
			<-time.After(30 * time.Millisecond)
			p.say(chunk("data: token\n\n"))
			return // and the end right behind it
		}
		p.say(okChunked + chunk("data: token\n\n"))
	})
	b := newBench(t, e.url(), nil)
	var wg sync.WaitGroup
	var rounds, late atomic.Int32
	until := time.Now().Add(600 * time.Millisecond)
	for i := range 8 {
		wg.Go(func() {
			for begin := time.Now(); begin.Before(until); begin = time.Now() {
				req := post()
				req.Lasting = i%2 == 1
				got := b.do(t.Context(), req)
				if kindOf(got.err) != proxy.KindCut || got.body() != "data: token\n\n" {
					t.Errorf("got %v, passed on %q", got.err, got.body())
					return
				}
				rounds.Add(1)
				switch d := time.Since(begin); {
				case d > patient/2:
					t.Errorf("an end was seen after %v", d)
					return
				case d > 800*time.Millisecond:
					late.Add(1)
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d of %d ends were seen late", late.Load(), rounds.Load())
	if late.Load() > rounds.Load()/2 {
		t.Errorf("that is too many")
	}
}

// Where the end is how a body ends, it is always seen at once.
func TestEndOfBodyWithLastBytes(t *testing.T) {
	t.Parallel()
	e := newEngine(t, func(p *peer) {
		if p.request() != nil {
			p.say(okClose)
			<-time.After(30 * time.Millisecond)
			p.say("data: [DONE]\n\n")
		}
	})
	b := newBench(t, e.url(), nil)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 10 {
				req := post()
				req.Lasting = true
				begin := time.Now()
				if got := b.do(t.Context(), req); got.err != nil {
					t.Error(got.err)
				}
				if d := time.Since(begin); d > 800*time.Millisecond {
					t.Errorf("an end was seen after %v", d)
				}
			}
		})
	}
	wg.Wait()
}
