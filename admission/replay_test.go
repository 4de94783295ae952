package admission_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/llmgw/llmgw/admission"
)

// tape keeps what a controller did.
type tape struct {
	mu      sync.Mutex
	records []admission.Record
}

func (t *tape) Record(r *admission.Record) {
	t.mu.Lock()
	defer t.mu.Unlock()
	kept := *r
	kept.Decisions = slices.Clone(r.Decisions)
	kept.Loads = nil
	for _, l := range r.Loads {
		load := &admission.Load{Endpoints: slices.Clone(l.Load.Endpoints)}
		kept.Loads = append(kept.Loads, admission.PoolLoad{Pool: l.Pool, Load: load})
	}
	t.records = append(t.records, kept)
}

// answer is what a core answered, without the tickets, which differ.
func answer(r *admission.Record) string {
	var s strings.Builder
	s.WriteString(fmt.Sprintf("%v %v %d %v %v %v", r.Op, r.At.Sub(start()), r.ID, r.Granted, r.Err, r.Saturation))
	for _, d := range r.Decisions {
		s.WriteString(fmt.Sprintf(" [%d %v]", d.ID, d.Err))
	}
	return s.String()
}

// even is DefaultConfig with bands of equal priority, so that chance decides.
func even(seed uint64) admission.Config {
	cfg := admission.DefaultConfig()
	cfg.Enabled = true
	cfg.Bands = []admission.Band{
		{Name: "gold", Priority: 1, SaturationCeiling: 1},
		{Name: "green", Priority: 1, SaturationCeiling: 1},
		{Name: "blue", Priority: 1, SaturationCeiling: 1},
	}
	cfg.QueueCapacityPerBand = 50
	cfg.QueueTTL = 20 * time.Millisecond
	cfg.Interval = time.Millisecond
	cfg.Seed = seed
	return cfg
}

// TestReplay records what concurrent requests made a controller do, and gets
// every decision again from the records and the seed.
func TestReplay(t *testing.T) {
	rec := &tape{}
	ctl, err := admission.New(even(3), admission.Deps{Load: &capacity{n: 4}, Recorder: rec})
	if err != nil {
		t.Fatal(err)
	}
	stop := run(t, ctl)
	var wg sync.WaitGroup
	for w := range 20 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(w), 3))
			for i := range 100 {
				bandless(t, ctl, rng, i)
			}
		})
	}
	wg.Wait()
	stop()

	core, err := admission.NewCore(even(3), nil)
	if err != nil {
		t.Fatal(err)
	}
	again := admission.NewReplay(core)
	granted := 0
	for i := range rec.records {
		r := &rec.records[i]
		got := again.Apply(r)
		if got, want := answer(&got), answer(r); got != want {
			t.Fatalf("record %d of %d: replayed\n%s\nrecorded\n%s", i, len(rec.records), got, want)
		}
		for _, d := range r.Decisions {
			if d.Err == nil {
				granted++
			}
		}
	}
	if granted == 0 || core.Leases() != 0 || core.Waiting() != 0 {
		t.Errorf("%d granted after a wait, %d leased and %d waiting at the end", granted, core.Leases(), core.Waiting())
	}
}

// bandless runs one request of any of even's bands.
func bandless(t *testing.T, ctl *admission.Controller, rng *rand.Rand, i int) {
	t.Helper()
	lease, err := ctl.Admit(t.Context(), admission.Request{
		Pool: "m", Band: []string{"gold", "green", "blue"}[rng.IntN(3)], Tenant: fmt.Sprint(rng.IntN(4)),
	})
	if err != nil {
		if _, ok := errors.AsType[*admission.RejectedError](err); !ok {
			t.Error(err)
		}
		return
	}
	if i%2 == 0 {
		<-time.After(100 * time.Microsecond)
	}
	lease.Release()
}

// TestSeed: the same calls give the same order from the same seed, another one
// from another, and bands of equal priority all get their share.
func TestSeed(t *testing.T) {
	order := func(seed uint64) (bands string) {
		core, err := admission.NewCore(even(seed), func(string) admission.Detector { return &fixed{base: 0, perLease: 2} })
		if err != nil {
			t.Fatal(err)
		}
		now := start()
		names := map[uint64]string{}
		var running []admission.Ticket
		for i := range 120 {
			name := []string{"gold", "green", "blue"}[i%3]
			ticket, granted := mustOffer(t, core, now, admission.Request{Pool: "m", Band: name})
			if granted {
				running = append(running, ticket)
			}
			names[ticket.ID()] = name[:2]
		}
		for len(running) > 0 {
			core.Release(now, running[0])
			running = running[1:]
			for _, d := range core.Step(now) {
				bands += names[d.ID] + " "
				running = append(running, d.Ticket)
			}
		}
		return bands
	}
	first := order(1)
	if order(1) != first {
		t.Error("the same seed gave another order")
	}
	if order(2) == first {
		t.Error("another seed gave the same order")
	}
	if len(first) != 119*3 {
		t.Errorf("granted %q", first)
	}
}

// TestReplayOtherPolicy: other ceilings answer other requests on the same
// offers, and nothing is left at the end.
func TestReplayOtherPolicy(t *testing.T) {
	rec := &tape{}
	ctl, err := admission.New(even(3), admission.Deps{Load: &capacity{n: 4}, Recorder: rec})
	if err != nil {
		t.Fatal(err)
	}
	var leases []admission.Lease
	for range 5 { // saturation 0 to 1
		leases = append(leases, mustAdmit(t, ctl, admission.Request{Pool: "m", Band: "gold"}))
	}
	for _, l := range leases {
		l.Release()
	}
	cfg := even(3)
	cfg.Bands[0].SaturationCeiling = 0.5
	core, err := admission.NewCore(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	again := admission.NewReplay(core)
	granted := 0
	for i := range rec.records {
		if r := again.Apply(&rec.records[i]); r.Granted {
			granted++
		}
	}
	if granted != 3 || core.Leases()+core.Waiting() != 0 {
		t.Errorf("%d granted at once, %d left; want 3, 0", granted, core.Leases()+core.Waiting())
	}
}
