//go:build !race

package prefix_test

// One goroutine, so that the race detector would find nothing here, in ten times
// as long. CI runs it without.

import (
	"testing"
	"time"

	"github.com/llmgw/llmgw/engines/sim"
	"github.com/llmgw/llmgw/engines/sim/workload"
	"github.com/llmgw/llmgw/router/prefix"
)

// TestMooncake: what the index believes of the engines' caches is what they then
// say, without a tokenizer. Where their capacity is told, from the beginning; where
// it has to be learned, after half of the trace, some 20 times what a cache holds.
// Four engines are just enough for the trace. (With two, prompts wait for minutes,
// and what is there when they are sent is gone when they are computed.)
func TestMooncake(t *testing.T) {
	tr, err := workload.Open("../../examples/traces/mooncake_conversation.jsonl.gz", "")
	if err != nil {
		t.Fatal(err)
	}
	sc := sim.DefaultConfig()
	room := int64(sc.NumGPUBlocks * sc.BlockSize)
	for _, tc := range []struct {
		name    string
		engines int
		told    bool
		taken   int64
		whole   float64 // agreement over the whole trace, at least
	}{
		{"capacity told", 4, true, 1_000_000, 0.9},
		{"capacity told, engines idle", 8, true, 1_000_000, 0.98},
		{"capacity taken for larger", 4, false, 1_000_000, 0.7},
		{"capacity taken for smaller", 4, false, 100_000, 0.85},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, tc.engines, func(c *prefix.Config) { c.CapacityTokens = tc.taken })
			if tc.told {
				for _, id := range f.ids {
					f.x.SetCapacity(id, room)
				}
			}
			half := len(tr.Requests) / 2
			f.run(tr, 0, half)
			first := f.x.Agreement()
			f.run(tr, half, len(tr.Requests))
			a := f.x.Agreement()
			whole, _ := a.Ratio()
			late := float64(a.MinTokens-first.MinTokens) / float64(a.MaxTokens-first.MaxTokens)
			capacity, held := f.x.Capacity(f.ids[0])
			t.Logf("agreement %.3f, in the second half %.3f; %+v; %.3f of the prompts cached; capacity %d of %d, held %d",
				whole, late, a, float64(a.CachedTokens)/float64(f.prompts), capacity, room, held)
			if whole < tc.whole {
				t.Errorf("agreement %.3f, want at least %.2f", whole, tc.whole)
			}
			if late < 0.9 {
				t.Errorf("agreement %.3f in the second half, want at least 0.9", late)
			}
			if got := int(a.Answers); got < len(tr.Requests)*99/100 {
				t.Errorf("%d answers of %d", got, len(tr.Requests))
			}
		})
	}
}

// TestLift: with caches smaller than what is asked for, choosing by the index
// lifts hits more than twofold, and misses are those of the first round.
func TestLift(t *testing.T) {
	const documents, rounds, tokens = 60, 6, 20 << 10 // a cache holds 20 of them
	tr := &workload.Trace{BlockTokens: 512}
	for i := range documents * rounds {
		d := uint64(i%documents) * tokens
		q := workload.Request{At: time.Duration(i) * time.Second, PromptTokens: tokens, OutputTokens: 20, Seq: uint64(i) + 1}
		for j := range uint64(tokens/512 - 1) { // the last is the request's own
			q.Blocks = append(q.Blocks, d+j+1)
		}
		tr.Requests = append(tr.Requests, q)
	}
	if err := tr.Validate(); err != nil {
		t.Fatal(err)
	}
	ratio := func(blind bool) (first, rest float64) {
		f := newFleet(t, 4, nil)
		f.blind = blind
		f.run(tr, 0, documents)
		a := f.x.Agreement()
		f.run(tr, documents, len(tr.Requests))
		b := f.x.Agreement()
		return float64(a.CachedTokens) / (documents * tokens), float64(b.CachedTokens-a.CachedTokens) / (documents * (rounds - 1) * tokens)
	}
	_, blind := ratio(true)
	first, affine := ratio(false)
	t.Logf("cached: %.3f without the index; with it %.3f in the first round, %.3f after", blind, first, affine)
	if affine < 2*blind || affine < 0.9 {
		t.Errorf("%.3f of the prompts cached, %.3f without the index; want 0.9 and twice as much", affine, blind)
	}
	if first > 0.01 {
		t.Errorf("%.3f of the first round cached, want nothing", first)
	}
}
