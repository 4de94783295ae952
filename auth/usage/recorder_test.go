package usage_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/llmgw/llmgw/auth/usage"
	"github.com/llmgw/llmgw/storage"
)

// store keeps each request once, when it is there.
type store struct {
	mu     sync.Mutex
	rows   map[string]storage.Usage // guarded by mu
	calls  int                      // guarded by mu
	away   error                    // guarded by mu: what it answers instead
	keeps  bool                     // guarded by mu: it keeps rows all the same
	stall  chan struct{}            // guarded by mu: calls wait for its end
	poison string                   // guarded by mu: this request is refused
	pruned []storage.Retention      // guarded by mu
	old    int                      // guarded by mu: how often there is more to prune
}

func (s *store) set(f func(s *store)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s)
}

func (s *store) InsertUsage(ctx context.Context, rows []storage.Usage) (int, error) {
	s.mu.Lock()
	stall := s.stall
	s.mu.Unlock()
	if stall != nil {
		select {
		case <-stall:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	if s.away != nil && !s.keeps {
		return 0, s.away
	}
	n := 0
	for _, u := range rows {
		if u.RequestID == s.poison {
			return 0, fmt.Errorf("row: %w", storage.ErrInvalid)
		}
	}
	for _, u := range rows {
		if _, there := s.rows[u.RequestID]; !there {
			n++
			s.rows[u.RequestID] = u
		}
	}
	return n, s.away
}

func (s *store) PruneUsage(_ context.Context, r storage.Retention) (int, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pruned = append(s.pruned, r)
	s.old--
	return 1, s.old > 0, nil
}

func (s *store) ListUsage(context.Context, storage.UsageQuery) ([]storage.Usage, string, error) {
	return nil, "", errors.ErrUnsupported
}

func (s *store) ListRollups(context.Context, storage.RollupQuery) ([]storage.Rollup, string, error) {
	return nil, "", errors.ErrUnsupported
}

func (s *store) len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.rows)
}

// running is a Recorder that runs until end is called.
type running struct {
	*usage.Recorder
	t     *testing.T
	store *store
	reg   *prometheus.Registry
	next  int
	end   func()
}

func start(t *testing.T, cfg usage.Config) *running {
	t.Helper()
	r := &running{t: t, store: &store{rows: map[string]storage.Usage{}}, reg: prometheus.NewRegistry()}
	var err error
	r.Recorder, err = usage.New(cfg, usage.Deps{Log: r.store, Registerer: r.reg})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := r.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	r.end = func() { cancel(); wg.Wait() }
	return r
}

// record records n more rows and returns how many of them had room.
func (r *running) record(n int) (ok int) {
	for range n {
		r.next++
		if r.Record(&storage.Usage{RequestID: fmt.Sprint("r", r.next)}) {
			ok++
		}
	}
	return ok
}

func (r *running) dropped(full, refused, ended float64) {
	r.t.Helper()
	got := map[string]float64{}
	all, err := r.reg.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, f := range all {
		if f.GetName() == "llmgw_usage_dropped_total" {
			for _, m := range f.GetMetric() {
				got[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
			}
		}
	}
	if got["full"] != full || got["refused"] != refused || got["ended"] != ended {
		r.t.Errorf("dropped %v, want full %v, refused %v, ended %v", got, full, refused, ended)
	}
}

func small() usage.Config {
	cfg := usage.DefaultConfig()
	cfg.BufferRows, cfg.BatchRows = 100, 10
	return cfg
}

// A full batch goes at once, a part of one after the interval.
func TestBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, small())
		defer r.end()
		r.record(10)
		synctest.Wait()
		if got := r.store.len(); got != 10 {
			t.Errorf("%d rows of a full batch", got)
		}
		r.record(3)
		synctest.Wait()
		if got := r.store.len(); got != 10 {
			t.Errorf("%d rows before the interval", got)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if got := r.store.len(); got != 13 {
			t.Errorf("%d rows after it", got)
		}
	})
}

// While the store is away rows wait, as many as there is room for; the rest is
// counted to the row. Once it is back everything that waited is kept, once.
func TestStoreAway(t *testing.T) {
	for name, away := range map[string]func(*store){
		"unreachable":      func(s *store) { s.away = storage.ErrUnavailable },
		"slow":             func(s *store) { s.stall = make(chan struct{}) },
		"it does not know": func(s *store) { s.away, s.keeps = storage.ErrUnavailable, true },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := start(t, small())
				defer r.end()
				r.store.set(away)
				kept := 0
				for range 300 { // five minutes
					kept += r.record(1)
					time.Sleep(time.Second)
				}
				r.store.set(func(s *store) {
					s.away, s.keeps = nil, false
					if s.stall != nil {
						close(s.stall)
						s.stall = nil
					}
				})
				time.Sleep(20 * time.Second)
				synctest.Wait()
				if got := r.store.len(); got < kept || kept < 100 {
					t.Errorf("%d rows kept of %d", got, kept)
				}
				r.dropped(float64(300-kept), 0, 0)
			})
		})
	}
}

// One row that the store refuses for what it is takes no other with it.
func TestRefusedRow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, small())
		defer r.end()
		r.store.set(func(s *store) { s.poison = "r7" })
		r.record(30)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := r.store.len(); got != 29 {
			t.Errorf("%d rows kept, want all but one", got)
		}
		r.dropped(0, 1, 0)
	})
}

// The end writes what is left, and says what it could not.
func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, small())
		r.record(55)
		r.end()
		if got := r.store.len(); got != 55 {
			t.Errorf("%d rows kept", got)
		}
		if r.record(2) != 0 {
			t.Error("a row was taken after the end")
		}
		r.dropped(0, 0, 2)
	})
	synctest.Test(t, func(t *testing.T) {
		r := start(t, small())
		r.store.set(func(s *store) { s.away = storage.ErrUnavailable })
		r.record(55)
		begin := time.Now()
		r.end()
		if took := time.Since(begin); took > 11*time.Second {
			t.Errorf("the end took %v", took)
		}
		r.dropped(0, 0, 55)
	})
}

// Old usage is forgotten every hour, in steps until there is none.
func TestRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, small())
		defer r.end()
		r.store.set(func(s *store) { s.old = 3 })
		begin := time.Now()
		time.Sleep(time.Hour + time.Second)
		synctest.Wait()
		r.store.mu.Lock()
		defer r.store.mu.Unlock()
		if len(r.store.pruned) != 3 {
			t.Fatalf("%d steps, want 3", len(r.store.pruned))
		}
		got := r.store.pruned[0]
		at := begin.Add(time.Hour)
		if want := at.Add(-90 * 24 * time.Hour); !got.Rows.Equal(want) {
			t.Errorf("rows before %v, want %v", got.Rows, want)
		}
		if !got.Days.IsZero() || got.Most < 1 {
			t.Errorf("%+v", got)
		}
	})
}

func TestRecordAllocs(t *testing.T) {
	cfg := usage.DefaultConfig()
	cfg.BufferRows = 100_000
	r, err := usage.New(cfg, usage.Deps{Log: &store{}})
	if err != nil {
		t.Fatal(err)
	}
	u := storage.Usage{RequestID: "r"}
	if n := testing.AllocsPerRun(1000, func() { r.Record(&u) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkRecord(b *testing.B) {
	r, err := usage.New(usage.DefaultConfig(), usage.Deps{Log: &store{}})
	if err != nil {
		b.Fatal(err)
	}
	u := storage.Usage{RequestID: "r"}
	b.ReportAllocs()
	for b.Loop() {
		r.Record(&u) // full most of the time, which costs the same lock
	}
}

// Two recorders may stand in one process, each with its registry.
func TestMetrics(t *testing.T) {
	for range 2 {
		reg := prometheus.NewRegistry()
		if _, err := usage.New(usage.DefaultConfig(), usage.Deps{Log: &store{}, Registerer: reg}); err != nil {
			t.Fatal(err)
		}
		if n, err := testutil.GatherAndCount(reg); err != nil || n == 0 {
			t.Errorf("%d series, %v", n, err)
		}
	}
}

// What comes while a batch is written waits for others: a busy gateway does not
// write many small ones.
func TestBatchesAreFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := usage.DefaultConfig()
		cfg.BufferRows, cfg.BatchRows, cfg.FlushInterval = 100, 10, time.Minute
		r := start(t, cfg)
		defer r.end()
		stall := make(chan struct{})
		r.store.set(func(s *store) { s.stall = stall })
		r.record(10)
		synctest.Wait() // it writes them
		r.record(17)
		r.store.set(func(s *store) { s.stall = nil })
		close(stall)
		synctest.Wait()
		if n := r.store.len(); n != 20 {
			t.Errorf("%d rows are kept, want the 20 of two full batches", n)
		}
		time.Sleep(cfg.FlushInterval)
		synctest.Wait()
		if n := r.store.len(); n != 27 {
			t.Errorf("%d rows are kept after an interval, want all 27", n)
		}
		if calls := r.store.calls; calls != 3 {
			t.Errorf("%d batches, want 3", calls)
		}
	})
}

// Rows that stand at both ends of the buffer wait no longer than others.
func TestBatchOverTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := usage.DefaultConfig()
		cfg.BufferRows, cfg.BatchRows, cfg.FlushInterval = 10, 10, time.Minute
		r := start(t, cfg)
		defer r.end()
		for n := range 5 {
			r.record(7)
			time.Sleep(cfg.FlushInterval)
			synctest.Wait()
			if got := r.store.len(); got != 7*(n+1) {
				t.Errorf("%d rows are kept after interval %d, want all %d", got, n+1, 7*(n+1))
			}
		}
	})
}
