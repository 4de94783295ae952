package reconcile_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/placement"
	"github.com/llmgw/llmgw/placement/catalog"
	"github.com/llmgw/llmgw/placement/reconcile"
)

// faults is what happens to a world, by name.
var faults = []struct {
	name string
	do   func(w *world, m *machine)
}{
	{"a machine dies", func(_ *world, m *machine) { m.kill() }},
	{"a machine comes back", func(_ *world, m *machine) { m.revive() }},
	{"an agent is killed", func(_ *world, m *machine) { m.agent = false }},
	{"an agent starts", func(_ *world, m *machine) { m.agent = true }},
	{"a network is cut", func(_ *world, m *machine) { m.link = false }},
	{"a network heals", func(_ *world, m *machine) { m.link = true }},
	{"an engine ends", func(w *world, m *machine) {
		for _, p := range m.shards {
			if p.status.State.Runs() && p.status.State != engines.ShardStopping {
				w.become(p, engines.ShardFailed)
				w.emitted[p.status.ID.Replica] = time.Time{} // its own agent's word
				return
			}
		}
	}},
	{"the control plane is killed", func(w *world, _ *machine) { w.stopPlane() }},
	{"a control plane starts", func(w *world, _ *machine) { w.startPlane() }},
	{"the store goes away", func(w *world, _ *machine) { w.storeAway = true }},
	{"the store comes back", func(w *world, _ *machine) { w.storeAway = false }},
	{"a backup is made", func(w *world, _ *machine) { w.backup = maps.Clone(w.store) }},
	{"a backup is restored", func(w *world, _ *machine) {
		w.store, w.orders = maps.Clone(w.backup), nil // whoever ordered has ended long ago
		w.startPlane()
	}},
	{"a node is drained", func(_ *world, m *machine) { m.cordon = placement.Draining }},
	{"a node is cordoned", func(_ *world, m *machine) { m.cordon = placement.Cordoned }},
	{"a node is uncordoned", func(_ *world, m *machine) { m.cordon = placement.NoCordon }},
	{"a card fails", func(_ *world, m *machine) { m.unfit[m.id+"-0"] = "xid-79" }},
	{"a card is mended", func(_ *world, m *machine) { clear(m.unfit) }},
	{"a profile changes", func(w *world, _ *machine) {
		for i := range w.models {
			p := *w.models[i].Profile
			p.MaxRunning++
			w.models[i].Profile = &p
		}
		w.setModels(w.models...)
	}},
	{"somebody asks", func(w *world, m *machine) { w.ask(w.some(m), 3) }},
	{"a model is used", func(w *world, m *machine) { w.used[w.some(m)] = true }},
	{"a model is not used any more", func(w *world, m *machine) { w.used[w.some(m)] = false }},
	{"replicas are full", func(w *world, m *machine) {
		w.ask(w.some(m), 0)
		w.demand[w.some(m)].Load = engines.Known(1.5)
	}},
	{"replicas have little to do", func(w *world, m *machine) {
		w.ask(w.some(m), 0)
		w.demand[w.some(m)].Load = engines.Known(0.05)
	}},
	{"a router is not heard", func(w *world, _ *machine) { w.deaf = true }},
	{"a router is heard", func(w *world, _ *machine) { w.deaf = false }},
	{"a model leaves", func(w *world, _ *machine) {
		if len(w.models) > 1 {
			w.left = append(w.left, w.models[0])
			w.setModels(w.models[1:]...)
		}
	}},
	{"a model comes back", func(w *world, _ *machine) {
		if len(w.left) > 0 {
			w.setModels(append(w.models, w.left[0])...)
			w.left = w.left[1:]
		}
	}},
	{"a model is switched off", func(w *world, m *machine) { w.rescale(m, 0, 0) }},
	{"a model is on demand", func(w *world, m *machine) { w.rescale(m, 0, 2) }},
	{"a model has to run", func(w *world, m *machine) { w.rescale(m, 1, 1) }},
	{"a model has to run twice", func(w *world, m *machine) { w.rescale(m, 2, 3) }},
	{"engines end while they load", func(w *world, m *machine) { w.ails[w.some(m)] = brittle }},
	{"engines load for ever", func(w *world, m *machine) { w.ails[w.some(m)] = hung }},
	{"engines end when they are used", func(w *world, m *machine) { w.ails[w.some(m)] = fragile }},
	{"engines do not fall asleep", func(w *world, m *machine) { w.ails[w.some(m)] = wakeful }},
	{"engines do not wake", func(w *world, m *machine) { w.ails[w.some(m)] = dead }},
	{"engines are mended", func(w *world, m *machine) { delete(w.ails, w.some(m)) }},
	{"engines do not end", func(w *world, _ *machine) { w.stuck = true }},
	{"engines end", func(w *world, _ *machine) { w.stuck = false }},
	{"the control plane stands still", func(w *world, _ *machine) { w.paused = w.now.Add(90 * time.Second) }},
}

// rescale changes between which numbers a model runs.
func (w *world) rescale(m *machine, least, most int) {
	i := slices.Index(w.machines, m) % len(w.models)
	s := *w.models[i].Scaling
	if s.Min, s.Max = least, most; most == 0 {
		s.Prewarm = nil
	}
	w.models[i].Scaling = &s
	w.setModels(w.models...)
}

// some is one of the models, another one for each of so many machines.
func (w *world) some(m *machine) string {
	return w.models[slices.Index(w.machines, m)%len(w.models)].Name
}

// Whatever happens, in whatever order, while messages are lost and late: no gang
// crosses fabrics, no card is given twice, no shard runs twice, nothing that is
// not stored is started, nothing that shows work is stopped on a suspicion; and
// when it ceases, all that is wanted serves or says why not, and nothing else
// runs.
func TestAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, rapid.Uint64().Draw(t, "seed"))
		w.loss = rapid.SampledFrom([]float64{0, 0, 0.1, 0.3}).Draw(t, "loss")
		w.delay = time.Duration(rapid.IntRange(0, 20).Draw(t, "delay")) * time.Second
		w.busy = rapid.Bool().Draw(t, "busy")
		w.long = rapid.SampledFrom([]time.Duration{0, 0, 20 * time.Second, 5 * time.Minute, 30 * time.Minute}).Draw(t, "streams")
		w.load = time.Duration(rapid.IntRange(1, 60).Draw(t, "load")) * time.Second
		for i := range rapid.IntRange(1, 3).Draw(t, "fabrics") {
			w.nodes(fmt.Sprint("f", i), rapid.IntRange(1, 3).Draw(t, "nodes"), rapid.SampledFrom([]int{2, 4, 8}).Draw(t, "cards"))
		}
		var models []catalog.Model
		for i := range rapid.IntRange(1, 4).Draw(t, "models") {
			ranks := rapid.SampledFrom([]int{1, 1, 2}).Draw(t, "ranks")
			m := simModel(fmt.Sprint("m", i), rapid.IntRange(0, 2).Draw(t, "count"), ranks, ranks*rapid.SampledFrom([]int{1, 2, 4}).Draw(t, "per rank"))
			m.Scaling.Max += rapid.SampledFrom([]int{0, 1, 3}).Draw(t, "more")
			m.Scaling.IdleTimeout = time.Duration(rapid.IntRange(10, 300).Draw(t, "idle timeout")) * time.Second
			m.Profile.Sleep = rapid.Bool().Draw(t, "sleeps")
			if rapid.IntRange(0, 3).Draw(t, "prewarm") == 0 && m.Scaling.Max > 0 {
				m.Scaling.Prewarm = []catalog.Prewarm{{Cron: "*/20 * * * *", For: 7 * time.Minute}}
			}
			models = append(models, m)
		}
		w.setModels(models...)
		w.cfg.Residence = rapid.SampledFrom([]time.Duration{0, 2 * time.Minute}).Draw(t, "residence")
		w.cfg.DrainGrace = rapid.SampledFrom([]time.Duration{0, 30 * time.Second, 10 * time.Minute}).Draw(t, "grace")
		w.cfg.MoveGrace = rapid.SampledFrom([]time.Duration{0, 5 * time.Minute}).Draw(t, "move")
		w.startPlane()
		for range rapid.IntRange(0, 25).Draw(t, "events") {
			f := faults[rapid.IntRange(0, len(faults)-1).Draw(t, "what")]
			m := w.machines[rapid.IntRange(0, len(w.machines)-1).Draw(t, "where")]
			t.Logf("%v: %s (%s)", w.now.Format("15:04:05"), f.name, m.id)
			f.do(w, m)
			w.forSeconds(rapid.SampledFrom([]int{0, 1, 3, 10, 30, 70, 130}).Draw(t, "then"))
		}
		w.heal()
		w.deaf = false
		clear(w.used)
		clear(w.demand)
		w.settles(t)
		w.busy, w.long = false, 0
		for _, m := range w.models {
			if m.Scaling.Max > 0 {
				w.served(t, m)
			}
		}
		clear(w.demand)
		w.settles(t)
	})
}

// settles lets time pass until all is as it is wanted.
func (w *world) settles(t *rapid.T) {
	t.Helper()
	for range 3600 {
		if w.problem() == "" {
			return
		}
		w.pass()
	}
	t.Fatalf("an hour later: %s\n%s", w.problem(), w.describe())
}

// served asks for a model until it is served, at most as long as the one in whose
// place it comes may take to go; or holds that there is no room for it, and that it is
// said.
func (w *world) served(t *rapid.T, m catalog.Model) {
	t.Helper()
	for range 1200 {
		w.ask(m.Name, 1)
		if w.pass(); w.serves(m.Name) > 0 {
			return
		}
	}
	v, _ := view(w, m.Name)
	if v.Unplaced == nil || w.state(m.Name) != reconcile.ModelUnplaced {
		t.Fatalf("%s is not served in 20 min, and nothing says why: it is %v\n%s", m.Name, w.state(m.Name), w.describe())
	}
	p := m.Profile.WithDefaults()
	for _, on := range w.machines {
		if p.Ranks == 1 && on.cordon == placement.NoCordon && len(on.unfit) == 0 && on.cards >= p.Cards() && w.onDemandAlone(on) {
			t.Fatalf("%s has no place, though nothing on %s has to run\n%s", m.Name, on.id, w.describe())
		}
	}
}

// onDemandAlone reports whether what is on a machine is only there because somebody
// asked for it once.
func (w *world) onDemandAlone(m *machine) bool {
	for id := range m.shards {
		row, stored := w.store[id.Replica]
		if !stored {
			continue
		}
		for _, model := range w.models {
			if model.Name == row.Model && (model.Scaling.Min > 0 || len(model.Scaling.Prewarm) > 0) {
				return false
			}
		}
	}
	return true
}

// heal ends all faults. What people want of nodes stays.
func (w *world) heal() {
	w.loss, w.delay, w.storeAway, w.stuck, w.paused = 0, 0, false, false, time.Time{}
	clear(w.ails)
	for _, m := range w.machines {
		m.up, m.agent, m.link = true, true, true
	}
	if w.core == nil {
		w.startPlane()
	}
}

// problem says what is not as it is wanted; "": nothing.
func (w *world) problem() string {
	v := w.core.View()
	known := map[string]bool{}
	for _, r := range v.Replicas {
		known[r.ID] = true
		if r.State != reconcile.Ready && r.State != reconcile.Sleeping || w.store[r.ID].ID == "" {
			return fmt.Sprintf("%s is %v, stored %v", r.ID, r.State, w.store[r.ID].ID != "")
		}
	}
	for _, m := range v.Models {
		n := w.serves(m.Name)
		if n > m.Wanted || n < m.Wanted && m.Unplaced == nil {
			return fmt.Sprintf("%d of %s serve, %d are wanted, and nothing says why", n, m.Name, m.Wanted)
		}
	}
	if len(w.store) != len(known) {
		return fmt.Sprintf("%d rows, %d replicas", len(w.store), len(known))
	}
	for _, m := range w.machines {
		for id, p := range m.shards {
			if p.status.State != engines.ShardStopped && !known[id.Replica] {
				return fmt.Sprintf("%v is %v on %s, and nobody wants it", id, p.status.State, m.id)
			}
		}
	}
	return ""
}
