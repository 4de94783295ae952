package reconcile_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/placement"
	"github.com/llmgw/llmgw/placement/reconcile"
)

// restore starts a control plane on a store that is as it was before anything was
// placed.
func (w *world) restore() {
	w.stopPlane()
	w.store = map[string]reconcile.Row{}
	w.forSeconds(5)
	w.startPlane()
}

// runs is how many shards of a replica run.
func (w *world) runs(replica string) (n int) {
	for _, m := range w.machines {
		for id, p := range m.shards {
			if id.Replica == replica && p.status.State.Runs() && p.status.State != engines.ShardStopping {
				n++
			}
		}
	}
	return n
}

// The rows are lost while shards run and answer: they get no more requests, and end
// when the last stream has; until then they are told of, nothing is placed on their
// cards, and then all that is wanted is placed there.
func TestRowsLost(t *testing.T) {
	w := newWorld(t, 1)
	w.long = 3 * time.Minute
	w.nodes("a", 2, 8)
	w.setModels(simModel("big", 1, 2, 16))
	w.startPlane()
	w.until(60, "it serves", func() bool { return w.serves("big") == 1 })
	old := w.core.View().Replicas[0].ID
	w.restore()
	for range 170 {
		w.pass()
		if n := w.runs(old); n != 2 {
			t.Fatalf("%d of its shards run, and it streams\n%s", n, w.describe())
		}
	}
	strays := w.core.View().Strays
	if len(strays) != 2 || strays[0].Status.ID != (engines.ShardID{Replica: old}) || strays[0].Held != "routers have requests there" || strays[0].Node == strays[1].Node {
		t.Errorf("strays: %+v", strays)
	}
	for _, e := range w.endpoints {
		t.Errorf("%s is published", e.Replica)
	}
	d := w.core.Snapshot().Cluster.Place(w.core.View().Models[0].Wish)
	if d.Placed || len(d.Rejected) != 2 || !strings.Contains(d.Rejected[0].Reasons[0].String(), "8 taken (shard "+old+"/") {
		t.Errorf("its cards: %+v", d.Rejected)
	}
	w.until(60, "another one serves", func() bool { return w.serves("big") == 1 })
	if v := w.core.View(); len(v.Strays) != 0 || len(v.Replicas) != 1 || w.runs(old) != 0 {
		t.Errorf("what is left:\n%s", w.describe())
	}
}

// A stray whose stream does not end within the grace goes on as long as it is seen to
// work, and is ended once its node is drained, or nothing shows that it works.
func TestStrayThatWorks(t *testing.T) {
	for name, end := range map[string]func(w *world){
		"drained":       func(w *world) { w.machines[0].cordon = placement.Draining },
		"nothing shows": func(w *world) { clear(w.streams) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1)
			w.long = 100 * time.Hour
			w.nodes("", 1, 8)
			w.setModels(simModel("m", 1, 1, 8))
			w.startPlane()
			w.until(60, "it serves", func() bool { return w.serves("m") == 1 })
			old := w.core.View().Replicas[0].ID
			w.restore()
			w.forSeconds(int(w.cfg.DrainGrace/time.Second) + 120)
			if v := w.core.View(); w.runs(old) != 1 || len(v.Strays) != 1 || v.Strays[0].Held == "" {
				t.Fatalf("it works, and:\n%s", w.describe())
			}
			// The engine says all the while that it has a request, which by itself shows no work.
			for _, p := range w.machines[0].shards {
				p.status.Running, p.status.Revision = new(1), p.status.Revision+1
			}
			w.retired[old] = true
			end(w)
			w.until(70, "it is ended", func() bool { return w.runs(old) == 0 })
		})
	}
}

// However short the grace is, nobody can say that nothing shows work before it was
// looked for.
func TestStrayWithoutGrace(t *testing.T) {
	w := newWorld(t, 1)
	w.cfg.DrainGrace = 0
	w.nodes("", 1, 8)
	w.setModels(simModel("m", 1, 1, 8))
	w.startPlane()
	w.until(60, "it serves", func() bool { return w.serves("m") == 1 })
	old := w.core.View().Replicas[0].ID
	w.long = 10 * time.Minute
	w.forSeconds(2)
	w.restore() // and the world holds that nothing which works is stopped
	w.forSeconds(300)
	if w.runs(old) != 1 {
		t.Fatalf("it works, and:\n%s", w.describe())
	}
}

// What answers nobody ends at once: that which loads, and that which failed.
func TestStrayThatAnswersNobody(t *testing.T) {
	w := newWorld(t, 1)
	w.load = time.Hour
	w.nodes("", 2, 8)
	w.setModels(simModel("m", 2, 1, 8))
	w.startPlane()
	w.until(60, "both load", func() bool {
		return !slices.ContainsFunc(w.core.View().Replicas, func(r reconcile.ReplicaView) bool { return r.State != reconcile.Loading }) && w.starts == 2
	})
	for _, p := range w.machines[1].shards {
		w.become(p, engines.ShardFailed)
	}
	w.restore()
	w.until(3, "both end", func() bool {
		for _, m := range w.machines {
			for _, p := range m.shards {
				if p.status.Generation == 1 && p.started.Before(w.began) && p.status.State != engines.ShardStopping && p.status.State != engines.ShardStopped {
					return false
				}
			}
		}
		return true
	})
}

// A gang of which one node is silent is as whole as its requests show: the shard that
// is heard of is not ended under them.
func TestStrayOfAGang(t *testing.T) {
	w := newWorld(t, 1)
	w.long = 2 * time.Minute
	w.nodes("a", 2, 8)
	w.setModels(simModel("big", 1, 2, 16))
	w.startPlane()
	w.until(60, "it serves", func() bool { return w.serves("big") == 1 })
	old := w.core.View().Replicas[0]
	w.machine(old.Shards[0].Node).link = false
	w.restore()
	w.forSeconds(100)
	if n := w.runs(old.ID); n != 2 {
		t.Fatalf("%d of its shards run, and it streams\n%s", n, w.describe())
	}
	w.until(60, "the member that is heard of ends", func() bool { return w.runs(old.ID) == 1 })
	w.machine(old.Shards[0].Node).link = true
	w.until(60, "another one serves", func() bool { return w.serves("big") == 1 })
}

// A backup that has some of the rows, and some of replicas that have gone since: what
// it has is adopted, what has gone is placed anew, what it lacks ends.
func TestBackupRestored(t *testing.T) {
	w := newWorld(t, 1)
	w.nodes("", 4, 4)
	w.setModels(simModel("m", 2, 1, 4))
	w.startPlane()
	w.until(60, "two serve", func() bool { return w.serves("m") == 2 })
	backup := maps.Clone(w.store)
	first, kept := w.core.View().Replicas[0], w.core.View().Replicas[1]
	w.busy = false
	w.machine(first.Shards[0].Node).cordon = placement.Draining
	w.until(120, "one has moved", func() bool { return w.serves("m") == 2 && len(w.core.View().Replicas) == 2 && w.runs(first.ID) == 0 })
	w.machine(first.Shards[0].Node).cordon = placement.NoCordon
	starts := w.starts
	w.stopPlane()
	w.store = backup
	w.startPlane()
	w.until(120, "two serve", func() bool {
		return w.serves("m") == 2 && len(w.core.View().Replicas) == 2 && len(w.core.View().Strays) == 0
	})
	if w.runs(kept.ID) != 1 || w.starts != starts+1 {
		t.Errorf("%d starts more\n%s", w.starts-starts, w.describe())
	}
}

// A row of an older backup, in which a replica did not serve yet, does not say that
// nobody has requests there: it is drained before it ends.
func TestRowOfBeforeItServed(t *testing.T) {
	w := newWorld(t, 1)
	w.long = time.Minute
	w.nodes("", 1, 8)
	w.setModels(simModel("m", 1, 1, 4))
	w.startPlane()
	w.until(10, "it loads", func() bool {
		return len(w.core.View().Replicas) == 1 && w.core.View().Replicas[0].State == reconcile.Loading
	})
	backup := maps.Clone(w.store)
	w.until(60, "it serves", func() bool { return w.serves("m") == 1 })
	id := w.core.View().Replicas[0].ID
	w.stopPlane()
	w.forSeconds(5)
	w.store = backup
	w.setModels(simModel("m", 0, 1, 4))
	w.startPlane()
	w.forSeconds(50)
	if n := w.runs(id); n != 1 {
		t.Fatalf("it was ended under its stream\n%s", w.describe())
	}
	w.until(30, "it has ended", func() bool { return w.runs(id) == 0 && len(w.store) == 0 })
}
