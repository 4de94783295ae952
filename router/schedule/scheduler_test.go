package schedule_test

import (
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/router/endpoint"
	"github.com/llmgw/llmgw/router/schedule"
)

// favourite votes for one endpoint, or something unusable.
type favourite struct {
	id   string
	vote float64
}

func (favourite) Name() string { return "favourite" }

func (f favourite) Score(_ *schedule.Request, cs []schedule.Candidate, out []float64) {
	for i := range cs {
		out[i] = 0
		if cs[i].Endpoint.ID() == f.id {
			out[i] = f.vote
		}
	}
}

// fixed picks the same index whatever the scores.
type fixed int

func (fixed) Name() string                              { return "fixed" }
func (f fixed) Pick(*rand.Rand, []float64) (int, error) { return int(f), nil }

func custom(scorer schedule.Scorer, picker schedule.Picker) schedule.Deps {
	p := schedule.Profile{Name: "custom", Picker: picker}
	if scorer != nil {
		p.Scorers = []schedule.Weighted{{Scorer: scorer, Weight: 1}}
	}
	return schedule.Deps{Profiles: []schedule.Profile{p}}
}

func TestCustomScorerVotes(t *testing.T) {
	s := newScheduler(t, custom(favourite{"e2", 1}, schedule.MaxScore{}))
	pool := weighted(t, 1, 1, 1)
	var rec schedule.Decision
	for range 20 {
		e, _, err := s.Decide("custom", &schedule.Request{Now: time.Now()}, pool, nil, &rec)
		if err != nil || e.ID() != "e2" {
			t.Fatalf("picked %v, %v", e, err)
		}
	}
	if got := rec.Vote(0, 2); got != 1 || rec.Scorers()[0].Scorer.Name() != "favourite" {
		t.Errorf("the record has vote %v", got)
	}
}

func TestUnusableScoresAreRefused(t *testing.T) {
	tests := []struct {
		name string
		deps schedule.Deps
		want string
	}{
		{"NaN", custom(favourite{"e1", math.NaN()}, schedule.MaxScore{}), "scorer favourite votes NaN on e1; want [0,1]"},
		{"above 1", custom(favourite{"e1", 1.5}, schedule.MaxScore{}), "scorer favourite votes 1.5 on e1; want [0,1]"},
		{"below 0", custom(favourite{"e1", -0.1}, schedule.MaxScore{}), "scorer favourite votes -0.1 on e1; want [0,1]"},
		{"picker outside", custom(nil, fixed(2)), "picker fixed chose 2 of 2"},
		{"picker below", custom(nil, fixed(-1)), "picker fixed chose -1 of 2"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			reg := prometheus.NewRegistry()
			tt.deps.Registerer = reg
			s := newScheduler(t, tt.deps)
			pool := weighted(t, 1, 1)
			_, held, err := s.Decide("custom", &schedule.Request{Now: time.Now()}, pool, nil, nil)
			if !errors.Is(err, schedule.ErrBadScore) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v; want %s", err, tt.want)
			}
			held.Release()
			if pool[0].InFlight()+pool[1].InFlight() != 0 {
				t.Error("something is in flight")
			}
			if got := counter(t, reg, "llmgw_schedule_decisions_total", "custom", "bad_score"); got != 1 {
				t.Errorf("counted %v times", got)
			}
		})
	}
}

// A profile without the breaker filter still never gets past the breaker.
func TestBreakerHoldsWithoutItsFilter(t *testing.T) {
	reg := prometheus.NewRegistry()
	deps := custom(nil, schedule.MaxScore{})
	deps.Registerer = reg
	s := newScheduler(t, deps)
	pool := weighted(t, 1, 1)
	now := time.Now()
	pool[0].CoolDown(now, time.Minute)
	pool[1].CoolDown(now, 7*time.Second)
	var rec schedule.Decision
	_, _, err := s.Decide("custom", &schedule.Request{Model: "m", Now: now}, pool, nil, &rec)
	none, ok := errors.AsType[*schedule.NoEndpointError](err)
	if !ok {
		t.Fatalf("error %v", err)
	}
	want := &schedule.NoEndpointError{Model: "m", Pool: 2, Drops: []schedule.FilterDrops{{Filter: "breaker", Count: 2}}, RetryAfter: 7 * time.Second}
	if diff := cmp.Diff(want, none); diff != "" {
		t.Errorf("error (-want +got):\n%s", diff)
	}
	if got := counter(t, reg, "llmgw_schedule_filter_drops_total", "custom", "breaker"); got != 2 {
		t.Errorf("%v drops counted", got)
	}
}

func TestNewNamesEveryFault(t *testing.T) {
	_, err := schedule.New(schedule.DefaultConfig(), schedule.Deps{Profiles: []schedule.Profile{
		{},
		{Name: "p", Picker: schedule.MaxScore{}, Filters: []schedule.Filter{schedule.Untried{}, schedule.Untried{}, nil},
			Scorers: []schedule.Weighted{{schedule.CleanRecord{}, 0}, {nil, 1}}},
	}})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		`profile "": is no name`, `profile "": has no picker`, `profile "p": filter "untried" is there twice`,
		`profile "p": filter 2 is nil`, `profile "p": scorer "record": weight 0 is not positive`, `profile "p": scorer 1 is nil`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
	want := strings.Join([]string{
		"target_waiting: 0 is not positive; want e.g. 4",
		"target_inflight: 0 is not positive; want e.g. 8",
		"kv_ceiling: 0 is out of range; want more than 0 and at most 1, e.g. 0.9",
		"session_load_factor: 0 is too small; want 1 or more, e.g. 1.25",
		"target_prefix_bytes: 0 is not positive; want e.g. 1024",
		"prefix_max_ratio: 0 is too small; want 1 or more, e.g. 1.5",
		"sample_above: 0 is too small; want 1 or more, e.g. 128",
		"sample_size: 0 is out of range; want 2 to 1024, e.g. 40",
		"stale_after: 0s is not positive; want e.g. 10s",
	}, "\n")
	if _, err := schedule.New(schedule.Config{}, schedule.Deps{}); err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
}

func TestProfilesCanBeReplaced(t *testing.T) {
	s := newScheduler(t, schedule.Deps{Profiles: []schedule.Profile{
		{Name: schedule.Chat, Picker: fixed(1)},
		{Name: "own", Picker: schedule.WeightedRandom{}},
	}})
	if diff := cmp.Diff([]string{"batch", "chat", "debug", "long-context", "own"}, s.Profiles()); diff != "" {
		t.Errorf("profiles (-want +got):\n%s", diff)
	}
	e, _, err := s.Decide("", &schedule.Request{Now: time.Now()}, weighted(t, 5, 1), nil, nil)
	if err != nil || e.ID() != "e1" {
		t.Errorf("picked %v, %v; want what the new chat profile picks", e, err)
	}
}

func counter(t *testing.T, reg *prometheus.Registry, name, profile, other string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
	series:
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if v := l.GetValue(); v != profile && v != other {
					continue series
				}
			}
			if h := m.GetHistogram(); h != nil {
				return float64(h.GetSampleCount())
			}
			return m.GetCounter().GetValue()
		}
	}
	t.Fatalf("no series %s of %s, %s", name, profile, other)
	return 0
}

func TestMetrics(t *testing.T) {
	reg := prometheus.NewRegistry()
	s := newScheduler(t, schedule.Deps{Registerer: reg})
	pool := weighted(t, 1, 1, 1)
	now := time.Now()
	for range 3 {
		pool[0].Failed(now)
	}
	for range 10 {
		_, held, err := s.Decide(schedule.Batch, &schedule.Request{Now: now, Tried: pool[1:2]}, pool, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		held.Release()
	}
	if _, _, err := s.Decide(schedule.Batch, &schedule.Request{Now: now}, nil, nil, nil); err == nil {
		t.Fatal("an empty pool has an endpoint")
	}
	for _, tt := range []struct {
		name, other string
		want        float64
	}{
		{"llmgw_schedule_decisions_total", "picked", 10},
		{"llmgw_schedule_decisions_total", "no_endpoint", 1},
		{"llmgw_schedule_filter_drops_total", "breaker", 10},
		{"llmgw_schedule_filter_drops_total", "untried", 10},
		{"llmgw_schedule_filter_drops_total", "present", 0},
		{"llmgw_schedule_vote_ratio", "queue", 10},
		{"llmgw_schedule_reconsidered_total", "", 0},
	} {
		if got := counter(t, reg, tt.name, schedule.Batch, tt.other); got != tt.want {
			t.Errorf("%s of %s is %v, want %v", tt.name, tt.other, got, tt.want)
		}
	}
	problems, err := testutil.GatherAndLint(reg)
	if err != nil || len(problems) > 0 {
		t.Errorf("lint: %v, %v", problems, err)
	}
}

func TestExplain(t *testing.T) {
	s := newScheduler(t, schedule.Deps{})
	pool := weighted(t, 1, 2, 1)
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	pool[0].SetLoad(&endpoint.LoadState{Load: engines.Load{Waiting: engines.Read(0)}, At: now.Add(-1500 * time.Millisecond)})
	pool[2].CoolDown(now, time.Second)
	var rec schedule.Decision
	if got := (&schedule.Decision{}).Explain(); len(got.Candidates) != 0 {
		t.Errorf("an unused record has candidates: %+v", got)
	}
	_, _, err := s.Decide("debug", &schedule.Request{Model: "m", Session: "canary", Now: now}, pool, rand.New(rand.NewPCG(1, 1)), &rec)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(rec.Explain())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"profile":"debug","model":"m","session":true,"at":"2026-11-29T12:00:00Z","picker":"max-score"`,
		`"load_age_seconds":1.5,"waiting":0,"votes":[{"scorer":"queue","weight":2,"vote":0.8}`,
		`"dropped":[{"endpoint":"e2","filter":"breaker","state":"cooling","admits_in_seconds":1}]`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	for _, never := range []string{"canary", "running", "kv_used"} {
		if strings.Contains(string(text), never) {
			t.Errorf("%s in\n%s", never, text)
		}
	}
}

func TestPickers(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	share := func(t *testing.T, p schedule.Picker, scores []float64) []float64 {
		got := make([]float64, len(scores))
		for range 10000 {
			i, err := p.Pick(rng, scores)
			if err != nil {
				t.Fatal(err)
			}
			got[i] += 1.0 / 10000
		}
		return got
	}
	tests := []struct {
		picker schedule.Picker
		scores []float64
		want   []float64
	}{
		{schedule.MaxScore{}, []float64{0.2, 0.9, 0.5}, []float64{0, 1, 0}},
		{schedule.MaxScore{}, []float64{0.9, 0.1, 0.9}, []float64{0.5, 0, 0.5}},
		{schedule.MaxScore{}, []float64{0, 0}, []float64{0.5, 0.5}},
		{schedule.PowerOfTwo{}, []float64{0.7}, []float64{1}},
		{schedule.PowerOfTwo{}, []float64{0.1, 0.2}, []float64{0, 1}},
		{schedule.PowerOfTwo{}, []float64{0.1, 0.2, 0.3}, []float64{0, 1.0 / 3, 2.0 / 3}},
		{schedule.WeightedRandom{}, []float64{0.1, 0, 0.3}, []float64{0.25, 0, 0.75}},
		{schedule.WeightedRandom{}, []float64{0, 0}, []float64{0.5, 0.5}},
	}
	for _, tt := range tests {
		got := share(t, tt.picker, tt.scores)
		for i := range got {
			if math.Abs(got[i]-tt.want[i]) > 0.03 {
				t.Errorf("%s of %v: shares %.2f, want %.2f", tt.picker.Name(), tt.scores, got, tt.want)
				break
			}
		}
	}
	for _, p := range []schedule.Picker{schedule.MaxScore{}, schedule.PowerOfTwo{}, schedule.WeightedRandom{}} {
		for _, bad := range [][]float64{nil, {0.5, math.NaN()}, {math.NaN()}} {
			if _, err := p.Pick(rng, bad); !errors.Is(err, schedule.ErrBadScore) {
				t.Errorf("%s of %v: %v", p.Name(), bad, err)
			}
		}
	}
}
