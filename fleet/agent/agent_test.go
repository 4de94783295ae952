package agent_test

import (
	"slices"
	"testing"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/fleetpb"
)

// A shard is started once however often that is ordered, survives the agent's
// restart with its process and its port, drains, and leaves nothing behind.
func TestLifeOfAShard(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	n := run(t, testConfig(t, p.url), testDeps(t))
	wish := spec("m-1", 3)
	if a := p.order(t, start(wish)); a.GetResult() != fleetpb.Result_RESULT_BEGUN || a.GetGeneration() != 3 || a.GetTerm() != 1 {
		t.Fatalf("start: %v", a)
	}
	ready := p.reaches(t, wish.ID, 3, engines.ShardReady)
	if a := p.order(t, start(wish)); a.GetResult() != fleetpb.Result_RESULT_ALREADY || int(a.GetStatus().GetPid()) != ready.PID {
		t.Errorf("the same start again: %v", a)
	}
	n.stop(t)
	p.until(t, "a goodbye", func() bool { return len(p.goodbyes) == 1 })
	n = run(t, n.cfg, n.deps)
	p.until(t, "a second Hello", func() bool { return len(p.hellos) == 2 })
	hello := p.hello(1)
	if len(hello.GetShards()) != 1 {
		t.Fatalf("the restarted agent tells of %v", hello.GetShards())
	}
	again := hello.GetShards()[0]
	if int(again.GetPid()) != ready.PID || again.GetStart() != ready.Start || again.GetAddress() != ready.Address ||
		!again.GetAdopted() || again.GetState() != fleetpb.ShardState_SHARD_STATE_READY || hello.GetTerm() != 1 || hello.GetCluster() != "test" {
		t.Errorf("adopted %v of %+v", again, ready)
	}
	if a := p.order(t, stop(wish.ID, 3, time.Minute)); a.GetResult() != fleetpb.Result_RESULT_BEGUN {
		t.Errorf("stop: %v", a)
	}
	p.reaches(t, wish.ID, 3, engines.ShardStopped)
	// The port rests, over a restart too: who still knows it must not meet another
	// model there.
	n.stop(t)
	run(t, n.cfg, n.deps)
	p.until(t, "a third Hello", func() bool { return len(p.hellos) == 3 })
	other := spec("m-2", 1)
	p.order(t, start(other))
	if next := p.reaches(t, other.ID, 1, engines.ShardReady); next.Address == ready.Address {
		t.Errorf("another shard got %s at once", next.Address)
	}
	if a := p.order(t, start(wish)); a.GetResult() != fleetpb.Result_RESULT_REFUSED {
		t.Errorf("a start after its stop: %v", a)
	}
	// What was taken up as stopped is not in the way of the next generation.
	p.order(t, start(spec("m-1", 4)))
	p.reaches(t, wish.ID, 4, engines.ShardReady)
	if a := p.order(t, start(spec("m-1", 2))); a.GetResult() != fleetpb.Result_RESULT_STALE {
		t.Errorf("a start of an older generation: %v", a)
	}
}

// A start that comes again while nobody knows yet whether it can be done, as after
// a stream that broke, is answered with what comes of it: not as if it were done.
func TestUndecidedStartComesAgain(t *testing.T) {
	p := newPlane(t)
	deps := testDeps(t)
	deps.Adapters = adapters{adapter{delay: 300 * time.Millisecond}}
	run(t, testConfig(t, p.url), deps)
	bad := spec("m-1", 1, func(s *engines.ShardSpec) { s.Profile.Model = "bad" })
	first := start(bad)
	p.send(t, first)
	if a := p.order(t, start(bad)); a.GetResult() != fleetpb.Result_RESULT_REFUSED || a.GetReason() == "" {
		t.Errorf("the second was answered %v; want why it is refused", a)
	}
	p.until(t, "the first is refused, too", func() bool {
		return slices.ContainsFunc(p.answers, func(a *fleetpb.Answer) bool {
			return a.GetCommand() == first.GetId() && a.GetResult() == fleetpb.Result_RESULT_REFUSED
		})
	})
	wish := spec("m-2", 1)
	first = start(wish)
	p.send(t, first)
	if a := p.order(t, start(wish)); a.GetResult() != fleetpb.Result_RESULT_BEGUN {
		t.Errorf("the second of one that can be done was answered %v", a)
	}
	p.reaches(t, wish.ID, 1, engines.ShardReady)
}
