package admission_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/llmgw/llmgw/admission"
)

// start is where the tests' clocks begin.
func start() time.Time { return time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC) }

func newCore(tb testing.TB, change func(*admission.Config)) *admission.Core {
	tb.Helper()
	cfg := admission.DefaultConfig()
	cfg.Enabled = true
	if change != nil {
		change(&cfg)
	}
	core, err := admission.NewCore(cfg, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return core
}

// idle is one idle engine, measured at now, of which nothing was learned.
func idle(now time.Time) *admission.Load {
	return &admission.Load{Endpoints: []admission.EndpointLoad{{
		ID: "a", InFlight: admission.Read(0), MeasuredAt: now, MeasuredInFlight: admission.Read(0),
		Running: admission.Read(0), Waiting: admission.Read(0), KVUsedRatio: admission.Read(0),
	}}}
}

// fixed is a detector whose saturation a test sets, plus a step per lease.
type fixed struct{ base, perLease float64 }

func (*fixed) Observe(time.Time, *admission.Load, int) {}
func (f *fixed) Saturation(leases int) float64         { return f.base + f.perLease*float64(leases) }

func newFixed(tb testing.TB, f *fixed, change func(*admission.Config)) *admission.Core {
	tb.Helper()
	cfg := admission.DefaultConfig()
	cfg.Enabled = true
	if change != nil {
		change(&cfg)
	}
	core, err := admission.NewCore(cfg, func(string) admission.Detector { return f })
	if err != nil {
		tb.Fatal(err)
	}
	return core
}

func mustOffer(tb testing.TB, c *admission.Core, now time.Time, r admission.Request) (admission.Ticket, bool) {
	tb.Helper()
	t, granted, err := c.Offer(now, r)
	if err != nil {
		tb.Fatal(err)
	}
	return t, granted
}

// TestSweep sweeps the saturation: each band stops just above its ceiling, so
// bronze stops first (R-ADM-04 to R-ADM-07).
func TestSweep(t *testing.T) {
	for _, test := range []struct {
		saturation float64
		want       string // bands that pass
	}{
		{0, "platinum gold silver bronze vip "},
		{0.29, "platinum gold silver bronze vip "},
		{0.30, "platinum gold silver bronze vip "},
		{0.31, "platinum gold silver vip "},
		{0.60, "platinum gold silver vip "},
		{0.61, "platinum gold vip "},
		{0.85, "platinum gold vip "},
		{0.86, "platinum vip "},
		{1.00, "platinum vip "},
		{1.01, "vip "},
		{5, "vip "},
		{50, "vip "},
		{math.NaN(), "platinum gold silver bronze vip "}, // unknown
	} {
		core := newFixed(t, &fixed{base: test.saturation}, func(c *admission.Config) {
			c.Bands = append(c.Bands, admission.Band{Name: "vip", Priority: 1, SaturationCeiling: 10})
		})
		var got strings.Builder
		for _, band := range []string{"platinum", "gold", "silver", "bronze", "vip"} {
			if _, granted := mustOffer(t, core, start(), admission.Request{Pool: "m", Band: band}); granted {
				got.WriteString(band + " ")
			}
		}
		if got.String() != test.want {
			t.Errorf("saturation %v: %q pass, want %q", test.saturation, got.String(), test.want)
		}
	}
}

// TestBurst fires 500 at once at an idle engine whose measurement stands still:
// what was granted counts before any measurement sees it (R-ADM-19).
func TestBurst(t *testing.T) {
	core := newCore(t, nil)
	now := start()
	core.Step(now, admission.PoolLoad{Pool: "m", Load: idle(now)})
	granted := 0
	for range 500 {
		if _, ok := mustOffer(t, core, now, admission.Request{Pool: "m"}); ok {
			granted++
		}
		core.Step(now, admission.PoolLoad{Pool: "m", Load: idle(start())})
	}
	// Capacity is taken to be 256 before anything was seen; the 218th finds
	// 217/256 ≤ 0.85, the 219th 218/256.
	if granted != 218 || core.Waiting() != 282 {
		t.Errorf("%d granted, %d wait; want 218 and 282", granted, core.Waiting())
	}
}

// TestTurns: a tenant with 1000 requests waiting costs a neighbour one turn
// (R-ADM-08).
func TestTurns(t *testing.T) {
	f := &fixed{base: 2}
	core := newFixed(t, f, nil)
	now := start()
	for range 1000 {
		mustOffer(t, core, now, admission.Request{Pool: "m", Tenant: "a"})
	}
	for _, tenant := range []string{"b", "c", "c"} { // numbers 1001 to 1003
		mustOffer(t, core, now, admission.Request{Pool: "m", Tenant: tenant})
	}
	*f = fixed{perLease: 1} // one at a time
	var order []uint64
	for range 6 {
		for _, d := range core.Step(now, admission.PoolLoad{Pool: "m", Load: idle(now)}) {
			order = append(order, d.ID)
			core.Release(now, d.Ticket)
		}
	}
	if want := []uint64{1, 1001, 1002, 2, 1003, 3}; !slices.Equal(order, want) {
		t.Errorf("granted %v, want %v", order, want)
	}
}

// TestQueueBound: the queue holds so many, one more is refused at once, and a
// cancelled one makes room at once (R-ADM-09, R-ADM-11).
func TestQueueBound(t *testing.T) {
	core := newFixed(t, &fixed{base: 2}, func(c *admission.Config) { c.QueueCapacityPerBand = 3 })
	now := start()
	var tickets []admission.Ticket
	for range 3 {
		ticket, _ := mustOffer(t, core, now, admission.Request{Pool: "m"})
		tickets = append(tickets, ticket)
	}
	_, _, err := core.Offer(now, admission.Request{Pool: "m", Band: "gold"})
	rejected, ok := errors.AsType[*admission.RejectedError](err)
	if !ok || !errors.Is(err, admission.ErrQueueFull) {
		t.Fatalf("error %v, want ErrQueueFull", err)
	}
	if rejected.Reason != admission.ReasonQueueFull || rejected.Band != "gold" || rejected.Pool != "m" ||
		rejected.Depth != 3 || rejected.RetryAfter != time.Second {
		t.Errorf("rejected %+v", rejected)
	}
	if _, _, err := core.Offer(now, admission.Request{Pool: "m", Band: "silver"}); err != nil {
		t.Errorf("another band: %v", err)
	}
	if !core.Cancel(now, tickets[1]) || core.Cancel(now, tickets[1]) {
		t.Error("want a request to be cancelled once")
	}
	if _, _, err := core.Offer(now, admission.Request{Pool: "m"}); err != nil {
		t.Errorf("after a cancel: %v", err)
	}
}

// TestTTL: what has waited for the TTL is dropped, the oldest first (R-ADM-10).
func TestTTL(t *testing.T) {
	core := newFixed(t, &fixed{base: 2}, nil)
	now := start()
	mustOffer(t, core, now, admission.Request{Pool: "m", Band: "gold"})
	mustOffer(t, core, now.Add(time.Second), admission.Request{Pool: "m", Band: "bronze"})
	if d := core.Step(now.Add(30*time.Second - 1)); len(d) > 0 {
		t.Fatalf("decided %v before the TTL", d)
	}
	d := core.Step(now.Add(30 * time.Second))
	if len(d) != 1 || d[0].ID != 1 || !errors.Is(d[0].Err, admission.ErrExpired) {
		t.Fatalf("decided %v, want request 1 to expire", d)
	}
	if r, _ := errors.AsType[*admission.RejectedError](d[0].Err); r.Waited != 30*time.Second || r.Band != "gold" {
		t.Errorf("rejected %+v", r)
	}
	if d := core.Step(now.Add(time.Hour)); len(d) != 1 || d[0].ID != 2 || core.Waiting() != 0 {
		t.Errorf("decided %v, %d wait", d, core.Waiting())
	}
}

// TestUnknownBand: a name from outside makes no state.
func TestUnknownBand(t *testing.T) {
	core := newCore(t, nil)
	if _, _, err := core.Offer(start(), admission.Request{Pool: "m", Band: "diamond"}); !errors.Is(err, admission.ErrUnknownBand) {
		t.Errorf("error %v, want ErrUnknownBand", err)
	}
	if _, known := core.Saturation("m"); known {
		t.Error("the offer left a pool behind")
	}
}

// TestClockGoesBack: an earlier time than the last counts as the last.
func TestClockGoesBack(t *testing.T) {
	core := newFixed(t, &fixed{base: 2}, nil)
	mustOffer(t, core, start(), admission.Request{Pool: "m"})
	ticket, _ := mustOffer(t, core, start().Add(-time.Hour), admission.Request{Pool: "m"})
	if d := core.Step(start().Add(-time.Minute)); len(d) > 0 {
		t.Fatalf("decided %v", d)
	}
	if d := core.Step(start().Add(30*time.Second - 1)); len(d) > 0 {
		t.Errorf("decided %v before the TTL", d)
	}
	if d := core.Step(start().Add(30 * time.Second)); len(d) != 2 || d[1].Ticket != ticket {
		t.Errorf("decided %v, want both to expire", d)
	}
}

// TestNoOvertaking: what is released belongs to who waits, also before the step
// that grants it.
func TestNoOvertaking(t *testing.T) {
	core := newFixed(t, &fixed{perLease: 1}, nil)
	now := start()
	a, _ := mustOffer(t, core, now, admission.Request{Pool: "m", Band: "platinum"})
	b, _ := mustOffer(t, core, now, admission.Request{Pool: "m", Band: "platinum"})
	waiting, _ := mustOffer(t, core, now, admission.Request{Pool: "m", Band: "platinum"})
	core.Release(now, a)
	core.Release(now, b)
	for _, band := range []string{"gold", "platinum"} {
		if _, granted := mustOffer(t, core, now, admission.Request{Pool: "m", Band: band}); granted {
			t.Errorf("%s overtook what waits", band)
		}
	}
	if d := core.Step(now); len(d) != 2 || d[0].Ticket != waiting || core.Waiting() != 1 {
		t.Errorf("decided %v", d)
	}
}
