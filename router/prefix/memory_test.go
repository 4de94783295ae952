//go:build !race

package prefix_test

// One goroutine, so that the race detector would find nothing here, in ten times
// as long. CI runs it without.

import (
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/llmgw/llmgw/router/prefix"
)

// TestMemoryCap: unique prompts of 20,000 tokens, as two hours of them, leave
// memory at the cap; so do 100,000 short ones that share their beginning.
func TestMemoryCap(t *testing.T) {
	const mib = 1 << 20
	for _, tc := range []struct {
		name          string
		prompts, size int
		shared        int
	}{
		{"unique prompts of 20k tokens", 2000, 80_000, 0},
		{"100,000 prompts that share", 100_000, 640, 320},
		{"prompts of one chunk", 60_000, 64, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := heap()
			x := newIndex(t, func(c *prefix.Config) { c.MaxBytes = 8 * mib; c.CapacityTokens = 1 << 30 })
			var ids []prefix.ID
			for range 50 {
				ids = append(ids, add(t, x, "m"))
			}
			rng := rand.New(rand.NewPCG(1, 2))
			text := []byte(words(rng, tc.size))
			var c prefix.Chain
			var r prefix.Result
			for i := range tc.prompts {
				for j := tc.shared; j < len(text); j += prefix.ChunkBytes {
					text[j] = byte(rng.Uint32())
					text[min(j+1, len(text)-1)] = byte(rng.Uint32())
					text[min(j+2, len(text)-1)] = byte(rng.Uint32())
				}
				c.Reset(1)
				_, _ = c.Write(text)
				id := ids[rng.IntN(len(ids))]
				s := x.Send(id, &c)
				if i%2 == 0 {
					x.Observe(s, &c, prefix.Usage{PromptTokens: int64(c.Bytes() / 4), CachedTokens: int64(s.Predicted), CachedKnown: true})
				}
				if x.Lookup(&c, &r); len(r.Matches) == 0 {
					t.Fatalf("prompt %d is not there right after it was sent", i)
				}
				if got := x.Stats().Bytes; got > 8*mib {
					t.Fatalf("%d bytes after prompt %d, want at most 8 MiB", got, i)
				}
			}
			said := x.Stats().Bytes
			took := heap() - before
			t.Logf("%d nodes, %.1f MiB said, %.1f MiB taken", x.Stats().Nodes, float64(said)/mib, float64(took)/mib)
			if said < 7*mib {
				t.Errorf("%d bytes said, want the cap to be reached", said)
			}
			if took > 9*mib {
				t.Errorf("%d bytes taken, want at most 9 MiB", took)
			}
			runtime.KeepAlive(x)
		})
	}
}
