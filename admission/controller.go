package admission

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Deps are the controller's collaborators.
type Deps struct {
	// Load says how loaded pools are; required.
	Load LoadSource
	// NewDetector makes the detector of each pool; nil makes [WorseOf] of
	// Config.Saturation.
	NewDetector func(pool string) Detector
	// Recorder is told of every step; nil is told nothing.
	Recorder Recorder
	// Now is the clock; nil is time.Now.
	Now func() time.Time
	// Registerer gets the metrics; nil leaves them unregistered.
	Registerer prometheus.Registerer
}

// Controller is a [Core] behind a lock, with requests that block until their
// turn. Its methods may be called concurrently. Make one with New.
type Controller struct {
	enabled  bool
	interval time.Duration
	load     LoadSource
	recorder Recorder
	now      func() time.Time

	loads    sync.Pool // of *Load
	outcomes sync.Pool // of chan error, empty, with room for one

	// mu is held for a step of the core at a time, and while a recorder takes
	// it down: steps must be recorded in their order. No other lock is taken
	// under it but the recorder's own.
	mu           sync.Mutex
	core         *Core         // guarded by mu
	record       Record        // guarded by mu; what the recorder gets, used again
	unknownBands uint64        // guarded by mu
	asleep       bool          // guarded by mu; Run waits for wake
	wake         chan struct{} // has room for one
}

// New validates cfg and returns a Controller. It starts no goroutine; call Run.
func New(cfg Config, deps Deps) (*Controller, error) {
	if deps.Load == nil {
		return nil, errors.New("admission: Deps.Load is nil; want what says how loaded pools are")
	}
	core, err := NewCore(cfg, deps.NewDetector)
	if err != nil {
		return nil, err
	}
	c := &Controller{
		enabled:  cfg.Enabled,
		interval: cfg.Interval,
		load:     deps.Load,
		recorder: deps.Recorder,
		now:      deps.Now,
		core:     core,
		wake:     make(chan struct{}, 1),
	}
	c.loads.New = func() any { return new(Load) }
	c.outcomes.New = func() any { return make(chan error, 1) }
	if c.now == nil {
		c.now = time.Now
	}
	if deps.Registerer != nil {
		if err := deps.Registerer.Register(newCollector(c)); err != nil {
			return nil, fmt.Errorf("admission: %w", err)
		}
	}
	return c, nil
}

// Admit returns once the request may run, at once where it is free to. The
// lease is to be released when the work has ended, however it did:
//
//	lease, err := ctl.Admit(ctx, r)
//	if err != nil {
//		return err
//	}
//	defer lease.Release()
//
// Errors are a [*RejectedError] or wrap ErrUnknownBand; there is no lease then.
// Admit blocks no longer than ctx and Config.QueueTTL last, and admits nothing
// whose ctx had ended before. A request that need
// not wait takes no hop to another goroutine and allocates nothing. While
// admission is switched off every request passes.
func (c *Controller) Admit(ctx context.Context, r Request) (Lease, error) {
	if !c.enabled {
		return Lease{}, nil
	}
	if ctx.Err() != nil {
		return Lease{}, &RejectedError{Reason: ReasonCancelled, Pool: r.Pool, Band: r.Band, RetryAfter: time.Second, cause: context.Cause(ctx)}
	}
	now := c.now()
	t, outcome, err := c.offer(now, r, false)
	if err == errLoadDue { //nolint:errorlint // offer returns it as it is, and this is the fast path
		c.refresh(r.Pool)
		t, outcome, err = c.offer(now, r, true)
	}
	switch {
	case err != nil:
		return Lease{}, err
	case outcome == nil:
		return Lease{c, t, true}, nil
	}
	select {
	case err = <-outcome:
	case <-ctx.Done():
		if rejected := c.cancel(t); rejected != nil {
			c.outcomes.Put(outcome)
			rejected.cause = context.Cause(ctx)
			return Lease{}, rejected
		}
		// It was decided before; what was decided is in the channel.
		err = <-outcome
	}
	c.outcomes.Put(outcome)
	if err != nil {
		return Lease{}, err
	}
	return Lease{ctl: c, ticket: t}, nil
}

// errLoadDue: the pool's load is to be read first.
var errLoadDue = errors.New("admission: load due")

// offer offers r to the core. If it is to wait, outcome will get nil or the
// error. Unless fresh says that it was just done, errLoadDue asks for the load
// to be read, which must happen outside the lock; one caller in an interval is
// asked.
func (c *Controller) offer(now time.Time, r Request, fresh bool) (t Ticket, outcome chan error, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !fresh && c.core.due(r.Pool, now, c.interval) {
		return Ticket{}, nil, errLoadDue
	}
	t, granted, err := c.core.Offer(now, r)
	if c.recorder != nil {
		c.record = Record{Op: OpOffer, At: now, ID: t.ID(), Request: r, Granted: granted, Err: err}
		c.tell(r.Pool)
	}
	if err != nil {
		if errors.Is(err, ErrUnknownBand) {
			c.unknownBands++
		}
		return Ticket{}, nil, err
	}
	if c.asleep {
		c.asleep = false
		c.wake <- struct{}{} // Run empties it before it sleeps again
	}
	if granted {
		return t, nil, nil
	}
	outcome = c.outcomes.Get().(chan error)
	t.entry.outcome = outcome
	c.step(now)
	return t, outcome, nil
}

// cancel ends the wait of t and says how; nil means that it was decided.
func (c *Controller) cancel(t Ticket) *RejectedError {
	now := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	id := t.ID()
	err := c.core.cancel(now, t)
	if err != nil && c.recorder != nil {
		c.record = Record{Op: OpCancel, At: now, ID: id}
		c.tell("")
	}
	return err
}

func (c *Controller) release(now time.Time, t Ticket) {
	c.mu.Lock()
	defer c.mu.Unlock()
	id := t.ID()
	if !c.core.Release(now, t) {
		return
	}
	if c.recorder != nil {
		c.record = Record{Op: OpRelease, At: now, ID: id}
		c.tell("")
	}
	if len(c.core.touched) > 0 {
		c.step(now)
	}
}

// step steps the core; mu is held.
func (c *Controller) step(now time.Time, loads ...PoolLoad) {
	decisions := c.core.Step(now, loads...)
	if c.recorder != nil {
		c.record = Record{Op: OpStep, At: now, Loads: loads, Decisions: decisions}
		c.tell("")
	}
}

// tell gives the record to the recorder, with the saturation of the pool that
// it is about, if it is about one; mu is held.
func (c *Controller) tell(pool string) {
	if pool != "" {
		c.record.Saturation, c.record.HasSaturation = c.core.Saturation(pool)
	}
	c.recorder.Record(&c.record)
	c.record = Record{}
}

// read reads the pool's load. The caller puts it back into loads.
func (c *Controller) read(pool string) *Load {
	load := c.loads.Get().(*Load)
	load.Endpoints = load.Endpoints[:0]
	c.load.Load(pool, load)
	return load
}

// Lease is a request's permission to run. Copies stand for the same one; the
// zero value is no lease.
type Lease struct {
	ctl    *Controller
	ticket Ticket
	atOnce bool
}

// AdmittedAt returns when the request was admitted if it had not to wait, else false.
// It may not be called once the lease was released.
func (l Lease) AdmittedAt() (time.Time, bool) {
	if !l.atOnce {
		return time.Time{}, false
	}
	return l.ticket.entry.since, true
}

// Release gives the permission back, and wakes who may run instead. Only the
// first call on any copy does anything. It does not block.
func (l Lease) Release() {
	if l.ctl != nil {
		l.ctl.release(l.ctl.now(), l.ticket)
	}
}

// ReleaseAt is Release for who has just looked at the clock.
func (l Lease) ReleaseAt(now time.Time) {
	if l.ctl != nil {
		l.ctl.release(now, l.ticket)
	}
}
