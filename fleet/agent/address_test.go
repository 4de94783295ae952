package agent_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/llmgw/llmgw/fleet/agent"
	"github.com/llmgw/llmgw/fleet/fleetpb"
)

// nowhere is hardware of which no address can be told.
type nowhere struct{ still }

func (nowhere) Advertise(context.Context, string) (agent.Advertised, error) {
	return agent.Advertised{}, errors.New(`there is no interface "eth9"`)
}

// A node without an address says so for as long as that is so, and starts no engine,
// which would listen on every address that there is.
func TestNoAddress(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	cfg, deps := testConfig(t, p.url), testDeps(t)
	cfg.Address, deps.Hardware = "", nowhere{}
	run(t, cfg, deps)
	p.connected(t)
	a := p.order(t, start(spec("m-1", 1)))
	if a.GetResult() != fleetpb.Result_RESULT_UNAVAILABLE || !strings.Contains(a.GetReason(), "eth9") || !strings.Contains(a.GetAdvice(), "mgmt_interface") {
		t.Errorf("an order is answered %v", a)
	}
	said := func(problems []*fleetpb.Warning) bool {
		for _, w := range problems {
			if w.GetPart() == "network" && strings.Contains(w.GetProblem(), "eth9") {
				return true
			}
		}
		return false
	}
	// Readings after the first are not of the whole inventory.
	p.until(t, "some heartbeats", func() bool { return len(p.beats) >= 4 })
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, b := range p.beats {
		if !said(b.GetState().GetProblems()) {
			t.Errorf("heartbeat %d says nothing of it: %v", i, b.GetState().GetProblems())
		}
	}
}
