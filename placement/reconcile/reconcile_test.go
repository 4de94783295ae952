package reconcile_test

import (
	"strings"
	"testing"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/placement"
	"github.com/llmgw/llmgw/placement/reconcile"
)

// reference is 4 nodes of 8 cards on 2 fabrics, with a two-node replica of 8 cards
// on each.
func reference(t *testing.T) *world {
	w := newWorld(t, 1)
	w.nodes("a", 2, 8)
	w.nodes("b", 2, 8)
	w.setModels(simModel("big", 2, 2, 16))
	w.startPlane()
	w.until(60, "two replicas serve", func() bool { return w.serves("big") == 2 })
	return w
}

func (w *world) replica(id string) reconcile.ReplicaView {
	w.t.Helper()
	for _, r := range w.core.View().Replicas {
		if r.ID == id {
			return r
		}
	}
	w.t.Fatalf("no replica %q\n%s", id, w.describe())
	return reconcile.ReplicaView{}
}

// on is the replica with a shard on a machine.
func (w *world) on(machine string) string {
	for _, r := range w.core.View().Replicas {
		for _, s := range r.Shards {
			if s.Node == machine {
				return r.ID
			}
		}
	}
	return ""
}

// A node is killed: it is lost after a minute, its survivor stays idle, and the
// replacement comes up where all of it fits; nothing of the other replica is touched.
func TestNodeKilled(t *testing.T) {
	w := newWorld(t, 1)
	w.nodes("a", 2, 8)
	w.nodes("b", 3, 8)
	w.nodes("c", 2, 8)
	w.setModels(simModel("big", 2, 2, 16))
	w.startPlane()
	w.until(60, "two replicas serve", func() bool { return w.serves("big") == 2 })
	var victim *machine
	for _, m := range w.machines {
		if w.on(m.id) != "" {
			victim = m
			break
		}
	}
	gone := w.on(victim.id)
	killed := w.now
	victim.kill()
	w.until(62, "it is lost", func() bool { return w.replica(gone).State == reconcile.Lost })
	if took := w.now.Sub(killed); took < w.cfg.LostAfter {
		t.Errorf("it was lost after %v, before %v", took, w.cfg.LostAfter)
	}
	if n := w.serves("big"); n != 1 {
		t.Errorf("%d serve, want the other one", n)
	}
	w.until(30, "a replacement serves", func() bool { return w.serves("big") == 2 })
	if took := w.now.Sub(killed); took > 80*time.Second {
		t.Errorf("the replacement served after %v, want 80 s", took)
	}
	w.until(60, "what was lost is given up", func() bool { return len(w.core.View().Replicas) == 2+1 || len(w.core.View().Replicas) == 2 })
	for _, m := range w.machines {
		if m.fabric == victim.fabric && m != victim && w.on(m.id) != "" && w.on(m.id) != gone {
			t.Errorf("the survivor %s has %s", m.id, w.on(m.id))
		}
	}
}

// The machine of the rank that serves dies in the middle of requests: what it said
// last, that it has some, keeps nothing. The machine that is left has nothing of the
// replica, and takes another one, also after a restart, while the dead one is away.
func TestSurvivorIsFree(t *testing.T) {
	w := newWorld(t, 1)
	w.nodes("a", 2, 8)
	w.nodes("b", 2, 8)
	w.setModels(simModel("big", 2, 2, 8))
	w.startPlane()
	w.until(60, "two replicas serve", func() bool { return w.serves("big") == 2 })
	gone := w.core.View().Replicas[0]
	dead, left := w.machine(gone.Shards[0].Node), w.machine(gone.Shards[1].Node)
	dead.shards[engines.ShardID{Replica: gone.ID}].status.Running = new(2)
	w.forSeconds(5)
	dead.kill()
	killed := w.now
	w.until(62, "it is lost", func() bool { return w.replica(gone.ID).State == reconcile.Lost })
	w.until(60, "nothing of it runs on the machine that is left", func() bool {
		p := left.shards[engines.ShardID{Replica: gone.ID, Rank: 1}]
		return p == nil || !p.status.State.Runs()
	})
	if took := w.now.Sub(killed); took > 90*time.Second {
		t.Errorf("what was left of it ran for %v; want the time to lose and to replace it", took)
	}
	w.setModels(simModel("big", 2, 2, 8), simModel("whole", 1, 1, 8))
	w.until(60, "a model of the whole machine serves there", func() bool { return w.serves("whole") == 1 })
	if at := w.on(left.id); w.replica(at).Model != "whole" && w.replica(at).ID != gone.ID {
		t.Errorf("%s has %s", left.id, at)
	}
	starts := w.starts
	w.stopPlane()
	w.startPlane()
	w.forSeconds(120)
	if w.serves("whole") != 1 || w.serves("big") != 2 || w.starts != starts {
		t.Errorf("after a restart %d and %d serve, and %d shards were started", w.serves("whole"), w.serves("big"), w.starts-starts)
	}
	dead.revive()
	w.until(60, "its row is gone when the machine is back", func() bool { return len(w.store) == 3 })
}

// Silence shorter than what counts as lost changes nothing.
func TestBlip(t *testing.T) {
	w := reference(t)
	starts := w.starts
	for _, m := range w.machines {
		m.link = false
	}
	w.forSeconds(30)
	if n := w.serves("big"); n != 2 {
		t.Fatalf("%d serve during a blip", n)
	}
	for _, m := range w.machines {
		m.link = true
	}
	w.forSeconds(120)
	if w.starts != starts || w.serves("big") != 2 {
		t.Errorf("%d starts, %d serve", w.starts-starts, w.serves("big"))
	}
}

// A node's agent is silent for ten minutes, and tokens come all the while: the
// replica is held. When they cease, it is not.
func TestTokensHold(t *testing.T) {
	w := reference(t)
	starts := w.starts
	w.machines[1].link = false
	w.forSeconds(600)
	id := w.on("n2")
	if r := w.replica(id); r.State != reconcile.Ready || r.Held == "" {
		t.Fatalf("it is %v, held %q", r.State, r.Held)
	}
	if w.starts != starts {
		t.Errorf("%d starts", w.starts-starts)
	}
	w.busy = false
	w.until(62, "it is lost", func() bool { return w.replica(id).State == reconcile.Lost })
	w.machines[1].link = true
	w.until(5, "it serves again", func() bool { return w.replica(id).State == reconcile.Ready })
	if w.starts != starts || w.serves("big") != 2 {
		t.Errorf("%d starts, %d serve", w.starts-starts, w.serves("big"))
	}
}

// What was lost comes back whole before its replacement serves: the replacement
// is stopped.
func TestLostReturns(t *testing.T) {
	w := newWorld(t, 1)
	w.busy, w.load = false, 100*time.Second
	w.nodes("", 2, 4)
	w.setModels(simModel("m", 1, 1, 4))
	w.startPlane()
	w.until(150, "it serves", func() bool { return w.serves("m") == 1 })
	id := w.core.View().Replicas[0].ID
	where := w.machine(w.core.View().Replicas[0].Shards[0].Node)
	where.link = false
	w.until(120, "a replacement loads", func() bool {
		return len(w.core.View().Replicas) == 2 && w.core.View().Replicas[1].State == reconcile.Loading
	})
	where.link = true
	w.until(60, "one is left", func() bool { return len(w.core.View().Replicas) == 1 })
	if r := w.replica(id); r.State != reconcile.Ready {
		t.Errorf("it is %v", r.State)
	}
}

// A control plane that starts anew adopts what runs, however its nodes come.
func TestAdoption(t *testing.T) {
	w := reference(t)
	starts := w.starts
	w.stopPlane()
	w.forSeconds(300)
	for i, m := range w.machines {
		m.link = i == 0
	}
	w.startPlane()
	for i, m := range w.machines {
		m.link = true
		w.forSeconds(1)
		if n := len(w.core.View().Replicas); n != 2 {
			t.Fatalf("%d replicas after %d nodes came", n, i+1)
		}
	}
	w.until(10, "they serve", func() bool { return w.serves("big") == 2 })
	if w.starts != starts {
		t.Errorf("%d starts", w.starts-starts)
	}
}

// A stored replica of which one node does not come is placed anew only when that
// node is lost.
func TestSettling(t *testing.T) {
	w := newWorld(t, 1)
	w.nodes("a", 4, 8)
	w.setModels(simModel("big", 1, 2, 16))
	w.startPlane()
	w.until(60, "it serves", func() bool { return w.serves("big") == 1 })
	id := w.core.View().Replicas[0].ID
	member := w.machine(w.core.View().Replicas[0].Shards[1].Node)
	w.stopPlane()
	w.busy = false
	member.kill()
	w.forSeconds(5)
	w.startPlane()
	w.forSeconds(58)
	if r := w.replica(id); r.State != reconcile.Settling || len(w.core.View().Replicas) != 1 {
		t.Fatalf("it is %v, of %d", r.State, len(w.core.View().Replicas))
	}
	w.until(40, "another one serves", func() bool { return w.serves("big") == 1 })
}

// An engine that ends by itself is one failure, after which the next one waits.
func TestEngineEnds(t *testing.T) {
	w := reference(t)
	id := w.on("n1")
	for _, p := range w.machine("n1").shards {
		w.become(p, engines.ShardFailed)
		p.status.Reason = "out of memory"
	}
	w.pass()
	w.pass()
	if r := w.replica(id); r.State != reconcile.Failed || w.core.View().Models[0].Failures != 1 {
		t.Fatalf("it is %v, %d failures", r.State, w.core.View().Models[0].Failures)
	}
	failed := w.now
	w.until(60, "another one serves", func() bool { return w.serves("big") == 2 })
	if took := w.now.Sub(failed); took < w.cfg.BaseBackoff {
		t.Errorf("it was tried again after %v", took)
	}
}

// A model that never comes up is tried less and less often, and says why.
func TestBackoff(t *testing.T) {
	w := newWorld(t, 1)
	w.nodes("", 1, 8)
	w.setModels(simModel("m", 1, 1, 8))
	w.startPlane()
	var at []time.Time
	for range 3600 {
		starts := w.starts
		w.pass()
		if w.starts > starts {
			at = append(at, w.now)
		}
		for _, p := range w.machines[0].shards {
			if p.status.State.Runs() && p.status.State != engines.ShardStopping {
				w.become(p, engines.ShardFailed)
			}
		}
	}
	for i := 2; i < len(at); i++ {
		if gap, before := at[i].Sub(at[i-1]), at[i-1].Sub(at[i-2]); gap < before || gap > w.cfg.MaxBackoff+10*time.Second {
			t.Errorf("start %d came %v after the one before, that %v", i, gap, before)
		}
	}
	if len(at) < 5 || len(at) > 14 {
		t.Errorf("%d starts in an hour", len(at))
	}
}

// A node is drained: what runs there goes when another one serves, and where there
// is no other place after a grace.
func TestDrain(t *testing.T) {
	w := newWorld(t, 1)
	w.nodes("", 2, 4)
	w.setModels(simModel("m", 1, 1, 4))
	w.startPlane()
	w.until(60, "it serves", func() bool { return w.serves("m") == 1 })
	first := w.core.View().Replicas[0]
	w.machine(first.Shards[0].Node).cordon = placement.Draining
	w.busy = false
	for range 60 {
		w.pass()
		if w.serves("m") < 1 {
			t.Fatalf("nobody serves\n%s", w.describe())
		}
	}
	if views := w.core.View().Replicas; len(views) != 1 || views[0].ID == first.ID {
		t.Fatalf("%s", w.describe())
	}
	// The other one has nowhere to go.
	for _, m := range w.machines {
		m.cordon = placement.Draining
	}
	w.forSeconds(int(w.cfg.MoveGrace/time.Second) - 2)
	if w.serves("m") != 1 {
		t.Fatalf("it went before the grace was over\n%s", w.describe())
	}
	w.until(30, "it is stopped", func() bool { return len(w.core.View().Replicas) == 0 })
	if m := w.core.View().Models[0]; m.Unplaced == nil {
		t.Error("nothing says why it has no place")
	}
}

// A changed profile is rolled one replica at a time, and all the while as many
// serve as are wanted.
func TestRollout(t *testing.T) {
	w := newWorld(t, 1)
	w.nodes("", 4, 4)
	w.setModels(simModel("m", 3, 1, 4))
	w.startPlane()
	w.until(60, "three serve", func() bool { return w.serves("m") == 3 })
	w.busy = false
	changed := simModel("m", 3, 1, 4)
	changed.Profile.MaxRunning = 7
	w.setModels(changed)
	for range 300 {
		w.pass()
		if n := w.serves("m"); n < 3 {
			t.Fatalf("%d serve\n%s", n, w.describe())
		}
	}
	for _, e := range w.endpoints {
		if e.MaxRunning != 7 {
			t.Errorf("%s has the profile of before", e.Replica)
		}
	}
}

// A model that leaves the catalog is out of the endpoints at once, finishes what it
// has, and gives its cards back.
func TestRemoval(t *testing.T) {
	w := reference(t)
	w.setModels()
	w.pass()
	if len(w.endpoints) != 0 {
		t.Fatalf("%+v is published", w.endpoints)
	}
	w.until(60, "all is gone", func() bool { return len(w.core.View().Replicas) == 0 && len(w.store) == 0 })
	for _, m := range w.machines {
		for id, p := range m.shards {
			if p.status.State.Runs() {
				t.Errorf("%v runs", id)
			}
		}
	}
}

// A replica that still has requests is drained for as long as the grace is.
func TestDrainGrace(t *testing.T) {
	w := reference(t)
	running := 1
	for _, m := range w.machines {
		for _, p := range m.shards {
			p.status.Running = &running
		}
	}
	w.setModels()
	w.forSeconds(int(w.cfg.DrainGrace/time.Second) - 5)
	if n := len(w.core.View().Replicas); n != 2 {
		t.Fatalf("%d are left before the grace is over\n%s", n, w.describe())
	}
	w.until(30, "all is gone", func() bool { return len(w.core.View().Replicas) == 0 })
}

// While the store is away nothing new is started, and what runs stays.
func TestStoreAway(t *testing.T) {
	w := reference(t)
	w.storeAway = true
	w.nodes("c", 2, 8)
	starts := w.starts
	w.setModels(simModel("big", 3, 2, 16))
	w.forSeconds(60)
	if w.starts != starts || w.serves("big") != 2 {
		t.Fatalf("%d starts, %d serve", w.starts-starts, w.serves("big"))
	}
	w.storeAway = false
	w.until(60, "three serve", func() bool { return w.serves("big") == 3 })
}

// A former leader takes out what a node itself says is no more, and nothing else.
func TestFormerLeader(t *testing.T) {
	w := reference(t)
	in := reconcile.Inputs{}
	if d := w.core.Step(w.now, in); len(d.Orders) != 0 || d.Changed {
		t.Errorf("%+v", d)
	}
	w.machines[0].kill()
	w.now = w.now.Add(10 * time.Minute)
	for _, m := range w.machines {
		n := w.view(m)
		n.State = placement.Lost
		in.Nodes = append(in.Nodes, n)
	}
	if d := w.core.Step(w.now, in); len(d.Orders) != 0 || d.Changed {
		t.Errorf("silence took something out: %+v", d)
	}
	n := w.view(w.machines[2])
	for i := range n.Shards {
		n.Shards[i].State = engines.ShardFailed
	}
	if d := w.core.Step(w.now, reconcile.Inputs{Nodes: []reconcile.Node{n}}); len(d.Orders) != 0 || !d.Changed || len(d.Endpoints) != 1 {
		t.Errorf("%+v", d)
	}
}

// Free cards on two fabrics are no place for a gang, and the reason says so.
func TestNoGangAcrossFabrics(t *testing.T) {
	w := newWorld(t, 1)
	w.nodes("a", 1, 8)
	w.nodes("b", 1, 8)
	w.setModels(simModel("big", 1, 2, 16))
	w.startPlane()
	w.forSeconds(60)
	m := w.core.View().Models[0]
	if m.Unplaced == nil || len(m.Unplaced.Fabrics) != 2 || w.starts != 0 {
		t.Errorf("%+v", m)
	}
}

// While the store takes nothing, each replica that has to be stored to go on says so.
func TestStoreAwayIsTold(t *testing.T) {
	w := newWorld(t, 1)
	w.busy = false
	w.nodes("", 1, 8)
	w.setModels(simModel("m", 1, 1, 1))
	w.startPlane()
	w.pass() // the rows are read
	w.storeAway = true
	told := func(what string) {
		t.Helper()
		w.forSeconds(10)
		v := w.core.View()
		if len(v.Replicas) != 1 || !strings.HasSuffix(v.Replicas[0].Reason, "the store has not taken that: the store is away") {
			t.Errorf("%s:\n%s", what, w.describe())
		}
	}
	told("one that is placed")
	w.storeAway = false
	w.until(60, "it serves", func() bool { return w.serves("m") == 1 })
	if v := w.core.View(); v.Replicas[0].Reason != "" {
		t.Errorf("it serves, and %q", v.Replicas[0].Reason)
	}
	w.storeAway = true
	w.setModels()
	w.forSeconds(60)
	told("one that has ended")
	w.storeAway = false
	w.until(60, "it is gone", func() bool { return len(w.core.View().Replicas) == 0 })
}
