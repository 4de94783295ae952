package control_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"

	"github.com/llmgw/llmgw/fleet/control"
	"github.com/llmgw/llmgw/fleet/fleetpb"
)

func (a *agent) found(list ...*fleetpb.WeightsFound) {
	a.t.Helper()
	a.send(&fleetpb.ConnectRequest{Message: &fleetpb.ConnectRequest_Weights{Weights: &fleetpb.Weights{Found: list}}})
}

// asked are the keys of each list that the agent was sent.
func (a *agent) asked() (out []string) {
	for _, m := range a.received() {
		if m.GetLook() == nil {
			continue
		}
		var keys []string
		for _, w := range m.GetLook().GetWanted() {
			keys = append(keys, w.GetKey())
		}
		out = append(out, strings.Join(keys, " "))
	}
	return out
}

// Agents that look for weights are asked when they come and when there is another
// list, and no others; what they find is kept over their streams, as far as it is
// asked for.
func TestWeightsAreLookedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, control.DefaultConfig(), control.Deps{})
		looks := hello("n1")
		looks.LooksForWeights = true
		n1, n2 := w.dial(looks), w.dial(hello("n2"))
		if n := w.plane.LookFor([]control.Wanted{{Key: "a", Source: "/a"}, {Key: "b@x", Source: "b", Revision: "x"}}); n != 0 {
			t.Errorf("%d are left out", n)
		}
		synctest.Wait()
		if got := n1.asked(); !slices.Equal(got, []string{"a b@x"}) {
			t.Errorf("n1 was asked for %q", got)
		}
		if w := n1.received()[1].GetLook().GetWanted()[1]; w.GetSource() != "b" || w.GetRevision() != "x" {
			t.Errorf("%v", w)
		}
		if n, _ := w.plane.Node("n1"); !n.LooksForWeights || n.Weights != nil {
			t.Errorf("before an answer: %+v", n.Weights)
		}
		facts := func() *fleetpb.WeightsFacts { return &fleetpb.WeightsFacts{Format: "gguf", TensorBytes: 7} }
		n1.found(&fleetpb.WeightsFound{Key: "a", State: fleetpb.WeightsState_WEIGHTS_STATE_PRESENT, Facts: facts()}, &fleetpb.WeightsFound{Key: "unasked"})
		n1.found(&fleetpb.WeightsFound{Key: "b@x", State: fleetpb.WeightsState_WEIGHTS_STATE_ABSENT, Reason: strings.Repeat("x", 10_000)})
		n2.found(&fleetpb.WeightsFound{Key: "a"})
		n, _ := w.plane.Node("n1")
		if got := slices.Sorted(maps.Keys(n.Weights.Found)); !slices.Equal(got, []string{"a", "b@x"}) || len(n.Weights.Found["b@x"].GetReason()) > 5000 {
			t.Errorf("n1 has told of %q: %v", got, n.Weights.Found["b@x"])
		}
		if other, _ := w.plane.Node("n2"); other.Weights != nil {
			t.Error("one that does not look was heard")
		}

		// Another stream is told the list, and what was found is known meanwhile; an
		// answer that says the same is no change.
		n1.hangUp()
		n1 = w.dial(looks)
		if got := n1.asked(); !slices.Equal(got, []string{"a b@x"}) {
			t.Errorf("n1 was asked for %q", got)
		}
		if again, _ := w.plane.Node("n1"); again.Weights != n.Weights {
			t.Error("what it found was forgotten")
		}
		n1.found(&fleetpb.WeightsFound{Key: "a", State: fleetpb.WeightsState_WEIGHTS_STATE_PRESENT, Facts: facts()})
		if again, _ := w.plane.Node("n1"); again.Weights != n.Weights {
			t.Error("the same answer is a change")
		}

		// On a shared filesystem every node tells the same, which is kept once.
		looks3 := hello("n3")
		looks3.LooksForWeights = true
		n3 := w.dial(looks3)
		n3.found(&fleetpb.WeightsFound{Key: "a", State: fleetpb.WeightsState_WEIGHTS_STATE_PRESENT, Facts: facts()})
		if other, _ := w.plane.Node("n3"); other.Weights.Found["a"].GetFacts() != n.Weights.Found["a"].GetFacts() {
			t.Error("the same facts are kept twice")
		}

		// What nobody wants any more is forgotten; the same list again is none.
		w.plane.LookFor([]control.Wanted{{Key: "b@x", Source: "b", Revision: "x"}})
		w.plane.LookFor([]control.Wanted{{Key: "b@x", Source: "b", Revision: "x"}})
		synctest.Wait()
		if n, _ := w.plane.Node("n1"); len(n.Weights.Found) != 1 || len(n1.asked()) != 2 {
			t.Errorf("%v is left, asked for %q", n.Weights.Found, n1.asked())
		}
		// An agent that has lost its directories, or its state, has told nothing.
		n1.hangUp()
		w.dial(hello("n1"))
		if n, _ := w.plane.Node("n1"); n.Weights != nil || n.LooksForWeights {
			t.Errorf("%+v", n.Weights)
		}
	})
}

// A list that is longer than an agent reads is cut, and answers that are larger than
// there can be end the stream.
func TestWeightsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, control.DefaultConfig(), control.Deps{})
		looks := hello("n1")
		looks.LooksForWeights = true
		var list []control.Wanted
		for i := range 2000 {
			list = append(list, control.Wanted{Key: fmt.Sprintf("%04d", i), Source: strings.Repeat("x", 4096)})
		}
		if n := w.plane.LookFor(list); n < 1000 || n > 1500 {
			t.Errorf("%d are left out", n)
		}
		for text, f := range map[string]*fleetpb.WeightsFound{
			"a path of 9000 bytes": {Key: "0000", Path: strings.Repeat("x", 9000)},
			"facts of":             {Key: "0000", Facts: &fleetpb.WeightsFacts{Architecture: strings.Repeat("x", 600<<10)}},
		} {
			a := w.dial(looks)
			a.found(f)
			time.Sleep(time.Second)
			synctest.Wait()
			a.wantRefusal(connect.CodeInvalidArgument, text)
		}
	})
}
