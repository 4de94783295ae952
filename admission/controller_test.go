package admission_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"github.com/llmgw/llmgw/admission"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// capacity is a source in which every pool has one engine of that many places;
// 0 has no engine.
type capacity struct {
	mu sync.Mutex
	n  int
}

func (c *capacity) Load(_ string, dst *admission.Load) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n > 0 {
		dst.Endpoints = append(dst.Endpoints, admission.EndpointLoad{ID: "a", BatchCapacity: admission.Read(float64(c.n))})
	}
}

func (c *capacity) set(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n = n
}

func newController(tb testing.TB, deps admission.Deps, change func(*admission.Config)) *admission.Controller {
	tb.Helper()
	cfg := admission.DefaultConfig()
	cfg.Enabled = true
	if change != nil {
		change(&cfg)
	}
	ctl, err := admission.New(cfg, deps)
	if err != nil {
		tb.Fatal(err)
	}
	return ctl
}

// run runs ctl until the test's end.
func run(t *testing.T, ctl *admission.Controller) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- ctl.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func one() admission.Request { return admission.Request{Pool: "m", Band: "platinum", Tenant: "a"} }

func mustAdmit(t *testing.T, ctl *admission.Controller, r admission.Request) admission.Lease {
	t.Helper()
	lease, err := ctl.Admit(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

// TestReleaseWakes: what is released wakes a waiting request at once, without
// Run.
func TestReleaseWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctl := newController(t, admission.Deps{Load: &capacity{n: 1}}, nil)
		a, b := mustAdmit(t, ctl, one()), mustAdmit(t, ctl, one()) // at saturation 0 and 1
		begun := time.Now()
		if at, atOnce := a.AdmittedAt(); !atOnce || !at.Equal(begun) {
			t.Errorf("admitted at %v, at once: %v; want %v", at, atOnce, begun)
		}
		admitted := make(chan admission.Lease)
		go func() {
			lease, err := ctl.Admit(t.Context(), one())
			if err != nil {
				t.Error(err)
			}
			admitted <- lease
		}()
		synctest.Wait()
		select {
		case <-admitted:
			t.Fatal("a third request runs beyond the healthy limit")
		default:
		}
		a.Release()
		c := <-admitted
		if waited := time.Since(begun); waited != 0 {
			t.Errorf("woken %v after the release", waited)
		}
		if _, atOnce := c.AdmittedAt(); atOnce {
			t.Error("a request that had to wait was admitted at once")
		}
		a.Release() // again: nothing
		go func() {
			lease, _ := ctl.Admit(t.Context(), one())
			admitted <- lease
		}()
		synctest.Wait()
		select {
		case <-admitted:
			t.Fatal("a lease was released twice")
		default:
		}
		b.ReleaseAt(time.Now())
		c.Release()
		(<-admitted).Release()
	})
}

// TestExpiry: Run ends a wait after the TTL, at most an interval late.
func TestExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctl := newController(t, admission.Deps{Load: &capacity{n: 1}}, nil)
		run(t, ctl)
		mustAdmit(t, ctl, one())
		mustAdmit(t, ctl, one())
		begun := time.Now()
		_, err := ctl.Admit(t.Context(), one())
		rejected, ok := errors.AsType[*admission.RejectedError](err)
		if !ok || !errors.Is(err, admission.ErrExpired) || rejected.Reason != admission.ReasonExpired {
			t.Fatalf("error %v, want ErrExpired", err)
		}
		if waited := time.Since(begun); waited < 30*time.Second || waited > 30*time.Second+10*time.Millisecond {
			t.Errorf("refused after %v", waited)
		}
		if want := "admission: waited too long (pool m, band platinum, 0 waiting, after 30s)"; err.Error() != want {
			t.Errorf("error %q, want %q", err, want)
		}
	})
}

// TestLoadWakes: Run notices within an interval that there is room, also after
// it had gone to sleep.
// (R-ADM-12)
func TestLoadWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &capacity{n: 1}
		ctl := newController(t, admission.Deps{Load: source}, nil)
		run(t, ctl)
		mustAdmit(t, ctl, one()).Release()
		time.Sleep(time.Hour) // nothing to do: Run sleeps
		mustAdmit(t, ctl, one())
		mustAdmit(t, ctl, one())
		time.AfterFunc(time.Second, func() { source.set(2) })
		begun := time.Now()
		mustAdmit(t, ctl, one())
		if waited := time.Since(begun); waited < time.Second || waited > time.Second+10*time.Millisecond {
			t.Errorf("admitted after %v", waited)
		}
	})
}

// TestNoEndpoints: there is nothing to wait for where nobody serves.
func TestNoEndpoints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &capacity{n: 1}
		ctl := newController(t, admission.Deps{Load: source}, nil)
		run(t, ctl)
		mustAdmit(t, ctl, one())
		mustAdmit(t, ctl, one())
		time.AfterFunc(time.Second, func() { source.set(0) })
		mustAdmit(t, ctl, one())
		mustAdmit(t, ctl, one())
	})
}

// TestClose: the end of Run ends every wait; leases stay good.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctl := newController(t, admission.Deps{Load: &capacity{n: 1}}, nil)
		stop := run(t, ctl)
		lease := mustAdmit(t, ctl, one())
		mustAdmit(t, ctl, one())
		refused := make(chan error, 1)
		go func() {
			_, err := ctl.Admit(t.Context(), one())
			refused <- err
		}()
		synctest.Wait()
		stop()
		if err := <-refused; !errors.Is(err, admission.ErrClosed) {
			t.Errorf("waiting: %v, want ErrClosed", err)
		}
		if _, err := ctl.Admit(t.Context(), one()); !errors.Is(err, admission.ErrClosed) {
			t.Errorf("later: %v, want ErrClosed", err)
		}
		lease.Release()
	})
}

// TestCancel: a context that ends frees its place at once, and its cause is
// told.
func TestCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctl := newController(t, admission.Deps{Load: &capacity{n: 1}}, func(c *admission.Config) { c.QueueCapacityPerBand = 1 })
		mustAdmit(t, ctl, one())
		mustAdmit(t, ctl, one())
		ctx, cancel := context.WithCancelCause(t.Context())
		left := errors.New("the client left")
		refused := make(chan error, 1)
		go func() {
			_, err := ctl.Admit(ctx, one())
			refused <- err
		}()
		synctest.Wait()
		if _, err := ctl.Admit(t.Context(), one()); !errors.Is(err, admission.ErrQueueFull) {
			t.Fatalf("%v, want ErrQueueFull", err)
		}
		cancel(left)
		err := <-refused
		if !errors.Is(err, admission.ErrCancelled) || !errors.Is(err, left) || errors.Is(err, admission.ErrExpired) {
			t.Errorf("%v, want ErrCancelled with its cause", err)
		}
		short, end := context.WithTimeout(t.Context(), time.Second)
		defer end()
		if _, err := ctl.Admit(short, one()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want the freed place, and then the deadline", err)
		}
	})
}

// TestPanic: a lease is released by a defer, whatever unwinds it.
func TestPanic(t *testing.T) {
	ctl := newController(t, admission.Deps{Load: &capacity{n: 1}}, func(c *admission.Config) { c.QueueCapacityPerBand = 0 })
	for range 10 {
		func() {
			defer func() { _ = recover() }()
			defer mustAdmit(t, ctl, one()).Release()
			panic("a hook's own")
		}()
	}
	mustAdmit(t, ctl, one())
}

// TestDisabled: everything passes, even a band that does not exist.
// (R-ADM-13)
func TestDisabled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctl := newController(t, admission.Deps{Load: &capacity{n: 1}}, func(c *admission.Config) { c.Enabled = false })
		run(t, ctl)
		for range 500 {
			mustAdmit(t, ctl, admission.Request{Pool: "m", Band: "diamond"})
		}
		mustAdmit(t, ctl, one()).Release()
	})
}

// TestUnknownBandCounted: a band from outside makes no series but one count.
func TestUnknownBandCounted(t *testing.T) {
	reg := prometheus.NewRegistry()
	ctl := newController(t, admission.Deps{Load: &capacity{n: 1}, Registerer: reg}, nil)
	for range 3 {
		if _, err := ctl.Admit(t.Context(), admission.Request{Pool: "m", Band: "diamond"}); !errors.Is(err, admission.ErrUnknownBand) {
			t.Fatal(err)
		}
	}
	want := "# HELP llmgw_admission_unknown_bands_total Requests that named a band that is not configured.\n" +
		"# TYPE llmgw_admission_unknown_bands_total counter\nllmgw_admission_unknown_bands_total 3\n"
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "llmgw_admission_unknown_bands_total"); err != nil {
		t.Error(err)
	}
}

// TestMixedOutcomes: after 100,000 requests that ended in every way nothing is
// left (R-PLUS-01).
func TestMixedOutcomes(t *testing.T) {
	const workers, each = 50, 2000
	reg := prometheus.NewRegistry()
	ctl := newController(t, admission.Deps{Load: &capacity{n: 8}, Registerer: reg}, func(c *admission.Config) {
		c.QueueCapacityPerBand = 12
		c.QueueTTL = 2 * time.Millisecond
		c.Interval = time.Millisecond
	})
	stop := run(t, ctl)
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		seen = map[string]int{}
	)
	for w := range workers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(w), 2))
			mine := map[string]int{}
			for i := range each {
				mine[outcome(t, ctl, rng, w, i)]++
			}
			mu.Lock()
			defer mu.Unlock()
			for k, n := range mine {
				seen[k] += n
			}
		})
	}
	wg.Wait()
	t.Log(seen)
	for _, kind := range []string{"done", "panicked", "full", "cancelled"} {
		if seen[kind] == 0 {
			t.Errorf("no request was %s", kind)
		}
	}
	for name, families := range gather(t, reg) {
		if strings.HasPrefix(name, "llmgw_admission_leases") || strings.HasPrefix(name, "llmgw_admission_waiting_requests") {
			if families != 0 {
				t.Errorf("%s is %v at the end", name, families)
			}
		}
	}
	stop()
}

// outcome makes one request end in some way, and says which.
func outcome(t *testing.T, ctl *admission.Controller, rng *rand.Rand, worker, i int) (kind string) {
	t.Helper()
	ctx := t.Context()
	switch rng.IntN(4) {
	case 0: // cancelled at some moment
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(rng.IntN(400))*time.Microsecond)
		defer cancel()
	case 1: // before
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		cancel()
	}
	lease, err := ctl.Admit(ctx, admission.Request{
		Pool:   fmt.Sprint("m", rng.IntN(3)),
		Band:   []string{"platinum", "gold", "silver", "bronze"}[rng.IntN(4)],
		Tenant: fmt.Sprint(worker % 5),
	})
	if err != nil {
		rejected, ok := errors.AsType[*admission.RejectedError](err)
		if !ok {
			t.Error(err)
			return "unknown"
		}
		return map[admission.Reason]string{
			admission.ReasonQueueFull: "full", admission.ReasonExpired: "expired",
			admission.ReasonCancelled: "cancelled", admission.ReasonClosed: "closed",
		}[rejected.Reason]
	}
	if i%7 == 0 {
		kind = "panicked"
		defer lease.Release()
		defer func() { _ = recover() }()
		defer lease.Release()
		panic("in the middle")
	}
	if i%3 == 0 {
		<-time.After(time.Duration(rng.IntN(50)) * time.Microsecond)
	}
	lease.Release()
	return "done"
}

// gather returns the gauges and counters by name and labels.
func gather(t *testing.T, reg *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			slices.Sort(labels)
			name := f.GetName() + "{" + strings.Join(labels, ",") + "}"
			switch {
			case m.GetGauge() != nil:
				got[name] = m.GetGauge().GetValue()
			case m.GetCounter() != nil:
				got[name] = m.GetCounter().GetValue()
			case m.GetHistogram() != nil:
				got[name] = float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return got
}

// TestMetrics: queue depth, waits, rejections, saturation (R-ADM-20).
func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		ctl := newController(t, admission.Deps{Load: &capacity{n: 2}, Registerer: reg}, func(c *admission.Config) { c.QueueCapacityPerBand = 1 })
		stop := run(t, ctl)
		bronze := admission.Request{Pool: "m", Band: "bronze"}
		mustAdmit(t, ctl, bronze)
		waited := make(chan error, 1)
		go func() {
			_, err := ctl.Admit(t.Context(), bronze)
			waited <- err
		}()
		synctest.Wait()
		if _, err := ctl.Admit(t.Context(), bronze); err == nil {
			t.Error("the queue holds more than it may")
		}
		got := gather(t, reg)
		for name, want := range map[string]float64{
			"llmgw_admission_leases{pool=m}":                                           1,
			"llmgw_admission_saturation_ratio{pool=m}":                                 0.5,
			"llmgw_admission_capacity_requests{pool=m}":                                2,
			"llmgw_admission_learned_requests{pool=m}":                                 0,
			"llmgw_admission_blind_endpoints{pool=m}":                                  1,
			"llmgw_admission_waiting_requests{band=bronze,pool=m}":                     1,
			"llmgw_admission_waiting_requests{band=gold,pool=m}":                       0,
			"llmgw_admission_wait_seconds{band=bronze,pool=m}":                         1,
			"llmgw_admission_rejections_total{band=bronze,pool=m,reason=queue_full}":   1,
			"llmgw_admission_rejections_total{band=bronze,pool=m,reason=expired}":      0,
			"llmgw_admission_rejections_total{band=platinum,pool=m,reason=queue_full}": 0,
			"llmgw_admission_unknown_bands_total{}":                                    0,
		} {
			if v, ok := got[name]; !ok || v != want {
				t.Errorf("%s is %v (%v), want %v", name, v, ok, want)
			}
		}
		<-waited // expires
		if v := gather(t, reg)["llmgw_admission_rejections_total{band=bronze,pool=m,reason=expired}"]; v != 1 {
			t.Errorf("%v expired, want 1", v)
		}
		stop()
	})
}

// canceler ends a context at the very moment at which its request is granted.
type canceler struct {
	granted int
	cancel  context.CancelFunc
}

func (c *canceler) Record(r *admission.Record) {
	for _, d := range r.Decisions {
		if d.Err == nil {
			c.granted++
			c.cancel()
		}
	}
}

// TestCancelAsGranted: when the end of the context meets the grant the request
// has a lease or has left, and nothing stays behind either way.
func TestCancelAsGranted(t *testing.T) {
	reg := prometheus.NewRegistry()
	rec := &canceler{}
	ctl := newController(t, admission.Deps{Load: &capacity{n: 1}, Recorder: rec, Registerer: reg}, nil)
	var waiting int
	for range 200 {
		a, b := mustAdmit(t, ctl, one()), mustAdmit(t, ctl, one())
		ctx, cancel := context.WithCancel(t.Context())
		rec.cancel = cancel
		ended := make(chan error, 1)
		go func() {
			lease, err := ctl.Admit(ctx, one())
			lease.Release()
			ended <- err
		}()
		for waiting == 0 { // until it waits
			waiting = int(gather(t, reg)["llmgw_admission_waiting_requests{band=platinum,pool=m}"])
		}
		waiting = 0
		a.Release()
		if err := <-ended; err != nil && !errors.Is(err, admission.ErrCancelled) {
			t.Fatal(err)
		}
		b.Release()
		cancel()
	}
	if rec.granted != 200 {
		t.Errorf("%d granted, want 200", rec.granted)
	}
	if v := gather(t, reg)["llmgw_admission_leases{pool=m}"]; v != 0 {
		t.Errorf("%v leases are left", v)
	}
}

// TestForget: a pool that nobody uses leaves no state.
func TestForget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		ctl := newController(t, admission.Deps{Load: &capacity{n: 8}, Registerer: reg}, nil)
		stop := run(t, ctl)
		for i := range 100 {
			mustAdmit(t, ctl, admission.Request{Pool: fmt.Sprint("pool ", i)}).Release()
		}
		lease := mustAdmit(t, ctl, one()) // keeps Run awake
		time.Sleep(12 * time.Minute)
		lease.Release()
		pools := 0
		for name := range gather(t, reg) {
			if strings.HasPrefix(name, "llmgw_admission_leases") {
				pools++
			}
		}
		if pools != 1 {
			t.Errorf("%d pools are kept, want the one in use", pools)
		}
		stop()
	})
}

// TestBurstAtOnce is TestBurst by 500 concurrent requests.
func TestBurstAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &changing{load: []admission.EndpointLoad{{
			ID: "a", InFlight: admission.Read(0), MeasuredAt: time.Now(), MeasuredInFlight: admission.Read(0),
			Running: admission.Read(0), Waiting: admission.Read(0), KVUsedRatio: admission.Read(0),
		}}}
		ctl := newController(t, admission.Deps{Load: source}, nil)
		run(t, ctl)
		ctx, cancel := context.WithCancel(t.Context())
		var admitted atomic.Int64
		var wg sync.WaitGroup
		for range 500 {
			wg.Go(func() {
				if _, err := ctl.Admit(ctx, admission.Request{Pool: "m"}); err == nil {
					admitted.Add(1)
				}
			})
		}
		time.Sleep(8 * time.Second) // the measurement is still fresh
		if n := admitted.Load(); n != 218 {
			t.Errorf("%d admitted, want 218", n)
		}
		cancel()
		wg.Wait()
	})
}

// TestCancelledBefore: who has left before gets no lease, were it free.
func TestCancelledBefore(t *testing.T) {
	ctl := newController(t, admission.Deps{Load: &capacity{n: 8}}, nil)
	left := errors.New("the client left")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(left)
	if _, err := ctl.Admit(ctx, one()); !errors.Is(err, admission.ErrCancelled) || !errors.Is(err, left) {
		t.Errorf("error %v, want ErrCancelled with its cause", err)
	}
}
