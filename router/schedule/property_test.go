package schedule_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/router/endpoint"
	"github.com/llmgw/llmgw/router/schedule"
)

// maybe draws a reading that may be unknown.
func maybe(t *rapid.T, label string, greatest float64) engines.Reading {
	if rapid.Bool().Draw(t, label+" unknown") {
		return engines.Reading{}
	}
	return engines.Read(rapid.Float64Range(0, greatest).Draw(t, label))
}

// drawPool draws endpoints in any state.
func drawPool(t *rapid.T, now time.Time) []*endpoint.Endpoint {
	n := rapid.IntRange(1, 8).Draw(t, "endpoints")
	set, err := endpoint.NewSet(endpoint.Config{FailureThreshold: 2, Cooldown: 10 * time.Second}, endpoint.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	var specs []endpoint.Spec
	for i := range n {
		specs = append(specs, endpoint.Spec{
			ID:     fmt.Sprintf("e%d", i),
			URL:    "http://h",
			Weight: rapid.Float64Range(0.01, 100).Draw(t, "weight"),
			Models: []endpoint.Model{{Name: "m"}},
		})
	}
	if err := set.Replace(specs); err != nil {
		t.Fatal(err)
	}
	pool := set.Snapshot().All()
	for _, e := range pool {
		for range rapid.IntRange(0, 5).Draw(t, "in flight") {
			e.Reserve()
		}
		for range rapid.IntRange(0, 3).Draw(t, "failures") {
			e.Failed(now.Add(-time.Duration(rapid.IntRange(0, 20).Draw(t, "ago")) * time.Second))
		}
		if rapid.Bool().Draw(t, "measured") {
			e.SetLoad(&endpoint.LoadState{
				Load: engines.Load{
					Running:     maybe(t, "running", 300),
					Waiting:     maybe(t, "waiting", 1000),
					KVUsedRatio: maybe(t, "kv", 1),
				},
				InFlight: int64(rapid.IntRange(0, 10).Draw(t, "in flight then")),
				At:       now.Add(-time.Duration(rapid.IntRange(-1, 60).Draw(t, "age")) * time.Second),
			})
		}
	}
	if gone := rapid.IntRange(0, n).Draw(t, "stay"); gone < n {
		if err := set.Replace(specs[:gone]); err != nil {
			t.Fatal(err)
		}
	}
	return pool
}

// Whatever the state of the pool: the pick is a kept candidate and is in
// flight once more, nobody else is; every endpoint is a candidate or dropped;
// every vote is in [0,1]; and no pick means that all were dropped.
func TestDecideProperties(t *testing.T) {
	s := newScheduler(t, schedule.Deps{})
	rapid.Check(t, func(t *rapid.T) {
		now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
		pool := drawPool(t, now)
		req := &schedule.Request{
			Model:   "m",
			Session: rapid.SampledFrom([]string{"", "s1", "s2", "s3"}).Draw(t, "session"),
			Tried:   pool[:rapid.IntRange(0, len(pool)).Draw(t, "tried")],
			Now:     now,
		}
		before := make([]int64, len(pool))
		for i, e := range pool {
			before[i] = e.InFlight()
		}
		var rec schedule.Decision
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		picked, held, err := s.Decide(rapid.SampledFrom(schedule.ProfileNames()).Draw(t, "profile"), req, pool, rng, &rec)

		if len(rec.Candidates)+len(rec.Dropped) != len(pool) {
			t.Fatalf("%d candidates and %d dropped of %d", len(rec.Candidates), len(rec.Dropped), len(pool))
		}
		for i, e := range pool {
			want := before[i]
			if e == picked {
				want++
			}
			if e.InFlight() != want {
				t.Fatalf("%s has %d in flight, had %d; picked %v", e.ID(), e.InFlight(), before[i], picked)
			}
		}
		if err != nil {
			if !errors.Is(err, schedule.ErrNoEndpoint) || len(rec.Candidates) != 0 || rec.Picked != -1 {
				t.Fatalf("%v with %d candidates, picked %d", err, len(rec.Candidates), rec.Picked)
			}
			return
		}
		if rec.Candidates[rec.Picked].Endpoint != picked {
			t.Fatal("the record has another pick")
		}
		for _, tried := range req.Tried {
			if tried == picked {
				t.Fatal("picked one that was tried")
			}
		}
		if picked.Gone() {
			t.Fatal("picked one that is gone")
		}
		for i := range rec.Candidates {
			var mean, sum float64
			for k, w := range rec.Scorers() {
				v := rec.Vote(k, i)
				if !(v >= 0 && v <= 1) {
					t.Fatalf("%s votes %v", w.Scorer.Name(), v)
				}
				mean += w.Weight * v
				sum += w.Weight
			}
			if math.Abs(mean/sum-rec.Scores[i]) > 1e-9 {
				t.Fatalf("score %v is not the mean of the votes, %v", rec.Scores[i], mean/sum)
			}
			if rec.Scores[i] > rec.Scores[rec.Picked] {
				t.Fatalf("%v is higher than the pick's %v", rec.Scores[i], rec.Scores[rec.Picked])
			}
		}
		held.Release()
		if x := rec.Explain(); x.Picked != picked.ID() || len(x.Candidates) != len(rec.Candidates) {
			t.Fatalf("explained as %+v", x)
		}
	})
}

// The same draw on the same signals is the same decision.
func TestDecisionIsReproducible(t *testing.T) {
	s := newScheduler(t, schedule.Deps{})
	now := time.Now()
	pool := weighted(t, 1, 1, 1, 1, 1)
	for seed := range uint64(50) {
		var picks [2]*endpoint.Endpoint
		for i := range picks {
			e, held, err := s.Decide("", &schedule.Request{Now: now}, pool, rand.New(rand.NewPCG(seed, 0)), nil)
			if err != nil {
				t.Fatal(err)
			}
			held.Release()
			picks[i] = e
		}
		if picks[0] != picks[1] {
			t.Fatalf("seed %d picks %s, then %s", seed, picks[0].ID(), picks[1].ID())
		}
	}
}

// More load never raises a vote: more requests in flight, a longer queue, a
// fuller cache, an older measurement, another failure.
func TestLoadNeverRaisesAVote(t *testing.T) {
	cfg := schedule.DefaultConfig()
	scorers := []schedule.Scorer{
		schedule.QueueDepth{Target: cfg.TargetWaiting, TargetInFlight: cfg.TargetInflight},
		schedule.LeastLoaded{Target: cfg.TargetInflight},
		schedule.KVHeadroom{Ceiling: cfg.KVCeiling, TargetInFlight: cfg.TargetInflight},
		schedule.Freshness{StaleAfter: cfg.StaleAfter},
		schedule.CleanRecord{},
	}
	rapid.Check(t, func(t *rapid.T) {
		now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
		e := weightedOne(t, rapid.Float64Range(0.01, 100).Draw(t, "weight"))
		held := rapid.IntRange(0, 30).Draw(t, "in flight")
		for range held {
			e.Reserve()
		}
		var load *endpoint.LoadState
		if rapid.Bool().Draw(t, "measured") {
			load = &endpoint.LoadState{
				Load: engines.Load{
					Running:     maybe(t, "running", 300),
					Waiting:     maybe(t, "waiting", 1000),
					KVUsedRatio: maybe(t, "kv", 1),
				},
				InFlight: int64(rapid.IntRange(0, 60).Draw(t, "in flight then")),
				At:       now.Add(-time.Duration(rapid.IntRange(0, 60).Draw(t, "age")) * time.Second),
			}
			e.SetLoad(load)
		}
		less := schedule.NewCandidate(e, now, cfg.StaleAfter)
		kind := rapid.SampledFrom([]string{"in flight", "waiting", "kv", "age", "failure"}).Draw(t, "more of")
		raise := func(r engines.Reading, by float64) engines.Reading {
			if v, ok := r.Get(); ok {
				return engines.Read(min(v+by, 2000))
			}
			return r
		}
		switch {
		case kind == "in flight":
			for range rapid.IntRange(1, 30).Draw(t, "by") {
				e.Reserve()
			}
		case load == nil:
		default:
			worse := *load
			switch kind {
			case "waiting":
				worse.Waiting = raise(worse.Waiting, rapid.Float64Range(0, 100).Draw(t, "by"))
			case "kv":
				worse.KVUsedRatio = raise(worse.KVUsedRatio, rapid.Float64Range(0, 0.5).Draw(t, "by"))
			}
			e.SetLoad(&worse)
		}
		more := schedule.NewCandidate(e, now, cfg.StaleAfter)
		for _, s := range scorers {
			var a, b [1]float64
			s.Score(&schedule.Request{Now: now}, []schedule.Candidate{less}, a[:])
			if kind == "failure" {
				e.Failed(now)
				more = schedule.NewCandidate(e, now, cfg.StaleAfter)
			}
			if _, fresh := s.(schedule.Freshness); kind == "age" && fresh && load != nil {
				more.Age += time.Second
			}
			s.Score(&schedule.Request{Now: now}, []schedule.Candidate{more}, b[:])
			if b[0] > a[0] {
				t.Fatalf("%s votes %v, and %v with more %s", s.Name(), a[0], b[0], kind)
			}
			if !(b[0] >= 0 && a[0] <= 1) {
				t.Fatalf("%s votes %v and %v", s.Name(), a[0], b[0])
			}
		}
	})
}

func weightedOne(t *rapid.T, weight float64) *endpoint.Endpoint {
	set, err := endpoint.NewSet(endpoint.DefaultConfig(), endpoint.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	if err := set.Replace([]endpoint.Spec{{ID: "a", URL: "http://h", Weight: weight, Models: []endpoint.Model{{Name: "m"}}}}); err != nil {
		t.Fatal(err)
	}
	return set.Snapshot().All()[0]
}

// A session's endpoint is within the bound; it does not depend on the pool's
// order; and when others leave, a session whose endpoint stays keeps it.
func TestSessionProperties(t *testing.T) {
	s := schedule.SessionAffinity{LoadFactor: 1.25}
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	choose := func(t *rapid.T, session string, cs []schedule.Candidate) int {
		votes := make([]float64, len(cs))
		s.Score(&schedule.Request{Session: session, Now: now}, cs, votes)
		chosen := -1
		for i, v := range votes {
			switch {
			case v == 1 && chosen < 0:
				chosen = i
			case v != 0:
				t.Fatalf("votes %v; want one of 1 and the rest 0", votes)
			}
		}
		if chosen < 0 {
			t.Fatalf("nobody in %v", votes)
		}
		return chosen
	}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 10).Draw(t, "endpoints")
		equal := rapid.Bool().Draw(t, "equal")
		weights := make([]float64, n)
		for i := range weights {
			weights[i] = 2
			if !equal {
				weights[i] = rapid.Float64Range(0.1, 10).Draw(t, "weight")
			}
		}
		var cs []schedule.Candidate
		var requests, weight float64
		for _, e := range weightedRapid(t, weights) {
			for range rapid.IntRange(0, 20).Draw(t, "in flight") {
				e.Reserve()
			}
			c := schedule.NewCandidate(e, now, time.Second)
			requests += float64(c.InFlight)
			weight += c.Weight
			cs = append(cs, c)
		}
		session := rapid.StringMatching(`[a-z]{1,8}`).Draw(t, "session")
		i := choose(t, session, cs)
		chosen := cs[i]
		if load := float64(chosen.InFlight) / chosen.Weight; load > 1.25*requests/weight+1e-9 {
			t.Fatalf("load %v per weight is above 1.25 times the mean %v", load, requests/weight)
		}
		shuffled := append([]schedule.Candidate(nil), cs...)
		rand.Shuffle(len(shuffled), func(a, b int) { shuffled[a], shuffled[b] = shuffled[b], shuffled[a] })
		if again := shuffled[choose(t, session, shuffled)]; again.Endpoint != chosen.Endpoint {
			t.Fatalf("%s, and %s in another order", chosen.Endpoint.ID(), again.Endpoint.ID())
		}
		pool := weightedRapid(t, weights)
		for k := range cs {
			cs[k] = schedule.NewCandidate(pool[k], now, time.Second)
		}
		idle := cs[choose(t, session, cs)].Endpoint
		for k := range cs {
			if cs[k].Endpoint == idle {
				continue
			}
			fewer := append(append([]schedule.Candidate(nil), cs[:k]...), cs[k+1:]...)
			if got := fewer[choose(t, session, fewer)].Endpoint; got != idle {
				t.Fatalf("%s moved the session from %s to %s by leaving", cs[k].Endpoint.ID(), idle.ID(), got.ID())
			}
		}
	})
}

func weightedRapid(t *rapid.T, weights []float64) []*endpoint.Endpoint {
	set, err := endpoint.NewSet(endpoint.DefaultConfig(), endpoint.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	var specs []endpoint.Spec
	for i, w := range weights {
		specs = append(specs, endpoint.Spec{ID: fmt.Sprintf("e%d", i), URL: "http://h", Weight: w, Models: []endpoint.Model{{Name: "m"}}})
	}
	if err := set.Replace(specs); err != nil {
		t.Fatal(err)
	}
	return set.Snapshot().All()
}

// Sessions spread over endpoints in proportion to their weights.
func TestSessionsSpreadByWeight(t *testing.T) {
	for _, weights := range [][]float64{{1, 1, 1, 1}, {1, 2, 3, 4}} {
		var cs []schedule.Candidate
		var sum float64
		for i, e := range weighted(t, weights...) {
			cs = append(cs, schedule.NewCandidate(e, time.Now(), time.Second))
			sum += weights[i]
		}
		const sessions = 10000
		got := make([]float64, len(cs))
		votes := make([]float64, len(cs))
		for i := range sessions {
			schedule.SessionAffinity{LoadFactor: 1.25}.Score(&schedule.Request{Session: fmt.Sprint("session-", i)}, cs, votes)
			for k, v := range votes {
				got[k] += v
			}
		}
		for k := range got {
			if fair := sessions * weights[k] / sum; math.Abs(got[k]-fair) > 0.1*fair {
				t.Errorf("weights %v: endpoint %d has %v sessions; its fair share is %v", weights, k, got[k], fair)
			}
		}
	}
}
