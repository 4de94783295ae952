package gateway

import (
	"testing"
	"time"

	"github.com/llmgw/llmgw/placement/catalog"
	"github.com/llmgw/llmgw/router"
	"github.com/llmgw/llmgw/router/endpoint"
)

// awake is a gateway that is followed, with an endpoint of the model m.
func awake(tb testing.TB) *Gateway {
	tb.Helper()
	cfg := DefaultConfig()
	cfg.Models = []catalog.Model{{Name: "m"}}
	cfg.Endpoints = []Endpoint{{Spec: endpoint.Spec{ID: "e", URL: "http://10.0.0.1:8000", Models: []endpoint.Model{{Name: "m"}}}}}
	g, err := New(cfg, Deps{})
	if err != nil {
		tb.Fatal(err)
	}
	g.wakes.following.Store(true)
	return g
}

// A request for a model that is served allocates nothing for that others are not.
func TestWakeAllocs(t *testing.T) {
	g := awake(t)
	w := &router.Wake{Model: "m", Arrived: time.Now()}
	if n := testing.AllocsPerRun(100, func() {
		w.Arrived = w.Arrived.Add(askedStep)
		if err := g.wakes.Wake(t.Context(), w); err != nil {
			t.Error(err)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
	if asked := time.Duration((*g.wakes.at.Load())["m"].asked.Load()); asked < 100*askedStep {
		t.Errorf("it was asked for after %v", asked)
	}
}

// What it costs a request for a model that is served, on all processors at once.
func BenchmarkWake(b *testing.B) {
	b.Run("served", func(b *testing.B) {
		g := awake(b)
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			w := &router.Wake{Model: "m", Arrived: time.Now()}
			for pb.Next() {
				if err := g.wakes.Wake(b.Context(), w); err != nil {
					b.Error(err)
				}
			}
		})
	})
}
