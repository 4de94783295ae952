package reconcile_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/placement/catalog"
	"github.com/llmgw/llmgw/placement/reconcile"
)

// onDemand is a model that runs when it is asked for, on so many cards.
func onDemand(name string, most, cards int) catalog.Model {
	m := simModel(name, 0, 1, cards)
	m.Scaling.Max = most
	return m
}

// awake is a world whose routers are idle, with a control plane that leads.
func awake(t *testing.T, nodes, cards int, models ...catalog.Model) *world {
	w := newWorld(t, 1)
	w.busy = false
	w.nodes("f", nodes, cards)
	w.setModels(models...)
	w.startPlane()
	w.forSeconds(5)
	return w
}

func (w *world) state(model string) reconcile.ModelState { return w.statuses[model].State }

// A hundred first requests start one replica, which stays while it is used, and is
// stopped once nobody has used it for the time that was set.
func TestWake(t *testing.T) {
	m := onDemand("m", 1, 1)
	m.Scaling.IdleTimeout = 5 * time.Minute
	w := awake(t, 1, 2, m)
	w.forSeconds(3600)
	if w.starts != 0 || w.state("m") != reconcile.ModelAsleep {
		t.Fatalf("%d starts; it is %v", w.starts, w.state("m"))
	}
	for range 20 { // they come while it is started and loads
		w.ask("m", 5)
		w.pass()
		if w.serves("m") == 0 && w.state("m") != reconcile.ModelLoading {
			t.Fatalf("it is %v", w.state("m"))
		}
	}
	w.until(20, "it serves", func() bool { return w.serves("m") == 1 })
	if w.starts != 1 || w.state("m") != reconcile.ModelServing {
		t.Fatalf("%d starts; it is %v", w.starts, w.state("m"))
	}
	w.used["m"] = true // one stream, longer than the time
	w.forSeconds(1200)
	w.used["m"] = false
	w.forSeconds(290)
	if w.serves("m") != 1 {
		t.Fatal("it was ended before the time was over since the last byte")
	}
	w.until(30, "it has ended", func() bool { return len(w.store) == 0 })
	if s := w.statuses["m"]; s.State != reconcile.ModelAsleep || !near(s.Ready, 12*time.Second) {
		t.Fatalf("%+v", s)
	}
	w.forSeconds(600)
	if w.starts != 1 {
		t.Fatalf("%d starts", w.starts)
	}
	w.ask("m", 1)
	w.until(20, "it serves again", func() bool { return w.serves("m") == 1 })
}

func near(d engines.Opt[time.Duration], want time.Duration) bool {
	have, known := d.Get()
	return known && (have-want).Abs() <= 4*time.Second
}

// What is off stays off, whoever asks.
func TestOff(t *testing.T) {
	w := awake(t, 1, 2, onDemand("off", 0, 1))
	w.ask("off", 100)
	w.forSeconds(600)
	if w.starts != 0 || w.state("off") != reconcile.ModelOff {
		t.Fatalf("%d starts; it is %v", w.starts, w.state("off"))
	}
}

// What waits is told how long it takes, once that is known, and is not told more
// often than it learns something by it.
func TestStatuses(t *testing.T) {
	m := onDemand("m", 1, 1)
	m.Scaling.IdleTimeout = time.Minute
	w := awake(t, 1, 1, m)
	w.load = 100 * time.Second
	w.ask("m", 1)
	w.forSeconds(30)
	if s := w.statuses["m"]; s.State != reconcile.ModelLoading || s.Ready != (engines.Opt[time.Duration]{}) || s.Progress == "" {
		t.Fatalf("%+v", s)
	}
	w.until(90, "it serves", func() bool { return w.serves("m") == 1 })
	w.until(120, "it sleeps", func() bool { return w.state("m") == reconcile.ModelAsleep })
	w.ask("m", 1)
	w.forSeconds(10)
	told := w.told
	if s := w.statuses["m"]; s.State != reconcile.ModelLoading || !near(s.Ready, 98*time.Second) {
		t.Fatalf("%+v", s)
	}
	w.forSeconds(80)
	if w.told > told {
		t.Fatalf("told %d times of nothing new", w.told-told)
	}
	w.load = time.Hour // this one takes longer than those before
	w.until(60, "it is not known how long it takes", func() bool {
		return w.state("m") == reconcile.ModelLoading && w.statuses["m"].Ready == (engines.Opt[time.Duration]{})
	})
}

// Ten models on two cards: each is served in turn, by two at once at most, with one
// start each.
func TestMoreModelsThanCards(t *testing.T) {
	var models []catalog.Model
	for i := range 10 {
		models = append(models, onDemand(fmt.Sprint("m", i), 1, 1))
	}
	w := awake(t, 1, 2, models...)
	for round := range 2 {
		for i := range 10 {
			name := fmt.Sprint("m", i)
			w.ask(name, 3)
			w.until(200, name+" serves", func() bool { return w.serves(name) == 1 })
			w.used[name] = true
			w.forSeconds(5)
			w.used[name] = false
			if starts := 10*round + i + 1; w.starts != starts {
				t.Fatalf("%d starts for %d wakes", w.starts, starts)
			}
			if len(w.store) > 2 {
				t.Fatalf("%d replicas on two cards", len(w.store))
			}
		}
	}
}

// The one that makes room has been idle longest; one that works does not, whoever
// sees it; nor one of those that have to run.
func TestWhoMakesRoom(t *testing.T) {
	fixed := simModel("fixed", 1, 1, 1)
	w := awake(t, 1, 5, fixed, onDemand("old", 1, 1), onDemand("young", 1, 1), onDemand("busy", 1, 1), onDemand("inside", 1, 1), onDemand("new", 1, 1))
	for _, name := range []string{"busy", "inside", "old", "young"} {
		w.ask(name, 1)
		w.until(30, name+" serves", func() bool { return w.serves(name) == 1 })
		if name == "old" {
			w.forSeconds(60)
		}
	}
	w.used["busy"] = true
	one := 1
	for id, p := range w.machines[0].shards { // no router has it, and the engine works
		if strings.HasPrefix(id.Replica, "inside") {
			p.status.Running = &one
			p.status.Revision++
		}
	}
	w.forSeconds(200)
	w.ask("new", 1)
	w.until(60, "it serves", func() bool { return w.serves("new") == 1 })
	for name, want := range map[string]int{"fixed": 1, "old": 0, "young": 1, "busy": 1, "inside": 1} {
		if w.serves(name) != want {
			t.Errorf("%d of %s serve, want %d", w.serves(name), name, want)
		}
	}
	m, _ := view(w, "old")
	if m.Wanted != 0 || !strings.Contains(m.Why, "its cards are needed for model new; it was idle for") {
		t.Errorf("%d wanted: %s", m.Wanted, m.Why)
	}
}

func view(w *world, model string) (reconcile.ModelView, bool) {
	v := w.core.View()
	return v.Model(model)
}

// Where one is not enough several make room, and none that is not needed; where all
// together are not enough, none does.
func TestRoomForALargeOne(t *testing.T) {
	w := awake(t, 1, 4, onDemand("a", 1, 1), onDemand("b", 1, 1), onDemand("c", 1, 2), onDemand("wide", 1, 3), simModel("fixed", 0, 1, 1))
	for _, name := range []string{"a", "c", "b"} { // c is the older
		w.ask(name, 1)
		w.until(30, name+" serves", func() bool { return w.serves(name) == 1 })
	}
	w.forSeconds(200)
	w.ask("wide", 1)
	w.until(60, "it serves", func() bool { return w.serves("wide") == 1 })
	if w.serves("a")+w.serves("b") != 1 || w.serves("c") != 0 {
		t.Fatalf("a %d, b %d, c %d", w.serves("a"), w.serves("b"), w.serves("c"))
	}
	w.forSeconds(200)
	w.setModels(append(w.models, onDemand("vast", 1, 5))...)
	w.ask("vast", 1)
	before := len(w.endpoints)
	w.forSeconds(300)
	if s := w.statuses["vast"]; s.State != reconcile.ModelUnplaced || s.Reason == "" || len(w.endpoints) != before {
		t.Fatalf("%+v; %d serve of %d", s, len(w.endpoints), before)
	}
}

// Two models that need one card take turns no faster than each may stay, and that it
// happens shows.
func TestThrash(t *testing.T) {
	w := awake(t, 1, 1, onDemand("a", 1, 1), onDemand("b", 1, 1))
	for range 1800 {
		w.ask("a", 1)
		w.ask("b", 1)
		w.pass()
	}
	most := int(30 * time.Minute / w.cfg.Residence)
	if w.starts < 8 || w.starts > most {
		t.Fatalf("%d starts in half an hour, want at most %d", w.starts, most)
	}
	a, _ := view(w, "a")
	b, _ := view(w, "b")
	if thrashed := a.Thrashed + b.Thrashed; thrashed < w.starts-3 {
		t.Fatalf("thrash shows %d times of %d starts", thrashed, w.starts)
	}
}

// Where one that may know was not heard, where the control plane has just begun, and
// where a node is not connected, nothing is idle.
func TestNothingIsIdleThatIsNotKnown(t *testing.T) {
	for _, tt := range []struct {
		name   string
		during func(w *world)
	}{
		{"a router is not heard", func(w *world) { w.deaf = true }},
		{"the control plane begins again and again", func(w *world) {
			if w.now.Second()%50 == 0 {
				w.startPlane()
			}
		}},
		{"a router begins again and again", func(w *world) { w.deaf = w.now.Second()%50 == 0 }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a, b := onDemand("a", 1, 1), onDemand("b", 1, 1)
			a.Scaling.IdleTimeout = time.Minute
			w := awake(t, 1, 1, a, b)
			w.ask("a", 1)
			w.until(30, "a serves", func() bool { return w.serves("a") == 1 })
			for range 900 {
				tt.during(w)
				w.ask("b", 1)
				w.pass()
				if w.serves("a") != 1 {
					t.Fatalf("%v: a is gone\n%s", w.now, w.describe())
				}
			}
			w.deaf = false
			w.until(200, "b serves", func() bool { return w.serves("b") == 1 })
		})
	}
}

// One that does not come up is tried again and again, less and less often, and who
// asks is told why.
func TestFailsToLoad(t *testing.T) {
	w := awake(t, 1, 1, onDemand("m", 1, 1))
	var begun []time.Time
	for range 3600 {
		w.ask("m", 1)
		w.pass()
		if len(begun) < w.starts {
			begun = append(begun, w.now)
		}
		for _, p := range w.machines[0].shards {
			if p.status.State == engines.ShardLoading {
				p.status.Reason = "out of memory"
				w.become(p, engines.ShardFailed)
			}
		}
	}
	if len(begun) < 5 || len(begun) > 12 {
		t.Fatalf("%d starts in an hour", len(begun))
	}
	for i := 2; i < len(begun); i++ {
		if a, b := begun[i-1].Sub(begun[i-2]), begun[i].Sub(begun[i-1]); b < a-5*time.Second {
			t.Errorf("a pause of %v after one of %v", b, a)
		}
	}
	if s := w.statuses["m"]; s.State != reconcile.ModelFailing || !strings.Contains(s.Reason, "out of memory") || s.Retry == (engines.Opt[time.Duration]{}) {
		t.Fatalf("%+v", s)
	}
}

// More replicas come while those that serve are full, on free cards only, and go when
// they are to spare; a drain and a lost node are made good meanwhile.
func TestScale(t *testing.T) {
	m := simModel("m", 1, 1, 1)
	m.Scaling.Max = 8
	w := awake(t, 2, 2, m, onDemand("other", 1, 1))
	w.until(30, "it serves", func() bool { return w.serves("m") == 1 })
	w.ask("other", 1)
	w.until(30, "other serves", func() bool { return w.serves("other") == 1 })
	w.demand["m"] = &reconcile.Demand{Model: "m", Load: engines.Known(1.0)}
	w.until(300, "three serve", func() bool { return w.serves("m") == 3 })
	w.forSeconds(600)
	if w.serves("m") != 3 || w.serves("other") != 1 {
		t.Fatalf("%d of m and %d of other serve", w.serves("m"), w.serves("other"))
	}
	if v, _ := view(w, "m"); !strings.Contains(v.Why, "no cards are free for more") && !strings.Contains(v.Why, "% full") {
		t.Fatalf("%s", v.Why)
	}
	w.demand["m"].Load = engines.Known(0.1)
	w.until(1200, "one serves", func() bool { return w.serves("m") == 1 })
	if len(w.store) != 2 {
		t.Fatalf("%v", sortedKeys(w.store))
	}
}

// What waits for room counts beside what routers have at the replicas: two that are full
// with as many again waiting become four at once, and not one by one.
func TestScaleByQueue(t *testing.T) {
	m := simModel("m", 2, 1, 1)
	m.Scaling.Max = 8
	w := awake(t, 1, 8, m)
	w.until(30, "two serve", func() bool { return w.serves("m") == 2 })
	w.used["m"] = true // a request at each
	w.demand["m"] = &reconcile.Demand{Model: "m", Load: engines.Known(0.85), Queued: 2}
	w.until(60, "more are wanted", func() bool {
		v, _ := view(w, "m")
		return v.Wanted > 2
	})
	if v, _ := view(w, "m"); v.Wanted != 4 || !strings.Contains(v.Why, "170 % full with the 2 that wait for room") {
		t.Fatalf("%d wanted: %s", v.Wanted, v.Why)
	}
}

// A schedule has a model up before anybody asks, and lets it go after.
func TestPrewarm(t *testing.T) {
	m := onDemand("m", 2, 1)
	m.Scaling.Prewarm = []catalog.Prewarm{{Cron: "10 12 * * *", For: 20 * time.Minute, Min: 2}} // a world begins at 12:00
	w := awake(t, 1, 2, m)
	w.forSeconds(590)
	if w.starts != 0 {
		t.Fatal("it was started too early")
	}
	w.until(30, "two serve", func() bool { return w.serves("m") == 2 })
	if v, _ := view(w, "m"); v.Prewarm != "10 12 * * *" || v.Floor != 2 {
		t.Fatalf("%+v", v)
	}
	w.forSeconds(1150)
	if w.serves("m") != 2 {
		t.Fatal("they were ended too early")
	}
	w.until(1200, "none runs", func() bool { return len(w.store) == 0 })
}

// A replica that makes room finishes what comes to it until routers know.
func TestEvictionDrains(t *testing.T) {
	w := awake(t, 1, 1, onDemand("a", 1, 1), onDemand("b", 1, 1))
	w.ask("a", 1)
	w.until(30, "a serves", func() bool { return w.serves("a") == 1 })
	w.forSeconds(150)
	w.ask("b", 1)
	w.until(10, "a is let go", func() bool {
		return slices.ContainsFunc(w.core.View().Replicas, func(r reconcile.ReplicaView) bool { return r.Model == "a" && r.State == reconcile.Draining })
	})
	w.until(60, "b serves", func() bool { return w.serves("b") == 1 })
}
