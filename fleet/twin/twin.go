package twin

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/llmgw/llmgw/admission"
	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/sim"
	"github.com/llmgw/llmgw/engines/sim/workload"
	"github.com/llmgw/llmgw/router/endpoint"
	"github.com/llmgw/llmgw/router/gateway/flight"
	"github.com/llmgw/llmgw/router/schedule"
)

// model is the name of the only model, and so of admission's pool.
const model = "model"

// Twin is one run of a trace. Make one with New; then Step it, or Run it, to
// the end. Not safe for concurrent use; twins do not touch each other.
type Twin struct {
	cfg    Config
	policy Policy
	trace  *workload.Trace

	epoch time.Time
	now   time.Duration // since epoch
	next  int           // of the trace's requests
	live  int           // that have arrived and not ended
	due   *due
	cores []*sim.Core
	spent []effort // by engine

	set       *endpoint.Set
	pool      []*endpoint.Endpoint
	scheduler *schedule.Scheduler
	index     index // nil: the policy knows of no cache
	rng       *rand.Rand
	record    schedule.Decision
	recorder  *flight.Recorder // nil: nothing is written down

	scrapeAt time.Duration // the next
	scrapes  int
	gate     *gate // nil: admission is off
	granted  []admission.Decision
	granting bool

	shares []float64 // of tenants, summed up
	spare  []*request

	ended   []outcome
	denied  []int32 // tenants of the refused
	refused Refused
	agreed  Agreement
	err     error
}

// effort is what an engine has done.
type effort struct {
	requests int
	busy     time.Duration
}

// outcome is one request that completed.
type outcome struct {
	tenant          int32
	good            bool
	tokens          int32 // prompt and output
	ttft, tpot, e2e time.Duration
}

// New validates cfg and p and returns a twin at the start of the trace, which
// it keeps and does not change. The trace must be valid (see
// [workload.Trace.Validate]), as what that package returns is.
func New(cfg Config, p Policy, trace *workload.Trace) (*Twin, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("twin: %w", err)
	}
	if trace == nil || len(trace.Requests) == 0 {
		return nil, fmt.Errorf("twin: %w", workload.ErrEmpty)
	}
	t := &Twin{
		cfg: cfg, policy: p, trace: trace,
		epoch: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		rng:   rand.New(rand.NewPCG(cfg.Seed, 0x7477696e)),
	}
	if err := t.build(); err != nil {
		return nil, fmt.Errorf("twin: %w", err)
	}
	return t, nil
}

// build makes the fleet and what decides about it.
func (t *Twin) build() error {
	var specs []endpoint.Spec
	var blocks []int
	for _, g := range t.cfg.Groups {
		e := t.cfg.engine(g)
		e.KVEvents = sim.DefaultConfig().KVEvents
		e.KVEvents.Enabled = t.policy == PrefixExact
		for i := range g.Engines {
			core, err := sim.NewCore(e)
			if err != nil {
				return err
			}
			id := fmt.Sprintf("%s-%d", g.Name, i+1)
			specs = append(specs, endpoint.Spec{
				ID: id, URL: "http://" + id + ".invalid", Weight: g.Weight, Models: []endpoint.Model{{Name: model}},
			})
			t.cores = append(t.cores, core)
			blocks = append(blocks, e.NumGPUBlocks)
		}
	}
	t.due, t.spent = newDue(len(t.cores)), make([]effort, len(t.cores))
	set, err := endpoint.NewSet(endpoint.DefaultConfig(), endpoint.Deps{})
	if err != nil {
		return err
	}
	if err := set.Replace(specs); err != nil {
		return err
	}
	t.set = set
	t.pool = set.Snapshot().ForModel(model)
	deps := schedule.Deps{Profiles: blind()}
	switch {
	case t.policy.indexed():
		t.index, err = newSent(t.cfg.Prefix, model, t.pool)
	case t.policy == PrefixExact:
		t.index, err = newExact(t.cfg.Prefix, model, t.pool, blocks)
	}
	if err != nil {
		return err
	}
	if t.index != nil {
		deps.Prefixes = t.index
	}
	if t.scheduler, err = schedule.New(t.cfg.Scoring, deps); err != nil {
		return err
	}
	if t.cfg.Admission.Enabled {
		if t.gate, err = newGate(t.cfg, t.pool); err != nil {
			return err
		}
	}
	t.shares = []float64{1}
	if len(t.cfg.Tenants) > 0 {
		t.shares = t.shares[:0]
		total := 0.0
		for _, tenant := range t.cfg.Tenants {
			total += tenant.Share
			t.shares = append(t.shares, total)
		}
	}
	return nil
}

// Now is the virtual time since the trace's first request.
func (t *Twin) Now() time.Duration { return t.now }

// Run steps to the end and returns the report. The error is that of Step, or
// wraps ctx's cause.
func (t *Twin) Run(ctx context.Context) (*Report, error) {
	for i := 0; ; i++ {
		if i%4096 == 0 && ctx.Err() != nil {
			return nil, fmt.Errorf("twin: after %v of virtual time: %w", t.now, context.Cause(ctx))
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

// Step handles the next event: the end of an engine's iteration, a measurement,
// a tick of admission or an arrival, of those at the same time in this order.
// It returns false when every request has ended. An error is a fault of the
// twin, and stays.
func (t *Twin) Step() (more bool, err error) {
	if t.err != nil {
		return false, t.err
	}
	if t.next == len(t.trace.Requests) && t.live == 0 {
		return false, nil
	}
	engine, at := t.due.first()
	scrape, tick, arrival := t.scrapeAt, never, never
	if t.gate != nil {
		tick = t.gate.tickAt
	}
	if t.next < len(t.trace.Requests) {
		arrival = t.trace.Requests[t.next].At
	}
	switch t.now = min(at, scrape, tick, arrival); t.now {
	case at:
		t.err = t.stepEngine(engine)
	case scrape:
		t.scrape()
	case tick:
		t.err = t.tick()
	default:
		t.err = t.arrive()
	}
	return t.err == nil, t.err
}

func (t *Twin) clock() time.Time { return t.epoch.Add(t.now) }

// arrive takes in the trace's next request.
func (t *Twin) arrive() error {
	tr := &t.trace.Requests[t.next]
	t.next++
	if tr.PromptTokens+tr.OutputTokens > t.cfg.Engine.MaxModelLen {
		t.refused.TooLong++
		return nil
	}
	r := t.take(tr)
	t.live++
	if t.gate == nil {
		return t.dispatch(r)
	}
	return t.admit(r)
}

// dispatch sends r to the engine that the scheduler picks.
func (t *Twin) dispatch(r *request) error {
	size := r.blockTokens
	r.blocks = t.trace.AppendBlockHashes(r.blocks[:0], r.trace, size)
	r.blocks = r.blocks[:min(len(r.blocks), r.trace.PromptTokens/size)]
	req := schedule.Request{
		Model: model, Now: t.clock(), Stream: true,
		PromptBytes: r.trace.PromptTokens * tokenBytes, MaxTokens: r.trace.OutputTokens,
	}
	if t.cfg.Sessions && t.policy.affine() {
		req.Session = r.trace.Session
	}
	if t.index != nil {
		t.index.prepare(t.trace, r)
		req.Prompt = r
	}
	e, held, err := t.scheduler.Decide(t.policy.profile(), &req, t.pool, t.rng, &t.record)
	if err != nil {
		return fmt.Errorf("twin: %w", err)
	}
	if t.recorder != nil {
		t.recorder.Decided(requestID(r), flight.Route{Attempt: 1}, &t.record)
	}
	r.held, r.sentAt = held, t.now
	r.engine = t.engineOf(e)
	r.predicted = t.record.Candidates[t.record.Picked].Prefix.Bytes / tokenBytes
	t.spent[r.engine].requests++
	core := t.cores[r.engine]
	core.Submit(req.Now, sim.Request{
		PromptTokens: r.trace.PromptTokens, OutputTokens: r.trace.OutputTokens,
		Blocks: r.blocks, Tokens: r.tokens, Owner: r,
	})
	if t.due.at[r.engine] == never { // nothing is under way that would take it in
		return t.stepEngine(r.engine)
	}
	return nil
}

func (t *Twin) engineOf(e *endpoint.Endpoint) int {
	for i, other := range t.pool {
		if other == e {
			return i
		}
	}
	panic("twin: an endpoint that is not in the pool")
}

// stepEngine ends the iteration that is due on an engine and begins the next.
func (t *Twin) stepEngine(engine int) error {
	b, next := t.cores[engine].Step(t.clock())
	if next.IsZero() {
		t.due.set(engine, never)
	} else {
		t.due.set(engine, next.Sub(t.epoch))
	}
	if t.index != nil && len(b.CacheEvents) > 0 {
		if err := t.index.told(engine, b.CacheEvents); err != nil {
			return err
		}
	}
	if b.End.IsZero() {
		return nil
	}
	t.spent[engine].busy += b.End.Sub(b.Start)
	if len(b.Finished) == 0 {
		return nil
	}
	for _, s := range b.Finished {
		t.finish(s.Owner.(*request), s)
	}
	if t.gate != nil {
		return t.grant(t.gate.step(t.clock()))
	}
	return nil
}

// finish notes what came of r.
func (t *Twin) finish(r *request, s *sim.Sequence) {
	waited := r.sentAt - r.arrived
	o := outcome{
		tenant: int32(r.tenant), tokens: int32(r.trace.PromptTokens + r.trace.OutputTokens),
		ttft: waited + s.TTFT(), e2e: waited + s.Elapsed(),
	}
	if n := s.Generated(); n > 1 {
		o.tpot = (s.Elapsed() - s.TTFT()) / time.Duration(n-1)
	}
	o.good = t.cfg.SLO.keeps(o)
	t.ended = append(t.ended, o)
	if t.recorder != nil {
		t.writeEnd(r, s, o)
	}
	if t.index != nil {
		t.agreed.add(r.predicted, s.CachedTokens())
		t.index.ended(t.clock(), r, s.PromptTokens(), s.CachedTokens())
	}
	r.held.Release()
	if r.leased {
		t.gate.release(t.clock(), r.ticket)
	}
	t.live--
	t.put(r)
}

// keeps reports whether o is within the bounds.
func (s SLO) keeps(o outcome) bool {
	return (s.TTFT == 0 || o.ttft <= s.TTFT) && (s.TPOT == 0 || o.tpot <= s.TPOT) && (s.E2E == 0 || o.e2e <= s.E2E)
}

// scrape measures the load of the engine whose turn it is.
func (t *Twin) scrape() {
	i := t.scrapes % len(t.pool)
	t.scrapes++
	// From the count, so that no rounding adds up.
	t.scrapeAt = time.Duration(float64(t.cfg.ScrapeInterval) * float64(t.scrapes) / float64(len(t.pool)))
	e, s := t.pool[i], t.cores[i].Stats()
	e.SetLoad(&endpoint.LoadState{
		InFlight: e.InFlight(), At: t.clock(), Engine: engines.VLLM,
		Load: engines.Load{
			Running: engines.Read(float64(s.Running)), Waiting: engines.Read(float64(s.Waiting)),
			KVUsedRatio: engines.Read(s.KVUsedRatio()),
		},
	})
}
