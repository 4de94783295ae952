package endpoint_test

import (
	"bytes"
	"errors"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/llmgw/llmgw/router/endpoint"
)

func TestBreakerOpensAtTheThreshold(t *testing.T) {
	e := newEndpoint(t, endpoint.DefaultConfig())
	now := start()
	e.Failed(now)
	e.Failed(now)
	e.Succeeded(now)
	e.Failed(now)
	e.Failed(now)
	if !e.Admissible(now) || e.State(now) != endpoint.Closed {
		t.Fatalf("%v after two failures in a row", e.State(now))
	}
	e.Failed(now)
	if e.Admissible(now) || e.State(now) != endpoint.Open {
		t.Fatalf("%v after three failures in a row", e.State(now))
	}
	e.Succeeded(now.Add(time.Second)) // a request that began before it opened
	if got := e.State(now.Add(14999 * time.Millisecond)); got != endpoint.Open {
		t.Errorf("%v just before the cooldown is over", got)
	}
	if got := e.State(now.Add(15 * time.Second)); got != endpoint.HalfOpen {
		t.Errorf("%v when the cooldown is over", got)
	}
}

func TestProbe(t *testing.T) {
	const cooldown = 15 * time.Second
	cfg := endpoint.Config{FailureThreshold: 1, Cooldown: cooldown}
	open := func(t *testing.T) (*endpoint.Endpoint, time.Time) {
		e := newEndpoint(t, cfg)
		e.Failed(start())
		return e, start().Add(cooldown)
	}
	begin := func(t *testing.T, e *endpoint.Endpoint, now time.Time) endpoint.Reservation {
		t.Helper()
		held, err := e.Begin(now)
		if err != nil {
			t.Fatalf("not admitted while %v", e.State(now))
		}
		return held
	}
	refused := func(t *testing.T, e *endpoint.Endpoint, now time.Time) {
		t.Helper()
		before := e.InFlight()
		if _, err := e.Begin(now); !errors.Is(err, endpoint.ErrNotAdmitted) {
			t.Errorf("Begin while %v: %v", e.State(now), err)
		}
		if _, err := e.BeginAt(now, 100); !errors.Is(err, endpoint.ErrNotAdmitted) {
			t.Errorf("BeginAt while %v: %v", e.State(now), err)
		}
		if e.InFlight() != before {
			t.Errorf("a refusal left %d in flight, were %d", e.InFlight(), before)
		}
	}

	t.Run("only one", func(t *testing.T) {
		e, now := open(t)
		begin(t, e, now)
		if got := e.State(now); got != endpoint.Probing {
			t.Errorf("state %v", got)
		}
		refused(t, e, now)
	})
	t.Run("success closes", func(t *testing.T) {
		e, now := open(t)
		probe := begin(t, e, now)
		e.Succeeded(now)
		if got := e.State(now); got != endpoint.Closed {
			t.Errorf("state %v", got)
		}
		probe.Release()
		begin(t, e, now)
		begin(t, e, now)
	})
	t.Run("failure opens again", func(t *testing.T) {
		e, now := open(t)
		begin(t, e, now)
		e.Failed(now)
		refused(t, e, now.Add(cooldown-1))
		begin(t, e, now.Add(cooldown))
	})
	t.Run("a stuck one expires", func(t *testing.T) {
		e, now := open(t)
		stuck := begin(t, e, now)
		refused(t, e, now.Add(cooldown-1))
		begin(t, e, now.Add(cooldown))
		stuck.Release() // gives back nothing of the new one's
		refused(t, e, now.Add(cooldown))
	})
	t.Run("one without outcome is given back", func(t *testing.T) {
		e, now := open(t)
		probe := begin(t, e, now)
		probe.Release()
		begin(t, e, now)
	})
	t.Run("too much asked of it", func(t *testing.T) {
		e, now := open(t)
		probe := begin(t, e, now)
		e.CoolDown(now, time.Second)
		probe.Release()
		refused(t, e, now.Add(999*time.Millisecond))
		begin(t, e, now.Add(time.Second))
	})
}

func TestCoolDown(t *testing.T) {
	e := newEndpoint(t, endpoint.DefaultConfig())
	now := start()
	for range 10 {
		e.CoolDown(now, 5*time.Second)
	}
	if got := e.State(now.Add(4 * time.Second)); got != endpoint.CoolingDown {
		t.Errorf("state %v", got)
	}
	e.CoolDown(now, time.Second) // shorter: nothing
	if got := e.State(now.Add(4 * time.Second)); got != endpoint.CoolingDown {
		t.Errorf("a shorter time ended the longer one: %v", got)
	}
	if got := e.RecentFailures(now); got != 0 {
		t.Errorf("asking for time counts as %v failures", got)
	}
	now = now.Add(5 * time.Second)
	if got := e.State(now); got != endpoint.HalfOpen {
		t.Errorf("state %v; want one attempt at a time after the cooldown", got)
	}
	e.Succeeded(now)
	e.Failed(now)
	e.CoolDown(now, 0)
	e.Failed(now)
	if got := e.State(now.Add(14 * time.Second)); got != endpoint.CoolingDown {
		t.Errorf("state %v; want Config.Cooldown when none is asked for", got)
	}
	now = now.Add(15 * time.Second)
	e.CoolDown(now, 1e6*time.Hour)
	if got := e.State(now.Add(endpoint.MaxCooldown)); got != endpoint.HalfOpen {
		t.Errorf("state %v; want the asked time bounded", got)
	}
}

// One attempt a cooldown at most, however many requests come.
func TestNoRetryStorm(t *testing.T) {
	e := newEndpoint(t, endpoint.DefaultConfig())
	var attempts []time.Duration
	for at := time.Duration(0); at < time.Minute; at += 10 * time.Millisecond {
		now := start().Add(at)
		held, err := e.Begin(now)
		if err != nil {
			continue
		}
		attempts = append(attempts, at)
		e.CoolDown(now, 0) // answers 429
		held.Release()
	}
	want := []time.Duration{0, 15 * time.Second, 30 * time.Second, 45 * time.Second}
	if !slices.Equal(attempts, want) {
		t.Errorf("attempts at %v, want %v", attempts, want)
	}
}

func TestAdmitsIn(t *testing.T) {
	e := newEndpoint(t, endpoint.Config{FailureThreshold: 1, Cooldown: 10 * time.Second})
	now := start()
	check := func(now time.Time, want time.Duration) {
		t.Helper()
		if got := e.AdmitsIn(now); got != want {
			t.Errorf("%v: admits in %v, want %v", e.State(now), got, want)
		}
	}
	check(now, 0)
	e.Failed(now)
	check(now.Add(4*time.Second), 6*time.Second)
	now = now.Add(10 * time.Second)
	check(now, 0)
	if _, err := e.Begin(now); err != nil {
		t.Fatal(err)
	}
	check(now.Add(time.Second), 9*time.Second)
	e.CoolDown(now, 30*time.Second)
	check(now, 30*time.Second)
}

func TestRecentFailuresFade(t *testing.T) {
	e := newEndpoint(t, endpoint.Config{FailureThreshold: 100, Cooldown: 10 * time.Second})
	now := start()
	for range 4 {
		e.Failed(now)
	}
	e.Succeeded(now) // ends the row but forgives nothing
	for _, tt := range []struct {
		after time.Duration
		want  float64
	}{{0, 4}, {10 * time.Second, 2}, {20 * time.Second, 1}, {80 * time.Second, 0}, {0, 0}} {
		if got := e.RecentFailures(now.Add(tt.after)); math.Abs(got-tt.want) > 1e-9 {
			t.Errorf("after %v: %v, want %v", tt.after, got, tt.want)
		}
	}
}

func TestBreakerLogsChangesOnce(t *testing.T) {
	var logs bytes.Buffer
	set := newSet(t, endpoint.DefaultConfig(), endpoint.Deps{Logger: slog.New(slog.NewTextHandler(&logs, nil))})
	if err := set.Replace([]endpoint.Spec{spec("a", "m")}); err != nil {
		t.Fatal(err)
	}
	e := set.Snapshot().All()[0]
	for range 10 {
		e.Failed(start())
	}
	for range 10 {
		e.Succeeded(start().Add(time.Minute))
	}
	for range 10 {
		e.CoolDown(start().Add(time.Minute), time.Second)
	}
	got := logs.String()
	if strings.Count(got, "\n") != 3 || strings.Count(got, "keeps failing") != 1 || strings.Count(got, "is back") != 1 || strings.Count(got, "asked for time") != 1 {
		t.Errorf("want one line a change, got:\n%s", got)
	}
}

func TestStateNames(t *testing.T) {
	var got []string
	for s := endpoint.StateUnset; s <= endpoint.Probing; s++ {
		got = append(got, s.String())
	}
	want := []string{"unset", "closed", "open", "cooling", "half-open", "probing"}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestBreakerProperties runs random histories against what the breaker
// promises, with a model that knows only outcomes and times.
func TestBreakerProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		threshold := rapid.IntRange(1, 4).Draw(t, "threshold")
		cooldown := time.Duration(rapid.IntRange(1, 20).Draw(t, "cooldown")) * time.Second
		set, err := endpoint.NewSet(endpoint.Config{FailureThreshold: threshold, Cooldown: cooldown}, endpoint.Deps{})
		if err != nil {
			t.Fatal(err)
		}
		if err := set.Replace([]endpoint.Spec{spec("a", "m")}); err != nil {
			t.Fatal(err)
		}
		e := set.Snapshot().All()[0]

		now := start()
		type probe struct {
			held  endpoint.Reservation
			taken time.Time
		}
		var (
			row     int       // failures in a row since the last success
			until   time.Time // no request before
			tripped bool
			live    []probe // probes without outcome
			held    []endpoint.Reservation
		)
		t.Repeat(map[string]func(*rapid.T){
			"pass": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(0, 25000).Draw(t, "ms")) * time.Millisecond)
			},
			"begin": func(t *rapid.T) {
				admissible := e.Admissible(now)
				r, err := e.Begin(now)
				if admissible != (err == nil) {
					t.Fatalf("Admissible %t, Begin %v", admissible, err)
				}
				if err != nil {
					return
				}
				if !tripped {
					held = append(held, r)
					return
				}
				if now.Before(until) {
					t.Fatalf("admitted %v before the cooldown is over", until.Sub(now))
				}
				for _, p := range live {
					if now.Sub(p.taken) < cooldown {
						t.Fatalf("a second probe %v after the first", now.Sub(p.taken))
					}
				}
				live = append(live, probe{r, now})
			},
			"succeed": func(*rapid.T) {
				e.Succeeded(now)
				if !tripped {
					row = 0
				} else if !now.Before(until) {
					row, tripped, live = 0, false, nil
				}
			},
			"fail": func(*rapid.T) {
				e.Failed(now)
				switch {
				case !tripped:
					if row++; row >= threshold {
						tripped, until = true, now.Add(cooldown)
					}
				case !now.Before(until):
					until = now.Add(cooldown)
				}
			},
			"cool": func(t *rapid.T) {
				d := time.Duration(rapid.IntRange(1, 30).Draw(t, "retry after")) * time.Second
				e.CoolDown(now, d)
				if end := now.Add(d); !tripped || end.After(until) {
					until = end
				}
				tripped = true
			},
			"release probe": func(t *rapid.T) {
				if len(live) == 0 {
					t.Skip("none")
				}
				live[0].held.Release()
				live[0].held.Release()
				live = live[1:]
			},
			"release": func(t *rapid.T) {
				if len(held) == 0 {
					t.Skip("none")
				}
				held[0].Release()
				held = held[1:]
			},
			"": func(t *rapid.T) {
				state := e.State(now)
				if !tripped && state != endpoint.Closed {
					t.Fatalf("%v after %d failures in a row of %d", state, row, threshold)
				}
				if tripped && now.Before(until) && state != endpoint.Open && state != endpoint.CoolingDown {
					t.Fatalf("%v for another %v", state, until.Sub(now))
				}
				if far := now.Add(2 * endpoint.MaxCooldown); !e.Admissible(far) {
					t.Fatalf("%v and not admissible ever after", e.State(far))
				}
			},
		})
	})
}
