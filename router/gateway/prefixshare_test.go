//go:build !race

package gateway_test

// Thousands of requests, which the race detector would see nothing new in. CI runs it
// without.

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/llmgw/llmgw/router/gateway"
)

// share sends prompts, each drawn by a popularity that falls as its number grows, to
// engines with so many blocks each, and returns which share of their tokens was found
// in a cache. The first quarter fills the caches and does not count.
func share(t *testing.T, engines, blocks, prompts, requests int, change func(*gateway.Config, int, *telling)) (float64, *fleet) {
	t.Helper()
	cfg := config()
	for i := range engines {
		e := newTelling(t, blocks, nil)
		cfg.Endpoints = append(cfg.Endpoints, at(fmt.Sprint("e", i), e.url))
		change(&cfg, i, e)
	}
	f := newFleet(t, cfg)
	f.run()
	rng := rand.New(rand.NewPCG(1, 2))
	zipf := rand.NewZipf(rng, 1.2, 20, uint64(prompts-1))
	var tokens, cached int64
	for i := range requests {
		if a := f.do("POST", chatPath, prompted(int(zipf.Uint64()))); a.status != 200 {
			t.Fatalf("%d %s", a.status, a.body)
		}
		u := f.next().Usage
		n, _ := u.PromptTokens.Get()
		c, _ := u.CachedTokens.Get()
		if i >= requests/4 {
			tokens, cached = tokens+n, cached+c
		}
	}
	f.idle()
	return float64(cached) / float64(tokens), f
}

// With caches too small for all prompts, on real sockets: what was sent is remembered
// and finds four times as much in caches as scattering does; what engines tell finds
// nearly as much as one engine would that had all of their memory. How nearly depends
// on when events and tokens come, which a busy machine delays: the bound of nine
// tenths is held to under virtual time, by TestHitShareOfOneCache of fleet/twin.
func TestPreciseShare(t *testing.T) {
	const engines, blocks, prompts, requests = 8, 220, 80, 800
	scatter, _ := share(t, engines, blocks, prompts, requests, func(cfg *gateway.Config, _ int, _ *telling) { cfg.Prefix.Enabled = false })
	ideal, _ := share(t, 1, engines*blocks, prompts, requests, func(*gateway.Config, int, *telling) {})
	approximate, _ := share(t, engines, blocks, prompts, requests, func(*gateway.Config, int, *telling) {})
	precise, f := share(t, engines, blocks, prompts, requests, func(cfg *gateway.Config, i int, e *telling) {
		cfg.Endpoints[i] = e.at(fmt.Sprint("e", i))
	})
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
