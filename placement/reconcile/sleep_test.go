package reconcile_test

import (
	"strings"
	"testing"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/placement/catalog"
	"github.com/llmgw/llmgw/placement/reconcile"
)

// sleeper is a model on demand whose engine can sleep.
func sleeper(name string, cards int) catalog.Model {
	m := onDemand(name, 1, cards)
	m.Profile.Sleep = true
	m.Scaling.IdleTimeout = 2 * time.Minute
	return m
}

// asleep are the engines that sleep.
func (w *world) asleep() (n int) {
	for _, m := range w.machines {
		for _, p := range m.shards {
			if p.status.State == engines.ShardSleeping {
				n++
			}
		}
	}
	return n
}

// What nobody uses sleeps, leaves its cards to others, and is woken by who asks, in
// the time that waking takes; the engine is the same.
func TestSleepAndWake(t *testing.T) {
	w := awake(t, 1, 1, sleeper("m", 1))
	w.load = time.Minute
	w.ask("m", 1)
	w.until(90, "it serves", func() bool { return w.serves("m") == 1 })
	start := w.endpoints[0].Start
	w.until(150, "it sleeps", func() bool { return w.asleep() == 1 && w.state("m") == reconcile.ModelAsleep })
	w.forSeconds(600)
	w.ask("m", 1)
	w.until(10, "it serves again", func() bool { return w.serves("m") == 1 })
	if w.starts != 1 || w.wakes != 1 || w.endpoints[0].Start != start {
		t.Fatalf("%d starts, %d wakes", w.starts, w.wakes)
	}
	w.until(150, "it sleeps again", func() bool { return w.asleep() == 1 && w.state("m") == reconcile.ModelAsleep })
	if s := w.statuses["m"]; !near(s.Ready, 3*time.Second) {
		t.Errorf("%+v", s)
	}
	if v, _ := view(w, "m"); v.Asleep != 1 {
		t.Errorf("%+v", v)
	}
}

// One that is used now and then sleeps and is woken each time at once, however soon
// after the last.
func TestSleepSoonAgain(t *testing.T) {
	m := sleeper("m", 1)
	m.Scaling.IdleTimeout = 5 * time.Second
	w := awake(t, 1, 1, m)
	w.ask("m", 1)
	w.until(30, "it serves", func() bool { return w.serves("m") == 1 })
	for range 5 {
		w.until(12, "it sleeps", func() bool { return w.asleep() == 1 })
		w.ask("m", 1)
		w.until(6, "it serves again", func() bool { return w.serves("m") == 1 })
	}
	if w.starts != 1 || w.wakes != 5 {
		t.Errorf("%d starts and %d wakes", w.starts, w.wakes)
	}
}

// Two models whose engines sleep share a card, one at a time.
func TestSleepersShareACard(t *testing.T) {
	w := awake(t, 1, 1, sleeper("a", 1), sleeper("b", 1))
	w.load = time.Minute
	for range 5 {
		for _, name := range []string{"a", "b"} {
			w.ask(name, 1)
			w.until(400, name+" serves", func() bool { return w.serves(name) == 1 })
			w.used[name] = true
			w.forSeconds(5)
			w.used[name] = false
		}
	}
	if w.starts != 2 || w.wakes != 8 {
		t.Fatalf("%d starts and %d wakes", w.starts, w.wakes)
	}
}

// One that wakes slower than half of a load takes, is stopped in place of sleeping.
func TestSlowToWake(t *testing.T) {
	w := awake(t, 1, 1, sleeper("m", 1))
	w.wake = 8 * time.Second
	for range 2 {
		w.ask("m", 1)
		w.until(30, "it serves", func() bool { return w.serves("m") == 1 })
		w.until(150, "it is asleep or gone", func() bool { return w.state("m") == reconcile.ModelAsleep && w.serves("m") == 0 })
		w.forSeconds(30)
	}
	w.until(30, "it is gone", func() bool { return len(w.store) == 0 })
}

// What sleeps ends where it has to: its model's profile changed or left, its node is
// drained, its engine ended; and a control plane that begins anew takes it up.
func TestSleeperEnds(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(w *world)
		left int
	}{
		{"nothing", func(*world) {}, 1},
		{"the control plane begins anew", func(w *world) { w.startPlane() }, 1},
		{"its profile is changed", func(w *world) {
			m := w.models[0]
			p := *m.Profile
			p.MaxRunning++
			m.Profile = &p
			w.setModels(m)
		}, 0},
		{"its model leaves", func(w *world) { w.setModels() }, 0},
		{"its node is drained", func(w *world) { w.machines[0].cordon = 2 }, 0},
		{"its engine ends", func(w *world) {
			for _, p := range w.machines[0].shards {
				w.become(p, engines.ShardFailed)
			}
		}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := awake(t, 1, 1, sleeper("m", 1))
			w.ask("m", 1)
			w.until(30, "it serves", func() bool { return w.serves("m") == 1 })
			w.until(200, "it sleeps", func() bool { return w.asleep() == 1 })
			w.forSeconds(10)
			tt.do(w)
			w.forSeconds(120)
			if len(w.store) != tt.left || w.asleep() != tt.left {
				t.Fatalf("%d rows, %d asleep, want %d\n%s", len(w.store), w.asleep(), tt.left, w.describe())
			}
			w.machines[0].cordon = 0
			if len(w.models) > 0 {
				w.ask("m", 1)
				w.until(120, "it serves", func() bool { return w.serves("m") == 1 })
			}
		})
	}
}

// Where what sleepers keep of a card is too much for another model, they end.
func TestSleeperIsInTheWay(t *testing.T) {
	w := awake(t, 1, 1, sleeper("m", 1), onDemand("large", 1, 1))
	w.rest = 10 << 30
	w.ask("m", 1)
	w.until(30, "it serves", func() bool { return w.serves("m") == 1 })
	w.until(200, "it sleeps", func() bool { return w.asleep() == 1 })
	w.forSeconds(30)
	w.ask("large", 1)
	w.until(120, "large serves", func() bool { return w.serves("large") == 1 })
	if w.asleep() != 0 || !strings.Contains(w.describe(), "large") {
		t.Fatal(w.describe())
	}
}

// The cards of what fell asleep are nobody else's until its row says that it sleeps:
// two rows never share a card.
func TestSleepIsStored(t *testing.T) {
	w := awake(t, 1, 1, sleeper("a", 1), sleeper("b", 1))
	w.ask("a", 1)
	w.until(30, "a serves", func() bool { return w.serves("a") == 1 })
	w.storeAway = true
	w.until(200, "a sleeps", func() bool { return w.asleep() == 1 })
	w.ask("b", 1)
	w.forSeconds(60)
	if v := w.core.View(); len(v.Replicas) != 1 {
		t.Fatalf("b has a place that the store gives to a\n%s", w.describe())
	}
	w.storeAway = false
	w.until(60, "b serves", func() bool { return w.serves("b") == 1 })
	if w.asleep() != 1 {
		t.Fatal(w.describe())
	}
}
