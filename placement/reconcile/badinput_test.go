package reconcile_test

import (
	"testing"
	"time"

	"github.com/llmgw/llmgw/placement/reconcile"
)

// A model is removed while streams run on its replicas: it is out of the endpoints at
// once, and nothing of it ends before its streams have, or the grace is over.
func TestRemovalUnderStreams(t *testing.T) {
	for _, tt := range []struct {
		name  string
		long  time.Duration
		grace bool
	}{{"they end", 5 * time.Minute, false}, {"they do not", time.Hour, true}} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, 1)
			w.long = tt.long
			w.nodes("a", 2, 8)
			w.nodes("b", 2, 8)
			w.setModels(simModel("big", 2, 2, 16))
			w.startPlane()
			w.until(60, "two replicas serve", func() bool { return w.serves("big") == 2 })
			w.setModels()
			w.pass()
			if len(w.endpoints) != 0 {
				t.Fatalf("%+v is published", w.endpoints)
			}
			left := tt.long
			if tt.grace {
				left = w.cfg.DrainGrace
			}
			w.forSeconds(int(left/time.Second) - 5)
			if v := w.core.View(); len(v.Replicas) != 2 || v.Replicas[0].State != reconcile.Draining || w.runs(v.Replicas[0].ID)+w.runs(v.Replicas[1].ID) != 4 {
				t.Fatalf("while streams run:\n%s", w.describe())
			}
			w.until(60, "all is gone", func() bool { return len(w.core.View().Replicas) == 0 && len(w.store) == 0 })
		})
	}
}

// The fabric of a gang is renamed while it runs, on one of its nodes and then on both:
// it serves on. A replica that is placed later is of one fabric by its newest name,
// also beside a control plane that has started anew meanwhile.
func TestFabricRenamed(t *testing.T) {
	w := newWorld(t, 1)
	w.nodes("a", 2, 16)
	w.setModels(simModel("big", 1, 2, 16))
	w.startPlane()
	w.until(60, "it serves", func() bool { return w.serves("big") == 1 })
	old, starts := w.core.View().Replicas[0], w.starts
	w.renamed = map[string]bool{old.ID: true}
	for _, step := range []func(){
		func() { w.machines[0].fabric = "z" },
		func() { w.startPlane() },
		func() { w.machines[1].fabric = "z" },
		func() { w.startPlane() },
	} {
		step()
		w.forSeconds(90)
		r := w.replica(old.ID)
		if r.State != reconcile.Ready || w.serves("big") != 1 || w.starts != starts || len(w.core.View().Replicas) != 1 {
			t.Fatalf("%d starts more\n%s", w.starts-starts, w.describe())
		}
	}
	w.setModels(simModel("big", 2, 2, 16))
	w.until(60, "two serve", func() bool { return w.serves("big") == 2 })
	for _, r := range w.core.View().Replicas {
		if want := map[bool]string{true: "a", false: "z"}[r.ID == old.ID]; r.Fabric != want {
			t.Errorf("%s is of fabric %q; want %q", r.ID, r.Fabric, want)
		}
	}
	// Renamed apart, the two nodes hold no further gang.
	w.machines[1].fabric = "y"
	w.setModels(simModel("big", 2, 2, 16), simModel("more", 1, 2, 4))
	for _, r := range w.core.View().Replicas {
		w.renamed[r.ID] = true
	}
	w.forSeconds(60)
	if v := w.core.View(); w.serves("big") != 2 || w.serves("more") != 0 || len(v.Replicas) != 2 {
		t.Errorf("across two names:\n%s", w.describe())
	}
}
