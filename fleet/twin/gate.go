package twin

import (
	"errors"
	"fmt"
	"time"

	"github.com/llmgw/llmgw/admission"
	"github.com/llmgw/llmgw/router/endpoint"
)

// gate is the admission core with what its controller would do around it.
type gate struct {
	core     *admission.Core
	cfg      admission.Config   // that core was made from
	recorder admission.Recorder // nil: nothing is written down
	interval time.Duration
	bands    []string // by tenant
	names    []string
	pool     []*endpoint.Endpoint
	load     admission.Load
	waiting  map[uint64]*request // by ticket

	observed time.Duration // when the load was last read
	tickAt   time.Duration // when it is read next; never while nothing is under way
}

func newGate(cfg Config, pool []*endpoint.Endpoint) (*gate, error) {
	a := cfg.Admission
	a.Seed = cfg.Seed
	a.Saturation = admission.SaturationConfig{
		AssumedCapacity: admission.DefaultSaturationConfig().AssumedCapacity,
		TargetWaiting:   cfg.Scoring.TargetWaiting, KVCeiling: cfg.Scoring.KVCeiling, StaleAfter: cfg.Scoring.StaleAfter,
	}
	core, err := admission.NewCore(a, nil)
	if err != nil {
		return nil, err
	}
	g := &gate{
		core: core, cfg: a, interval: a.Interval, pool: pool, waiting: make(map[uint64]*request),
		observed: -a.Interval, tickAt: never,
	}
	tenants := cfg.Tenants
	if len(tenants) == 0 {
		tenants = []Tenant{{}}
	}
	for _, t := range tenants {
		g.names, g.bands = append(g.names, t.Name), append(g.bands, t.Band)
	}
	return g, nil
}

// read returns the pool's load as it is known at now.
func (g *gate) read(now time.Duration) admission.PoolLoad {
	g.observed = now
	g.load.Endpoints = g.load.Endpoints[:0]
	for _, e := range g.pool {
		l := admission.EndpointLoad{ID: e.ID(), Instance: e.Instance(), Weight: e.Weight(), InFlight: admission.Read(float64(e.InFlight()))}
		if m := e.Load(); m != nil {
			l.MeasuredAt, l.MeasuredInFlight = m.At, admission.Read(float64(m.InFlight))
			l.Running, l.Waiting, l.KVUsedRatio = reading(m.Running.Get()), reading(m.Waiting.Get()), reading(m.KVUsedRatio.Get())
		}
		g.load.Endpoints = append(g.load.Endpoints, l)
	}
	return admission.PoolLoad{Pool: model, Load: &g.load}
}

func reading(v float64, known bool) admission.Reading {
	if !known {
		return admission.Reading{}
	}
	return admission.Read(v)
}

// admit asks for r to run.
func (t *Twin) admit(r *request) error {
	g := t.gate
	if t.now-g.observed >= g.interval {
		if err := t.grant(g.step(t.clock(), g.read(t.now))); err != nil {
			return err
		}
	}
	if g.tickAt == never {
		g.tickAt = t.now + g.interval
	}
	ticket, granted, err := g.offer(t.clock(), admission.Request{Pool: model, Band: g.bands[r.tenant], Tenant: g.names[r.tenant]})
	switch {
	case err != nil:
		return t.refuse(r, err)
	case !granted:
		g.waiting[ticket.ID()] = r
		return nil
	}
	r.ticket, r.leased = ticket, true
	return t.dispatch(r)
}

// tick reads the load again, as long as there is work.
func (t *Twin) tick() error {
	g := t.gate
	if g.core.Leases() == 0 && len(g.waiting) == 0 {
		g.tickAt = never
		return nil
	}
	g.tickAt = t.now + g.interval
	return t.grant(g.step(t.clock(), g.read(t.now)))
}

// grant does what the core has decided about those that waited.
func (t *Twin) grant(decisions []admission.Decision) error {
	// dispatch steps an engine, whose finished requests step the core again; then
	// these decisions would be overwritten.
	t.granted = append(t.granted, decisions...)
	if t.granting {
		return nil
	}
	t.granting = true
	defer func() { t.granting = false }()
	for i := 0; i < len(t.granted); i++ {
		d := t.granted[i]
		r := t.gate.waiting[d.ID]
		delete(t.gate.waiting, d.ID)
		if r == nil {
			return fmt.Errorf("twin: admission decided about request %d, which does not wait", d.ID)
		}
		var err error
		if d.Err != nil {
			err = t.refuse(r, d.Err)
		} else {
			r.ticket, r.leased = d.Ticket, true
			err = t.dispatch(r)
		}
		if err != nil {
			return err
		}
	}
	t.granted = t.granted[:0]
	return nil
}

// refuse ends r, which no engine has seen.
func (t *Twin) refuse(r *request, err error) error {
	switch {
	case errors.Is(err, admission.ErrQueueFull):
		t.refused.QueueFull++
	case errors.Is(err, admission.ErrExpired):
		t.refused.Expired++
	default:
		return fmt.Errorf("twin: %w", err)
	}
	t.denied = append(t.denied, int32(r.tenant))
	t.live--
	t.put(r)
	return nil
}
