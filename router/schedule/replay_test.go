package schedule_test

import (
	"bytes"
	"encoding"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/llmgw/llmgw/router/endpoint"
	"github.com/llmgw/llmgw/router/schedule"
)

var (
	_ encoding.BinaryAppender    = (*schedule.Decision)(nil)
	_ encoding.BinaryUnmarshaler = (*schedule.Decision)(nil)
)

func record(tb interface{ Fatal(...any) }, d *schedule.Decision) []byte {
	b, err := d.AppendBinary(nil)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// Whatever a decision was made on, its record gives the same bytes again when it
// is read and replayed, with the same votes and the same pick, though the
// endpoints have moved on in the meantime.
func TestReplay(t *testing.T) {
	random := schedule.Profile{Name: "random", Picker: schedule.WeightedRandom{}}
	for _, p := range schedule.Profiles(schedule.DefaultConfig()) {
		if p.Name == schedule.Chat {
			random.Filters, random.Scorers = p.Filters, p.Scorers
		}
	}
	index := newFakeIndex()
	cfg := schedule.DefaultConfig()
	cfg.SampleAbove, cfg.SampleSize = 4, 3
	s, err := schedule.New(cfg, schedule.Deps{Prefixes: index, Profiles: []schedule.Profile{random}})
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
		pool := drawPool(t, now)
		var holders []schedule.Holder
		for _, e := range pool {
			if rapid.Bool().Draw(t, "holds") {
				holders = append(holders, schedule.Holder{
					Endpoint: e, Bytes: rapid.IntRange(1, 9000).Draw(t, "held"), Exact: rapid.Bool().Draw(t, "exact"),
					Seen: rapid.IntRange(0, 3).Draw(t, "seen"), Doubt: rapid.Float64Range(0, 1).Draw(t, "doubt"),
				})
			}
		}
		index.set("p", holders, 9000)
		prompt := "p"
		req := &schedule.Request{
			Model: "model", Tenant: "tenant", Band: "band",
			Session: rapid.SampledFrom([]string{"", "canary-1", "canary-2"}).Draw(t, "session"),
			Prompt:  &prompt, PromptBytes: 9100, MaxTokens: 7, Stream: true, PoolVersion: 12,
			Tried: pool[:rapid.IntRange(0, len(pool)).Draw(t, "tried")],
			Now:   now,
		}
		var rec schedule.Decision
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		profile := rapid.SampledFrom(s.Profiles()).Draw(t, "profile")
		_, held, decideErr := s.Decide(profile, req, pool, rng, &rec)
		held.Release()
		data := record(t, &rec)
		for _, e := range pool {
			e.Failed(now)
			e.Reserve()
			e.SetLoad(nil)
		}
		for _, never := range []string{"model", "tenant", "band", "canary"} {
			if bytes.Contains(data, []byte(never)) {
				t.Fatalf("%q stands in the record", never)
			}
		}
		var read schedule.Decision
		if err := read.UnmarshalBinary(data); err != nil {
			t.Fatal(err)
		}
		if again := record(t, &read); !bytes.Equal(again, data) {
			t.Fatalf("written %x\nread and written %x", data, again)
		}
		picked, err := s.Replay("", &read)
		if decideErr != nil {
			if !errors.Is(err, schedule.ErrNoEndpoint) || read.Picked != -1 || len(read.Dropped) != len(rec.Dropped) {
				t.Fatalf("replayed as %d, %v; it was %v", picked, err, decideErr)
			}
			return
		}
		if err != nil || picked != rec.Picked {
			t.Fatalf("replayed as %d, %v; it was %d", picked, err, rec.Picked)
		}
		if again := record(t, &read); !bytes.Equal(again, data) {
			t.Fatalf("written %x\nreplayed and written %x", data, again)
		}
		for i := range rec.Candidates {
			if read.Scores[i] != rec.Scores[i] || read.Candidates[i].Hash != rec.Candidates[i].Endpoint.Hash() {
				t.Fatalf("candidate %d has score %v, had %v", i, read.Scores[i], rec.Scores[i])
			}
			for k := range rec.Scorers() {
				if read.Vote(k, i) != rec.Vote(k, i) {
					t.Fatalf("%s votes %v, voted %v", rec.Scorers()[k].Scorer.Name(), read.Vote(k, i), rec.Vote(k, i))
				}
			}
		}
		if x := read.Explain(); len(x.Candidates) != len(rec.Candidates) || !strings.HasPrefix(x.Picked, "#") {
			t.Fatalf("explained as %+v", x)
		}
	})
}

// The decision of a later attempt is replayed with the chance of that attempt.
func TestReplayOfALaterAttempt(t *testing.T) {
	var pool []*endpoint.Endpoint
	busier := true
	taking := takes{func() {
		if busier {
			for _, e := range pool {
				e.Reserve()
			}
			busier = false
		}
	}}
	s := newScheduler(t, schedule.Deps{Profiles: []schedule.Profile{{
		Name: "late", Scorers: []schedule.Weighted{{taking, 1}}, Picker: schedule.WeightedRandom{},
	}}})
	for seed := range uint64(20) {
		pool, busier = weighted(t, 1, 1, 1, 1), true
		var rec, read schedule.Decision
		_, _, err := s.Decide("late", &schedule.Request{Now: time.Now()}, pool, rand.New(rand.NewPCG(seed, 1)), &rec)
		if err != nil || rec.Attempts != 2 {
			t.Fatalf("%d attempts, %v", rec.Attempts, err)
		}
		if err := read.UnmarshalBinary(record(t, &rec)); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Replay("", &read); err != nil || got != rec.Picked {
			t.Fatalf("replayed as %d, %v; it was %d", got, err, rec.Picked)
		}
	}
}

// takes is a scorer for which all are alike and that does something meanwhile.
type takes struct{ do func() }

func (takes) Name() string { return "takes" }

func (x takes) Score(_ *schedule.Request, _ []schedule.Candidate, out []float64) {
	x.do()
	for i := range out {
		out[i] = 0.5
	}
}

// A record answers what another policy would have picked.
func TestReplayByAnotherProfile(t *testing.T) {
	index := newFakeIndex()
	pool := weighted(t, 1, 1)
	index.set("p", []schedule.Holder{{Endpoint: pool[0], Bytes: 9000}}, 10000)
	for range 9 {
		pool[0].Reserve()
	}
	s := newScheduler(t, schedule.Deps{Prefixes: index, Profiles: []schedule.Profile{{
		Name: "idle", Scorers: []schedule.Weighted{{schedule.LeastLoaded{Target: 8}, 1}}, Picker: schedule.MaxScore{},
	}}})
	prompt := "p"
	var rec, read schedule.Decision
	e, _, err := s.Decide(schedule.LongContext, &schedule.Request{Prompt: &prompt, Now: time.Now()}, pool, nil, &rec)
	if err != nil || e != pool[0] {
		t.Fatalf("picked %v, %v", e, err)
	}
	if err := read.UnmarshalBinary(record(t, &rec)); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Replay("idle", &read); err != nil || got != 1 || read.Profile != "idle" || read.Picked != 1 {
		t.Errorf("replayed as %d, %v", got, err)
	}
	if _, err := s.Replay("gone", &read); !errors.Is(err, schedule.ErrUnknownProfile) {
		t.Errorf("an unknown profile: %v", err)
	}
}

func TestBadRecords(t *testing.T) {
	s := newScheduler(t, schedule.Deps{})
	var rec schedule.Decision
	pool := weighted(t, 1, 1)
	pool[1].CoolDown(time.Unix(1, 0), time.Hour)
	if _, _, err := s.Decide("", &schedule.Request{Now: time.Unix(1, 0), Session: "s"}, pool, nil, &rec); err != nil {
		t.Fatal(err)
	}
	good := record(t, &rec)
	var read schedule.Decision
	for n := range good {
		if err := read.UnmarshalBinary(good[:n]); !errors.Is(err, schedule.ErrBadRecord) {
			t.Errorf("%d bytes of %d: %v", n, len(good), err)
		}
	}
	if err := read.UnmarshalBinary(append(bytes.Clone(good), 0)); !errors.Is(err, schedule.ErrBadRecord) {
		t.Errorf("a byte too many: %v", err)
	}
	later := bytes.Clone(good)
	later[0] = 2
	if err := read.UnmarshalBinary(later); !errors.Is(err, schedule.ErrBadRecord) || !strings.Contains(err.Error(), "its form is 2; this version reads 1") {
		t.Errorf("a later form: %v", err)
	}
}

// Any bytes are refused or give a decision that can be shown, written and made
// again without a panic.
func FuzzRecord(f *testing.F) {
	index := newFakeIndex()
	pool := weighted(f, 1, 2, 1)
	pool[2].CoolDown(time.Unix(1, 0), time.Hour)
	pool[1].Failed(time.Unix(1, 0))
	index.set("p", []schedule.Holder{{Endpoint: pool[0], Bytes: 9000}}, 10000)
	s := newScheduler(f, schedule.Deps{Prefixes: index})
	prompt := "p"
	var rec schedule.Decision
	for _, session := range []string{"", "s"} {
		if _, _, err := s.Decide("", &schedule.Request{Now: time.Unix(1, 0), Session: session, Prompt: &prompt}, pool, nil, &rec); err != nil {
			f.Fatal(err)
		}
		f.Add(record(f, &rec))
	}
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, data []byte) {
		var d schedule.Decision
		if err := d.UnmarshalBinary(data); err != nil {
			if !errors.Is(err, schedule.ErrBadRecord) {
				t.Errorf("error %v", err)
			}
			return
		}
		_ = d.Explain().String()
		again := record(t, &d)
		var second schedule.Decision
		if err := second.UnmarshalBinary(again); err != nil {
			t.Errorf("what was written is not read: %v", err)
		}
		if third := record(t, &second); !bytes.Equal(third, again) {
			t.Errorf("%x is written again as %x", again, third)
		}
		_, _ = s.Replay(schedule.Chat, &d)
		_ = d.Explain().String()
	})
}
