package flight_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgw/llmgw/router/endpoint"
	"github.com/llmgw/llmgw/router/gateway/flight"
	"github.com/llmgw/llmgw/router/schedule"
	"github.com/llmgw/llmgw/storage/record"
)

func start() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

// newSet returns n endpoints that serve "m".
func newSet(tb testing.TB, n int) *endpoint.Set {
	tb.Helper()
	set, err := endpoint.NewSet(endpoint.DefaultConfig(), endpoint.Deps{})
	if err != nil {
		tb.Fatal(err)
	}
	specs := make([]endpoint.Spec, n)
	for i := range specs {
		id := fmt.Sprintf("engine-%d", i+1)
		specs[i] = endpoint.Spec{ID: id, URL: "http://" + id + ".invalid", Models: []endpoint.Model{{Name: "m"}}}
	}
	if err := set.Replace(specs); err != nil {
		tb.Fatal(err)
	}
	return set
}

func newScheduler(tb testing.TB, profiles ...schedule.Profile) *schedule.Scheduler {
	tb.Helper()
	s, err := schedule.New(schedule.DefaultConfig(), schedule.Deps{Profiles: profiles})
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func newRecorder(tb testing.TB, set *endpoint.Set, log flight.Appender, ring *record.Ring) *flight.Recorder {
	tb.Helper()
	r, err := flight.NewRecorder(flight.Setup{Scoring: schedule.DefaultConfig()}, flight.Deps{
		Log: log, Ring: ring, Key: record.NewKey(), Pool: set.Snapshot,
	})
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

// written runs f with the log of a new directory, which it returns.
func written(tb testing.TB, f func(*record.Log)) (dir string) {
	tb.Helper()
	cfg := record.DefaultConfig()
	cfg.Dir = tb.TempDir()
	log, err := record.New(cfg, record.Deps{Key: record.NewKey(), Writer: "test"})
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- log.Run(ctx) }()
	f(log)
	cancel()
	if err := <-ended; err != nil {
		tb.Fatal(err)
	}
	return cfg.Dir
}

// decide makes n decisions and writes them down.
func decide(tb testing.TB, r *flight.Recorder, s *schedule.Scheduler, set *endpoint.Set, profile string, n int) {
	tb.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	var d schedule.Decision
	pool := set.Snapshot().ForModel("m")
	for i := range n {
		now := start().Add(time.Duration(i) * time.Second)
		id := fmt.Sprintf("req_%d", i)
		e, held, err := s.Decide(profile, &schedule.Request{Model: "m", Now: now, PromptBytes: 100, Session: fmt.Sprint(i % 7)}, pool, rng, &d)
		if err != nil {
			tb.Fatal(err)
		}
		r.Decided(id, flight.Route{Attempt: 1}, &d)
		if i%2 == 0 {
			held.Release()
		}
		r.Ended(id, "session", "tenant", &flight.Outcome{
			Model: "m", Served: "m", Endpoint: e.Hash(), Start: now, FirstContent: now.Add(time.Millisecond), End: now.Add(2 * time.Millisecond),
			Status: 200, Result: "ok", PromptTokens: flight.CountTokens(25), OutputTokens: flight.CountTokens(3),
			Blocks: []uint64{uint64(i % 3), uint64(i)}, BlockBytes: 64,
		})
	}
}

func replayed(tb testing.TB, dir string, opts flight.Options) *flight.Report {
	tb.Helper()
	log, err := record.Open(dir)
	if err != nil {
		tb.Fatal(err)
	}
	defer log.Close()
	report, err := flight.Replay(tb.Context(), log, opts)
	if err != nil {
		tb.Fatal(err)
	}
	return report
}

func TestReplayWindow(t *testing.T) {
	set, s := newSet(t, 5), newScheduler(t)
	dir := written(t, func(log *record.Log) { decide(t, newRecorder(t, set, log, nil), s, set, "", 100) })
	all := replayed(t, dir, flight.Options{})
	if c := all.Routes; c.Recorded != 100 || c.Replayed != 100 || !all.OK() || all.Outcomes != 100 || len(all.Pool) != 5 {
		t.Errorf("%+v", all)
	}
	part := replayed(t, dir, flight.Options{From: start().Add(10 * time.Second), To: start().Add(30 * time.Second)})
	if c := part.Routes; c.Recorded != 20 || c.Replayed != 20 || part.Outcomes != 20 {
		t.Errorf("of 20 seconds: %+v", part)
	}
	if !part.From.Equal(start().Add(10*time.Second)) || part.To.Sub(part.From) > 20*time.Second {
		t.Errorf("from %v to %v", part.From, part.To)
	}
	if other := replayed(t, dir, flight.Options{Model: "other"}); other.Routes.Recorded+other.Outcomes != 0 {
		t.Errorf("of another model: %+v", other)
	}

	// One segment under another name is read by itself.
	files, err := filepath.Glob(filepath.Join(dir, "*.rec"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	moved := filepath.Join(t.TempDir(), "incident")
	if err := os.Rename(files[0], moved); err != nil {
		t.Fatal(err)
	}
	log, err := record.OpenFile(moved)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	one, err := flight.Replay(t.Context(), log, flight.Options{})
	if err != nil || one.Routes.Replayed != 100 {
		t.Errorf("%+v, %v", one, err)
	}
}

// What was decided otherwise than it would be again is found, and shown by names.
func TestReplayFindsADifference(t *testing.T) {
	set, s := newSet(t, 5), newScheduler(t)
	dir := written(t, func(log *record.Log) {
		r := newRecorder(t, set, log, nil)
		decide(t, r, s, set, "", 3)
		var d schedule.Decision
		if _, _, err := s.Decide("", &schedule.Request{Model: "m", Now: start()}, set.Snapshot().ForModel("m"), nil, &d); err != nil {
			t.Fatal(err)
		}
		d.Picked = (d.Picked + 1) % 5 // a machine that miscounts
		r.Decided("req", flight.Route{Attempt: 1}, &d)
	})
	report := replayed(t, dir, flight.Options{})
	c := report.Routes
	if report.OK() || c.Differ != 1 || c.First == nil || c.First.Recorded == c.First.Replayed || !strings.Contains(c.First.What, "went to engine-") {
		t.Errorf("%+v, first %+v", c, c.First)
	}
}

// A profile that is not built in is replayed by who brings it, and else skipped
// with the reason.
func TestReplayOwnProfile(t *testing.T) {
	own := schedule.Profile{Name: "mine", Scorers: []schedule.Weighted{{Scorer: schedule.LargerFirst{}, Weight: 1}}, Picker: schedule.WeightedRandom{}}
	set, s := newSet(t, 5), newScheduler(t, own)
	dir := written(t, func(log *record.Log) { decide(t, newRecorder(t, set, log, nil), s, set, "mine", 50) })
	without := replayed(t, dir, flight.Options{})
	if c := without.Routes; c.Recorded != 50 || c.Replayed != 0 || c.Skipped[`the routing profile "mine" is not built in`] != 50 {
		t.Errorf("%+v", c)
	}
	with := replayed(t, dir, flight.Options{
		Profiles: func(schedule.Config) []schedule.Profile { return []schedule.Profile{own} },
		Policies: []flight.Policy{
			{Name: "same", Profile: func(schedule.Config) schedule.Profile { return own }},
			{Name: "chat", Profile: func(cfg schedule.Config) schedule.Profile { return schedule.Profiles(cfg)[0] }},
		},
	})
	if c := with.Routes; c.Replayed != 50 || c.Differ != 0 {
		t.Errorf("%+v", c)
	}
	if len(with.Policies) != 3 {
		t.Fatalf("%d results", len(with.Policies))
	}
	was, same, chat := with.Policies[0], with.Policies[1], with.Policies[2]
	if was.Policy != "recorded" || was.Decisions != 50 || was.Used != 5 || was.Changed != 0 {
		t.Errorf("%+v", was)
	}
	if same.Changed != 0 || *same.ExtraLoad != *was.ExtraLoad || *same.Spread != *was.Spread {
		t.Errorf("the policy that it was: %+v", same)
	}
	if chat.Changed == 0 || *chat.ExtraLoad >= *was.ExtraLoad {
		t.Errorf("chat has %v requests too many, chance %v", *chat.ExtraLoad, *was.ExtraLoad)
	}
}

// A record of another version is refused with the reason.
func TestOtherVersion(t *testing.T) {
	dir := written(t, func(log *record.Log) {
		set := newSet(t, 2)
		decide(t, newRecorder(t, set, log, nil), newScheduler(t), set, "", 1)
		for _, typ := range []record.Type{flight.TypeSetup, flight.TypePool, flight.TypeRoute, flight.TypeAdmission, flight.TypeOutcome} {
			if err := log.Append(typ, start(), []byte{99, 1, 2, 3}); err != nil {
				t.Fatal(err)
			}
		}
		_ = log.Append(1000, start(), []byte("of somebody else"))
	})
	report := replayed(t, dir, flight.Options{})
	if report.OK() || report.Routes.Replayed != 1 {
		t.Errorf("%+v", report)
	}
	// Admission was switched off, so nobody reads its steps.
	if len(report.Faults) != 4 || !strings.Contains(report.Faults[0], "its form is 99, and this program reads 1") {
		t.Errorf("faults %q", report.Faults)
	}
}

func TestRecorderNeedsItsDeps(t *testing.T) {
	if _, err := flight.NewRecorder(flight.Setup{}, flight.Deps{}); err == nil {
		t.Error("no error")
	}
}

// tape keeps records.
type tape struct {
	types    []record.Type
	payloads [][]byte
}

func (l *tape) Append(t record.Type, _ time.Time, payload []byte) error {
	l.types = append(l.types, t)
	l.payloads = append(l.payloads, append([]byte(nil), payload...))
	return nil
}

// The setup and the pool are written again when the pool changes and every minute,
// and a large pool in parts.
func TestPrologue(t *testing.T) {
	set, s, log := newSet(t, 2300), newScheduler(t), new(tape)
	r := newRecorder(t, set, log, nil)
	count := func() (setups, pools int) {
		for _, typ := range log.types {
			switch typ {
			case flight.TypeSetup:
				setups++
			case flight.TypePool:
				pools++
			}
		}
		return setups, pools
	}
	decide(t, r, s, set, "", 59)
	if setups, pools := count(); setups != 1 || pools != 3 {
		t.Errorf("%d setups, %d pools in a minute; want 1, 3", setups, pools)
	}
	decide(t, r, s, set, "", 61)
	if setups, _ := count(); setups != 2 {
		t.Errorf("%d setups after a minute, want 2", setups)
	}
	if err := set.Replace(nil); err != nil {
		t.Fatal(err)
	}
	var d schedule.Decision
	_, _, err := s.Decide("", &schedule.Request{Model: "m", Now: start().Add(time.Minute)}, nil, nil, &d)
	if !errors.Is(err, schedule.ErrNoEndpoint) {
		t.Fatal(err)
	}
	r.Decided("req", flight.Route{Attempt: 1}, &d)
	if setups, pools := count(); setups != 3 || pools != 7 {
		t.Errorf("%d setups, %d pools after a change; want 3, 7", setups, pools)
	}
}

// What an outcome was written as is what is read.
func TestOutcomeRoundTrip(t *testing.T) {
	set := newSet(t, 1)
	now := start()
	want := flight.Outcome{
		Path: "/v1/chat/completions", Model: "m", Served: "n", Band: "gold", Endpoint: 7, Start: now, FirstContent: now.Add(time.Second),
		End: now.Add(3 * time.Second), Status: 503, Result: "refused", Code: "overloaded", Stream: true, Attempts: 2, PromptBytes: 9, BytesOut: 11,
		PromptTokens: flight.CountTokens(0), CachedTokens: flight.CountTokens(-1), OutputTokens: flight.CountTokens(1 << 40),
		Blocks: []uint64{1, 2, 1}, BlockBytes: 64,
	}
	bare := flight.Outcome{Start: now, End: now}
	dir := written(t, func(log *record.Log) {
		r := newRecorder(t, set, log, nil)
		one, two := want, bare
		r.Ended("a", "s", "t", &one)
		r.Ended("", "", "", &two)
	})
	var got []flight.Outcome
	replayed(t, dir, flight.Options{Outcome: func(o *flight.Outcome) { got = append(got, *o) }})
	if len(got) != 2 {
		t.Fatalf("%d outcomes", len(got))
	}
	if g := got[0]; g.Request == 0 || g.Session == 0 || g.Tenant == 0 || g.Blocks[0] != g.Blocks[2] || g.Blocks[0] == g.Blocks[1] || g.Blocks[0] == 1 {
		t.Errorf("fingerprints: %+v", g)
	}
	got[0].Blocks, got[0].Request, got[0].Session, got[0].Tenant = want.Blocks, 0, 0, 0
	got[1].Request = 0
	if diff := cmp.Diff([]flight.Outcome{want, bare}, got, cmp.AllowUnexported(flight.Tokens{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func newRing(tb testing.TB) *record.Ring {
	tb.Helper()
	ring, err := record.NewRing(record.RingConfig{MaxBytes: 4 << 20}, record.Key{})
	if err != nil {
		tb.Fatal(err)
	}
	return ring
}

// nowhere takes every record.
type nowhere struct{}

func (nowhere) Append(record.Type, time.Time, []byte) error { return nil }

func BenchmarkDecided(b *testing.B) {
	for _, n := range []int{3, 64, 1000} {
		for _, profile := range []string{schedule.Chat, schedule.Debug} {
			if n == 3 && profile == schedule.Debug {
				continue
			}
			b.Run(fmt.Sprintf("endpoints=%d/profile=%s", n, profile), func(b *testing.B) {
				set, s := newSet(b, n), newScheduler(b)
				cfg := record.DefaultConfig()
				cfg.Dir = b.TempDir()
				log, err := record.New(cfg, record.Deps{Key: record.NewKey()})
				if err != nil {
					b.Fatal(err)
				}
				ctx, cancel := context.WithCancel(context.Background())
				ended := make(chan error, 1)
				go func() { ended <- log.Run(ctx) }()
				r := newRecorder(b, set, log, newRing(b))
				var d schedule.Decision
				if _, _, err := s.Decide(profile, &schedule.Request{Model: "m", Now: start(), Session: "s"}, set.Snapshot().ForModel("m"), nil, &d); err != nil {
					b.Fatal(err)
				}
				payload, _ := d.AppendBinary(nil)
				b.ReportAllocs()
				i := 0
				for b.Loop() {
					r.Decided("req_0123456789abcdef0123456789abcdef", flight.Route{Attempt: 1}, &d)
					if i++; i%(4<<20/(len(payload)+80)) == 0 {
						b.StopTimer()
						if err := log.Flush(ctx); err != nil {
							b.Fatal(err)
						}
						b.StartTimer()
					}
				}
				b.ReportMetric(float64(len(payload)), "bytes")
				cancel()
				if err := <-ended; err != nil {
					b.Fatal(err)
				}
				if log.Stats().Dropped() > 0 {
					b.Error("records were dropped")
				}
			})
		}
	}
}

func BenchmarkEnded(b *testing.B) {
	for _, kib := range []int{0, 1, 32, 512} {
		b.Run(fmt.Sprintf("prompt=%dKiB", kib), func(b *testing.B) {
			r := newRecorder(b, newSet(b, 3), nowhere{}, newRing(b))
			o := flight.Outcome{
				Path: "/v1/chat/completions", Model: "m", Served: "m", Start: start(), End: start().Add(time.Second), Result: "ok", Status: 200,
				Blocks: make([]uint64, kib), BlockBytes: 1024,
			}
			b.ReportAllocs()
			for b.Loop() {
				r.Ended("req_0123456789abcdef0123456789abcdef", "session", "tenant", &o)
			}
		})
	}
}
