package gateway_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/llmgw/llmgw/engines/sim"
)

// A burst between two scrapes spreads: what was decided counts at once.
func TestNoHerd(t *testing.T) {
	const requests, n = 200, 5
	release := make(chan struct{})
	var arrived sync.WaitGroup
	arrived.Add(requests)
	var engines []*rawEngine
	cfg := config()
	for i := range n {
		e := newRaw(t, func(x *exchange) {
			arrived.Done()
			<-release
			good(x)
		})
		engines = append(engines, e)
		cfg.Endpoints = append(cfg.Endpoints, at(fmt.Sprint("e", i), e.url))
	}
	f := newFleet(t, cfg) // not run: nothing is scraped
	var wg sync.WaitGroup
	for range requests {
		wg.Go(func() {
			if got := f.chat(); got.status != 200 {
				t.Errorf("got %d %s", got.status, got.body)
			}
		})
	}
	arrived.Wait()
	for i, e := range engines {
		if got := float64(e.calls.Load()); got > 1.3*requests/n {
			t.Errorf("engine %d has %v of %d requests", i, got, requests)
		}
	}
	close(release)
	wg.Wait()
	f.idle()
}

// A thousand streams at once over three engines all complete; under the race
// detector, fewer.
func TestThousandStreams(t *testing.T) {
	const streams = manyStreams
	cfg := config()
	var engines []*simEngine
	for i := range 3 {
		e := newSim(t, nil)
		engines = append(engines, e)
		cfg.Endpoints = append(cfg.Endpoints, at(fmt.Sprint("e", i), e.url))
	}
	f := newFleet(t, cfg)
	f.run()
	var whole atomic.Int64
	var wg sync.WaitGroup
	for range streams {
		wg.Go(func() {
			got := f.stream()
			if got.err == nil && strings.Count(got.body, "data: ") == 10 && strings.HasSuffix(got.body, doneEvent) {
				whole.Add(1)
			}
		})
	}
	wg.Wait()
	if whole.Load() != streams {
		t.Errorf("%d of %d streams are whole", whole.Load(), streams)
	}
	for i, e := range engines {
		// All come within milliseconds, in the middle of the first measurements;
		// how even that can be is TestNoHerd's question.
		if e.calls.Load() < streams/20 {
			t.Errorf("engine %d had %d of them", i, e.calls.Load())
		}
	}
	f.idle()
}

// When all clients leave, the engines' memory is free again.
func TestCutStreamsFreeTheEngines(t *testing.T) {
	const streams = manyStreams
	cfg := config()
	var engines []*simEngine
	for i := range 3 {
		e := newSim(t, func(c *sim.Config) {
			c.MaxNumSeqs = 500
			c.Timing.Step = 500 * time.Millisecond // no stream gets to its end
		})
		engines = append(engines, e)
		cfg.Endpoints = append(cfg.Endpoints, at(fmt.Sprint("e", i), e.url))
	}
	f := newFleet(t, cfg)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	const endless = `{"model":"m","messages":[{"role":"user","content":"Hello"}],"max_tokens":2000,"ignore_eos":true,"stream":true}`
	var begun atomic.Int64
	var wg sync.WaitGroup
	for range streams {
		wg.Go(func() {
			res, err := f.send(ctx, "POST", chatPath, strings.NewReader(endless))
			if err != nil {
				t.Error(err)
				begun.Add(1)
				return
			}
			defer func() { _ = res.Body.Close() }()
			_, _ = io.ReadFull(res.Body, make([]byte, 1))
			begun.Add(1)
			_, _ = io.Copy(io.Discard, res.Body)
		})
	}
	f.eventually("all streams have begun", func() bool { return begun.Load() == streams })
	cancel()
	wg.Wait()
	for i, e := range engines {
		f.eventually(fmt.Sprint("engine ", i, " is free"), func() bool {
			s := e.Stats()
			return s.Running == 0 && s.Waiting == 0 && s.UsedBlocks == 0
		})
	}
	f.idle()
	if n := f.metric("llmgw_router_requests_total", "result=canceled"); n != streams {
		t.Errorf("%v of %d are counted as canceled", n, streams)
	}
}

// Loads that cannot be read, or are old, never stop traffic.
func TestStaleLoads(t *testing.T) {
	for _, fault := range []string{"metrics=block", "metrics=error", "metrics=garbage", "metrics=absent"} {
		for _, frozen := range []int{1, 2} {
			t.Run(fmt.Sprintf("%s/%d of 2", fault, frozen), func(t *testing.T) {
				t.Parallel()
				a, b := newSim(t, nil), newSim(t, nil)
				cfg := config(at("a", a.url), at("b", b.url))
				cfg.Router.Scrape.Interval = 100 * time.Millisecond
				cfg.Router.Scrape.Timeout = 50 * time.Millisecond
				cfg.Router.StaleAfter = 150 * time.Millisecond
				f := newFleet(t, cfg)
				f.run()
				f.eventually("both loads are read", func() bool { return f.metric("llmgw_scrape_scrapes_total", "outcome=ok") >= 2 })
				for _, e := range []*simEngine{a, b}[:frozen] {
					e.faults(t, fault)
				}
				oldest := func() float64 { return f.metric("llmgw_endpoint_load_timestamp_seconds", "endpoint=a") }
				f.eventually("it is stale", func() bool {
					for range 4 {
						if got := f.chat(); got.status != 200 {
							t.Errorf("got %d %s", got.status, got.body)
						}
					}
					return float64(time.Now().UnixNano())/1e9-oldest() > 0.2
				})
				calls := a.calls.Load() + b.calls.Load()
				for range 20 {
					if got := f.chat(); got.status != 200 {
						t.Errorf("got %d %s", got.status, got.body)
					}
				}
				if a.calls.Load()+b.calls.Load() != calls+20 {
					t.Error("requests are lost")
				}
			})
		}
	}
}
