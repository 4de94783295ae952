package reconcile_test

import (
	"fmt"
	"testing"

	"github.com/llmgw/llmgw/engines"
)

// uneven is a shape of which rank 0 takes three cards and rank 1 one.
func uneven(engines.Profile) (engines.Shape, error) {
	http := []engines.PortNeed{{Name: engines.PortHTTP, Count: 1}}
	return engines.Shape{Ranks: []engines.RankShape{{Cards: 3, ServesHTTP: true, Ports: http}, {Cards: 1, Ports: http}}}, nil
}

// What an adapter says of its ranks is what is placed, whatever the profile's own
// numbers would come to.
func TestShapeIsTheAdapters(t *testing.T) {
	w := newWorld(t, 1)
	w.shape = uneven
	w.nodes("a", 2, 4)
	w.setModels(simModel("m", 1, 2, 4))
	w.startPlane()
	w.until(60, "it serves", func() bool { return w.serves("m") == 1 })
	r := w.core.View().Replicas[0]
	if a, b := len(r.Shards[0].Cards), len(r.Shards[1].Cards); len(r.Shards) != 2 || a != 3 || b != 1 {
		t.Errorf("placed on %d and %d cards; want 3 and 1", a, b)
	}
}

// An adapter that does not answer keeps its model from being placed, takes nothing
// down that runs, and is asked again; what it refuses it is not asked again.
func TestShapeIsAskedAgain(t *testing.T) {
	w := newWorld(t, 1)
	asked, answer := 0, error(nil)
	w.shape = func(p engines.Profile) (engines.Shape, error) {
		if asked++; answer != nil {
			return engines.Shape{}, answer
		}
		return uneven(p)
	}
	w.nodes("a", 4, 4)
	w.setModels(simModel("m", 1, 2, 4))
	w.startPlane()
	w.until(60, "it serves", func() bool { return w.serves("m") == 1 })
	first := w.core.View().Replicas[0].ID
	answer = fmt.Errorf("%w: it is away", engines.ErrUnavailable)
	w.setModels(simModel("m", 2, 2, 4))
	w.forSeconds(60)
	if m := w.core.View().Models[0]; m.Problem == "" || m.Wanted != 2 || w.serves("m") != 1 || w.core.View().Replicas[0].ID != first {
		t.Fatalf("%q\n%s", m.Problem, w.describe())
	}
	if asked < 5 || asked > 10 {
		t.Errorf("it was asked %d times in a minute", asked)
	}
	answer = nil
	w.until(40, "two serve", func() bool { return w.serves("m") == 2 })
	answer, asked = &engines.ProfileError{}, 0
	w.setModels(simModel("m", 3, 2, 4))
	w.forSeconds(60)
	if asked != 1 || w.serves("m") != 2 {
		t.Errorf("asked %d times about what it refuses, and %d serve", asked, w.serves("m"))
	}
}
