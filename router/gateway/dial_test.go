package gateway_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgw/llmgw/engines/sim"
	"github.com/llmgw/llmgw/engines/sim/simtest"
	"github.com/llmgw/llmgw/router"
	"github.com/llmgw/llmgw/router/gateway"
	"github.com/llmgw/llmgw/router/schedule"
)

type recorderFunc func(o *router.Outcome)

func (f recorderFunc) Record(o *router.Outcome) { f(o) }

// The whole data plane under virtual time: engines that are reached through
// memory are scraped, routed to, retried and timed out as over TCP, and an idle
// timeout of a minute takes no time.
func TestDialInVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engines := map[string]*sim.Engine{}
		var network simtest.Network
		cfg := gateway.DefaultConfig()
		engineCtx, stopEngines := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for _, id := range []string{"a", "b"} {
			engineConfig := sim.DefaultConfig()
			engineConfig.Model = "m"
			engine, err := sim.New(engineConfig, sim.Deps{})
			if err != nil {
				t.Fatal(err)
			}
			ln, err := network.Listen(id + ":80")
			if err != nil {
				t.Fatal(err)
			}
			engines[id] = engine
			cfg.Endpoints = append(cfg.Endpoints, at(id, "http://"+id))
			wg.Go(func() {
				if err := engine.Serve(engineCtx, ln); err != nil {
					t.Error(err)
				}
			})
		}
		var last router.Outcome
		var decision *schedule.Explanation
		gw, err := gateway.New(cfg, gateway.Deps{
			Recorder: recorderFunc(func(o *router.Outcome) { last, decision = *o, o.Decision.Explain() }),
			Dial:     network.Dial,
		})
		if err != nil {
			t.Fatal(err)
		}
		runCtx, stopGateway := context.WithCancel(t.Context())
		wg.Go(func() {
			if err := gw.Run(runCtx); err != nil {
				t.Error(err)
			}
		})
		ask := func(id string) *httptest.ResponseRecorder {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/chat/completions",
				strings.NewReader(`{"model":"m","stream":true,"max_tokens":20,"messages":[{"role":"user","content":"Hello"}]}`))
			r.Header.Set("X-Session-Id", id)
			w := httptest.NewRecorder()
			gw.ServeHTTP(w, r)
			return w
		}

		// Both engines were scraped at the start, over the same dialer.
		time.Sleep(time.Second)
		for range 3 {
			if w := ask("s"); w.Code != http.StatusOK || !strings.HasSuffix(w.Body.String(), "data: [DONE]\n\n") {
				t.Fatalf("%d %s", w.Code, w.Body)
			}
		}
		home := last.Endpoint
		for _, c := range decision.Candidates {
			if c.Running == nil {
				t.Errorf("the load of %s is not known", c.Endpoint)
			}
		}

		// The session's engine fails: the other one answers.
		if err := engines[home].SetFaults(sim.Faults{CloseHeaders: true}); err != nil {
			t.Fatal(err)
		}
		if w := ask("s"); w.Code != http.StatusOK {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		if last.Endpoint == home || last.Attempts != 2 {
			t.Errorf("answered by %s after %d attempts; %s failed", last.Endpoint, last.Attempts, home)
		}

		// Both stop in the middle of an answer: a minute later the stream ends.
		for _, e := range engines {
			if err := e.SetFaults(sim.Faults{HangAfterEvents: 5}); err != nil {
				t.Fatal(err)
			}
		}
		begin := time.Now()
		w := ask("s")
		took := time.Since(begin)
		if idle := cfg.Router.Relay.Timeouts.Idle; took < idle || took > idle+time.Second {
			t.Errorf("given up after %v, want %v", took, idle)
		}
		if body := w.Body.String(); !strings.Contains(body, `"code":"upstream_timeout"`) {
			t.Errorf("the stream ends without an error event:\n%s", body)
		}

		stopGateway()
		stopEngines()
		wg.Wait()
	})
}
