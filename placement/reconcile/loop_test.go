package reconcile_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/placement"
	"github.com/llmgw/llmgw/placement/catalog"
	"github.com/llmgw/llmgw/placement/reconcile"
)

// site is everything a loop needs: a store, one node and routers, which do what
// they are told.
type site struct {
	settle    time.Duration
	mu        sync.Mutex
	leads     bool
	session   uint64
	storeErr  error
	rows      map[string]reconcile.Row
	shards    map[engines.ShardID]engines.ShardStatus
	endpoints []reconcile.Endpoint
	published int
	demand    []reconcile.Demand
	statuses  []reconcile.ModelStatus
	orders    map[reconcile.Kind]int
	cat       *catalog.Catalog
	aside     []string
	changed   bool

	nodesC, catalogC, useC chan struct{}
}

func newSite(t *testing.T, models ...catalog.Model) *site {
	cat, err := catalog.New(models)
	if err != nil {
		t.Fatal(err)
	}
	return &site{
		leads: true, session: 1, rows: map[string]reconcile.Row{}, shards: map[engines.ShardID]engines.ShardStatus{}, cat: cat,
		orders: map[reconcile.Kind]int{}, changed: true,
		nodesC: make(chan struct{}, 1), catalogC: make(chan struct{}, 1), useC: make(chan struct{}, 1),
	}
}

func (s *site) Leads() (bool, uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leads, s.session
}

func (s *site) ListRows(context.Context) ([]reconcile.Row, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rows := []reconcile.Row{}
	for _, id := range sortedKeys(s.rows) {
		rows = append(rows, s.rows[id])
	}
	return rows, s.storeErr
}

func (s *site) Dispatch(_ context.Context, o reconcile.Order) reconcile.Result {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.orders[o.Kind]++
	res := reconcile.Result{Outcome: reconcile.Done}
	switch o.Kind {
	case reconcile.PutRow:
		s.rows[o.Replica] = *o.Row
	case reconcile.RemoveRow:
		delete(s.rows, o.Replica)
	case reconcile.Start:
		s.set(engines.ShardStatus{
			ID: o.Shard, Generation: o.Generation, State: engines.ShardReady, Start: "s1", Address: "n1:20000", Ports: map[string]int{"http": 20000},
		})
	case reconcile.Stop:
		s.set(engines.ShardStatus{ID: o.Shard, Generation: o.Generation, State: engines.ShardStopped})
	case reconcile.Drain:
	}
	return res
}

// set changes what the node has, and says so.
func (s *site) set(status engines.ShardStatus) {
	s.shards[status.ID], s.changed = status, true
	select {
	case s.nodesC <- struct{}{}:
	default:
	}
}

func (s *site) Changed(again bool) ([]reconcile.Node, []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.changed && !again {
		return nil, nil
	}
	s.changed = false
	n := reconcile.Node{Node: placement.Node{
		ID: "n1", State: placement.Ready, Connected: true,
		Cards: []placement.Card{{ID: "c0", Class: "H100", MemoryBytes: engines.Known(uint64(80 << 30)), FreeBytes: engines.Known(uint64(80 << 30))}},
	}, Address: "n1", Reported: true}
	for _, status := range s.shards {
		n.Shards = append(n.Shards, status)
	}
	return []reconcile.Node{n}, nil
}

// nodeChanges, catalogSource and useSource are the site's other faces.
type (
	nodeSource    struct{ *site }
	catalogSource struct{ *site }
	useSource     struct{ *site }
)

func (s nodeSource) C() <-chan struct{}    { return s.nodesC }
func (s catalogSource) C() <-chan struct{} { return s.catalogC }
func (s useSource) C() <-chan struct{}     { return s.useC }

func (s catalogSource) Catalog() (*catalog.Catalog, []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cat, s.aside
}

func (s useSource) Use(drained []reconcile.Ref) []reconcile.Use {
	s.mu.Lock()
	defer s.mu.Unlock()
	use := []reconcile.Use{}
	for id := range s.rows {
		use = append(use, reconcile.Use{Replica: id, InFlight: engines.Known(0), Released: len(s.endpoints) == 0})
	}
	for _, ref := range drained {
		if _, row := s.rows[ref.Replica]; !row {
			use = append(use, reconcile.Use{Replica: ref.Replica, InFlight: engines.Known(0), Released: true})
		}
	}
	return use
}

func (s useSource) Demand() []reconcile.Demand {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.demand
}

func (s *site) SetStatuses(statuses []reconcile.ModelStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.statuses = statuses
}

func (s *site) SetEndpoints(endpoints []reconcile.Endpoint) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endpoints = endpoints
	s.published++
}

// run runs a loop of the site until the test ends or the function returned is
// called.
func (s *site) run(t *testing.T) (l *reconcile.Loop, stop func()) {
	cfg := reconcile.DefaultConfig()
	cfg.Settle = s.settle
	l, err := reconcile.New(cfg, reconcile.Deps{
		Authority: s, Rows: s, Dispatcher: s, Nodes: nodeSource{s}, Catalog: catalogSource{s}, Use: useSource{s}, Sink: s,
		Core: reconcile.CoreDeps{NewID: func(model string) string { return model + "-" + time.Now().Format("150405") }},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	return l, func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// counts is a copy of what was ordered, by kind.
func (s *site) counts(k reconcile.Kind) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.orders[k]
}

func (s *site) serving() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.endpoints)
}

func (s *site) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// What is wanted comes up, is published, is adopted by the next loop, and goes
// when it is wanted no more.
func TestLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, simModel("m", 1, 1, 1))
		l, stop := s.run(t)
		synctest.Wait()
		if s.serving() != 1 || s.counts(reconcile.Start) != 1 {
			t.Fatalf("%d serve after %d starts: %+v", s.serving(), s.counts(reconcile.Start), l.View())
		}
		stop()
		l, stop = s.run(t)
		synctest.Wait()
		if v := l.View(); len(v.Replicas) != 1 || v.Replicas[0].State != reconcile.Ready || s.serving() != 1 || s.counts(reconcile.Start) != 1 {
			t.Fatalf("%d serve after %d starts: %+v", s.serving(), s.counts(reconcile.Start), v)
		}
		none, err := catalog.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		s.change(func() { s.cat = none })
		s.catalogC <- struct{}{}
		time.Sleep(10 * time.Second) // of virtual time
		if s.serving() != 0 || len(l.View().Replicas) != 0 || len(s.rows) != 0 {
			t.Fatalf("%d serve, %d rows: %+v", s.serving(), len(s.rows), l.View())
		}
		stop()
	})
}

// What is asked for on demand is started when the loop hears of it, and how it stands
// is told.
func TestLoopWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := simModel("m", 1, 1, 1)
		m.Scaling = &catalog.Scaling{Max: 1}
		s := newSite(t, m)
		_, stop := s.run(t)
		defer stop()
		stands := func(want reconcile.ModelState) {
			t.Helper()
			synctest.Wait()
			s.mu.Lock()
			defer s.mu.Unlock()
			if len(s.statuses) != 1 || s.statuses[0].State != want {
				t.Fatalf("%+v; want %v", s.statuses, want)
			}
		}
		time.Sleep(time.Minute)
		stands(reconcile.ModelAsleep)
		if s.counts(reconcile.Start) != 0 {
			t.Fatal("it was started")
		}
		s.change(func() {
			s.demand = []reconcile.Demand{{Model: "m", Waiting: 1, Asked: engines.Known(time.Duration(0))}}
		})
		s.useC <- struct{}{}
		stands(reconcile.ModelServing)
		if s.serving() != 1 || s.counts(reconcile.Start) != 1 {
			t.Fatalf("%d serve after %d starts", s.serving(), s.counts(reconcile.Start))
		}
	})
}

// Without its rows a loop decides nothing and publishes nothing: what routers have
// stays.
func TestLoopWithoutStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, simModel("m", 1, 1, 1))
		s.storeErr = errors.New("away")
		_, stop := s.run(t)
		time.Sleep(time.Minute) // of virtual time
		if s.published != 0 || s.counts(reconcile.Start) != 0 {
			t.Fatalf("published %d times, %d starts", s.published, s.counts(reconcile.Start))
		}
		s.change(func() { s.storeErr = nil })
		time.Sleep(10 * time.Second) // of virtual time
		if s.serving() != 1 {
			t.Fatalf("%d serve", s.serving())
		}
		stop()
	})
}

// While it is not known what is wanted, nothing is taken down.
func TestLoopWithoutCatalog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, simModel("m", 1, 1, 1))
		_, stop := s.run(t)
		synctest.Wait()
		stop()
		cat := s.cat
		s.cat = nil
		_, stop = s.run(t)
		time.Sleep(time.Minute) // of virtual time
		if s.serving() != 1 || s.counts(reconcile.Stop) != 0 {
			t.Fatalf("%d serve, %d stops", s.serving(), s.counts(reconcile.Stop))
		}
		s.change(func() { s.cat = cat })
		time.Sleep(10 * time.Second) // of virtual time
		if s.serving() != 1 || s.counts(reconcile.Start) != 1 {
			t.Fatalf("%d serve, %d starts", s.serving(), s.counts(reconcile.Start))
		}
		stop()
	})
}

// Where no model is to run and none is on record, what nodes report is another's.
func TestLoopPlacesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		id := engines.ShardID{Replica: "another's"}
		s.shards[id] = engines.ShardStatus{ID: id, Generation: 1, State: engines.ShardReady}
		_, stop := s.run(t)
		time.Sleep(time.Minute) // of virtual time
		if n := s.counts(reconcile.Stop); n != 0 {
			t.Errorf("%d stops", n)
		}
		cat, err := catalog.New([]catalog.Model{simModel("m", 0, 1, 1)})
		if err != nil {
			t.Fatal(err)
		}
		s.change(func() { s.cat = cat })
		time.Sleep(time.Minute) // of virtual time
		if n := s.counts(reconcile.Stop); n != 1 {
			t.Errorf("%d stops of a stray", n)
		}
		stop()
	})
}

// What runs of a model that is set aside is let be, until it is gone altogether.
func TestLoopSetAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, simModel("m", 1, 1, 1))
		l, stop := s.run(t)
		synctest.Wait()
		none, err := catalog.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		s.change(func() { s.cat, s.aside = none, []string{"m"} })
		time.Sleep(time.Minute) // of virtual time
		if v := l.View(); len(v.Replicas) != 1 || v.Replicas[0].State != reconcile.Ready || s.counts(reconcile.Stop) != 0 {
			t.Fatalf("%d stops: %+v", s.counts(reconcile.Stop), v)
		}
		s.change(func() { s.aside = nil })
		time.Sleep(time.Minute) // of virtual time
		if v := l.View(); len(v.Replicas) != 0 {
			t.Fatalf("%+v", v)
		}
		stop()
	})
}

// A loop that came to lead anew reads the rows again, and takes nothing that was
// published back meanwhile.
func TestLoopLeadsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, simModel("m", 1, 1, 1))
		_, stop := s.run(t)
		synctest.Wait()
		published := s.published
		s.change(func() { s.leads = false })
		time.Sleep(10 * time.Second) // of virtual time
		s.change(func() { s.leads, s.session = true, 2 })
		time.Sleep(10 * time.Second) // of virtual time
		if s.serving() != 1 || s.counts(reconcile.Start) != 1 {
			t.Fatalf("%d serve after %d starts", s.serving(), s.counts(reconcile.Start))
		}
		if s.published > published+1 {
			t.Errorf("published %d times more", s.published-published)
		}
		stop()
	})
}

// Faults of the configuration and of the collaborators are all told at once.
func TestNewRefuses(t *testing.T) {
	cfg := reconcile.DefaultConfig()
	cfg.Interval, cfg.MaxBackoff = 0, time.Second
	if _, err := reconcile.New(cfg, reconcile.Deps{}); err == nil {
		t.Fatal("no error")
	}
	if err := cfg.Validate(); err == nil || len(err.(interface{ Unwrap() []error }).Unwrap()) != 2 { //nolint:errorlint // errors.Join's
		t.Errorf("%v", err)
	}
	if _, err := reconcile.New(reconcile.DefaultConfig(), reconcile.Deps{}); err == nil {
		t.Error("no error without collaborators")
	}
}

// What waits for nodes that may yet come is placed when that is over, though nothing
// has changed.
func TestLoopSettles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, simModel("m", 1, 1, 1))
		s.settle = 2 * time.Second
		_, stop := s.run(t)
		time.Sleep(1900 * time.Millisecond) // of virtual time
		if s.serving() != 0 {
			t.Error("it was placed before that was over")
		}
		time.Sleep(200 * time.Millisecond) // of virtual time
		if s.serving() != 1 {
			t.Errorf("%d serve", s.serving())
		}
		stop()
	})
}
