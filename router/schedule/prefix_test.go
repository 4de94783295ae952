package schedule_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"pgregory.net/rapid"

	"github.com/llmgw/llmgw/router/schedule"
)

func defaultAffinity() schedule.PrefixAffinity {
	cfg := schedule.DefaultConfig()
	return schedule.PrefixAffinity{TargetBytes: cfg.TargetPrefixBytes, MaxGap: cfg.PrefixMaxGap, MaxRatio: cfg.PrefixMaxRatio}
}

// The guard fires only when both gaps are exceeded.
func TestPrefixGuard(t *testing.T) {
	s := defaultAffinity()
	for _, tt := range []struct {
		least, load float64
		want        bool
	}{
		{0, 0, false},
		{0, 2, false},
		{40, 42, false},
		{40, 80, true},
		{0, s.MaxGap, false},
		{0, s.MaxGap + 1, true},
		{100, 100 + s.MaxGap + 1, false},
		{100, 100 * s.MaxRatio, false},
		{100, 100*s.MaxRatio + 1, true},
		{80, 40, false},
	} {
		if got := s.Yields(tt.load, tt.least); got != tt.want {
			t.Errorf("%v beside %v yields: %t", tt.load, tt.least, got)
		}
	}
}

// However long the prompt and whoever holds what: votes are in [0,1]; they are the
// same for all if nobody may be followed; who holds more has the higher vote of two
// that may, and of those that hold the most who has seen it most often has it over the others; and who may not is worth as much
// as who holds nothing.
func TestPrefixVotes(t *testing.T) {
	s := defaultAffinity()
	rapid.Check(t, func(t *rapid.T) {
		now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
		pool := drawPool(t, now)
		prompt := rapid.IntRange(1, 1<<20).Draw(t, "prompt")
		cs := make([]schedule.Candidate, len(pool))
		least := -1.0
		for i, e := range pool {
			cs[i] = schedule.NewCandidate(e, now, 10*time.Second)
			if rapid.Bool().Draw(t, "holds") {
				cs[i].Prefix = schedule.PrefixMatch{Bytes: rapid.IntRange(1, prompt).Draw(t, "held"), PromptBytes: prompt, Seen: rapid.IntRange(0, 3).Draw(t, "seen")}
			}
			if load := cs[i].Requests() / cs[i].Weight; least < 0 || load < least {
				least = load
			}
		}
		votes := make([]float64, len(cs))
		s.Score(&schedule.Request{Now: now}, cs, votes)
		may := func(c *schedule.Candidate) bool {
			return c.Prefix.Bytes > 0 && c.Failures < 0.5 && !s.Yields(c.Requests()/c.Weight, least)
		}
		some, home := false, schedule.PrefixMatch{}
		for i := range cs {
			if m := cs[i].Prefix; may(&cs[i]) {
				some = true
				if m.Bytes > home.Bytes || m.Bytes == home.Bytes && m.Seen > home.Seen {
					home = m
				}
			}
		}
		for i := range cs {
			switch {
			case !(votes[i] >= 0 && votes[i] <= 1):
				t.Fatalf("vote %v", votes[i])
			case !some && votes[i] != 0.5:
				t.Fatalf("vote %v where none is to be followed", votes[i])
			case some && !may(&cs[i]) && votes[i] != 0:
				t.Fatalf("vote %v for one that is not to be followed", votes[i])
			}
			for k := range cs {
				a, b := cs[i].Prefix, cs[k].Prefix
				more := a.Bytes > b.Bytes || a.Bytes == b.Bytes && a.Bytes == home.Bytes && a.Seen == home.Seen && a.Seen > b.Seen
				if may(&cs[i]) && may(&cs[k]) && more && votes[i] <= votes[k] {
					t.Fatalf("%d bytes have vote %v, %d bytes %v", cs[i].Prefix.Bytes, votes[i], cs[k].Prefix.Bytes, votes[k])
				}
			}
		}
	})
}

// What proved wrong is believed less, down to not at all.
func TestDoubt(t *testing.T) {
	s := defaultAffinity()
	pool := weighted(t, 1, 1)
	votes := func(doubt float64) float64 {
		var out [2]float64
		cs := []schedule.Candidate{
			schedule.NewCandidate(pool[0], time.Now(), time.Second), schedule.NewCandidate(pool[1], time.Now(), time.Second),
		}
		cs[0].Prefix = schedule.PrefixMatch{Bytes: 8000, PromptBytes: 10000, Doubt: doubt}
		s.Score(&schedule.Request{}, cs, out[:])
		return out[0] - out[1]
	}
	for _, tt := range []struct{ doubt, share float64 }{{0, 1}, {0.5, 1}, {0.75, 0.5}, {1, 0}} {
		if got, want := votes(tt.doubt), tt.share*votes(0); got != want {
			t.Errorf("doubt %v: the vote is %v ahead, want %v", tt.doubt, got, want)
		}
	}
}

// The index hears of what the picker chose, once for each place in flight, whatever
// the scorers proposed; and of nothing that came to nothing.
func TestIndexHearsOfPicks(t *testing.T) {
	index := newFakeIndex()
	index.learns = true
	pool := weighted(t, 1, 1, 1, 1)
	index.set("p", []schedule.Holder{{Endpoint: pool[2], Bytes: 9000}}, 10000)
	s := newScheduler(t, schedule.Deps{Prefixes: index, Profiles: []schedule.Profile{{
		Name: "random", Picker: schedule.WeightedRandom{},
		Scorers: []schedule.Weighted{{defaultAffinity(), 1}, {schedule.LeastLoaded{Target: 8}, 1}},
	}}})
	prompt := "p"
	var want []pick
	rng := rand.New(rand.NewPCG(4, 4))
	others := 0
	for range 300 {
		var rec schedule.Decision
		e, held, err := s.Decide("random", &schedule.Request{Prompt: &prompt, Now: time.Now()}, pool, rng, &rec)
		if err != nil {
			t.Fatal(err)
		}
		held.Release()
		if rec.Candidates[rec.Picked].Prefix.Bytes == 0 {
			others++
		}
		want = append(want, pick{prompt, e})
	}
	if others == 0 {
		t.Error("the picker never left the scorers' favourite; the test shows nothing")
	}
	if _, _, err := s.Decide("random", &schedule.Request{Prompt: &prompt, Now: time.Now()}, nil, rng, nil); err == nil {
		t.Error("an empty pool has an endpoint")
	}
	if _, held, err := s.Decide("random", &schedule.Request{Now: time.Now()}, pool, rng, nil); err != nil {
		t.Error(err)
	} else {
		held.Release()
	}
	if len(index.picked) != len(want) {
		t.Fatalf("%d picks told, %d made", len(index.picked), len(want))
	}
	for i := range want {
		if index.picked[i] != want[i] {
			t.Fatalf("pick %d was %v, the index was told %v", i, want[i], index.picked[i])
		}
	}
}

// What an index says in error does no harm.
func TestHoldersThatMakeNoSense(t *testing.T) {
	pool, elsewhere := weighted(t, 1, 1, 1), weighted(t, 1)
	all := func(n int) (hs []schedule.Holder) {
		for _, e := range weighted(t, make([]float64, n)...) {
			hs = append(hs, schedule.Holder{Endpoint: e, Bytes: 5})
		}
		return hs
	}
	for _, tt := range []struct {
		name    string
		holders []schedule.Holder
		bytes   int
		want    [3]int
	}{
		{"nothing", nil, 100, [3]int{}},
		{"nothing of nothing", nil, 0, [3]int{}},
		{"a prompt without length", []schedule.Holder{{Endpoint: pool[0], Bytes: 5}}, 0, [3]int{}},
		{"more than the prompt", []schedule.Holder{{Endpoint: pool[0], Bytes: 500}}, 100, [3]int{100}},
		{"less than nothing", []schedule.Holder{{Endpoint: pool[0], Bytes: -5}, {Endpoint: pool[1], Bytes: 7}}, 100, [3]int{0, 7}},
		{"nobody", []schedule.Holder{{Bytes: 5}, {Endpoint: pool[2], Bytes: 7}}, 100, [3]int{0, 0, 7}},
		{"more than doubtful", []schedule.Holder{{Endpoint: pool[0], Bytes: 9, Doubt: 7}, {Endpoint: pool[1], Bytes: 9, Doubt: math.NaN()}}, 100, [3]int{9, 9}},
		{"twice", []schedule.Holder{{Endpoint: pool[0], Bytes: 9}, {Endpoint: pool[0], Bytes: 5}}, 100, [3]int{9}},
		{"elsewhere", []schedule.Holder{{Endpoint: elsewhere[0], Bytes: 9}, {Endpoint: pool[1], Bytes: 5}}, 100, [3]int{0, 5}},
		{"more than fit", append(all(63), schedule.Holder{Endpoint: pool[0], Bytes: 4}, schedule.Holder{Endpoint: pool[1], Bytes: 4}), 100, [3]int{4}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			index := newFakeIndex()
			index.set("p", tt.holders, tt.bytes)
			s := newScheduler(t, schedule.Deps{Prefixes: index})
			prompt := "p"
			var rec schedule.Decision
			// The record is used a second time: nothing of the first may stay.
			for range 2 {
				_, held, err := s.Decide("", &schedule.Request{Prompt: &prompt, Now: time.Now()}, pool, nil, &rec)
				if err != nil {
					t.Fatal(err)
				}
				held.Release()
				for i := range rec.Candidates {
					if got := rec.Candidates[i].Prefix.Bytes; got != tt.want[i] {
						t.Errorf("%s holds %d, want %d", rec.Candidates[i].Endpoint.ID(), got, tt.want[i])
					}
				}
			}
			_, held, err := s.Decide("", &schedule.Request{Now: time.Now()}, pool, nil, &rec)
			if err != nil {
				t.Fatal(err)
			}
			held.Release()
			for i := range rec.Candidates {
				if rec.Candidates[i].Prefix != (schedule.PrefixMatch{}) {
					t.Errorf("without a prompt %s holds %+v", rec.Candidates[i].Endpoint.ID(), rec.Candidates[i].Prefix)
				}
			}
		})
	}
}

// A popular prompt that one endpoint of ten holds does not gather there: with
// nothing ending, that one gets no further ahead than the guard and the load
// scorers let it.
func TestPopularPromptSpreads(t *testing.T) {
	for _, profile := range []string{schedule.Chat, schedule.LongContext, schedule.Batch} {
		index := newFakeIndex()
		pool := weighted(t, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1)
		index.set("p", []schedule.Holder{{Endpoint: pool[3], Bytes: 50000}}, 50000)
		s := newScheduler(t, schedule.Deps{Prefixes: index})
		prompt := "p"
		rng := rand.New(rand.NewPCG(2, 3))
		for range 400 {
			if _, _, err := s.Decide(profile, &schedule.Request{Prompt: &prompt, Now: time.Now()}, pool, rng, nil); err != nil {
				t.Fatal(err)
			}
		}
		if got := pool[3].InFlight(); got < 40 || got > 70 {
			t.Errorf("%s: the holder has %d of 400 requests on ten endpoints", profile, got)
		}
	}
}

func TestPrefixMetrics(t *testing.T) {
	reg := prometheus.NewRegistry()
	index := newFakeIndex()
	pool := weighted(t, 1, 1)
	s := newScheduler(t, schedule.Deps{Prefixes: index, Registerer: reg})
	prompt := "p"
	decide := func(req schedule.Request) {
		t.Helper()
		req.Now = time.Now()
		_, held, err := s.Decide("", &req, pool, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		held.Release()
	}
	decide(schedule.Request{})
	decide(schedule.Request{Prompt: &prompt})
	index.set("p", []schedule.Holder{{Endpoint: pool[0], Bytes: 8000}}, 10000)
	decide(schedule.Request{Prompt: &prompt})
	index.set("p", []schedule.Holder{{Endpoint: pool[0], Bytes: 80}}, 100)
	for range 3 {
		pool[0].Reserve()
	}
	decide(schedule.Request{Prompt: &prompt})
	for range 30 {
		pool[0].Reserve()
	}
	decide(schedule.Request{Prompt: &prompt})
	for result, want := range map[string]float64{"none": 1, "followed": 1, "outvoted": 1, "yielded": 1} {
		if got := counter(t, reg, "llmgw_schedule_prefix_decisions_total", schedule.Chat, result); got != want {
			t.Errorf("%v %s, want %v", got, result, want)
		}
	}
}

// The explanation has what is held, of how much, and who yields.
func TestExplainPrefix(t *testing.T) {
	index := newFakeIndex()
	pool := weighted(t, 1, 1)
	index.set("p", []schedule.Holder{{Endpoint: pool[0], Bytes: 8000, Exact: true, Seen: 6}, {Endpoint: pool[1], Bytes: 500, Doubt: 0.25}}, 10000)
	for range 40 {
		pool[0].Reserve()
	}
	s := newScheduler(t, schedule.Deps{Prefixes: index})
	prompt := "p"
	var rec schedule.Decision
	if _, _, err := s.Decide(schedule.Debug, &schedule.Request{Prompt: &prompt, Now: time.Now()}, pool, nil, &rec); err != nil {
		t.Fatal(err)
	}
	x := rec.Explain()
	a, b := x.Candidates[0], x.Candidates[1]
	if x.PromptBytes != 10000 || a.PrefixBytes != 8000 || a.PrefixSeen != 6 || b.PrefixDoubt != 0.25 || !a.PrefixExact || !a.PrefixYields ||
		b.PrefixBytes != 500 || b.PrefixExact || b.PrefixYields || x.Pool != 2 || x.Considered != 2 || x.Sampled {
		t.Errorf("explained as %+v", x)
	}
	want := fmt.Sprintf("e0 %.3f", a.Score)
	if got := x.String(); !containsAll(got, want, ", holds 8000 of 10000 B but is too busy; e1", ", holds 500 of 10000 B") {
		t.Errorf("said as %s", got)
	}
}

var _ schedule.PrefixIndex = (*fakeIndex)(nil)
