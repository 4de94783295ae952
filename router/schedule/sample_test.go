package schedule_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/llmgw/llmgw/router/endpoint"
	"github.com/llmgw/llmgw/router/schedule"
)

func containsAll(text string, parts ...string) bool {
	for _, p := range parts {
		if !strings.Contains(text, p) {
			return false
		}
	}
	return true
}

// equals returns n weights of 1.
func equals(n int) []float64 {
	w := make([]float64, n)
	for i := range w {
		w[i] = 1
	}
	return w
}

// A pool is looked at whole up to the limit and by the profile debug, and sampled
// beyond; holders of the prompt and the first of a session are always in the
// sample, and nobody is there twice.
func TestSample(t *testing.T) {
	cfg := schedule.DefaultConfig()
	index := newFakeIndex()
	s := newScheduler(t, schedule.Deps{Prefixes: index})
	rng := rand.New(rand.NewPCG(1, 1))
	for _, n := range []int{cfg.SampleAbove, cfg.SampleAbove + 1, 1000} {
		pool := weighted(t, equals(n)...)
		holders := []schedule.Holder{{Endpoint: pool[n-1], Bytes: 300}, {Endpoint: pool[0], Bytes: 200}, {Endpoint: pool[n/2], Bytes: 100}}
		index.set("p", holders, 1000)
		for _, profile := range []string{schedule.Chat, schedule.Debug} {
			for _, session := range []string{"", "s1"} {
				var rec schedule.Decision
				prompt := "p"
				_, held, err := s.Decide(profile, &schedule.Request{Session: session, Prompt: &prompt, Now: time.Now()}, pool, rng, &rec)
				if err != nil {
					t.Fatal(err)
				}
				held.Release()
				sampled := n > cfg.SampleAbove && profile != schedule.Debug
				if rec.Sampled != sampled || rec.Pool != n || !sampled && rec.Considered() != n {
					t.Errorf("%d endpoints, %s: sampled %t, %d of %d", n, profile, rec.Sampled, rec.Considered(), rec.Pool)
				}
				if sampled && (rec.Considered() < cfg.SampleSize/2 || rec.Considered() > cfg.SampleSize+3+4) {
					t.Errorf("%d endpoints: considered %d", n, rec.Considered())
				}
				seen := make(map[*endpoint.Endpoint]bool)
				for i := range rec.Candidates {
					if e := rec.Candidates[i].Endpoint; seen[e] {
						t.Errorf("%s is there twice", e.ID())
					} else {
						seen[e] = true
					}
				}
				for _, h := range holders {
					if !seen[h.Endpoint] {
						t.Errorf("%d endpoints: holder %s was not looked at", n, h.Endpoint.ID())
					}
				}
			}
		}
	}
}

// A session keeps to its endpoint in a sampled pool, and where that is too busy to
// one other: the same that a look at the whole pool finds.
func TestSampledSession(t *testing.T) {
	for version, weights := range []string{"equal", "unequal", "equal", "unequal"} {
		w := equals(500)
		if weights == "unequal" {
			for i := range w {
				w[i] = 1 + float64(i%5)
			}
		}
		pool := weighted(t, w...)
		sampled := newScheduler(t, schedule.Deps{})
		cfg := schedule.DefaultConfig()
		cfg.SampleAbove = 1000
		whole, err := schedule.New(cfg, schedule.Deps{})
		if err != nil {
			t.Fatal(err)
		}
		decide := func(s *schedule.Scheduler, session string) *endpoint.Endpoint {
			e, held, err := s.Decide("", &schedule.Request{Session: session, Now: time.Now(), PoolVersion: uint64(version / 2)}, pool, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			held.Release()
			return e
		}
		for i := range 50 {
			session := fmt.Sprint("session-", i)
			home := decide(whole, session)
			for range 5 {
				if got := decide(sampled, session); got != home {
					t.Fatalf("%s weights: %s goes to %s, of the whole pool to %s", weights, session, got.ID(), home.ID())
				}
			}
			place := home.Reserve()
			next := decide(whole, session)
			for range 5 {
				if got := decide(sampled, session); got != next || got == home {
					t.Fatalf("%s weights: %s moves to %s, of the whole pool to %s", weights, session, got.ID(), next.ID())
				}
			}
			place.Release()
		}
	}
}

// With a version a decision remembers the pool, but only for that version of that
// pool of that model; with and without, the decisions are the same.
func TestSampleOfSnapshots(t *testing.T) {
	index := newFakeIndex()
	s := newScheduler(t, schedule.Deps{Prefixes: index})
	now := time.Now()
	pools := make([][]*endpoint.Endpoint, 3)
	for i := range pools {
		pools[i] = weighted(t, equals(200+10*(i/2))...)
	}
	decide := func(model string, pool int, version uint64) string {
		var rec schedule.Decision
		prompt := "p"
		index.set("p", []schedule.Holder{
			{Endpoint: pools[0][7], Bytes: 90}, {Endpoint: pools[1][8], Bytes: 80}, {Endpoint: pools[2][9], Bytes: 70},
		}, 100)
		req := &schedule.Request{Model: model, Session: "s", Prompt: &prompt, Now: now, PoolVersion: version}
		_, held, err := s.Decide("", req, pools[pool], rand.New(rand.NewPCG(5, 5)), &rec)
		if err != nil {
			t.Fatal(err)
		}
		held.Release()
		for i := range rec.Candidates {
			c := &rec.Candidates[i]
			if !slices.Contains(pools[pool], c.Endpoint) {
				t.Fatalf("pool %d: %s is of another", pool, c.Endpoint.ID())
			}
		}
		if !slices.ContainsFunc(rec.Candidates, func(c schedule.Candidate) bool { return c.Endpoint == pools[pool][7+pool] }) {
			t.Errorf("pool %d: the holder was not looked at", pool)
		}
		return rec.Explain().String()
	}
	for round := range 3 {
		for pool := range pools {
			want := decide("m", pool, 0)
			for _, version := range []uint64{1, 2, 2, 1} {
				if got := decide("m", pool, version); got != want {
					t.Errorf("round %d, pool %d, version %d: %s\nwant %s", round, pool, version, got, want)
				}
			}
		}
	}
	for i := range 200 { // more models than are remembered
		decide(fmt.Sprint("m", i), i%3, 1)
	}
}

// Every endpoint is as likely to be in the sample as any other.
func TestSampleIsFair(t *testing.T) {
	const decisions = 6000
	s := newScheduler(t, schedule.Deps{})
	for _, n := range []int{129, 300} {
		pool := weighted(t, equals(n)...)
		rng := rand.New(rand.NewPCG(9, 9))
		got := make(map[*endpoint.Endpoint]int)
		total := 0
		var rec schedule.Decision
		for range decisions {
			_, held, err := s.Decide("", &schedule.Request{Now: time.Now()}, pool, rng, &rec)
			if err != nil {
				t.Fatal(err)
			}
			held.Release()
			for i := range rec.Candidates {
				got[rec.Candidates[i].Endpoint]++
				total++
			}
		}
		fair := float64(total) / float64(n)
		for _, e := range pool {
			if c := float64(got[e]); c < 0.85*fair || c > 1.15*fair {
				t.Errorf("%d endpoints: %s was looked at %v times, fair are %.0f", n, e.ID(), c, fair)
			}
		}
	}
}

// A sample in which nothing can be used is no answer: the whole pool is looked at.
func TestSampleFallsBack(t *testing.T) {
	s := newScheduler(t, schedule.Deps{})
	pool := weighted(t, equals(400)...)
	now := time.Now()
	for i, e := range pool {
		if i != 217 {
			e.CoolDown(now, 7*time.Second)
		}
	}
	var rec schedule.Decision
	for range 20 {
		e, held, err := s.Decide("", &schedule.Request{Now: now}, pool, nil, &rec)
		if err != nil || e != pool[217] {
			t.Fatalf("picked %v, %v", e, err)
		}
		if rec.Considered() == 400 == rec.Sampled {
			t.Errorf("sampled %t with %d considered", rec.Sampled, rec.Considered())
		}
		held.Release()
	}
	pool[217].CoolDown(now, 5*time.Second)
	_, _, err := s.Decide("", &schedule.Request{Now: now}, pool, nil, &rec)
	none, ok := errors.AsType[*schedule.NoEndpointError](err)
	if !ok || none.Pool != 400 || none.Drops[0].Count != 400 || none.RetryAfter != 5*time.Second {
		t.Errorf("error %v", err)
	}
	// A session's own endpoint is no reason to give up on the rest.
	rest := weighted(t, equals(400)...)
	var home *endpoint.Endpoint
	for range 2 {
		e, held, err := s.Decide("", &schedule.Request{Session: "s", Now: now}, rest, nil, &rec)
		if err != nil {
			t.Fatal(err)
		}
		held.Release()
		if home == nil {
			home = e
			for i, e := range rest {
				if e != home && i != 100 {
					e.CoolDown(now, time.Minute)
				}
			}
			for range 50 {
				home.Reserve()
			}
		} else if e != rest[100] {
			t.Errorf("picked %s; only %s is idle", e.ID(), rest[100].ID())
		}
	}
}

// The same draw on the same pool looks at the same sample.
func TestSampleIsReproducible(t *testing.T) {
	s := newScheduler(t, schedule.Deps{})
	pool := weighted(t, equals(1000)...)
	now := time.Now()
	decide := func(seed uint64) string {
		var rec schedule.Decision
		e, held, err := s.Decide("", &schedule.Request{Now: now}, pool, rand.New(rand.NewPCG(seed, 0)), &rec)
		if err != nil {
			t.Fatal(err)
		}
		held.Release()
		return e.ID() + " of " + rec.Explain().String()
	}
	different := make(map[string]bool)
	for seed := range uint64(20) {
		first := decide(seed)
		if again := decide(seed); again != first {
			t.Fatalf("seed %d: %s\nthen %s", seed, first, again)
		}
		different[first] = true
	}
	if len(different) < 15 {
		t.Errorf("20 seeds gave %d decisions", len(different))
	}
}

// Simultaneous decisions on frozen measurements spread, in small pools, in large
// ones that are looked at whole, and in sampled ones.
func TestNoHerdWhateverTheSize(t *testing.T) {
	for _, tt := range []struct{ endpoints, requests int }{{20, 200}, {100, 200}, {200, 2000}, {1000, 10000}} {
		for _, profile := range []string{schedule.Chat, schedule.Batch, schedule.LongContext} {
			t.Run(fmt.Sprintf("%d/%s", tt.endpoints, profile), func(t *testing.T) {
				s := newScheduler(t, schedule.Deps{})
				pool := weighted(t, equals(tt.endpoints)...)
				now := time.Now()
				var all sync.WaitGroup
				gate := make(chan struct{})
				for range min(tt.requests, 200) {
					all.Go(func() {
						<-gate
						for range max(tt.requests/200, 1) {
							if _, _, err := s.Decide(profile, &schedule.Request{Now: now}, pool, nil, nil); err != nil {
								t.Error(err)
							}
						}
					})
				}
				close(gate)
				all.Wait()
				fair := float64(tt.requests) / float64(tt.endpoints)
				for _, e := range pool {
					if got := float64(e.InFlight()); got > 1.3*fair || got < fair/1.3 {
						t.Errorf("%s got %v; its fair share is %.1f", e.ID(), got, fair)
					}
				}
			})
		}
	}
}
