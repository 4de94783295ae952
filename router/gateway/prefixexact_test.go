package gateway_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/llmgw/llmgw/engines/kvevents"
	"github.com/llmgw/llmgw/engines/sim"
	"github.com/llmgw/llmgw/router/endpoint"
	"github.com/llmgw/llmgw/router/gateway"
)

// telling is a simulated engine that tells what its cache holds.
type telling struct {
	*sim.Engine
	url       string
	events    string
	replay    string
	silence   func()       // ends its events
	tokenized atomic.Int64 // questions for tokens
	wrap      atomic.Pointer[http.HandlerFunc]
}

func newTelling(t testing.TB, blocks int, change func(*sim.Config)) *telling {
	t.Helper()
	cfg := sim.InstantConfig()
	cfg.Model = "m"
	cfg.KVEvents.Enabled = true
	if blocks > 0 {
		cfg.NumGPUBlocks, cfg.MaxModelLen = blocks, blocks*cfg.BlockSize
	}
	if change != nil {
		change(&cfg)
	}
	engine, err := sim.New(cfg, sim.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	events, replay := listen(t), listen(t)
	e := &telling{Engine: engine, events: "tcp://" + events.Addr().String(), replay: "tcp://" + replay.Addr().String()}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/render") || r.URL.Path == "/tokenize" {
			e.tokenized.Add(1)
			if f := e.wrap.Load(); f != nil {
				(*f)(w, r)
				return
			}
		}
		engine.ServeHTTP(w, r)
	}))
	e.url = srv.URL
	e.publish(t, engine, events, replay)
	t.Cleanup(func() {
		e.silence()
		srv.CloseClientConnections()
		srv.Close()
		_ = engine.Close()
	})
	return e
}

// publish serves an engine's events, as those of e, until silence is called.
func (e *telling) publish(t testing.TB, engine *sim.Engine, events, replay net.Listener) {
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- engine.ServeKVEvents(ctx, events, replay) }()
	e.silence = sync.OnceFunc(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}

// at is the engine as an endpoint.
func (e *telling) at(id string) gateway.Endpoint {
	x := at(id, e.url)
	x.KVEvents = endpoint.KVEvents{Endpoint: e.events, ReplayEndpoint: e.replay}
	return x
}

// source is by whose word the endpoint of the last request was picked.
func (f *fleet) source(before map[string]float64) string {
	f.t.Helper()
	for key, v := range f.series() {
		if name, ok := strings.CutPrefix(key, "llmgw_prefix_picks_total{source="); ok && v > before[key] {
			return strings.TrimSuffix(name, "}")
		}
	}
	return ""
}

// known waits until so many endpoints are followed and all of their caches is known,
// and so many in part.
func (f *fleet) known(all, part float64) {
	f.t.Helper()
	f.eventually("engines tell of their caches", func() bool {
		return f.metric("llmgw_prefix_followed_endpoints", "known=all") == all && f.metric("llmgw_prefix_followed_endpoints", "known=part") == part
	})
}

// asks sends a prompt, and returns by whose word it was sent where.
func (f *fleet) asks(i int) (source, endpoint string) {
	f.t.Helper()
	before := f.series()
	if a := f.do("POST", chatPath, prompted(i)); a.status != 200 {
		f.t.Errorf("%d %s", a.status, a.body)
	}
	return f.source(before), f.next().Endpoint
}

// Over real sockets: what an engine tells decides; where its events end, what was sent
// does, and with them again they do; an engine that was started anew has nothing.
func TestEventsOverTheWire(t *testing.T) {
	a := newTelling(t, 0, nil)
	f := newFleet(t, config(a.at("a"), at("b", deadURL(t))))
	f.run()
	f.eventually("events are followed", func() bool { return f.metric("llmgw_kvevents_connected") == 1 })
	f.asks(1)
	f.known(1, 0)
	f.eventually("its blocks are known", func() bool { return f.metric("llmgw_prefix_exact_blocks") > 40 })
	f.eventually("it is no more under way", func() bool { f.asks(2); return f.metric("llmgw_prefix_picks_total", "source=exact") > 0 })
	if n := a.tokenized.Load(); n != 2 {
		t.Errorf("asked for tokens %d times", n)
	}

	a.silence()
	f.known(0, 1)
	f.asks(1)
	if got := f.metric("llmgw_prefix_exact_blocks"); got < 40 {
		t.Errorf("%v blocks are left while it is away", got)
	}

	// Another process at the same address: what it tells begins anew.
	events, replay := listenAt(t, a.events), listenAt(t, a.replay)
	fresh, err := sim.New(tellingConfig(), sim.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = fresh.Close() })
	a.publish(t, fresh, events, replay)
	w := httptest.NewRecorder()
	fresh.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, chatPath, strings.NewReader(prompted(7))))
	if w.Code != 200 {
		t.Fatal(w.Body)
	}
	f.known(1, 0)
	if got := f.metric("llmgw_kvevents_resets_total", "reason=restart"); got != 1 {
		t.Errorf("%v restarts were noticed", got)
	}
	f.eventually("the old process's blocks are forgotten", func() bool {
		n := f.metric("llmgw_prefix_exact_blocks")
		return n > 40 && n < 60 // one prompt
	})
	if got := strings.Count(f.log.String(), "what KV events told of an engine's cache is void"); got != 1 {
		t.Errorf("said %d times:\n%s", got, f.log)
	}
	f.idle()
}

func tellingConfig() sim.Config {
	cfg := sim.InstantConfig()
	cfg.Model = "m"
	cfg.KVEvents.Enabled = true
	return cfg
}

// listenAt listens at a tcp endpoint.
func listenAt(t testing.TB, endpoint string) net.Listener {
	t.Helper()
	ln, err := kvevents.Listen(t.Context(), endpoint)
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

// A reload begins and ends the following of an endpoint's events, under load; a wrong
// address is refused.
func TestEventsUnderReload(t *testing.T) {
	a, b := newTelling(t, 330, nil), newTelling(t, 330, nil)
	with := config(a.at("a"), b.at("b"))
	half := config(at("a", a.url), b.at("b"))
	f := newFleet(t, half)
	f.run()
	var wg sync.WaitGroup
	for w := range 2 {
		wg.Go(func() {
			for i := range 20 {
				if got := f.do("POST", chatPath, prompted((w+i)%10)); got.status != 200 {
					t.Errorf("%d %s", got.status, got.body)
				}
			}
		})
	}
	for i := range 12 {
		cfg := with
		if i%2 == 1 {
			cfg = half
		}
		if err := f.gw.Reload(cfg); err != nil {
			t.Error(err)
		}
	}
	wg.Wait()
	f.eventually("one is followed", func() bool { return f.metric("llmgw_kvevents_connected") == 1 })
	if got := f.metric("llmgw_prefix_exact_endpoints"); got != 1 {
		t.Errorf("%v endpoints", got)
	}
	if err := f.gw.Reload(with); err != nil {
		t.Fatal(err)
	}
	f.known(2, 0)
	bad := config(a.at("a"))
	for path, k := range map[string]endpoint.KVEvents{
		"endpoints[0].kv_events.endpoint":           {Endpoint: "http://x"},
		"endpoints[0].kv_events.replay_endpoint":    {ReplayEndpoint: "tcp://x:1"},
		"endpoints[0].kv_events.data_parallel_size": {Endpoint: "tcp://x:1", Ranks: -1},
	} {
		bad.Endpoints[0].KVEvents = k
		if err := f.gw.Reload(bad); err == nil || !strings.Contains(err.Error(), path+": ") {
			t.Errorf("%s: %v", path, err)
		}
	}
	f.known(2, 0)
	f.idle()
}

// The key and the upstream name go to the engine that is asked for tokens; one that
// has no render is asked by /tokenize, one that has neither is left alone.
func TestTokensOverTheWire(t *testing.T) {
	a := newTelling(t, 0, func(cfg *sim.Config) { cfg.Model = "upstream"; cfg.APIKey = "secret" })
	cfg := config(a.at("a"))
	cfg.Endpoints[0].Models = []endpoint.Model{{Name: "m", Upstream: "upstream"}}
	t.Setenv("A_KEY", "secret")
	cfg.Endpoints[0].KeyEnv = "A_KEY"
	f := newFleet(t, cfg)
	f.run()
	f.eventually("events are followed", func() bool { return f.metric("llmgw_kvevents_connected") == 1 })
	outcome := func(o string) float64 { return f.metric("llmgw_prefix_tokens_total", "outcome="+o) }
	come := func(i int, want string) {
		t.Helper()
		before := outcome(want)
		f.eventually(want, func() bool { f.asks(i); return outcome(want) > before })
	}
	come(1, "known")
	var paths sync.Map
	old := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		paths.Store(r.URL.Path, true)
		if strings.HasSuffix(r.URL.Path, "/render") {
			http.NotFound(w, r)
			return
		}
		a.ServeHTTP(w, r)
	})
	a.wrap.Store(&old)
	come(2, "known")
	if _, ok := paths.Load("/tokenize"); !ok || outcome("failed") != 0 || outcome("wrong") != 0 {
		t.Errorf("failed %v, wrong %v", outcome("failed"), outcome("wrong"))
	}
	none := http.HandlerFunc(http.NotFound)
	a.wrap.Store(&none)
	f.asks(3)
	f.eventually("it was asked in vain", func() bool { return outcome("failed") == 1 })
	n := a.tokenized.Load()
	f.asks(4)
	if outcome("absent") == 0 || a.tokenized.Load() != n {
		t.Errorf("asked %d times more", a.tokenized.Load()-n)
	}
	if f.do("POST", "/v1/messages", `{"model":"m","max_tokens":4,"messages":[{"role":"user","content":"`+strings.Repeat("word ", 90)+`"}]}`); outcome("unsupported") != 1 {
		t.Error("Messages are tokenized")
	}
	f.idle()
}
