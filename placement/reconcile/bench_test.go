package reconcile_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/llmgw/llmgw/placement/catalog"
	"github.com/llmgw/llmgw/placement/reconcile"
)

// fatal is a benchmark as a world's t.
type fatal struct{ *testing.B }

// settled is a world of nodes in fabrics of 50 and models with one replica each,
// every tenth of them over two nodes, all of which serve.
func settled(b *testing.B, nodes, models int) *world {
	w := newWorld(fatal{b}, 1)
	for i := range nodes / 50 {
		w.nodes(fmt.Sprint("f", i), 50, 8)
	}
	var entries []catalog.Model
	for i := range models {
		if i%10 == 0 {
			entries = append(entries, simModel(fmt.Sprint("m", i), 1, 2, 16))
			continue
		}
		entries = append(entries, simModel(fmt.Sprint("m", i), 1, 1, 4))
	}
	w.setModels(entries...)
	w.startPlane()
	w.until(120, "all serve", func() bool { return len(w.endpoints) == models })
	return w
}

// A pass over a fleet in which nothing has changed.
func BenchmarkQuietPass(b *testing.B) {
	w := settled(b, 2000, 200)
	b.Run("nodes=2000/models=200", func(b *testing.B) {
		for b.Loop() {
			w.now = w.now.Add(5 * time.Second)
			if d := w.core.Step(w.now, reconcile.Inputs{Leads: true}); len(d.Orders) > 0 || d.Changed {
				b.Fatalf("%+v", d)
			}
		}
	})
}

// The first pass, in which every model is placed.
func BenchmarkFirstPass(b *testing.B) {
	w := settled(b, 2000, 200)
	in := reconcile.Inputs{Leads: true, Catalog: w.cat, Rows: &[]reconcile.Row{}}
	for _, m := range w.machines {
		m.told = nil
		in.Nodes = append(in.Nodes, w.view(m))
	}
	w.cfg.Settle = 0 // all nodes are there
	b.Run("nodes=2000/models=200", func(b *testing.B) {
		for b.Loop() {
			w.startPlane()
			if d := w.core.Step(w.now, in); len(d.Orders) != 200 {
				b.Fatalf("%d orders", len(d.Orders))
			}
		}
	})
}
