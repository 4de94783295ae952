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
