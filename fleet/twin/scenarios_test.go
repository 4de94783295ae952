//go:build !race

package twin_test

// One goroutine, so that the race detector would find nothing here that the other
// tests do not show, in ten times as long. CI runs it without.

import (
	"errors"
	"testing"
	"time"

	"github.com/llmgw/llmgw/engines/sim/workload"
	"github.com/llmgw/llmgw/fleet/twin"
)

// TestPoliciesOnSharedPrefixes: where groups share a prefix, policies that know it
// serve it from caches, know what those hold, and spare their users the wait.
func TestPoliciesOnSharedPrefixes(t *testing.T) {
	tr := groups(t, 60, 8192, 1200, "poisson:20")
	cfg := fleet(4)
	random := run(t, cfg, twin.Random, tr)
	least := run(t, cfg, twin.LeastLoaded, tr)
	for _, p := range []twin.Policy{twin.Prefix, twin.PrefixExact} {
		r := run(t, cfg, p, tr)
		if *r.HitShare < 0.7 || *r.HitShare < 1.5**random.HitShare {
			t.Errorf("%s: hit share %.3f, random %.3f", p, *r.HitShare, *random.HitShare)
		}
		if *r.TTFTP90 > *random.TTFTP90/2 || *r.TTFTP90 > *least.TTFTP90/2 {
			t.Errorf("%s: TTFT p90 %.0f ms, random %.0f, least-loaded %.0f", p, *r.TTFTP90, *random.TTFTP90, *least.TTFTP90)
		}
		if r.Agreement == nil || *r.Agreement < 0.9 {
			t.Errorf("%s: agreement %v", p, r.Agreement)
		}
	}
	if random.Agreement != nil {
		t.Error("random predicts caches")
	}
}

// TestHitShareOfOneCache: where caches are smaller than what is shared, all of them
// together, too, remembering what was sent finds four times as much in them as
// chance does, and knowing what they hold as much as one cache of the same size has.
func TestHitShareOfOneCache(t *testing.T) {
	tr := groups(t, 150, 8192, 1500, "poisson:8")
	cfg := fleet(8)
	cfg.Engine.NumGPUBlocks, cfg.Engine.MaxModelLen = 8000, 16384
	one := fleet(1)
	one.Engine.NumGPUBlocks, one.Engine.MaxNumSeqs, one.Engine.Speed = 8*8000, 2048, 8
	ideal := *run(t, one, twin.LeastLoaded, tr).HitShare
	random := *run(t, cfg, twin.Random, tr).HitShare
	approximate := *run(t, cfg, twin.Prefix, tr).HitShare
	exact := run(t, cfg, twin.PrefixExact, tr)
	t.Logf("hit share: random %.3f, prefix %.3f, prefix-exact %.3f, one cache %.3f", random, approximate, *exact.HitShare, ideal)
	if approximate < 4*random {
		t.Errorf("prefix %.3f is less than four times random's %.3f", approximate, random)
	}
	if *exact.HitShare < 0.9*ideal {
		t.Errorf("prefix-exact %.3f is less than 90 %% of one cache's %.3f", *exact.HitShare, ideal)
	}
	if *exact.Agreement < 0.99 {
		t.Errorf("agreement %.3f", *exact.Agreement)
	}
}

// TestLoadThatPrefixesCarry: knowing prefixes carries at least so many times the
// load of chance with 90 % of the first tokens within 3 s: chance is too slow at one
// speed-up already, and prefix fast enough at so many times that.
func TestLoadThatPrefixesCarry(t *testing.T) {
	const bound = 3 * time.Second
	for _, tt := range []struct {
		name           string
		trace          func(speedup float64) *workload.Trace
		speedup, times float64 // chance is too slow here; prefix carries so many times that
	}{
		{"Mooncake conversation", func(x float64) *workload.Trace { return recorded(t, "mooncake_conversation.jsonl.gz", 1500, x) }, 1, 1.25},
		{"150 groups of 5 users", func(x float64) *workload.Trace {
			tr, err := groups(t, 150, 8192, 1500, "poisson:8").Speedup(x)
			if err != nil {
				t.Fatal(err)
			}
			return tr
		}, 3, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			chance, _ := run(t, fleet(8), twin.Random, tt.trace(tt.speedup)).TTFT(0.9)
			prefix, _ := run(t, fleet(8), twin.Prefix, tt.trace(tt.speedup*tt.times)).TTFT(0.9)
			t.Logf("TTFT p90: random %v at %v times the pace, prefix %v at %v", chance, tt.speedup, prefix, tt.speedup*tt.times)
			if chance <= bound || prefix > bound {
				t.Errorf("want more than %v of random, and at most that of prefix", bound)
			}
		})
	}
}

// TestLoadOnUnsharedPrompts: where nothing is shared, knowing prefixes costs
// nothing beside least-loaded, and looking at load beats not to.
func TestLoadOnUnsharedPrompts(t *testing.T) {
	tr := recorded(t, "azure2023_conv.csv.gz", 5000, 8)
	random, least, prefix := run(t, fleet(4), twin.Random, tr), run(t, fleet(4), twin.LeastLoaded, tr), run(t, fleet(4), twin.Prefix, tr)
	if *prefix.TTFTP90 > 1.02**least.TTFTP90 {
		t.Errorf("TTFT p90: prefix %.1f ms, least-loaded %.1f", *prefix.TTFTP90, *least.TTFTP90)
	}
	if *least.TTFTP90 > *random.TTFTP90 {
		t.Errorf("TTFT p90: least-loaded %.1f ms, random %.1f", *least.TTFTP90, *random.TTFTP90)
	}
	// Taking turns spaces prefills evenly, which load does not see, so that most first
	// tokens come sooner. Whole answers do not.
	turns := run(t, fleet(4), twin.RoundRobin, tr)
	if *least.E2EP90 > *turns.E2EP90 || *least.TPOTP90 > *turns.TPOTP90 {
		t.Errorf("least-loaded: E2E p90 %.1f ms, TPOT p90 %.1f; round-robin %.1f, %.1f",
			*least.E2EP90, *least.TPOTP90, *turns.E2EP90, *turns.TPOTP90)
	}
}

// TestBandsUnderFlood: with admission on, a flood of bronze leaves platinum its
// first tokens; without, all suffer alike.
func TestBandsUnderFlood(t *testing.T) {
	tr := recorded(t, "azure2023_conv.csv.gz", 3000, 60)
	cfg := fleet(2)
	cfg.Tenants = []twin.Tenant{{"vip", "platinum", 1}, {"crowd", "bronze", 9}}
	p90 := func(r *twin.Report, i int) float64 { return *r.Bands[i].TTFTP90 }
	without := run(t, cfg, twin.LeastLoaded, tr)
	cfg.Admission.Enabled, cfg.Admission.QueueTTL, cfg.Admission.QueueCapacityPerBand = true, 10*time.Minute, 10_000
	with := run(t, cfg, twin.LeastLoaded, tr)
	if with.Completed != len(tr.Requests) {
		t.Errorf("%d of %d completed", with.Completed, len(tr.Requests))
	}
	if p90(with, 0) > p90(without, 0)/2 || p90(with, 0) > p90(with, 1)/2 {
		t.Errorf("TTFT p90 of platinum %.0f ms beside bronze's %.0f; without admission %.0f and %.0f",
			p90(with, 0), p90(with, 1), p90(without, 0), p90(without, 1))
	}
}

// TestMaxSpeedup: the bound is kept at the result and broken a little above it.
func TestMaxSpeedup(t *testing.T) {
	tr := recorded(t, "azure2023_conv.csv.gz", 400, 1)
	const bound = 300 * time.Millisecond
	x, r, err := twin.MaxSpeedup(t.Context(), fleet(1), twin.LeastLoaded, tr, bound)
	if err != nil {
		t.Fatal(err)
	}
	if v, _ := r.TTFT(0.9); v > bound || r.Speedup != x || x < 1 {
		t.Errorf("at %v (said %v) the TTFT is %v", x, r.Speedup, v)
	}
	faster, err := tr.Speedup(x * 1.1)
	if err != nil {
		t.Fatal(err)
	}
	if v, _ := run(t, fleet(1), twin.LeastLoaded, faster).TTFT(0.9); v <= bound {
		t.Errorf("at %v times as much the TTFT is %v still", x*1.1, v)
	}
	if _, _, err := twin.MaxSpeedup(t.Context(), fleet(1), twin.Random, tr, time.Nanosecond); !errors.Is(err, twin.ErrNoSpeedup) {
		t.Errorf("a bound that nothing keeps: %v", err)
	}
}
