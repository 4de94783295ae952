package gateway_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/llmgw/llmgw/engines/sim"
	"github.com/llmgw/llmgw/placement/catalog"
	"github.com/llmgw/llmgw/router"
	"github.com/llmgw/llmgw/router/gateway"
	"github.com/llmgw/llmgw/router/schedule"
)

// held is a simulated engine that can keep requests waiting at its door.
type held struct {
	url     string
	arrived chan struct{} // nil: nobody waits for it

	mu   sync.Mutex
	door chan struct{} // guarded by mu; nil: open
	n    int           // guarded by mu: requests that came
}

func newHeld(t *testing.T, blocks int) *held {
	t.Helper()
	cfg := sim.InstantConfig()
	cfg.Model = "m"
	if blocks > 0 {
		cfg.NumGPUBlocks, cfg.MaxModelLen = blocks, blocks*cfg.BlockSize
	}
	engine, err := sim.New(cfg, sim.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	h := &held{arrived: make(chan struct{})}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet { // not a request of a client's
			engine.ServeHTTP(w, r)
			return
		}
		h.mu.Lock()
		h.n++
		door := h.door
		h.mu.Unlock()
		if door != nil {
			h.arrived <- struct{}{}
			<-door
		}
		engine.ServeHTTP(w, r)
	}))
	h.url = srv.URL
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
		_ = engine.Close()
	})
	return h
}

// shut keeps what comes until door is closed; nil opens.
func (h *held) shut(door chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.door = door
}

func (h *held) requests() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.n
}

// prompted is the body of a request whose prompt is told apart by i, some 800
// tokens long. Every other is streamed.
func prompted(i int) string {
	return fmt.Sprintf(`{"model":"m","stream":%t,"messages":[{"role":"user","content":"%d: %s"}],"max_tokens":4}`, i%2 == 1, i,
		strings.Repeat(fmt.Sprintf("this is part of conversation %d. ", i), 100))
}

// rounds sends prompts to three engines, each of whose caches has room for a little
// more than its third of them, for several rounds, and returns how many prompt
// tokens there were, how many of them were cached, and how many requests found
// nothing. The first round comes three at a time, so that each engine gets a third.
func rounds(t *testing.T, enabled bool) (tokens, cached int64, misses int) {
	t.Helper()
	const prompts, often, blocks = 12, 16, 240
	var engines []*held
	cfg := config()
	cfg.Prefix.Enabled = enabled
	for i := range 3 {
		e := newHeld(t, blocks)
		engines = append(engines, e)
		cfg.Endpoints = append(cfg.Endpoints, at(fmt.Sprint("e", i), e.url))
	}
	f := newFleet(t, cfg)
	for i := 0; i < prompts; i += 3 {
		door, ended := make(chan struct{}), make(chan answer)
		for _, e := range engines {
			e.shut(door)
		}
		for j := range 3 {
			go func() { ended <- f.do("POST", chatPath, prompted(i+j)) }()
			select {
			case <-engines[0].arrived:
			case <-engines[1].arrived:
			case <-engines[2].arrived:
			}
		}
		close(door)
		for range 3 {
			if a := <-ended; a.status != 200 {
				t.Fatalf("%d %s", a.status, a.body)
			}
		}
	}
	for _, e := range engines {
		e.shut(nil)
		if n := e.requests(); n != prompts/3 {
			t.Fatalf("an engine got %d of the first round", n)
		}
	}
	for range often - 1 {
		for i := range prompts {
			if a := f.do("POST", chatPath, prompted(i)); a.status != 200 {
				t.Fatalf("%d %s", a.status, a.body)
			}
		}
	}
	for range prompts * often {
		u := f.next().Usage
		n, _ := u.PromptTokens.Get()
		c, known := u.CachedTokens.Get()
		if !known {
			t.Fatal("an engine does not say what was cached")
		}
		if c == 0 {
			misses++
		}
		if blocks*16 > 5*int(n) || blocks*16 < prompts/3*int(n) {
			t.Fatalf("a prompt has %d tokens, which makes this test another one", n)
		}
		tokens, cached = tokens+n, cached+c
	}
	if enabled {
		if got := f.metric("llmgw_prefix_lookups_total"); got != prompts*often {
			t.Errorf("%v lookups", got)
		}
		if got := f.metric("llmgw_prefix_hits_total"); got != prompts*(often-1) {
			t.Errorf("%v hits", got)
		}
		if got := f.metric("llmgw_prefix_cached_tokens_total"); got != float64(cached) {
			t.Errorf("%v cached tokens are counted, of %d", got, cached)
		}
		if got := f.metric("llmgw_prefix_predicted_tokens_total"); got < 0.9*float64(cached) || got > 1.1*float64(cached) {
			t.Errorf("%v cached tokens were predicted, of %d", got, cached)
		}
	}
	f.idle()
	return tokens, cached, misses
}

// Where no engine's cache has room for all prompts, those that begin alike find
// what was computed of them, and miss it the first time only.
func TestPrefixesLiftHits(t *testing.T) {
	tokens, cached, misses := rounds(t, true)
	without, cachedWithout, missesWithout := rounds(t, false)
	with, other := float64(cached)/float64(tokens), float64(cachedWithout)/float64(without)
	t.Logf("hits %.1f %% with, %.1f %% without; misses %d with, %d without", 100*with, 100*other, misses, missesWithout)
	if with <= 2*other {
		t.Errorf("hits %.3f with, %.3f without; want more than twice as many", with, other)
	}
	if misses != 12 {
		t.Errorf("%d misses, want those of the first round", misses)
	}
}

// The record of a decision shows who holds what.
func TestDecisionsShowPrefixes(t *testing.T) {
	cfg := config(at("a", newHeld(t, 0).url), at("b", newHeld(t, 0).url))
	cfg.Models = []catalog.Model{{Name: "m", RoutingProfile: schedule.Debug}}
	f := newFleet(t, cfg)
	f.do("POST", chatPath, prompted(1))
	if got := f.log.String(); strings.Contains(got, `"prefix_bytes"`) {
		t.Errorf("somebody holds it before the first request:\n%s", got)
	}
	f.do("POST", chatPath, prompted(1))
	if got := f.log.String(); !strings.Contains(got, `"prefix_bytes"`) || !strings.Contains(got, `"scorer":"prefix"`) {
		t.Errorf("nobody holds it after the first request:\n%s", got)
	}
}

// Who holds the prompt gets it until it is much busier than another.
func TestPrefixYieldsToLoad(t *testing.T) {
	engines := map[string]*held{"a": newHeld(t, 0), "b": newHeld(t, 0)}
	cfg := config(at("a", engines["a"].url), at("b", engines["b"].url))
	cfg.Scoring.PrefixMaxGap, cfg.Scoring.PrefixMaxRatio = 2, 1
	cfg.Scoring.PrefixWeight = 100 // else the load votes against it before
	f := newFleet(t, cfg)
	f.do("POST", chatPath, prompted(1))
	home := f.next().Endpoint
	door, ended := make(chan struct{}), make(chan answer)
	for _, e := range engines {
		e.shut(door)
	}
	const n = 8
	var to []string
	for range n {
		go func() { ended <- f.do("POST", chatPath, prompted(1)) }()
		select {
		case <-engines["a"].arrived:
			to = append(to, "a")
		case <-engines["b"].arrived:
			to = append(to, "b")
		}
	}
	close(door)
	for range n {
		if a := <-ended; a.status != 200 {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
	for i, e := range to {
		if i < 3 && e != home {
			t.Errorf("request %d went to %s though %s holds the prompt and is idle: %v", i, e, home, to)
		}
		if i == 3 && e == home {
			t.Errorf("request %d went to %s though it is busier by 3: %v", i, e, to)
		}
	}
	if got := f.metric("llmgw_schedule_prefix_decisions_total", "result=yielded"); got < 1 {
		t.Error("no decision says that it yielded")
	}
	f.idle()
}

// An endpoint that fails is not followed for what it held.
func TestPrefixDoesNotFollowIntoFailure(t *testing.T) {
	engines := map[string]*simEngine{"a": newSim(t, nil), "b": newSim(t, nil)}
	f := newFleet(t, config(at("a", engines["a"].url), at("b", engines["b"].url)))
	for range 3 {
		f.do("POST", chatPath, prompted(1))
	}
	home := f.next().Endpoint
	for range 2 {
		if got := f.next().Endpoint; got != home {
			t.Fatalf("%s holds the prompt, %s gets it", home, got)
		}
	}
	engines[home].faults(t, "close_headers=true")
	for i, want := range []int{2, 1, 1} {
		if a := f.do("POST", chatPath, prompted(1)); a.status != 200 {
			t.Errorf("%d %s", a.status, a.body)
		}
		if o := f.next(); o.Endpoint == home || o.Attempts != want {
			t.Errorf("request %d: %s after %d attempts, want the other after %d", i, o.Endpoint, o.Attempts, want)
		}
	}
	// Each was sent once where it was answered, and what failed is taken back.
	if got := f.metric("llmgw_prefix_sends_total"); got != 3+4 {
		t.Errorf("%v sends", got)
	}
	f.idle()
}

// What is not a prompt that an engine continues, or not all of it, is not looked up.
func TestWhatIsNotLookedUp(t *testing.T) {
	f := newFleet(t, config(at("a", newHeld(t, 0).url)))
	long := strings.Repeat("word ", 200)
	f.do("POST", "/v1/embeddings", `{"model":"m","input":"`+long+`"}`)
	f.do("POST", "/v1/messages/count_tokens", `{"model":"m","messages":[{"role":"user","content":"`+long+`"}]}`)
	f.do("POST", "/v1/responses", `{"model":"m","previous_response_id":"resp_1","input":"`+long+`"}`)
	if got := f.metric("llmgw_prefix_lookups_total"); got != 0 {
		t.Errorf("%v lookups", got)
	}
	for i, path := range []string{chatPath, "/v1/completions", "/v1/responses", "/v1/messages"} {
		body := `{"model":"m","messages":[{"role":"user","content":"` + long + `"}],"max_tokens":4}`
		switch path {
		case "/v1/completions":
			body = `{"model":"m","prompt":"` + long + `","max_tokens":4}`
		case "/v1/responses":
			body = `{"model":"m","input":"` + long + `"}`
		}
		if a := f.do("POST", path, body); a.status != 200 {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
		if got := f.metric("llmgw_prefix_lookups_total"); got != float64(i+1) {
			t.Errorf("%s: %v lookups", path, got)
		}
	}
	f.idle()
}

// What an engine has computed is remembered, whatever became of the answer; what it
// has not is not.
func TestWhatIsRemembered(t *testing.T) {
	tests := []struct {
		name   string
		answer func(*exchange)
		leaves bool // the client, once the engine has the request
		want   bool
	}{
		{"a whole answer", good, false, true},
		{"a stream cut after content", func(x *exchange) { x.write(eventHead() + chunk(delta("h"))); _ = x.Close() }, false, true},
		{"a stream that ends in an error", func(x *exchange) {
			x.write(eventHead() + chunk(delta("h")) + chunk(errorEvent(500)) + lastChunk)
		}, false, true},
		{"a stream cut before content", func(x *exchange) { x.write(eventHead()); _ = x.Close() }, false, false},
		{"an error event", func(x *exchange) { x.write(eventHead() + chunk(errorEvent(500)) + lastChunk) }, false, false},
		{"no answer", func(x *exchange) { _ = x.Close() }, false, false},
		{"the request is refused", func(x *exchange) { x.write(document(400, `{"error":{"message":"no"}}`)) }, false, false},
		{"the engine is full", func(x *exchange) { x.write(document(429, `{}`)) }, false, false},
		{"the engine fails", func(x *exchange) { x.write(document(500, `{}`)) }, false, false},
		{"the client leaves before an answer", func(x *exchange) { x.untilLeft() }, true, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var later atomic.Bool
			arrived := make(chan struct{}, 1)
			e := newRaw(t, func(x *exchange) {
				if later.Load() {
					good(x)
					return
				}
				select { // nobody may wait for it
				case arrived <- struct{}{}:
				default:
				}
				tt.answer(x)
			})
			cfg := config(at("e", e.url))
			cfg.Router.Core.Retries = 0
			f := newFleet(t, cfg)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if tt.leaves {
				go func() {
					<-arrived
					cancel()
				}()
			}
			f.doContext(ctx, "POST", chatPath, prompted(1))
			f.next()
			if got := f.metric("llmgw_prefix_sends_total"); got != 1 {
				t.Fatalf("%v prompts were sent", got)
			}
			later.Store(true)
			f.do("POST", chatPath, prompted(1))
			if got := f.metric("llmgw_prefix_lookups_total"); got != 2 {
				t.Errorf("%v lookups", got)
			}
			if got := f.metric("llmgw_prefix_hits_total") > 0; got != tt.want {
				t.Errorf("held afterwards: %t, want %t", got, tt.want)
			}
		})
	}
}

// Switched off there is nothing of it.
func TestPrefixesSwitchedOff(t *testing.T) {
	cfg := config(at("a", newHeld(t, 0).url))
	cfg.Prefix.Enabled = false
	f := newFleet(t, cfg)
	f.run()
	if a := f.do("POST", chatPath, prompted(1)); a.status != 200 {
		t.Errorf("%d %s", a.status, a.body)
	}
	for _, name := range f.families() {
		if strings.HasPrefix(name, "llmgw_prefix_") {
			t.Error(name)
		}
	}
}

// Requests, reloads and cancelled clients at once leave nothing behind.
func TestPrefixesUnderReload(t *testing.T) {
	var cfg [2]gateway.Config
	a, b, c := newHeld(t, 330), newHeld(t, 330), newHeld(t, 330)
	cfg[0] = config(at("a", a.url), at("b", b.url))
	cfg[1] = config(first(at("a", a.url)), at("c", c.url))
	f := newFleet(t, cfg[0])
	f.run()
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 30 {
				if got := f.do("POST", chatPath, prompted((w+i)%10)); got.status != 200 {
					t.Errorf("%d %s", got.status, got.body)
				}
			}
		})
	}
	for i := range 20 {
		if err := f.gw.Reload(cfg[(i+1)%2]); err != nil {
			t.Error(err)
		}
	}
	wg.Wait()
	f.idle()
	if got := f.metric("llmgw_prefix_endpoints"); got != 2 {
		t.Errorf("%v endpoints", got)
	}
	for range 120 {
		if o := f.next(); o.Result != router.ResultOK {
			t.Errorf("%s", o.Result)
		}
	}
}

// discarding is a client that takes everything.
type discarding struct{ header http.Header }

func (d *discarding) Header() http.Header         { return d.header }
func (d *discarding) WriteHeader(int)             {}
func (d *discarding) Write(p []byte) (int, error) { return len(p), nil }

// What a whole call costs with and without, its engine on the loopback interface
// included.
func BenchmarkCall(b *testing.B) {
	for _, size := range []int{1 << 10, 32 << 10} {
		for _, enabled := range []bool{false, true} {
			b.Run(fmt.Sprintf("bytes=%d/prefix=%t", size, enabled), func(b *testing.B) {
				e := newRaw(b, func(x *exchange) { x.write(document(200, completion)) })
				cfg := config(at("e", e.url))
				cfg.Prefix.Enabled = enabled
				f := newFleet(b, cfg, func(d *gateway.Deps) { *d = gateway.Deps{Recorder: nil} })
				body := `{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("The quick brown fox jumps over the dog. ", size/40) + `"}],"max_tokens":8}`
				w := &discarding{header: http.Header{}}
				b.ReportAllocs()
				for b.Loop() {
					r, err := http.NewRequestWithContext(b.Context(), http.MethodPost, chatPath, strings.NewReader(body))
					if err != nil {
						b.Fatal(err)
					}
					r.Header["Content-Type"] = []string{"application/json"}
					clear(w.header)
					f.gw.ServeHTTP(w, r)
				}
			})
		}
	}
}
