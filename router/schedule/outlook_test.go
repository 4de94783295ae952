package schedule_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"pgregory.net/rapid"

	"github.com/llmgw/llmgw/router/endpoint"
	"github.com/llmgw/llmgw/router/schedule"
)

// What a picker says about its odds is what it does, for any scores.
func TestOddsAreThoseOfPick(t *testing.T) {
	const draws = 800
	rapid.Check(t, func(t *rapid.T) {
		scores := rapid.SliceOfN(rapid.SampledFrom([]float64{0, 0.1, 0.25, 0.5, 0.5, 1}), 1, 6).Draw(t, "scores")
		for _, p := range []schedule.Picker{schedule.MaxScore{}, schedule.PowerOfTwo{}, schedule.WeightedRandom{}} {
			odds := make([]float64, len(scores))
			for i := range odds {
				odds[i] = math.NaN() // unknown content
			}
			p.(schedule.Odds).Odds(scores, odds)
			got := make([]float64, len(scores))
			rng := rand.New(rand.NewPCG(1, 2))
			for range draws {
				i, err := p.Pick(rng, scores)
				if err != nil {
					t.Fatal(err)
				}
				got[i] += 1.0 / draws
			}
			sum := 0.0
			for i := range odds {
				sum += odds[i]
				// Five deviations of a share of one half.
				if math.Abs(odds[i]-got[i]) > 5*0.5/math.Sqrt(draws) {
					t.Fatalf("%s on %v: odds %v, picked %v", p.Name(), scores, odds, got)
				}
			}
			if math.Abs(sum-1) > 1e-9 {
				t.Fatalf("%s on %v: odds %v add up to %v", p.Name(), scores, odds, sum)
			}
		}
	})
}

// counters is everything that the scheduler counts.
func counters(t *testing.T, reg *prometheus.Registry) string {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(families)
}

// An outlook is the decision that would be made, and leaves no trace: no place in
// flight, no probe, nothing counted, nothing told to the index.
func TestOutlookTakesNothing(t *testing.T) {
	for _, size := range []int{3, 200} { // of which the second is sampled
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			reg, index := prometheus.NewRegistry(), newFakeIndex()
			s := newScheduler(t, schedule.Deps{Registerer: reg, Prefixes: index})
			weights := make([]float64, size)
			for i := range weights {
				weights[i] = 1
			}
			pool := weighted(t, weights...)
			now := time.Now()
			// One owes a probe, which a decision would take.
			for range endpoint.DefaultConfig().FailureThreshold {
				pool[1].Failed(now.Add(-time.Minute))
			}
			prompt := "p"
			index.set(prompt, []schedule.Holder{{Endpoint: pool[2], Bytes: 4096}}, 8192)
			req := &schedule.Request{Model: "m", Prompt: &prompt, Now: now}
			before := *req
			was := counters(t, reg)

			o, err := s.Outlook(schedule.Chat, req, pool)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(before.Trial, req.Trial); diff != "" {
				t.Errorf("the caller's request was changed: %s", diff)
			}
			if now := counters(t, reg); now != was {
				t.Errorf("something was counted:\n%s\nbefore:\n%s", now, was)
			}
			if told := index.take(); told != "" {
				t.Errorf("the index was told of %s", told)
			}
			for _, e := range pool {
				if e.InFlight() != 0 || e.Begun() != 0 {
					t.Errorf("%s: %d in flight, %d begun", e.ID(), e.InFlight(), e.Begun())
				}
			}
			if got := pool[1].State(now); got != endpoint.HalfOpen {
				t.Errorf("the probe is %v", got)
			}
			if len(o.Decision.Candidates) != size || len(o.Chances) != size {
				t.Errorf("%d candidates, %d chances; want the whole pool", len(o.Decision.Candidates), len(o.Chances))
			}
			if (o.Sample > 0) != (size > 128) || (o.Draws > 0) != (size > 128) {
				t.Errorf("sample %d, draws %d", o.Sample, o.Draws)
			}
			sum := 0.0
			for _, c := range o.Chances {
				sum += c
			}
			if math.Abs(sum-1) > 1e-9 {
				t.Errorf("chances add up to %v", sum)
			}
			x := o.Explain()
			if best := x.Best(); best == nil || best.Endpoint != "e2" || best.PrefixBytes != 4096 {
				t.Errorf("best %+v, want e2", best)
			}
			// Then it is made.
			e, held, err := s.Decide(schedule.Chat, req, pool, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			held.Release()
			if e.ID() != "e2" {
				t.Errorf("Decide picks %s", e.ID())
			}
		})
	}
}

// The same question has the same answer, and says so where chance decides.
func TestOutlookIsReproducible(t *testing.T) {
	s := newScheduler(t, custom(nil, schedule.PowerOfTwo{}))
	pool := weighted(t, 1, 1, 1, 1)
	req := &schedule.Request{Now: time.Now()}
	first, err := s.Outlook("custom", req, pool)
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		again, err := s.Outlook("custom", req, pool)
		if err != nil {
			t.Fatal(err)
		}
		if again.Decision.Picked != first.Decision.Picked || !cmp.Equal(again.Chances, []float64{0.25, 0.25, 0.25, 0.25}) {
			t.Fatalf("picked %d and %d, chances %v", first.Decision.Picked, again.Decision.Picked, again.Chances)
		}
	}
}

// second is a stranger's picker, which says nothing of its odds.
type second struct{}

func (second) Name() string { return "second" }
func (second) Pick(rng *rand.Rand, scores []float64) (int, error) {
	if rng.IntN(4) == 0 {
		return 0, nil
	}
	return 1, nil
}

func TestOutlookEstimatesAPickersOdds(t *testing.T) {
	s := newScheduler(t, custom(nil, second{}))
	o, err := s.Outlook("custom", &schedule.Request{Now: time.Now()}, weighted(t, 1, 1, 1))
	if err != nil {
		t.Fatal(err)
	}
	if o.Draws == 0 || math.Abs(o.Chances[1]-0.75) > 0.15 || o.Chances[2] != 0 {
		t.Errorf("%d draws, chances %v", o.Draws, o.Chances)
	}
	if x := o.Explain(); x.ChanceDraws != o.Draws || *x.Candidates[1].Chance != o.Chances[1] {
		t.Errorf("%+v", x)
	}
}

func TestOutlookErrors(t *testing.T) {
	s := newScheduler(t, custom(favourite{"e0", 2}, schedule.MaxScore{}))
	pool := weighted(t, 1, 1)
	now := time.Now()
	pool[0].CoolDown(now, 10*time.Second)
	pool[1].CoolDown(now, 20*time.Second)
	o, err := s.Outlook("", &schedule.Request{Now: now}, pool)
	none, ok := errors.AsType[*schedule.NoEndpointError](err)
	if !ok || none.RetryAfter != 10*time.Second {
		t.Fatalf("%v", err)
	}
	want := []schedule.DropExplanation{
		{Endpoint: "e0", Filter: "breaker", State: "cooling", AdmitsInSeconds: 10},
		{Endpoint: "e1", Filter: "breaker", State: "cooling", AdmitsInSeconds: 20},
	}
	if diff := cmp.Diff(want, o.Explain().Dropped); diff != "" {
		t.Errorf("dropped (-want +got):\n%s", diff)
	}
	if best := o.Explain().Best(); best != nil {
		t.Errorf("best %+v", best)
	}
	if _, err := s.Outlook("fast", &schedule.Request{Now: now}, pool); !errors.Is(err, schedule.ErrUnknownProfile) {
		t.Errorf("%v", err)
	}
	if o, err := s.Outlook("custom", &schedule.Request{Now: now}, weighted(t, 1)); !errors.Is(err, schedule.ErrBadScore) || o != nil {
		t.Errorf("%v, %v", o, err)
	}
}
