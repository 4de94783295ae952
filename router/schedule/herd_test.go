package schedule_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/router/endpoint"
	"github.com/llmgw/llmgw/router/schedule"
)

// weighted returns an unmeasured pool with the given weights.
func weighted(tb testing.TB, weights ...float64) []*endpoint.Endpoint {
	tb.Helper()
	set, err := endpoint.NewSet(endpoint.DefaultConfig(), endpoint.Deps{})
	if err != nil {
		tb.Fatal(err)
	}
	var specs []endpoint.Spec
	for i, w := range weights {
		specs = append(specs, endpoint.Spec{
			ID:     fmt.Sprintf("e%d", i),
			URL:    fmt.Sprintf("http://h%d:8000", i),
			Weight: w,
			Models: []endpoint.Model{{Name: "m"}},
		})
	}
	if err := set.Replace(specs); err != nil {
		tb.Fatal(err)
	}
	return set.Snapshot().All()
}

func newScheduler(tb testing.TB, deps schedule.Deps) *schedule.Scheduler {
	tb.Helper()
	s, err := schedule.New(schedule.DefaultConfig(), deps)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// With scraping frozen, decisions that come at once spread by weight within
// 1.3 times the fair share, whatever the last measurement was.
func TestNoHerdOnFrozenMeasurements(t *testing.T) {
	const requests = 200
	now := time.Now()
	measured := func(running, waiting, kv float64, age time.Duration) *endpoint.LoadState {
		return &endpoint.LoadState{
			Load: engines.Load{Running: engines.Read(running), Waiting: engines.Read(waiting), KVUsedRatio: engines.Read(kv)},
			At:   now.Add(-age),
		}
	}
	equal := []float64{1, 1, 1, 1, 1, 1, 1, 1}
	tests := []struct {
		name    string
		weights []float64
		load    *endpoint.LoadState
	}{
		{"never measured", equal, nil},
		{"idle", equal, measured(0, 0, 0, 0)},
		{"busy", equal, measured(20, 0, 0.5, time.Second)},
		{"overloaded", equal, measured(250, 400, 1, time.Second)},
		{"stale", equal, measured(20, 3, 0.5, time.Minute)},
		{"unequal, never measured", []float64{1, 2, 3, 4}, nil},
		{"unequal, idle", []float64{1, 2, 3, 4}, measured(0, 0, 0, 0)},
		{"one much larger", []float64{1, 1, 8}, measured(0, 0, 0, 0)},
		{"fractions", []float64{0.1, 0.2, 0.2}, nil},
	}
	for _, tt := range tests {
		for _, profile := range schedule.ProfileNames() {
			for _, at := range []string{"in turn", "at once"} {
				t.Run(fmt.Sprintf("%s/%s/%s", tt.name, profile, at), func(t *testing.T) {
					s := newScheduler(t, schedule.Deps{})
					pool := weighted(t, tt.weights...)
					var sum float64
					for i, e := range pool {
						e.SetLoad(tt.load)
						sum += tt.weights[i]
					}
					decide := func(rng *rand.Rand) {
						if _, _, err := s.Decide(profile, &schedule.Request{Model: "m", Now: now}, pool, rng, nil); err != nil {
							t.Error(err)
						}
					}
					if at == "in turn" {
						rng := rand.New(rand.NewPCG(1, 1))
						for range requests {
							decide(rng)
						}
					} else {
						var all sync.WaitGroup
						gate := make(chan struct{})
						for range requests {
							all.Go(func() { <-gate; decide(nil) })
						}
						close(gate)
						all.Wait()
					}
					for i, e := range pool {
						fair := requests * tt.weights[i] / sum
						if got := float64(e.InFlight()); got > 1.3*fair || got < fair/1.3 {
							t.Errorf("weight %v got %v; its fair share is %.1f", tt.weights[i], got, fair)
						}
					}
				})
			}
		}
	}
}

// Ties break at random: first requests on an idle pool go everywhere.
func TestTiesBreakAtRandom(t *testing.T) {
	s := newScheduler(t, schedule.Deps{})
	pool := weighted(t, 1, 1, 1, 1)
	rng := rand.New(rand.NewPCG(7, 7))
	got := make(map[string]int)
	for range 4000 {
		e, held, err := s.Decide("", &schedule.Request{Now: time.Now()}, pool, rng, nil)
		if err != nil {
			t.Fatal(err)
		}
		got[e.ID()]++
		held.Release()
	}
	for _, e := range pool {
		if n := got[e.ID()]; n < 800 || n > 1200 {
			t.Errorf("%s was first %d times of 4000 on 4 idle endpoints", e.ID(), n)
		}
	}
}

// An endpoint that fails at once is never busy, and must not draw traffic for
// that. Here one in three requests to it succeeds, so its breaker never opens.
func TestFailingFastDrawsNoTraffic(t *testing.T) {
	s := newScheduler(t, schedule.Deps{})
	pool := weighted(t, 1, 1, 1)
	now := time.Now()
	rng := rand.New(rand.NewPCG(3, 3))
	got := make(map[*endpoint.Endpoint]int)
	var held []endpoint.Reservation
	for i := range 3000 {
		now = now.Add(10 * time.Millisecond)
		e, r, err := s.Decide("", &schedule.Request{Now: now}, pool, rng, nil)
		if err != nil {
			t.Fatal(err)
		}
		got[e]++
		if e == pool[0] {
			if i%3 == 0 {
				e.Succeeded(now)
			} else {
				e.Failed(now)
			}
			r.Release()
			continue
		}
		e.Succeeded(now)
		if held = append(held, r); len(held) > 12 { // the others are busy with 6 each
			held[0].Release()
			held = held[1:]
		}
	}
	if share := float64(got[pool[0]]) / 3000; share > 0.05 {
		t.Errorf("the failing endpoint drew %.0f%% of the traffic", 100*share)
	}
}

// However many decide at once, a probe is one request.
func TestOneProbeOfManyDecisions(t *testing.T) {
	s := newScheduler(t, schedule.Deps{})
	pool := weighted(t, 1, 1)
	now := time.Now()
	for range 3 {
		pool[0].Failed(now)
	}
	for range 3 {
		pool[1].Failed(now)
	}
	now = now.Add(15 * time.Second)
	var all sync.WaitGroup
	var mu sync.Mutex
	picked := 0
	for range 50 {
		all.Go(func() {
			_, _, err := s.Decide("", &schedule.Request{Now: now}, pool, nil, nil)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				picked++
			} else if !errors.Is(err, schedule.ErrNoEndpoint) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if picked != 2 || pool[0].InFlight() != 1 || pool[1].InFlight() != 1 {
		t.Errorf("%d picks, %d and %d in flight; want one probe each", picked, pool[0].InFlight(), pool[1].InFlight())
	}
}

// TestDecidedSinceWaitsForASecond: what an engine was sent long ago is not taken to
// be waiting still, or an engine measured just now would look empty beside it.
func TestDecidedSinceWaitsForASecond(t *testing.T) {
	now := time.Now()
	for _, tt := range []struct {
		name    string
		age     time.Duration
		waiting float64
		since   int // decided since; negative: ended
		want    float64
	}{
		{"nothing since", 5 * time.Second, 3, 0, 3},
		{"just sent", 100 * time.Millisecond, 3, 8, 11},
		{"over four seconds", 4 * time.Second, 3, 8, 5},
		{"ended", 4 * time.Second, 3, -2, 1},
		{"more ended than waited", 4 * time.Second, 3, -8, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := weighted(t, 1)[0]
			for range 10 + tt.since {
				e.Reserve()
			}
			e.SetLoad(&endpoint.LoadState{
				InFlight: 10, At: now.Add(-tt.age),
				Load: engines.Load{Running: engines.Read(20), Waiting: engines.Read(tt.waiting)},
			})
			c := schedule.NewCandidate(e, now, time.Minute)
			if got, ok := c.Waiting(); !ok || got != tt.want {
				t.Errorf("waiting %v, want %v", got, tt.want)
			}
			if got := c.Requests(); got != max(23+float64(tt.since), float64(10+tt.since)) {
				t.Errorf("requests %v: what was sent counts in full", got)
			}
		})
	}
}
