//go:build !race

package gateway_test

// Thousands of requests, which the race detector would see nothing new in. CI runs it
// without.

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmgw/llmgw/engines/sim"
	"github.com/llmgw/llmgw/engines/sim/simtest"
	"github.com/llmgw/llmgw/router"
	"github.com/llmgw/llmgw/router/endpoint"
	"github.com/llmgw/llmgw/router/gateway"
)

// caches is how the engines of a fleet are, and what is known of their caches.
type caches struct {
	engines, blocks int
	scatter         bool // without affinity
	told            bool // engines tell of their caches
}

// share sends prompts, each drawn by a popularity that falls as its number grows, to
// engines with so many blocks each, and returns which share of their tokens was found
// in a cache, and the fleet to read its metrics. The first quarter fills the caches and
// does not count. Time is virtual, and before the next request is sent all that engines
// had to tell of the one before has been heard: how fast the machine is does not matter.
func share(t *testing.T, s caches, prompts, requests int) (float64, *fleet) {
	t.Helper()
	f := &fleet{t: t, reg: prometheus.NewRegistry()}
	var tokens, cached int64
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		var servers sync.WaitGroup
		defer servers.Wait()
		defer end()
		var network simtest.Network
		cfg := gateway.DefaultConfig()
		cfg.Prefix.Enabled = !s.scatter
		for i := range s.engines {
			ec := sim.InstantConfig()
			ec.Model, ec.NumGPUBlocks, ec.MaxModelLen, ec.KVEvents.Enabled = "m", s.blocks, s.blocks*ec.BlockSize, s.told
			engine, err := sim.New(ec, sim.Deps{})
			if err != nil {
				t.Fatal(err)
			}
			host := fmt.Sprint("e", i)
			at := at(host, "http://"+host)
			api, events, replay := inMemory(t, &network, host+":80"), inMemory(t, &network, host+":5557"), inMemory(t, &network, host+":5558")
			srv := engine.Server()
			servers.Go(func() { _ = srv.Serve(engine.Listener(api)) })
			context.AfterFunc(ctx, func() { _, _ = srv.Close(), engine.Close() })
			if s.told {
				at.KVEvents = endpoint.KVEvents{Endpoint: "tcp://" + host + ":5557", ReplayEndpoint: "tcp://" + host + ":5558"}
				servers.Go(func() { _ = engine.ServeKVEvents(ctx, events, replay) })
			}
			cfg.Endpoints = append(cfg.Endpoints, at)
		}
		var last router.Outcome
		gw, err := gateway.New(cfg, gateway.Deps{
			Dial: network.Dial, Registerer: f.reg, Recorder: recorderFunc(func(o *router.Outcome) { last = *o }),
		})
		if err != nil {
			t.Fatal(err)
		}
		servers.Go(func() { _ = gw.Run(ctx) })
		time.Sleep(time.Second) // loads are read, events followed
		rng := rand.New(rand.NewPCG(1, 2))
		zipf := rand.NewZipf(rng, 1.2, 20, uint64(prompts-1))
		for i := range requests {
			w := httptest.NewRecorder()
			gw.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "POST", chatPath, strings.NewReader(prompted(int(zipf.Uint64())))))
			if w.Code != 200 {
				t.Fatalf("%d %s", w.Code, w.Body)
			}
			synctest.Wait()
			n, _ := last.Usage.PromptTokens.Get()
			c, _ := last.Usage.CachedTokens.Get()
			if i >= requests/4 {
				tokens, cached = tokens+n, cached+c
			}
			time.Sleep(20 * time.Millisecond)
		}
	})
	return float64(cached) / float64(tokens), f
}

func inMemory(t *testing.T, network *simtest.Network, address string) net.Listener {
	t.Helper()
	ln, err := network.Listen(address)
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

// With caches too small for all prompts: what was sent is remembered and finds four
// times as much in caches as scattering does; what engines tell finds nearly as much as
// one engine would that had all of their memory.
func TestPreciseShare(t *testing.T) {
	const engines, blocks, prompts, requests = 8, 220, 80, 800
	scatter, _ := share(t, caches{engines: engines, blocks: blocks, scatter: true}, prompts, requests)
	ideal, _ := share(t, caches{engines: 1, blocks: engines * blocks}, prompts, requests)
	approximate, _ := share(t, caches{engines: engines, blocks: blocks}, prompts, requests)
	precise, f := share(t, caches{engines: engines, blocks: blocks, told: true}, prompts, requests)
	t.Logf("hit share: scatter %.3f, approximate %.3f, precise %.3f, one cache %.3f", scatter, approximate, precise, ideal)
	if approximate < 4*scatter {
		t.Errorf("approximate %.3f is less than four times scatter's %.3f", approximate, scatter)
	}
	if precise < 0.8*ideal {
		t.Errorf("precise %.3f is less than 80 %% of one cache's %.3f", precise, ideal)
	}
	promised, found := f.metric("llmgw_prefix_exact_predicted_tokens_total"), f.metric("llmgw_prefix_exact_cached_tokens_total")
	if agreed := f.metric("llmgw_prefix_exact_agreed_tokens_total"); promised == 0 || agreed < 0.9*max(promised, found) {
		t.Errorf("%v tokens were promised by events, %v found, %v of them both", promised, found, agreed)
	}
	if n := f.metric("llmgw_prefix_picks_total", "source=exact"); n == 0 {
		t.Error("no pick was by events")
	}
	if n := f.metric("llmgw_prefix_picks_total", "source=approximate"); n > requests/2 {
		t.Errorf("%v picks were by what was sent", n)
	}
}
