package gateway_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/llmgw/llmgw/router"
	"github.com/llmgw/llmgw/router/endpoint"
	"github.com/llmgw/llmgw/router/gateway"
)

// client takes an answer without a connection. It leaves after so many writes.
type client struct {
	header http.Header
	status int
	writes int
	leave  func() // nil: it stays
}

func (c *client) Header() http.Header { return c.header }

func (c *client) WriteHeader(status int) { c.status = status }

func (c *client) Write(p []byte) (int, error) {
	if c.writes++; c.leave != nil {
		c.leave()
	}
	return len(p), nil
}

func (c *client) Flush() {}

// leaving is the context of a client who leaves as soon as somebody waits for it.
type leaving struct {
	context.Context //nolint:containedctx // it is one

	leave context.CancelFunc
}

func (l leaving) Done() <-chan struct{} {
	l.leave()
	return l.Context.Done()
}

// tally counts results and keeps every instance that a request was sent to.
type tally struct {
	results   [16]atomic.Int64
	mu        sync.Mutex
	instances map[*endpoint.Endpoint]bool // guarded by mu
}

func (c *tally) Record(o *router.Outcome) {
	c.results[o.Result].Add(1)
	if o.Decision == nil || o.Decision.Picked < 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.instances[o.Decision.Candidates[o.Decision.Picked].Endpoint] = true
}

// mixedEngine does what each request's header says, and reads no more of it:
// requests are small and come in one piece.
func mixedEngine(_ *rawEngine, c net.Conn) {
	x := &exchange{Conn: c}
	buf := make([]byte, 4096)
	for {
		n, err := c.Read(buf)
		if err != nil {
			return
		}
		x.body = buf[:n]
		mode := ""
		if _, after, ok := bytes.Cut(x.body, []byte("X-Mode: ")); ok {
			line, _, _ := bytes.Cut(after, []byte("\r\n"))
			mode = string(line)
		}
		mixedAnswer(x, mode)
	}
}

var (
	mixedDocument = document(200, completion)
	mixedStream   = eventHead() + chunk(delta("h")) + chunk(delta("i")) + chunk(usageEvent) + chunk(doneEvent) + lastChunk
)

func mixedAnswer(x *exchange, mode string) {
	switch mode {
	case "400", "404", "422":
		x.write("HTTP/1.1 " + mode + " Not so\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
	case "500":
		x.write(document(500, "{}"))
	case "429":
		x.write(document(429, "{}", "Retry-After: 0.001"))
	case "503":
		x.write(document(503, "{}", "Retry-After: 0.001"))
	case "reset":
		x.reset()
	case "close":
		_ = x.Close()
	case "cut":
		x.write(eventHead() + chunk(delta("h")))
		x.reset()
	case "cut document":
		x.write(head(200, "Content-Type: application/json", "Content-Length: 100") + "{")
		_ = x.Close()
	case "silent":
		x.untilLeft()
	case "no token":
		x.write(eventHead())
		x.untilLeft()
	case "leave", "stall":
		x.write(eventHead() + chunk(delta("h")))
		x.untilLeft()
	default:
		if bytes.Contains(x.body, []byte(`"include_usage":true`)) {
			x.write(mixedStream)
			return
		}
		x.write(mixedDocument)
	}
}

// ofCrowds are series of what happens to many at once alone, and not to one request
// after the other.
var ofCrowds = []string{
	"llmgw_router_errors_total{code=no_endpoint}", "llmgw_router_errors_total{code=overloaded}",
	"llmgw_router_errors_total{code=queue_full}", "llmgw_router_errors_total{code=queue_timeout}",
}

// A hundred thousand requests that end in every way there is, while endpoints
// go and come back, leave nothing behind: no place in flight, no memory, no
// charge, no lease, no goroutine, no series.
func TestMixedOutcomesLeaveNothing(t *testing.T) { mixedOutcomes(t, mixedRequests, false) }

// The same with requests that wait for admission and are granted, refused, kept
// waiting for too long or left by their client.
func TestMixedOutcomesWithQueues(t *testing.T) {
	f := mixedOutcomes(t, queuedRequests, true)
	for _, reason := range []string{"queue_full", "expired", "cancelled"} {
		if f.metric("llmgw_admission_rejections_total", "reason="+reason) == 0 {
			t.Errorf("no request was %s", reason)
		}
	}
}

func mixedOutcomes(t *testing.T, requests int64, queues bool) *fleet {
	const workers = 24
	var all []gateway.Endpoint
	for i := range 4 {
		all = append(all, at(fmt.Sprint("e", i), newEngine(t, mixedEngine).url, "m", "n"))
	}
	cfg := config(all...)
	cfg.Router.Breaker.FailureThreshold = 1 << 20
	cfg.Router.Breaker.Cooldown = time.Millisecond
	cfg.Router.Core.RetryBudgetMin = 0
	cfg.Router.Relay.Timeouts.ResponseHeader = 40 * time.Millisecond
	cfg.Router.Relay.Timeouts.FirstToken = 40 * time.Millisecond
	cfg.Router.Relay.Timeouts.Idle = 40 * time.Millisecond
	seen := &tally{instances: map[*endpoint.Endpoint]bool{}}
	set := func(d *gateway.Deps) { d.Recorder, d.Logger = seen, nil }
	var f *fleet
	if queues {
		for i := range cfg.Endpoints {
			cfg.Endpoints[i].MaxRunning = 2
		}
		cfg.Admission.Core.Enabled = true
		cfg.Admission.Core.QueueTTL = 20 * time.Millisecond
		cfg.Admission.Core.QueueCapacityPerBand = 3
		f = newAdmitting(t, cfg, set)
		f.run()
	} else {
		f = newFleet(t, cfg, set)
	}

	// Whatever a machine that is busy for a moment makes of an answer is made on purpose,
	// too, so that it brings no series that was not there.
	modes := []string{"400", "404", "422", "500", "429", "503", "reset", "close", "cut", "cut document", "silent", "no token", "stall", "leave"}
	request := func(rng *rand.Rand) {
		mode, body := "", chatBody
		switch n := rng.IntN(200); {
		case n < len(modes):
			mode = modes[n]
		case n < 60:
			body = streamBody
		case n < 95:
			body = `{"model":"nobody"}`
		case n < 130:
			body = `{"model":`
		case n < 140:
			body = strings.Replace(chatBody, `"m"`, `"n"`, 1)
		}
		switch mode {
		case "cut", "leave", "no token", "stall":
			body = streamBody
		}
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		bands := []string{"platinum", "gold", "silver", "bronze"}
		band := bands[rng.IntN(len(bands))]
		if queues && rng.IntN(20) == 0 {
			ctx = leaving{ctx, cancel} // in the queue, or while an engine works
		}
		w := &client{header: http.Header{}}
		if mode == "leave" {
			w.leave = cancel
		}
		r := (&http.Request{
			Method: "POST", URL: &url.URL{Path: chatPath}, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			Header: http.Header{"X-Mode": {mode}, "X-Llmgw-Band": {band}}, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
		}).WithContext(ctx)
		defer func() {
			if p := recover(); p != nil && p != http.ErrAbortHandler { //nolint:errorlint // a sentinel that is never wrapped
				panic(p)
			}
		}()
		f.gw.ServeHTTP(w, r)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 2000 { // so that every series is there
		request(rng)
	}
	f.idle()
	series := f.series()
	runtime.GC()
	goroutines := runtime.NumGoroutine()

	var left atomic.Int64
	left.Store(requests)
	var wg sync.WaitGroup
	for i := range workers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(3, uint64(i)))
			for {
				n := left.Add(-1)
				if n < 0 {
					return
				}
				if n%500 == 0 { // one endpoint goes; another comes back as a new instance
					some := config(all...)
					gone := int(n/500) % len(all)
					some.Endpoints = append(append([]gateway.Endpoint{}, all[:gone]...), all[gone+1:]...)
					if err := f.gw.Reload(some); err != nil {
						t.Error(err)
					}
				}
				request(rng)
			}
		})
	}
	wg.Wait()
	if err := f.gw.Reload(cfg); err != nil {
		t.Fatal(err)
	}
	f.idle()
	var total int64
	for r := range seen.results {
		n := seen.results[r].Load()
		total += n
		if kind := router.Result(r); n == 0 && kind != router.ResultUnset && kind < router.ResultFault && kind != router.ResultNoEndpoint {
			t.Errorf("no request ended as %v", kind)
		}
	}
	if total != requests+2000 || seen.results[router.ResultUnset].Load()+seen.results[router.ResultFault].Load() != 0 {
		t.Errorf("%d of %d requests are recorded", total, requests+2000)
	}
	if int64(len(seen.instances)) < requests/2000 {
		t.Errorf("only %d instances came and went", len(seen.instances))
	}
	for e := range seen.instances {
		if n := e.InFlight(); n != 0 {
			t.Errorf("an instance of %s, gone: %v, has %d in flight", e.ID(), e.Gone(), n)
		}
	}
	// An endpoint has the series of the state that it is in.
	for s := range f.series() {
		if _, was := series[s]; !was && !slices.Contains(ofCrowds, s) && !strings.HasPrefix(s, "llmgw_endpoint_state{") {
			t.Errorf("the series %s was not there before", s)
		}
	}
	if n := f.metric("llmgw_router_panics_total"); n != 0 {
		t.Errorf("%v panics", n)
	}
	// Unused connections to engines, of which each has a goroutine in the
	// engine's half of this process, go with their endpoints.
	empty := cfg
	empty.Endpoints = nil
	if err := f.gw.Reload(empty); err != nil {
		t.Fatal(err)
	}
	f.eventually("no goroutine is left over", func() bool { return runtime.NumGoroutine() <= goroutines })
	return f
}
