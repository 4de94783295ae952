package reconcile_test

import (
	"testing"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/placement"
	"github.com/llmgw/llmgw/placement/catalog"
	"github.com/llmgw/llmgw/placement/reconcile"
)

// needOf is what is known of a model of the world's.
func (w *world) needOf(name string, change func(*reconcile.Need)) reconcile.Need {
	w.t.Helper()
	m, known := w.cat.Resolve(name)
	if !known {
		w.t.Fatalf("no model %q", name)
	}
	profile, _ := m.RunProfile()
	n := reconcile.Need{Model: name, Command: reconcile.Fingerprint(profile)}
	change(&n)
	return n
}

func (w *world) wish(name string) placement.Wish {
	w.t.Helper()
	m, known := w.core.View().Model(name)
	if !known {
		w.t.Fatalf("no model %q", name)
	}
	return m.Wish
}

// What is known of a need counts where the entry states nothing, for the profile
// that it is known of, until something else is known.
func TestNeeds(t *testing.T) {
	w := newWorld(t, 1)
	w.nodes("a", 1, 8)
	stated := simModel("stated", 0, 1, 1)
	stated.Placement = &catalog.Placement{CardMemoryBytes: 7, HostMemoryBytes: 8}
	w.setModels(simModel("open", 0, 1, 1), stated)
	w.startPlane()
	w.forSeconds(2)
	some := func(n *reconcile.Need) {
		n.CardBytes, n.HostBytes = engines.Known[uint64](5), engines.Known[uint64](6)
		n.ByClass = map[string]placement.ClassNeed{"Small": {Never: "it is too small"}}
	}
	w.needs = []reconcile.Need{w.needOf("open", some), w.needOf("stated", some)}
	w.forSeconds(1)
	if n := w.wish("open").Need; !n.CardBytes.Is(5) || n.Ranks[0].HostBytes != 6 || n.On("Small").Never == "" {
		t.Errorf("open: %+v", n)
	}
	if n := w.wish("stated").Need; !n.CardBytes.Is(7) || n.Ranks[0].HostBytes != 8 || n.ByClass != nil {
		t.Errorf("stated: %+v; want what is stated", n)
	}
	w.forSeconds(3) // nothing new is said
	if n := w.wish("open").Need; !n.CardBytes.Is(5) {
		t.Errorf("open: %+v, a few steps later", n)
	}
	// Of another profile nothing is known.
	other := simModel("open", 0, 1, 2)
	w.setModels(other, stated)
	w.forSeconds(1)
	if n := w.wish("open").Need; n.CardBytes.Is(5) || n.Ranks[0].HostBytes != 0 {
		t.Errorf("another profile: %+v", n)
	}
	w.needs = []reconcile.Need{}
	w.forSeconds(1)
	w.setModels(simModel("open", 0, 1, 1), stated)
	w.forSeconds(1)
	if n := w.wish("open").Need; n.CardBytes.Is(5) {
		t.Errorf("when nothing is known any more: %+v", n)
	}
}

// A replica that is missing waits for nodes that look for its weights, and not for
// those that do not answer; one that waits for nothing is placed at once.
func TestLookingIsWaitedFor(t *testing.T) {
	w := newWorld(t, 1)
	w.nodes("a", 2, 8)
	w.setModels(simModel("asked", 1, 1, 1), simModel("other", 1, 1, 1))
	w.needs = []reconcile.Need{w.needOf("asked", func(n *reconcile.Need) { n.Looking = true })}
	w.startPlane()
	began := w.now
	w.until(3, "other is placed", func() bool { return w.count("other") == 1 })
	if w.count("asked") != 0 {
		t.Error("it is placed while nodes look")
	}
	w.until(15, "it is placed all the same", func() bool { return w.count("asked") == 1 })
	if took := w.now.Sub(began); took < 9*time.Second {
		t.Errorf("it was placed after %v", took)
	}

	w.forSeconds(1)
	w.setModels(simModel("asked", 2, 1, 1), simModel("other", 1, 1, 1))
	w.needs = []reconcile.Need{w.needOf("asked", func(n *reconcile.Need) { n.Looking = true })}
	w.forSeconds(3)
	if w.count("asked") != 1 {
		t.Error("the second is placed while nodes look")
	}
	w.needs = []reconcile.Need{w.needOf("asked", func(*reconcile.Need) {})}
	w.until(2, "it is placed when they have answered", func() bool { return w.count("asked") == 2 })
}

// count is how many replicas there are of a model.
func (w *world) count(model string) (n int) {
	for _, r := range w.core.View().Replicas {
		if r.Model == model {
			n++
		}
	}
	return n
}
