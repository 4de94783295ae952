package controlplane_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/llmgw/llmgw/engines/sim/simtest"
)

// What no node could ever hold is refused with why; what there is no room for now,
// or nobody can tell of yet, is not.
func TestFits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var network simtest.Network
		r := newRouters(t, twoNodes("big", 1))
		p := planeOf(t, &network, newMemory(), r)
		model := twoNodes("other", 1)
		if said, err := p.Fits(t.Context(), &model); err != nil || len(said) != 1 || !strings.Contains(said[0], "not known yet") {
			t.Errorf("before there is a node: %q, %v", said, err)
		}
		rack(t, &network, 2, 2)
		until(t, "big serves", func() bool { return len(r.serving("big")) == 1 })
		if said, err := p.Fits(t.Context(), &model); err != nil || len(said) != 1 || !strings.Contains(said[0], "no room for it now") {
			t.Errorf("where all is taken: %q, %v", said, err)
		}
		model.Scaling.Max = 3
		if said, err := p.Fits(t.Context(), &model); err != nil || len(said) != 2 || !strings.Contains(said[1], "scaling.max is 3, and all nodes that are known hold 1 of it") {
			t.Errorf("three, where there is room for one at most: %q, %v", said, err)
		}
		model.Profile.TensorParallel = 32
		if _, err := p.Fits(t.Context(), &model); err == nil || !strings.HasPrefix(err.Error(), "profile: no node that is known could run it") {
			t.Errorf("sixteen cards on a node of eight: %v", err)
		}
	})
}
