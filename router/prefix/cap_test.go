package prefix_test

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"github.com/llmgw/llmgw/router/prefix"
)

// heap is what the process holds after a collection.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

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

func TestTooManyEndpoints(t *testing.T) {
	x := newIndex(t, func(c *prefix.Config) { c.MaxEndpoints = 2 })
	first := add(t, x, "a")
	add(t, x, "b")
	if _, err := x.Add("c"); !errors.Is(err, prefix.ErrTooManyEndpoints) {
		t.Fatalf("error %v, want ErrTooManyEndpoints", err)
	}
	x.Remove(first)
	x.Remove(first)
	add(t, x, "c")
	if _, ok := x.BytesPerToken("a"); ok {
		t.Error("a model without endpoints is still there")
	}
	if got := x.Stats().Endpoints; got != 2 {
		t.Errorf("%d endpoints, want 2", got)
	}
}

// TestConcurrent is for the race detector.
func TestConcurrent(t *testing.T) {
	x := newIndex(t, func(c *prefix.Config) { c.MaxBytes = 1 << 20; c.CapacityTokens = 20_000 })
	var ids []prefix.ID
	for range 8 {
		ids = append(ids, add(t, x, "m"))
	}
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(g), 1))
			shared := words(rand.New(rand.NewPCG(9, 9)), 3000)
			var c prefix.Chain
			var r prefix.Result
			for i := range 400 {
				c.Reset(1)
				_, _ = c.WriteString(shared[:rng.IntN(len(shared))])
				_, _ = c.WriteString(words(rng, 2000))
				x.Lookup(&c, &r)
				id := ids[rng.IntN(len(ids))]
				s := x.Send(id, &c)
				switch rng.IntN(8) {
				case 0:
					x.Clear(id)
				case 1:
					x.Failed(s, &c)
				case 2:
					x.Evicted(id, 100)
				case 3:
					x.SetCapacity(id, int64(10_000+i))
				default:
					x.Observe(s, &c, prefix.Usage{PromptTokens: 800, CachedTokens: rng.Int64N(800), CachedKnown: true})
				}
				_ = x.Agreement()
			}
		})
	}
	wg.Wait()
	for _, id := range ids {
		x.Remove(id)
	}
	if s := x.Stats(); s != (prefix.Stats{}) {
		t.Errorf("after all endpoints left: %+v", s)
	}
}
