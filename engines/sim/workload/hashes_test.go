package workload_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/llmgw/llmgw/engines/sim"
	"github.com/llmgw/llmgw/engines/sim/workload"
)

// TestBlockHashesShareWhatTheTraceSays: as for texts.
func TestBlockHashesShareWhatTheTraceSays(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		trace := &workload.Trace{BlockTokens: rapid.IntRange(1, 40).Draw(rt, "block")}
		size := rapid.IntRange(1, 40).Draw(rt, "engine's block")
		a, b := drawRequest(rt, trace.BlockTokens, 0), drawRequest(rt, trace.BlockTokens, 1)
		x, y := trace.AppendBlockHashes(nil, &a, size), trace.AppendBlockHashes(nil, &b, size)
		if len(x) != a.PromptTokens/size || len(y) != b.PromptTokens/size {
			rt.Fatalf("%d and %d hashes", len(x), len(y))
		}
		n := 0
		for n < min(len(x), len(y)) && x[n] == y[n] {
			n++
		}
		if want := sharedTokens(&a, &b, trace.BlockTokens) / size; n != want {
			rt.Fatalf("%d hashes in common, want %d", n, want)
		}
		for i := n; i < len(x); i++ {
			if slices.Contains(y, x[i]) {
				rt.Fatalf("hash %d of one is in the other", i)
			}
		}
	})
}

func TestBlockHashesOfTexts(t *testing.T) {
	trace := open(t, aibrixFile)
	a := trace.AppendBlockHashes([]uint64{7}, &trace.Requests[0], 16)
	b := trace.AppendBlockHashes(nil, &trace.Requests[1], 16)
	if a[0] != 7 || len(a)-1 != sim.CountTokens(trace.Requests[0].Text)/16 {
		t.Errorf("%d hashes", len(a))
	}
	n := 0
	for n < min(len(a)-1, len(b)) && a[n+1] == b[n] {
		n++
	}
	if n < 50 || n == len(b) {
		t.Errorf("%d of %d blocks in common: not a beginning of some 1,024 tokens", n, len(b))
	}
}

// TestTraceDrivesACore: a part of a recorded trace on a simulated
// engine, without texts and without time.
func TestTraceDrivesACore(t *testing.T) {
	trace, err := open(t, mooncakeFile).First(100)
	if err != nil {
		t.Fatal(err)
	}
	core, err := sim.NewCore(sim.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	cached, now := 0, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range trace.Requests {
		r := &trace.Requests[i]
		s := core.Submit(now, sim.Request{
			PromptTokens: r.PromptTokens, OutputTokens: r.OutputTokens,
			Blocks: trace.AppendBlockHashes(nil, r, sim.DefaultConfig().BlockSize),
		})
		for !s.Finished() {
			_, now = core.Step(now)
		}
		cached += s.CachedTokens()
		core.Step(now)
	}
	// One after the other, in a cache of 409,600 tokens, which forgets.
	if most := int(trace.Stats().SeenTokens); cached > most || cached < most/2 {
		t.Errorf("%d tokens from the cache, of %d that one without limit would have", cached, most)
	}
}
