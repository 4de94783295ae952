package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmgw/llmgw/placement"
	"github.com/llmgw/llmgw/placement/catalog"
)

// Authority says whether orders may be given. Its method is called often and
// must not block.
type Authority interface {
	// Leads returns whether this process leads, and a number that is another one
	// each time it came to lead: what was known before is then read again.
	Leads() (leads bool, session uint64)
}

// Rows are the stored replicas. It may fail and be slow.
type Rows interface {
	// ListRows returns all of them.
	ListRows(ctx context.Context) ([]Row, error)
}

// Dispatcher carries orders out.
type Dispatcher interface {
	// Dispatch does what the order says, or says why it is not done. It returns
	// when that is known, or ctx is done. Calls overlap; an order that is given
	// again after [Unknown] must do no harm. The result has the order in it.
	Dispatch(ctx context.Context, o Order) Result
}

// NodeSource tells of nodes. Its methods must not block.
type NodeSource interface {
	// Changed returns the nodes that are not as they were at the last call, the
	// first time all, and the ids of those that are not known any more. After
	// again all are told anew.
	Changed(again bool) (nodes []Node, gone []string)
	// C has an element when there may be a change.
	C() <-chan struct{}
}

// CatalogSource has what is wanted. Its methods must not block.
type CatalogSource interface {
	// Catalog returns what is wanted now: another pointer when it is another one.
	// Nil: not known yet.
	// Aside are the names of models that are wanted and cannot stand in it: see
	// [Inputs].
	Catalog() (wanted *catalog.Catalog, aside []string)
	// C has an element when there may be a change.
	C() <-chan struct{}
}

// UseSource tells what routers know. Its methods must not block.
type UseSource interface {
	// Use returns what is known of replicas now, of those that are drained in any
	// case; nil: nothing has changed.
	Use(drained []Ref) []Use
	// Demand returns what is known of who asks for models now; nil: nothing has
	// changed.
	Demand() []Demand
	// C has an element when there may be a change.
	C() <-chan struct{}
}

// NeedSource knows what replicas take. Its methods must not block.
type NeedSource interface {
	// Needs returns what is known of each model of a catalog, by how everything stood
	// after the last step; nil: nothing has changed. After again it is told anew.
	Needs(wanted *catalog.Catalog, stood *View, again bool) []Need
	// C has an element when there may be a change.
	C() <-chan struct{}
}

// EndpointSink gets what routers may use, and what they may tell who asks for the rest.
type EndpointSink interface {
	// SetEndpoints replaces all endpoints. It must not block, and may keep the
	// slice, which is not changed any more.
	SetEndpoints(endpoints []Endpoint)
	// SetStatuses replaces how all models stand for who asks for them. It must not
	// block, and may keep the slice, which is not changed any more.
	SetStatuses(statuses []ModelStatus)
}

// Deps are a loop's collaborators.
type Deps struct {
	Authority  Authority     // required
	Rows       Rows          // required
	Dispatcher Dispatcher    // required
	Nodes      NodeSource    // required
	Catalog    CatalogSource // required
	Use        UseSource     // required
	Sink       EndpointSink  // required
	// Needs knows what the catalog does not state. Nil: nothing is known.
	Needs NeedSource
	Core  CoreDeps
	// Scaled is told of each decision that changed how many replicas of a model are
	// wanted. It must not block. Nil: nobody is.
	Scaled func(Scaled)
	// Logger gets what happens to replicas. Nil discards.
	Logger *slog.Logger
	// Registerer gets the metrics. Nil leaves them unregistered.
	Registerer prometheus.Registerer
}

// Loop runs a [Core] on the world.
type Loop struct {
	cfg     Config
	deps    Deps
	log     *slog.Logger
	metrics *metrics
	wake    chan struct{} // has an element when there are results

	mu      sync.Mutex
	core    *Core    // guarded by mu
	results []Result // guarded by mu; of orders of this session
	session uint64   // guarded by mu
}

// New returns a loop, or what is wrong with cfg and deps. It starts nothing.
func New(cfg Config, deps Deps) (*Loop, error) {
	core, err := NewCore(cfg, deps.Core)
	if err != nil {
		return nil, err
	}
	for _, required := range []struct {
		name string
		is   bool
	}{
		{"Authority", deps.Authority != nil},
		{"Rows", deps.Rows != nil},
		{"Dispatcher", deps.Dispatcher != nil},
		{"Nodes", deps.Nodes != nil},
		{"Catalog", deps.Catalog != nil},
		{"Use", deps.Use != nil},
		{"Sink", deps.Sink != nil},
	} {
		if !required.is {
			err = errors.Join(err, fmt.Errorf("reconcile: Deps.%s is nil; it is required", required.name))
		}
	}
	if err != nil {
		return nil, err
	}
	if deps.Logger == nil {
		deps.Logger = slog.New(slog.DiscardHandler)
	}
	return &Loop{
		cfg: cfg, deps: deps, log: deps.Logger, metrics: newMetrics(deps.Registerer), core: core, wake: make(chan struct{}, 1),
	}, nil
}

// Run reconciles until ctx is done, and then waits for the orders that are on
// their way, which end with it. It returns nil. Call it once.
func (l *Loop) Run(ctx context.Context) error {
	var orders sync.WaitGroup
	defer orders.Wait()
	ticker := time.NewTicker(l.cfg.Interval)
	defer ticker.Stop()
	clock := newAwake(2 * l.cfg.Interval)
	diary := diary{log: l.log, told: map[string]told{}}
	loaded, stood := false, l.View()
	var needs <-chan struct{}
	if l.deps.Needs != nil {
		needs = l.deps.Needs.C()
	}
	for {
		leads, session := l.deps.Authority.Leads()
		if l.begin(session) {
			loaded = false
		}
		in := Inputs{Leads: leads}
		if leads && !loaded {
			if rows, known := l.rows(ctx); known {
				in.Rows, loaded = &rows, true
			}
		}
		in.Nodes, in.Gone = l.deps.Nodes.Changed(in.Rows != nil)
		in.Catalog, in.Aside = l.deps.Catalog.Catalog()
		in.Use = l.deps.Use.Use(l.drained())
		in.Demand = l.deps.Use.Demand()
		if l.deps.Needs != nil && in.Catalog != nil {
			in.Needs = l.deps.Needs.Needs(in.Catalog, stood, in.Rows != nil)
		}
		decided, view := l.step(clock.now(), in)
		stood = view
		if decided.Changed {
			l.deps.Sink.SetEndpoints(decided.Endpoints)
		}
		if decided.StatusesChanged {
			l.deps.Sink.SetStatuses(decided.Statuses)
		}
		if l.deps.Scaled != nil {
			for _, one := range decided.Scaled {
				l.deps.Scaled(one)
			}
		}
		diary.note(view, clock.at)
		for _, o := range decided.Orders {
			orders.Go(func() { l.dispatch(ctx, session, o) })
		}
		var again <-chan time.Time
		if decided.Again > 0 {
			again = time.After(decided.Again)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-l.wake:
		case <-again:
		case <-ticker.C:
		case <-l.deps.Nodes.C():
		case <-l.deps.Catalog.C():
		case <-l.deps.Use.C():
		case <-needs:
		}
	}
}

// begin forgets everything where this process came to lead anew: what another
// leader did meanwhile is not known. The endpoints stay until they are decided
// about.
func (l *Loop) begin(session uint64) (anew bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if session == l.session {
		return false
	}
	core, err := NewCore(l.cfg, l.deps.Core)
	if err != nil {
		panic(err) // New has made one of the same
	}
	core.endpoints = l.core.endpoints
	l.session, l.core, l.results = session, core, nil
	return true
}

// drained are the replicas of which it matters that nobody uses them any more:
// those that are drained, and those that are not on record.
func (l *Loop) drained() (refs []Ref) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.core.replicas {
		if r.row.State == Draining {
			refs = append(refs, Ref{Replica: r.row.ID, Generation: r.row.Generation, Start: r.row.Start})
		}
	}
	return append(refs, l.core.strayRefs()...)
}

func (l *Loop) rows(ctx context.Context) (rows []Row, known bool) {
	rows, err := l.deps.Rows.ListRows(ctx)
	if err != nil {
		if ctx.Err() == nil {
			l.log.Warn("the stored replicas cannot be read; nothing is decided until they are", "err", err)
		}
		return nil, false
	}
	return rows, true
}

func (l *Loop) step(now time.Time, in Inputs) (Decisions, *View) {
	begin := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	in.Results, l.results = l.results, nil
	decided := l.core.Step(now, in)
	l.metrics.passed(time.Since(begin))
	return decided, l.core.View()
}

func (l *Loop) dispatch(ctx context.Context, session uint64, o Order) {
	res := l.deps.Dispatcher.Dispatch(ctx, o)
	res.Order = o
	l.metrics.ordered(o.Kind, res.Outcome)
	l.mu.Lock()
	if session == l.session {
		l.results = append(l.results, res)
	}
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// View returns how everything stands.
func (l *Loop) View() *View {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.core.View()
}

// Snapshot returns how everything stands at one moment, for questions.
func (l *Loop) Snapshot() *Snapshot {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.core.Snapshot()
}

// Cluster returns the machines and what is held of them, for the caller to ask
// and change.
func (l *Loop) Cluster() *placement.Cluster {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.core.cluster.Clone()
}

// awake tells the time that this process has been awake for: of a gap that is
// longer than most between two calls only most passes, so that a process that
// was stopped or starved finds nobody late for it.
type awake struct {
	at   time.Time // as told last
	last time.Time // as read last
	most time.Duration
}

func newAwake(most time.Duration) *awake {
	now := time.Now()
	return &awake{at: now, last: now, most: most}
}

func (a *awake) now() time.Time {
	now := time.Now()
	a.at = a.at.Add(min(now.Sub(a.last), a.most))
	a.last = now
	return a.at
}
