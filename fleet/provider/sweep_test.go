package provider_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/llmgw/llmgw/fleet/provider"
	"github.com/llmgw/llmgw/storage"
)

// many registers providers that stand on one server: a path each.
func many(t testing.TB, r *provider.Registry, base string, n int) {
	t.Helper()
	for i := range n {
		if _, err := r.Register(t.Context(), provider.Register{BaseURL: fmt.Sprintf("%s/%d/v1", base, i), Principal: "ada", Node: "n", Name: fmt.Sprint("p", i), TTL: time.Hour}); err != nil {
			t.Fatal(err)
		}
	}
}

// One sweep of 200 providers, 10 of which hang, takes no longer than 12 s; those that
// hang delay nobody, and are shown.
func TestSweepHung(t *testing.T) {
	store, fence := open(t, filepath.Join(t.TempDir(), "s.db"))
	var slowest atomic.Int64
	var began atomic.Pointer[time.Time]
	began.Store(new(time.Now()))
	base := serve(t, func(w http.ResponseWriter, r *http.Request) {
		var n int
		_, _ = fmt.Sscanf(r.URL.Path, "/v1/%d/", &n)
		if n < 10 {
			<-r.Context().Done()
			return
		}
		slowest.Store(max(slowest.Load(), int64(time.Since(*began.Load()))))
		fmt.Fprint(w, `{"data":[{"id":"a"}]}`)
	})
	r, stop := start(t, local(), provider.Deps{Store: store, Fence: always(fence)})
	many(t, r, base, 200)
	began.Store(new(time.Now()))
	if err := r.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	took := time.Since(*began.Load())
	t.Logf("a sweep of 200 with 10 hung took %v; the last that answers was asked after %v", took, time.Duration(slowest.Load()))
	if took > 12*time.Second || time.Duration(slowest.Load()) > 4*time.Second {
		t.Errorf("it took %v, and the last that answers was asked after %v", took, time.Duration(slowest.Load()))
	}
	well, degraded := 0, 0
	for _, v := range r.Snapshot().Providers {
		if v.Rotates("a") {
			well++
		}
		if !v.DegradedAt.IsZero() {
			degraded++
		}
	}
	if well != 190 || degraded != 10 {
		t.Errorf("%d rotate and %d are degraded", well, degraded)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	kept, _, err := store.ListProviders(t.Context(), storage.ProviderQuery{})
	if err != nil || len(kept) != 200 {
		t.Errorf("%d are kept: %v", len(kept), err)
	}
}

// BenchmarkSweep is what 5,000 providers cost: run it with -benchtime 1x. Seconds of CPU
// are of this process, the server's that answers included, for one sweep, a minute's work.
func BenchmarkSweep(b *testing.B) {
	const n = 5000
	store, fence := open(b, filepath.Join(b.TempDir(), "s.db"))
	base := serve(b, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"object":"list","data":[{"id":"qwen","owned_by":"vllm","max_model_len":32768}]}`)
	})
	cfg := local()
	cfg.SweepInterval = time.Minute
	r, stop := start(b, cfg, provider.Deps{Store: store, Fence: always(fence)})
	many(b, r, base, n)
	if err := r.Sweep(b.Context()); err != nil {
		b.Fatal(err)
	}
	before := cpu(b)
	for b.Loop() {
		if err := r.Sweep(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric((cpu(b)-before).Seconds()/float64(b.N), "cpu-s/sweep")
	b.ReportMetric((cpu(b)-before).Seconds()/float64(b.N)/60*100, "%core")
	if err := stop(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkSteady is a registry of 5,000 providers at work for 15 s: each is asked once a
// minute and renewed every 30 s. Run it with -benchtime 1x.
func BenchmarkSteady(b *testing.B) {
	const n, lasts = 5000, 15 * time.Second
	store, fence := open(b, filepath.Join(b.TempDir(), "s.db"))
	base := serve(b, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"object":"list","data":[{"id":"qwen","owned_by":"vllm","max_model_len":32768}]}`)
	})
	r, stop := start(b, local(), provider.Deps{Store: store, Fence: always(fence)})
	many(b, r, base, n)
	if err := r.Sweep(b.Context()); err != nil {
		b.Fatal(err)
	}
	for n := range 2 { // the second waits for what was seen, too
		at := fmt.Sprintf("http://10.0.0.%d", n)
		if _, err := r.Add(b.Context(), provider.Add{BaseURL: at, Kind: storage.ProviderStatic}, provider.Secret{}, ""); err != nil {
			b.Fatal(err)
		}
	}
	var used time.Duration
	for b.Loop() {
		before, every := cpu(b), time.NewTicker(30*time.Second/n)
		for range int(lasts / (30 * time.Second / n)) {
			<-every.C
			i := int(time.Now().UnixNano() % n)
			if _, err := r.Register(b.Context(), provider.Register{BaseURL: fmt.Sprintf("%s/%d/v1", base, i), Principal: "ada", Node: "n", Name: fmt.Sprint("p", i), TTL: time.Hour}); err != nil {
				b.Fatal(err)
			}
		}
		every.Stop()
		used += cpu(b) - before
	}
	b.ReportMetric(used.Seconds()/float64(b.N)/lasts.Seconds()*100, "%core")
	if err := stop(); err != nil {
		b.Fatal(err)
	}
}

func cpu(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
