//go:build !race

package twin_test

// One goroutine each, so that the race detector would find nothing here, in ten
// times as long. CI runs it without.

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgw/llmgw/engines/sim"
	"github.com/llmgw/llmgw/fleet/twin"
)

// TestDeterministic: the same seed gives the same figures, to the last digit, and
// another seed others.
func TestDeterministic(t *testing.T) {
	tr := recorded(t, "mooncake_conversation.jsonl.gz", 300, 8)
	for _, p := range twin.Policies() {
		t.Run(string(p), func(t *testing.T) {
			t.Parallel()
			cfg := fleet(4)
			cfg.Admission.Enabled, cfg.Tenants = true, tenants()
			text := func() string {
				b, err := json.Marshal(run(t, cfg, p, tr))
				if err != nil {
					t.Fatal(err)
				}
				return string(b)
			}
			first := text()
			if diff := cmp.Diff(first, text()); diff != "" {
				t.Errorf("the second run differs:\n%s", diff)
			}
			cfg.Seed = 2
			if first == text() {
				t.Error("another seed gives the same figures")
			}
		})
	}
}

// TestOneEngine: a fleet of one gives what its engine gives when it is driven
// alone, under every policy.
func TestOneEngine(t *testing.T) {
	tr := recorded(t, "mooncake_conversation.jsonl.gz", 200, 1)
	core, err := sim.NewCore(sim.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	epoch := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var next time.Time
	ttft := map[uint64]time.Duration{}
	until := func(now time.Time) {
		for !next.IsZero() && !next.After(now) {
			var b sim.Batch
			b, next = core.Step(next)
			for _, s := range b.Finished {
				ttft[s.Owner.(uint64)] = s.TTFT()
			}
		}
	}
	for i := range tr.Requests {
		r := &tr.Requests[i]
		now := epoch.Add(r.At)
		until(now)
		core.Submit(now, sim.Request{
			PromptTokens: r.PromptTokens, OutputTokens: r.OutputTokens, Owner: r.Seq,
			Blocks: tr.AppendBlockHashes(nil, r, sim.DefaultConfig().BlockSize),
		})
		if next.IsZero() {
			_, next = core.Step(now)
		}
	}
	until(epoch.Add(24 * time.Hour))
	slowest := time.Duration(0)
	for _, v := range ttft {
		slowest = max(slowest, v)
	}
	s := core.Stats()
	want := float64(s.CachedPromptTokens) / float64(s.PromptTokens)
	for _, p := range twin.Policies() {
		r := run(t, fleet(1), p, tr)
		got, ok := r.TTFT(1)
		if !ok || got != slowest || r.Completed != len(ttft) || *r.HitShare != want {
			t.Errorf("%s: %d completed, slowest %v, hits %v; want %d, %v, %v", p, r.Completed, got, *r.HitShare, len(ttft), slowest, want)
		}
	}
}

// TestWeights: an engine of twice the weight takes twice the requests, or, by a
// policy that sees that it is done sooner, more.
func TestWeights(t *testing.T) {
	tr := recorded(t, "azure2023_conv.csv.gz", 2000, 10)
	cfg := twin.DefaultConfig()
	cfg.Groups = []twin.Group{{Name: "small", Engines: 2, Weight: 1}, {Name: "large", Engines: 2, Weight: 2, Speed: new(2.0)}}
	for p, slack := range map[twin.Policy]float64{twin.RoundRobin: 0.001, twin.Random: 0.05, twin.LeastLoaded: 0} {
		r := run(t, cfg, p, tr)
		large := float64(r.PerEngine[2].Requests+r.PerEngine[3].Requests) / float64(len(tr.Requests))
		if large < 2.0/3-slack || (large > 2.0/3+slack && slack > 0) {
			t.Errorf("%s: the large engines took %.3f of the requests", p, large)
		}
	}
}
