package reconcile_test

import (
	"testing"
	"time"
)

// Nodes of two fabrics come within some seconds, first one of each: what is small must
// not break the whole nodes that the gang needs, which it does where it is placed as
// soon as there is a node.
func TestNodesThatComeTogether(t *testing.T) {
	for _, tt := range []struct {
		name   string
		settle time.Duration
		serves int
	}{{"waited for", 2 * time.Second, 1}, {"not waited for", 0, 0}} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, 1)
			w.cfg.Settle = tt.settle
			w.nodes("a", 2, 8)
			w.nodes("", 1, 8)
			w.setModels(simModel("big", 1, 2, 16), simModel("small", 1, 1, 1))
			for _, m := range w.machines {
				m.agent = false
			}
			w.startPlane()
			w.forSeconds(30)
			for _, m := range w.machines {
				m.agent = true
				w.forSeconds(1)
			}
			w.forSeconds(60)
			if n := w.serves("big"); n != tt.serves || w.serves("small") != 1 {
				t.Errorf("%d of big serve; want %d\n%s", n, tt.serves, w.describe())
			}
		})
	}
}

// While nodes come all the time nothing waits for ever.
func TestNodesThatNeverCease(t *testing.T) {
	w := newWorld(t, 1)
	w.cfg.Settle = 2 * time.Second
	w.nodes("", 40, 8)
	w.setModels(simModel("m", 1, 1, 8))
	for _, m := range w.machines {
		m.agent = false
	}
	w.startPlane()
	for i, m := range w.machines {
		m.agent = true
		w.pass()
		if placed := len(w.core.View().Replicas) > 0; placed != (i >= 10) {
			t.Fatalf("%d s after the first node came, placed: %t", i, placed)
		}
	}
}
