package scaling

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/llmgw/llmgw/admission"
	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/sim"
	"github.com/llmgw/llmgw/placement/catalog"
	"github.com/llmgw/llmgw/placement/reconcile"
	"github.com/llmgw/llmgw/router/endpoint"
	"github.com/llmgw/llmgw/router/schedule"
)

const (
	// tick is how often agents and routers report, loads are measured, and what runs is
	// held against what is wanted.
	tick = time.Second
	// hurry is how long it takes the control plane to hear of a request that waits.
	hurry = 100 * time.Millisecond
	// never is when something is due that is not.
	never = time.Duration(math.MaxInt64)
	// grace is how long after the last arrival requests may take to end.
	grace = 15 * time.Minute
)

// Twin is one run. Make one with New; then Step it, or Run it, to the end. Not safe
// for concurrent use; twins do not touch each other.
type Twin struct {
	cfg    Config
	policy Policy
	rates  string

	epoch    time.Time
	now      time.Duration // since epoch
	arrivals []arrival
	next     int // of arrivals
	live     int // requests that have come and not ended
	later    events
	seq      uint64

	// The routers.
	models    []model // as in Config.Models
	set       *endpoint.Set
	scheduler *schedule.Scheduler
	rng       *rand.Rand
	record    schedule.Decision
	admission *admission.Core
	load      admission.Load
	queued    map[uint64]*request // by ticket: they wait for room
	granted   []admission.Decision
	granting  bool

	// The machines.
	machines  []*machine
	engines   []*engine // that are up
	byReplica map[string]*engine
	starts    int

	// The control plane.
	core      *reconcile.Core
	catalog   *catalog.Catalog
	ids       int
	tickAt    time.Duration
	ticked    time.Duration
	endpoints []reconcile.Endpoint
	results   []reconcile.Result
	decisions []Decision

	cut  int // requests that were at an engine as it was ended
	peak int // cards taken at once
	done []outcome
	err  error
}

// model is one of Config.Models, and how it stands.
type model struct {
	*Model
	size    *Size
	pool    []*endpoint.Endpoint
	waiting []*request // for an endpoint, the first to come first
	queued  int        // for room
	asked   time.Duration
	// everAsked: asked is known.
	everAsked bool
	status    reconcile.ModelStatus
	toldAt    time.Duration
	wanted    int

	requests, lost, refusals, loads, thrashed int
	cardTime                                  time.Duration
}

// outcome is one request that was served.
type outcome struct {
	model int32
	tries int8
	ttft  time.Duration
}

// Decision is that another number of replicas of a model is wanted.
type Decision struct {
	// At is from the first arrival; before it during the warm-up.
	At       time.Duration
	Model    string
	From, To int
	Why      string
}

// New validates cfg and p and returns a twin before its warm-up.
func New(cfg Config, p Policy, rates *Rates) (*Twin, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("scaling: %w", err)
	}
	t := &Twin{
		cfg: cfg, policy: p, rates: rates.Name, epoch: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), now: -cfg.Warmup, tickAt: -cfg.Warmup, ticked: -cfg.Warmup,
		rng: rand.New(rand.NewPCG(cfg.Seed, 0x7363616c65)), queued: map[uint64]*request{}, byReplica: map[string]*engine{},
	}
	var err error
	if t.arrivals, err = draw(&t.cfg, rates); err != nil {
		return nil, err
	}
	if err := t.build(); err != nil {
		return nil, fmt.Errorf("scaling: %w", err)
	}
	return t, nil
}

// build makes machines, routers and the control plane.
func (t *Twin) build() (err error) {
	var entries []catalog.Model
	for i := range t.cfg.Models {
		m := &t.cfg.Models[i]
		size := t.cfg.size(m)
		t.models = append(t.models, model{Model: m, size: size})
		least, most := t.policy.bounds(m)
		entries = append(entries, catalog.Model{
			Name: m.Name, Source: "sim/" + m.Size,
			Profile: &engines.Profile{Engine: engines.Sim, Ranks: 1, TensorParallel: size.Cards},
			Scaling: &catalog.Scaling{Min: least, Max: most},
		})
	}
	if t.catalog, err = catalog.New(entries); err != nil {
		return err
	}
	t.buildMachines()
	if t.set, err = endpoint.NewSet(endpoint.DefaultConfig(), endpoint.Deps{}); err != nil {
		return err
	}
	if t.scheduler, err = schedule.New(t.cfg.Scoring, schedule.Deps{}); err != nil {
		return err
	}
	a := t.cfg.Admission
	a.Seed = t.cfg.Seed
	a.Saturation = admission.SaturationConfig{
		AssumedCapacity: admission.DefaultSaturationConfig().AssumedCapacity,
		TargetWaiting:   t.cfg.Scoring.TargetWaiting, KVCeiling: t.cfg.Scoring.KVCeiling, StaleAfter: t.cfg.Scoring.StaleAfter,
	}
	if t.admission, err = admission.NewCore(a, nil); err != nil {
		return err
	}
	t.core, err = reconcile.NewCore(t.cfg.Control, reconcile.CoreDeps{NewID: func(model string) string {
		t.ids++
		return fmt.Sprintf("%s-%d", model, t.ids)
	}})
	return err
}

// Now is the virtual time since the first arrival could come; negative during the
// warm-up.
func (t *Twin) Now() time.Duration { return t.now }

// Decisions are the numbers of replicas that were decided, in order. They are shared.
func (t *Twin) Decisions() []Decision { return t.decisions }

// Run steps to the end and returns the report. The error is that of Step, or wraps
// ctx's cause.
func (t *Twin) Run(ctx context.Context) (*Report, error) {
	for i := 0; ; i++ {
		if i%4096 == 0 && ctx.Err() != nil {
			return nil, fmt.Errorf("scaling: after %v of virtual time: %w", t.now, context.Cause(ctx))
		}
		more, err := t.Step()
		if err != nil {
			return nil, err
		}
		if !more {
			return t.Report(), nil
		}
	}
}

// Step handles the next event: the end of an engine's iteration, a report, what was
// put off or an arrival, of those at the same time in this order. It returns false
// once the time is over and every request has ended. An error is a fault of the twin,
// and stays.
func (t *Twin) Step() (more bool, err error) {
	if t.err != nil || t.over() {
		return false, t.err
	}
	var first *engine
	at := never
	for _, e := range t.engines {
		if e.at < at {
			first, at = e, e.at
		}
	}
	put, arrives := never, never
	if len(t.later) > 0 {
		put = t.later[0].at
	}
	if t.next < len(t.arrivals) {
		arrives = t.arrivals[t.next].at
	}
	switch t.now = min(at, t.tickAt, put, arrives); t.now {
	case at:
		t.err = t.iterate(first)
	case t.tickAt:
		t.err = t.report()
	case put:
		t.err = t.happen()
	default:
		t.err = t.arrive()
	}
	return t.err == nil, t.err
}

func (t *Twin) over() bool {
	if t.now < t.cfg.Duration || t.next < len(t.arrivals) {
		return false
	}
	return t.live == 0 || t.now >= t.cfg.Duration+grace
}

func (t *Twin) clock() time.Time { return t.epoch.Add(t.now) }

// counted is 1 while what happens counts: between the warm-up and the end of what
// arrives.
func (t *Twin) counted() int {
	if t.now >= 0 && t.now < t.cfg.Duration {
		return 1
	}
	return 0
}

// arrive takes the next request in.
func (t *Twin) arrive() error {
	r := &request{arrival: t.arrivals[t.next]}
	t.next++
	t.live++
	t.models[r.model].requests++
	return t.try(r)
}

// dispatch sends r to the engine that the scheduler picks. Where there is none any
// more it waits for one.
func (t *Twin) dispatch(m *model, r *request) error {
	if len(m.pool) == 0 {
		t.release(r)
		t.wait(m, r)
		return nil
	}
	req := schedule.Request{Model: m.Name, Now: t.clock(), Stream: true, PromptBytes: 4 * int(r.prompt), MaxTokens: int(r.output)}
	e, held, err := t.scheduler.Decide(schedule.Chat, &req, m.pool, t.rng, &t.record)
	if err != nil {
		return fmt.Errorf("scaling: %w", err)
	}
	r.held, r.sentAt, r.engine = held, t.now, t.byReplica[e.ID()]
	r.engine.inFlight++
	r.engine.core.Submit(req.Now, sim.Request{PromptTokens: int(r.prompt), OutputTokens: int(r.output), Owner: r})
	if r.engine.at == never { // nothing is under way that would take it in
		return t.iterate(r.engine)
	}
	return nil
}

func (t *Twin) release(r *request) {
	if r.leased {
		t.admission.Release(t.clock(), r.ticket)
		r.leased, r.ticket = false, admission.Ticket{}
	}
}

// iterate ends the iteration that is due on an engine and begins the next.
func (t *Twin) iterate(e *engine) error {
	b, next := e.core.Step(t.clock())
	e.at = never
	if !next.IsZero() {
		e.at = next.Sub(t.epoch)
	}
	if len(b.Advanced) > 0 {
		e.worked = t.now
	}
	if len(b.Finished) == 0 {
		return nil
	}
	for _, s := range b.Finished {
		r := s.Owner.(*request)
		e.inFlight--
		r.held.Release()
		t.release(r)
		t.live--
		t.done = append(t.done, outcome{
			model: r.model, tries: int8(r.tries), ttft: r.sentAt - r.at + s.TTFT(), //nolint:gosec // at most maxRetries
		})
	}
	return t.grant(t.admission.Step(t.clock()))
}

// report is a tick: what runs moves on, loads are measured, and the control plane
// decides on what it hears.
func (t *Twin) report() error {
	t.account()
	t.ticked, t.tickAt = t.now, t.now+tick
	if err := t.move(); err != nil {
		return err
	}
	if err := t.measure(); err != nil {
		return err
	}
	return t.decide()
}

// account adds up what was taken since the last tick.
func (t *Twin) account() {
	from, to := max(t.ticked, 0), min(t.now, t.cfg.Duration)
	if to <= from {
		return
	}
	taken := 0
	for _, m := range t.machines {
		for _, p := range m.shards {
			if p.status.State.Runs() {
				taken += p.cards
				p.model.cardTime += time.Duration(p.cards) * (to - from)
			}
		}
	}
	t.peak = max(t.peak, taken)
}

// measure reads every engine's load, and has admission look at it.
func (t *Twin) measure() error {
	for i := range t.models {
		m := &t.models[i]
		if len(m.pool) == 0 {
			continue
		}
		t.load.Endpoints = t.load.Endpoints[:0]
		for _, e := range m.pool {
			s := t.byReplica[e.ID()].core.Stats()
			e.SetLoad(&endpoint.LoadState{
				InFlight: e.InFlight(), At: t.clock(), Engine: engines.VLLM,
				Load: engines.Load{
					Running: engines.Read(float64(s.Running)), Waiting: engines.Read(float64(s.Waiting)), KVUsedRatio: engines.Read(s.KVUsedRatio()),
				},
			})
			inFlight := admission.Read(float64(e.InFlight()))
			t.load.Endpoints = append(t.load.Endpoints, admission.EndpointLoad{
				ID: e.ID(), Instance: e.Instance(), Weight: e.Weight(), InFlight: inFlight, MeasuredAt: t.clock(), MeasuredInFlight: inFlight,
				Running: admission.Read(float64(s.Running)), Waiting: admission.Read(float64(s.Waiting)), KVUsedRatio: admission.Read(s.KVUsedRatio()),
				BatchCapacity: admission.Read(float64(e.Spec().MaxRunning)),
			})
		}
		if err := t.grant(t.admission.Step(t.clock(), admission.PoolLoad{Pool: m.Name, Load: &t.load})); err != nil {
			return err
		}
	}
	return t.grant(t.admission.Step(t.clock()))
}
