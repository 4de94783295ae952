package scale_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/placement/scale"
)

var start = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// trial is a scaler and what it is told, step by step.
type trial struct {
	t   testing.TB
	cfg scale.Config
	s   scale.Scaler
	in  scale.Input
}

func newTrial(t testing.TB, floor, most int) *trial {
	cfg := scale.Config{IdleTimeout: 15 * time.Minute, TargetLoad: 0.8, SpareLoad: 0.75, UpWindow: 30 * time.Second, DownWindow: 5 * time.Minute}
	return &trial{t: t, cfg: cfg, in: scale.Input{Now: start, Floor: floor, Max: most}}
}

// after lets time pass, in steps of a second, and returns what is wanted then.
func (x *trial) after(d time.Duration) scale.Decision {
	x.t.Helper()
	var last scale.Decision
	for range max(int(d/time.Second), 1) {
		x.in.Now = x.in.Now.Add(time.Second)
		if asked, known := x.in.Asked.Get(); known {
			x.in.Asked = engines.Known(asked + time.Second)
		}
		if idle, known := x.in.Idle.Get(); known {
			x.in.Idle = engines.Known(idle + time.Second)
		}
		last = x.s.Step(x.cfg, x.in)
	}
	return last
}

func (x *trial) want(n int, why string, d scale.Decision) {
	x.t.Helper()
	if d.Want != n || !strings.Contains(d.Why, why) {
		x.t.Fatalf("%d wanted, since %q; want %d, since %q", d.Want, d.Why, n, why)
	}
}

func TestOnDemand(t *testing.T) {
	x := newTrial(t, 0, 2)
	x.want(0, "nobody asks", x.after(time.Hour))
	x.in.Waiting, x.in.Asked = 100, engines.Known(time.Duration(0))
	x.want(1, "100 requests wait", x.after(time.Second))
	x.in.Waiting, x.in.Coming = 0, 1 // they were told to come again
	x.want(1, "", x.after(10*time.Minute))
	x.in.Coming, x.in.Ready = 0, 1
	x.want(1, "", x.after(10*time.Minute)) // nobody knows whether it is idle
	x.in.Idle = engines.Known(time.Duration(0))
	x.in.Asked = engines.Known(time.Duration(0))
	x.want(1, "", x.after(x.cfg.IdleTimeout-time.Second))
	x.want(0, "nobody has used it for 15m", x.after(time.Second))
	x.in.Ready, x.in.Idle = 0, engines.Opt[time.Duration]{}
	x.want(0, "nobody has used it", x.after(time.Hour))
	x.in.Asked = engines.Known(time.Duration(0)) // and went before anybody heard of it
	x.want(1, "it was asked for", x.after(time.Second))
}

// One that does not come up is not waited for longer than it is asked for.
func TestForgotten(t *testing.T) {
	x := newTrial(t, 0, 1)
	x.after(time.Second)
	x.in.Waiting, x.in.NoRoom = 1, "no cards"
	x.want(1, "1 request waits for it", x.after(time.Hour))
	x.in.Waiting, x.in.Asked = 0, engines.Known(time.Duration(0))
	x.want(1, "", x.after(14*time.Minute))
	x.want(0, "it has not come up", x.after(2*time.Minute))
}

// What was there before the first step stays.
func TestTakenUp(t *testing.T) {
	x := newTrial(t, 0, 4)
	x.in.Coming, x.in.Disturbed = 3, true
	x.want(3, "it was there", x.after(time.Hour))
	x = newTrial(t, 2, 2)
	x.want(2, "at least 2 run", x.after(time.Second))
	x = newTrial(t, 0, 0)
	x.in.Waiting, x.in.Asked = 5, engines.Known(time.Duration(0))
	x.want(0, "max is 0", x.after(time.Hour))
}

func TestLoad(t *testing.T) {
	x := newTrial(t, 1, 4)
	x.in.Ready = 1
	x.want(1, "at least 1", x.after(time.Minute))
	x.in.Load = engines.Known(0.9)
	x.want(1, "", x.after(29*time.Second))
	x.in.Load = engines.Known(0.5) // a moment's rest
	x.after(time.Second)
	x.in.Load = engines.Known(0.9)
	x.want(1, "", x.after(30*time.Second))
	x.want(2, "1 are 90 % full", x.after(time.Second))
	x.in.Coming = 1
	x.want(2, "", x.after(10*time.Minute)) // until it is there nothing shows what it does
	x.in.Ready, x.in.Coming, x.in.Load = 2, 0, engines.Known(3.0)
	x.want(4, "2 are 300 % full", x.after(31*time.Second))
	x.in.Ready, x.in.Load = 4, engines.Known(0.44) // 0.587 on three
	x.want(4, "", x.after(5*time.Minute))
	x.want(3, "3 can do the work of 4", x.after(2*time.Second))
	x.in.Ready, x.in.Load = 3, engines.Known(0.587)
	x.want(3, "", x.after(time.Hour)) // not on two
	x.in.Load = engines.Opt[float64]{}
	x.want(3, "", x.after(time.Hour))
	x.in.Load, x.in.Disturbed = engines.Known(0.1), true
	x.want(3, "", x.after(time.Hour))
	x.in.Disturbed = false
	x.in.Load = engines.Known(0.01)
	x.want(2, "", x.after(time.Second))
	x.in.Ready = 2
	x.want(1, "", x.after(5*time.Minute+2*time.Second))
}

// What waits for room is asked of the replicas, too: where admission keeps a queue in
// front of them their own load says little.
func TestQueue(t *testing.T) {
	x := newTrial(t, 1, 8)
	x.in.Ready, x.in.Load, x.in.Held, x.in.Queued = 2, engines.Known(0.85), engines.Known(50), 50
	x.want(4, "2 are 170 % full with the 50 that wait for room", x.after(31*time.Second)) // 4.25, and no more than twice as many
	x.in.Ready, x.in.Queued = 4, 10
	x.want(6, "4 are 102 % full", x.after(32*time.Second))
	x.in.Ready, x.in.Held = 6, engines.Opt[int]{}
	x.want(7, "6 are 85 % full", x.after(32*time.Second)) // by what is known
	x.in.Ready, x.in.Held = 7, engines.Known(0)
	x.want(8, "7 are 85 % full", x.after(32*time.Second))
}

// Where no cards are free what is wanted goes back to what there is, and is tried
// again after a while.
func TestNoRoom(t *testing.T) {
	x := newTrial(t, 1, 4)
	x.in.Ready, x.in.Load = 1, engines.Known(1.0)
	x.want(2, "full", x.after(31*time.Second))
	x.in.NoRoom = "2 cards short"
	x.want(1, "no cards are free for more: 2 cards short", x.after(31*time.Second))
	x.in.NoRoom = ""
	x.want(1, "", x.after(x.cfg.DownWindow-time.Second))
	x.want(2, "full", x.after(time.Second))
}

// Whatever is told: what is wanted lies within its bounds, changes by load at most
// once in a window, is no more than doubled, and nothing is ended that may be at work
// or whose use is not known.
func TestAnyInput(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := scale.DefaultConfig()
		cfg.IdleTimeout = time.Duration(rapid.IntRange(1, 600).Draw(t, "idle timeout")) * time.Second
		cfg.UpWindow = time.Duration(rapid.IntRange(1, 60).Draw(t, "up")) * time.Second
		cfg.DownWindow = cfg.UpWindow * time.Duration(rapid.IntRange(1, 10).Draw(t, "down"))
		var s scale.Scaler
		now, last, first := start, scale.Decision{}, true
		var changed time.Time
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 120).Draw(t, "passed")) * time.Second)
			in := scale.Input{
				Now: now, Max: rapid.IntRange(0, 6).Draw(t, "max"), Floor: rapid.IntRange(0, 3).Draw(t, "floor"),
				Ready: rapid.IntRange(0, 6).Draw(t, "ready"), Coming: rapid.SampledFrom([]int{0, 0, 0, 1, 2}).Draw(t, "coming"),
				Disturbed: rapid.SampledFrom([]bool{false, false, true}).Draw(t, "disturbed"),
				Waiting:   rapid.SampledFrom([]int{0, 0, 1, 9}).Draw(t, "waiting"), Queued: rapid.SampledFrom([]int{0, 0, 0, 5}).Draw(t, "queued"),
				NoRoom: rapid.SampledFrom([]string{"", "", "full"}).Draw(t, "no room"),
			}
			if rapid.Bool().Draw(t, "load known") {
				in.Load = engines.Known(rapid.SampledFrom([]float64{0, 0.1, 0.5, 0.85, 1, 7, math.Inf(1), math.NaN()}).Draw(t, "load"))
			}
			if rapid.Bool().Draw(t, "held known") {
				in.Held = engines.Known(rapid.IntRange(0, 20).Draw(t, "held"))
			}
			if rapid.Bool().Draw(t, "idle known") {
				in.Idle = engines.Known(time.Duration(rapid.IntRange(0, 700).Draw(t, "idle")) * time.Second)
			}
			if rapid.Bool().Draw(t, "asked known") {
				in.Asked = engines.Known(time.Duration(rapid.IntRange(0, 700).Draw(t, "asked")) * time.Second)
			}
			d := s.Step(cfg, in)
			floor := min(in.Floor, in.Max)
			switch {
			case d.Want < floor || d.Want > in.Max:
				t.Fatalf("%d wanted of %d to %d", d.Want, floor, in.Max)
			case d.Why == "":
				t.Fatal("nothing says why")
			case !first && d.Changed != (d.Want != last.Want):
				t.Fatalf("changed is %v, from %d to %d", d.Changed, last.Want, d.Want)
			}
			bounded := last.Want >= floor && last.Want <= in.Max // else it had to change
			idle, known := in.Idle.Get()
			if !first && bounded && d.Want < last.Want {
				unused := known && idle >= cfg.IdleTimeout && in.Waiting+in.Queued == 0
				if d.Want == 0 && in.Ready > 0 && !unused {
					t.Fatalf("the last one is ended, and may be in use: %+v", in)
				}
				if d.Want >= in.Ready && in.Ready+in.Coming > 0 && !unused && in.NoRoom == "" {
					t.Fatalf("fewer are wanted than there are, without a reason: %+v", in)
				}
			}
			if !first && bounded && d.Want > last.Want && last.Want >= max(floor, 1) {
				if d.Want > 2*last.Want {
					t.Fatalf("from %d to %d at once", last.Want, d.Want)
				}
				if !changed.IsZero() && now.Sub(changed) < cfg.UpWindow {
					t.Fatalf("another one %v after the last change", now.Sub(changed))
				}
			}
			if d.Changed {
				changed = now
			}
			last, first = d, false
		}
	})
}

// A load that swings, however fast, between nothing and far too much never has more
// than one decision in a window.
func TestNoFlap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := scale.DefaultConfig()
		period := time.Duration(rapid.IntRange(2, 1200).Draw(t, "period")) * time.Second
		high := rapid.Float64Range(0.5, 12).Draw(t, "high")
		loads := time.Duration(rapid.IntRange(0, 120).Draw(t, "a start")) * time.Second
		var s scale.Scaler
		ready, coming := 1, time.Time{}
		var changes []time.Time
		for second := range 4 * 3600 {
			now := start.Add(time.Duration(second) * time.Second)
			work := 0.0
			if now.Sub(start)%period < period/2 {
				work = high
			}
			if !coming.IsZero() && !now.Before(coming) {
				ready, coming = s.Step(cfg, scale.Input{Now: now, Floor: 1, Max: 8, Ready: ready, Coming: 1}).Want, time.Time{}
			}
			in := scale.Input{Now: now, Floor: 1, Max: 8, Ready: ready, Load: engines.Known(work / float64(ready))}
			if !coming.IsZero() {
				in.Coming = 1
			}
			d := s.Step(cfg, in)
			if d.Changed && second > 0 {
				if n := len(changes); n > 0 && now.Sub(changes[n-1]) < cfg.UpWindow {
					t.Fatalf("two decisions within %v", now.Sub(changes[n-1]))
				}
				changes = append(changes, now)
				if d.Want > ready {
					coming = now.Add(loads)
				} else {
					ready = d.Want
				}
			}
		}
		if most := int(4*time.Hour/cfg.UpWindow) / 4; len(changes) > most {
			t.Fatalf("%d decisions in four hours", len(changes))
		}
	})
}

func TestConfig(t *testing.T) {
	if err := scale.DefaultConfig().Validate(); err != nil {
		t.Fatal(err)
	}
	err := scale.Config{IdleTimeout: -1, TargetLoad: math.NaN(), SpareLoad: 1, DownWindow: -1}.Validate()
	for _, want := range []string{"idle_timeout: -1ns", "target_load: NaN", "spare_load: 1;", "up_window: 0s", "down_window: -1ns"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want it to say %q", err, want)
		}
	}
}
