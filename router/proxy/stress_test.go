package proxy_test

import (
	"context"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/llmgw/llmgw/router/proxy"
)

// openFiles counts this process's descriptors, -1 where that cannot be told.
func openFiles() int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return -1
	}
	return len(entries)
}

// Whatever befalls 200 clients at once, none gets another's bytes, and nothing
// is left: no goroutine, no connection, no descriptor.
func TestMixedOutcomes(t *testing.T) {
	before := openFiles()
	var accepted int
	t.Run("clients", func(t *testing.T) {
		e := newEngine(t, func(p *peer) {
			for {
				req := p.request()
				if req == nil {
					return
				}
				name, how, _ := strings.Cut(req.body, " ")
				token := chunk("data: " + name + "\n\n")
				switch how {
				case "plain":
					p.say(okChunked+token+token, chunk("data: [DONE]\n\n"), chunk(""))
				case "close":
					p.say(okClose, "data: "+name+"\n\n", "data: [DONE]\n\n")
					return
				case "cut":
					p.say(okChunked, token)
					return
				case "reset":
					p.reset()
					return
				case "lost":
					return
				case "bad":
					p.say("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx")
				case "hang":
					p.say(okChunked, token)
					_ = p.gone()
					return
				case "idle-close": // a good answer, and then the connection ends
					p.say(okChunked + token + chunk("data: [DONE]\n\n") + chunk(""))
					return
				}
			}
		})
		b := newBench(t, e.url(), func(c *proxy.Config) { c.PoolIdle = 20 * time.Millisecond })
		ctx, stop := context.WithCancel(t.Context())
		var run, clients sync.WaitGroup
		run.Go(func() { _ = b.Run(ctx) })
		hows := []string{"plain", "plain", "plain", "close", "cut", "reset", "lost", "bad", "hang", "idle-close"}
		for i := range 200 {
			clients.Go(func() {
				rng := rand.New(rand.NewPCG(7, uint64(i)))
				for range 10 {
					client(t, b, rng, hows[rng.IntN(len(hows))])
				}
			})
		}
		clients.Wait()
		stop()
		run.Wait()
		_ = b.target.Close()
		e.waitOpen(t, 0)
		accepted = e.dials()
	})
	if after := openFiles(); after > before+3 { // the runtime's own may have come
		t.Errorf("%d descriptors before, %d after %d connections", before, after, accepted)
	}
}

// client runs one exchange and checks that the outcome fits how it was to go.
func client(t *testing.T, b *bench, rng *rand.Rand, how string) {
	name := string(rune('a'+rng.IntN(26))) + string(rune('a'+rng.IntN(26)))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if how == "hang" {
		stop := time.AfterFunc(time.Duration(rng.IntN(30))*time.Millisecond, cancel)
		defer stop.Stop()
	}
	req := post(name + " " + how)
	req.Lasting = rng.IntN(2) == 0
	got := b.do(ctx, req)
	body, want := got.body(), proxy.Kind(0)
	switch how {
	case "cut":
		want = proxy.KindCut
	case "reset", "lost":
		want = proxy.KindLost
	case "bad":
		want = proxy.KindProtocol
	case "hang":
		want = proxy.KindCanceled
	}
	if k := kindOf(got.err); k != want {
		t.Errorf("%s: got %v (%v), want %v", how, k, got.err, want)
	}
	body = strings.ReplaceAll(body, "data: "+name+"\n\n", "")
	if body = strings.TrimSuffix(body, "data: [DONE]\n\n"); body != "" {
		t.Errorf("%s: %q was passed on to %q", how, body, name)
	}
	runtime.Gosched()
}
