package gateway_test

import (
	"context"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmgw/llmgw/engines/sim"
	"github.com/llmgw/llmgw/engines/sim/simtest"
	"github.com/llmgw/llmgw/router/gateway"
)

// flooded returns what requests of platinum took, sorted, while so many bronze
// clients ask again as soon as they have an answer.
func flooded(t *testing.T, bronze int, admission bool) (platinum []time.Duration, done int) {
	t.Helper()
	const running = 8 // of one engine
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		var servers, clients sync.WaitGroup
		defer servers.Wait()
		defer end()
		var network simtest.Network
		cfg := gateway.DefaultConfig()
		cfg.Admission.Core.Enabled = admission
		cfg.Admission.Core.QueueTTL = time.Hour
		for _, id := range []string{"a", "b"} {
			engineConfig := sim.DefaultConfig()
			engineConfig.Model, engineConfig.MaxNumSeqs = "m", running
			engine, err := sim.New(engineConfig, sim.Deps{})
			if err != nil {
				t.Fatal(err)
			}
			ln, err := network.Listen(id + ":80")
			if err != nil {
				t.Fatal(err)
			}
			cfg.Endpoints = append(cfg.Endpoints, at(id, "http://"+id))
			servers.Go(func() { _ = engine.Serve(ctx, ln) })
		}
		f := &fleet{t: t, reg: prometheus.NewRegistry()}
		gw, err := gateway.New(cfg, gateway.Deps{Dial: network.Dial, Registerer: f.reg})
		if err != nil {
			t.Fatal(err)
		}
		servers.Go(func() { _ = gw.Run(ctx) })
		ask := func(ctx context.Context, band string) (status int, took time.Duration) {
			begin := time.Now()
			r := httptest.NewRequestWithContext(ctx, "POST", chatPath,
				strings.NewReader(`{"model":"m","ignore_eos":true,"max_tokens":20,"messages":[{"role":"user","content":"Hello"}]}`))
			r.Header.Set("X-Llmgw-Band", band)
			w := httptest.NewRecorder()
			gw.ServeHTTP(w, r)
			return w.Code, time.Since(begin)
		}
		flood, stop := context.WithCancel(ctx)
		var mu sync.Mutex
		for range bronze {
			clients.Go(func() {
				for flood.Err() == nil {
					if status, _ := ask(ctx, "bronze"); status == 200 {
						mu.Lock()
						done++
						mu.Unlock()
					}
				}
			})
		}
		time.Sleep(5 * time.Second)
		// What was let in before the engines were seen to be full has to leave them.
		// How long that takes depends on what came first of all that happens at the
		// same time, which is no matter of this test.
		for begin := time.Now(); admission && f.metric("llmgw_endpoint_inflight_requests") > 2*running; time.Sleep(50 * time.Millisecond) {
			if time.Since(begin) > 10*time.Second {
				t.Error("more requests stay at the engines than these run")
				break
			}
		}
		for range 40 {
			status, took := ask(ctx, "platinum")
			if status != 200 {
				t.Errorf("platinum got %d", status)
			}
			platinum = append(platinum, took)
			time.Sleep(130 * time.Millisecond)
		}
		stop()
		clients.Wait()
		slices.Sort(platinum)
	})
	return platinum, done
}

// With sixty bronze clients in front of engines that run 16 requests at a
// time, platinum is served as if the engines were idle; without admission it
// stands behind all of them.
func TestAdmissionFlood(t *testing.T) {
	idle, _ := flooded(t, 0, true)
	calm, done := flooded(t, 60, true)
	flat, doneFlat := flooded(t, 60, false)
	p99 := func(d []time.Duration) time.Duration { return d[len(d)-1-len(d)/100] }
	t.Logf("platinum p99: idle %v, admission %v with %d of bronze done, without %v with %d", p99(idle), p99(calm), done, p99(flat), doneFlat)
	if p99(calm) > p99(idle)*3/2 {
		t.Errorf("p99 of platinum is %v, idle %v", p99(calm), p99(idle))
	}
	if p99(flat) < p99(idle)*2 {
		t.Errorf("without admission p99 is %v, idle %v: that is no load", p99(flat), p99(idle))
	}
	if done == 0 {
		t.Error("bronze got nothing")
	}
}
