package gateway_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

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
	stop := e.publish(t, events, replay)
	t.Cleanup(func() {
		stop()
		srv.CloseClientConnections()
		srv.Close()
		_ = engine.Close()
	})
	return e
}

// publish serves the engine's events until stop is called.
func (e *telling) publish(t testing.TB, events, replay net.Listener) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- e.ServeKVEvents(ctx, events, replay) }()
	return func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}
}

// at is the engine as an endpoint.
func (e *telling) at(id string) gateway.Endpoint {
	x := at(id, e.url)
	x.KVEvents = endpoint.KVEvents{Endpoint: e.events, ReplayEndpoint: e.replay}
	return x
}
