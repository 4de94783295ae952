package provider

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmgw/llmgw/storage"
)

// Deps are the registry's collaborators.
type Deps struct {
	Store Store                // required
	Fence func() storage.Fence // required: the term in which this process leads
	// Sealer seals and opens credentials. Nil: none can be set, and those that are kept
	// are not opened.
	Sealer *Sealer
	// Changed is called after providers changed visibly, by the registry's one writer:
	// it must not block. Nil calls nothing.
	Changed    func(*Snapshot)
	Logger     *slog.Logger          // nil discards
	Registerer prometheus.Registerer // nil leaves metrics unregistered
}

// ErrNotReady: the registry has not read the store yet, has ended, or as much waits to
// be written as may. Try again.
var ErrNotReady = errors.New("provider: the registry is not ready")

// Registry keeps the providers: one goroutine steps the core, others ask providers and
// write to the store. Its methods may be called concurrently.
type Registry struct {
	cfg    Config
	deps   Deps
	log    *slog.Logger
	met    *metrics
	guard  Guard
	prober *Prober
	queue  *queue
	began  time.Time // Run's; clock counts from here

	requests chan request
	answers  chan answer
	snapshot atomic.Pointer[Snapshot]
	ready    chan struct{} // closed when the store was read
	ended    chan struct{} // closed when Run ends

	// Of Run's goroutine alone:
	core      *Core
	plan      *schedule
	sweeps    []*sweep
	probing   sync.WaitGroup
	published time.Time
	dirty     bool
}

type request struct {
	event     Event
	requestID string
	sweep     *sweep // instead of an event
	reply     chan reply
}

type reply struct {
	decision Decision
	written  chan error // nil: nothing is
	err      error
}

type answer struct {
	id     string
	took   bool
	models []Listed
	err    error
}

// New validates cfg and returns a Registry. It starts no goroutine; call Run.
func New(cfg Config, deps Deps) (*Registry, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("provider: %w", err)
	}
	if deps.Store == nil || deps.Fence == nil {
		return nil, errors.New("provider: Store and Fence are required")
	}
	if deps.Logger == nil {
		deps.Logger = slog.New(slog.DiscardHandler)
	}
	r := &Registry{
		cfg: cfg, deps: deps, log: deps.Logger, guard: NewGuard(cfg.AllowCIDRs), prober: NewProber(cfg),
		requests: make(chan request), answers: make(chan answer, cfg.Probes), ready: make(chan struct{}), ended: make(chan struct{}),
	}
	r.snapshot.Store(&Snapshot{})
	r.queue = newQueue(deps.Store, deps.Fence, time.Now, 2*cfg.MaxProviders)
	met, err := newMetrics(deps.Registerer, r)
	if err != nil {
		return nil, fmt.Errorf("provider: %w", err)
	}
	r.met = met
	return r, nil
}

// Snapshot returns all providers, as of a second ago at most.
func (r *Registry) Snapshot() *Snapshot { return r.snapshot.Load() }

// Credential opens the credential of a provider; the zero Secret if it has none.
func (r *Registry) Credential(p *storage.Provider) (Secret, error) {
	switch {
	case p.Credential == nil:
		return Secret{}, nil
	case r.deps.Sealer == nil:
		return Secret{}, fmt.Errorf("%w: no key file is configured to open it with", ErrCredential)
	}
	return r.deps.Sealer.Open(p.Credential, p.CredentialKey, p.ID, p.BaseURL)
}

// Register takes an agent's registration, whose BaseURL may be in any spelling and
// whose NewID is made here. It does not wait for the store: what is lost of a
// registration, the next one brings again.
func (r *Registry) Register(ctx context.Context, reg Register) (Registration, error) {
	base, err := r.address(reg.BaseURL, false)
	if err != nil {
		r.met.registrations[registrationRefused].Inc()
		return Registration{}, err
	}
	reg.BaseURL, reg.NewID = base, newID()
	d, _, err := r.step(ctx, reg, "")
	r.met.registered(d.Registration, err)
	return d.Registration, err
}

// Add adds a static provider or a cloud, whose BaseURL may be in any spelling, empty
// for a cloud's own, and whose NewID is made here. secret may be zero. It returns when the store keeps it.
func (r *Registry) Add(ctx context.Context, a Add, secret Secret, requestID string) (View, error) {
	if vendor, known := VendorNamed(a.Vendor); known && a.BaseURL == "" {
		a.BaseURL = vendor.BaseURL
	}
	base, err := r.address(a.BaseURL, true)
	if err != nil {
		return View{}, err
	}
	a.BaseURL, a.NewID = base, newID()
	sealed, err := r.seal(secret, a.NewID, base)
	if err != nil {
		return View{}, err
	}
	a.Credential, a.CredentialKey = sealed.Sealed, sealed.KeyID
	return r.change(ctx, a, requestID)
}

// Patch changes kind and name where they are not nil. It returns when the store keeps
// it.
func (r *Registry) Patch(ctx context.Context, p Patch, requestID string) (View, error) {
	return r.change(ctx, p, requestID)
}

// SetCredential sets the credential of a provider; the zero Secret takes it away. It
// returns when the store keeps it.
func (r *Registry) SetCredential(ctx context.Context, id string, secret Secret, actor, requestID string) (View, error) {
	if err := r.await(ctx); err != nil {
		return View{}, err
	}
	v, ok := r.Snapshot().ByID(id)
	if !ok {
		return View{}, fmt.Errorf("%w: %q", ErrNotFound, id)
	}
	sealed, err := r.seal(secret, v.ID, v.BaseURL)
	if err != nil {
		return View{}, err
	}
	return r.change(ctx, Patch{ID: id, Credential: &sealed, Actor: actor}, requestID)
}

// Delete forgets a provider and its credential. It returns when the store has. The
// agent of a dynamic one registers it anew, if it runs.
func (r *Registry) Delete(ctx context.Context, d Delete, requestID string) error {
	_, written, err := r.step(ctx, d, requestID)
	if err != nil {
		return err
	}
	return r.wait(ctx, written)
}

// await returns when the store was read.
func (r *Registry) await(ctx context.Context) error {
	select {
	case <-r.ready:
		return nil
	case <-r.ended:
		return fmt.Errorf("%w: it has ended", ErrNotReady)
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrNotReady, context.Cause(ctx))
	}
}

func (r *Registry) address(text string, public bool) (string, error) {
	base, err := ParseBaseURL(text)
	if err != nil {
		return "", err
	}
	return base, r.guard.CheckURL(base, public)
}

func (r *Registry) seal(secret Secret, id, baseURL string) (SealedCredential, error) {
	switch {
	case secret.IsZero():
		return SealedCredential{}, nil
	case r.deps.Sealer == nil:
		return SealedCredential{}, fmt.Errorf("%w: no key file is configured to seal it with", ErrCredential)
	}
	sealed, key, err := r.deps.Sealer.Seal(secret, id, baseURL)
	return SealedCredential{sealed, key}, err
}

func newID() string { return "prov_" + strings.ToLower(rand.Text()) }

// change is a step whose write is waited for.
func (r *Registry) change(ctx context.Context, ev Event, requestID string) (View, error) {
	d, written, err := r.step(ctx, ev, requestID)
	if err != nil {
		return View{}, err
	}
	if err := r.wait(ctx, written); err != nil {
		return View{}, err
	}
	v, ok := r.Snapshot().ByID(d.ID)
	if !ok {
		return View{}, fmt.Errorf("%w: %q was deleted meanwhile", ErrNotFound, d.ID)
	}
	return v, nil
}

func (r *Registry) wait(ctx context.Context, written chan error) error {
	if written == nil {
		return nil
	}
	select {
	case err := <-written:
		if err != nil {
			return fmt.Errorf("provider: %w", err)
		}
		return nil
	case <-r.ended:
		return fmt.Errorf("%w: it has ended, and whether the change is kept is not known", ErrNotReady)
	case <-ctx.Done():
		return fmt.Errorf("provider: the change is made and waits for the store: %w", context.Cause(ctx))
	}
}

func (r *Registry) step(ctx context.Context, ev Event, requestID string) (Decision, chan error, error) {
	a, err := r.send(ctx, request{event: ev, requestID: requestID, reply: make(chan reply, 1)})
	if err != nil {
		return Decision{}, nil, err
	}
	return a.decision, a.written, a.err
}

func (r *Registry) send(ctx context.Context, q request) (reply, error) {
	select {
	case r.requests <- q:
	case <-r.ended:
		return reply{}, fmt.Errorf("%w: it has ended", ErrNotReady)
	case <-ctx.Done():
		return reply{}, fmt.Errorf("%w: %w", ErrNotReady, context.Cause(ctx))
	}
	return <-q.reply, nil // Run answers what it took
}

// clock is the time, by the clock that was right when Run began: what sets the
// machine's clock ends no lease.
func (r *Registry) clock() time.Time { return r.began.Add(time.Since(r.began)) }

// Run reads the store, for as long as that takes, and keeps the providers until ctx is
// done, which is no error, or another process leads, which is one of
// [storage.ErrFenced]. Call it once.
func (r *Registry) Run(ctx context.Context) error {
	defer close(r.ended)
	r.began = time.Now()
	kept, err := r.load(ctx)
	if err != nil || kept == nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// What waits when ctx ends is written still, unless that takes long.
	writing, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(lastPause, giveUp) })()
	var writer sync.WaitGroup
	var fenced error
	stop := make(chan struct{})
	writer.Go(func() {
		fenced = r.queue.run(writing, stop, func(what string, err error) {
			r.met.writeErrors.Inc()
			r.log.ErrorContext(ctx, "a change of a provider is not written", "action", what, "err", err)
		})
		if fenced != nil {
			cancel(fenced)
		}
	})
	r.begin(ctx, *kept)
	r.loop(ctx)
	cancel(nil)
	close(stop)
	r.probing.Wait()
	writer.Wait()
	if fenced != nil {
		return fmt.Errorf("provider: %w", fenced)
	}
	return nil
}

// load reads the store; nil if ctx was done before.
func (r *Registry) load(ctx context.Context) (*[]storage.Provider, error) {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		kept, err := r.list(ctx)
		switch {
		case err == nil:
			return &kept, nil
		case ctx.Err() != nil:
			return nil, nil //nolint:nilnil // it ended
		case !errors.Is(err, storage.ErrUnavailable):
			return nil, fmt.Errorf("provider: read the store: %w", err)
		}
		r.log.WarnContext(ctx, "the providers are not read yet", "err", err, "next_try", pause)
		t := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-t.C:
		}
		t.Stop()
	}
}

func (r *Registry) list(ctx context.Context) (out []storage.Provider, err error) {
	out = []storage.Provider{}
	for q := (storage.ProviderQuery{}); ; {
		part, next, err := r.deps.Store.ListProviders(ctx, q)
		if err != nil {
			return nil, err
		}
		if out = append(out, part...); next == "" {
			return out, nil
		}
		q.After = next
	}
}

// begin makes the core and seals credentials anew whose key is no longer the first.
func (r *Registry) begin(ctx context.Context, kept []storage.Provider) {
	now := r.clock()
	r.core, r.plan = NewCore(r.cfg, now, kept), newSchedule(r.cfg.SweepInterval, r.cfg.Probes)
	for i := range kept {
		p := &kept[i]
		r.plan.add(now, p.ID)
		if p.Credential == nil || r.deps.Sealer == nil || p.CredentialKey == r.deps.Sealer.KeyID() {
			continue
		}
		secret, err := r.Credential(p)
		if err != nil {
			r.log.ErrorContext(ctx, "a credential cannot be opened", "provider", p.Name, "err", err)
			continue
		}
		sealed, err := r.seal(secret, p.ID, p.BaseURL)
		if err == nil {
			var d Decision
			if d, err = r.core.Step(now, Patch{ID: p.ID, Credential: &sealed, Actor: self, Quiet: true}); err == nil {
				r.queue.put(d.Writes, "")
			}
		}
		if err != nil {
			r.log.ErrorContext(ctx, "a credential cannot be sealed anew", "provider", p.Name, "err", err)
		}
	}
	r.publish(now)
	close(r.ready)
}

// publishEvery bounds how often a snapshot is made where nobody waits for it: of 5,000
// providers one costs 2 ms.
const publishEvery = 100 * time.Millisecond

// loop is the one writer.
func (r *Registry) loop(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var soon <-chan time.Time // publishes what changed just after a publication
	for {
		r.dispatch(ctx)
		select {
		case <-ctx.Done():
			return
		case q := <-r.requests:
			r.answer(ctx, q)
		case a := <-r.answers:
			r.take(ctx, a)
		case <-tick.C:
			now := r.clock()
			d, _ := r.core.Step(now, Tick{}) // a Tick is never refused
			r.apply(ctx, d, "")
			r.plan.due(now)
			r.publish(now) // when they were asked, and leases
		case <-soon:
		}
		switch now := r.clock(); {
		case !r.dirty:
			soon = nil
		case now.Sub(r.published) >= publishEvery:
			r.publish(now)
			soon = nil
		case soon == nil:
			soon = time.After(publishEvery)
		}
	}
}

// answer steps the core with what somebody asked for.
func (r *Registry) answer(ctx context.Context, q request) {
	now := r.clock()
	if q.sweep != nil {
		q.reply <- reply{err: r.startSweep(q.sweep)}
		return
	}
	if r.queue.full() && !r.core.unwritten(q.event) {
		q.reply <- reply{err: fmt.Errorf("%w: %d changes wait for the store", ErrNotReady, r.queue.most)}
		return
	}
	d, err := r.core.Step(now, q.event)
	written := r.apply(ctx, d, q.requestID)
	if _, agents := q.event.(Register); !agents && r.dirty {
		r.publish(now) // who asked sees it; of thousands of agents none looks
	}
	q.reply <- reply{d, written, err}
}

// take steps the core with what a provider answered.
func (r *Registry) take(ctx context.Context, a answer) {
	now := r.clock()
	var failure string
	var reason Reason
	if e, ok := errors.AsType[*ProbeError](a.err); ok {
		failure, reason = cmp.Or(e.Error(), "unknown"), e.Reason
	}
	r.plan.done(now, a.id, a.took, reason == ReasonTimeout)
	if ctx.Err() != nil {
		return // it was cut short by our end
	}
	d, _ := r.core.Step(now, Answered{ID: a.id, Models: a.models, Failure: failure}) // never refused
	r.apply(ctx, d, "")
	r.endSweeps(a.id, false)
}

// apply does what a decision says.
func (r *Registry) apply(ctx context.Context, d Decision, requestID string) (written chan error) {
	written = r.queue.put(d.Writes, requestID)
	for _, id := range d.Probe {
		r.plan.soon(id)
	}
	for _, n := range d.Notes {
		r.note(ctx, n)
	}
	r.dirty = r.dirty || d.Visible
	return written
}

func (r *Registry) note(ctx context.Context, n Note) {
	r.met.changes[n.Change].Inc()
	level := slog.LevelInfo
	switch n.Change {
	case ChangeDegraded, ChangeDrifted, ChangeRemoved:
		level = slog.LevelWarn
	}
	if n.Change == ChangeRemoved || n.Change == ChangeDeleted {
		r.plan.remove(n.Provider.ID)
		r.endSweeps(n.Provider.ID, true)
	}
	r.log.Log(ctx, level, "provider "+n.Change.String(), //nolint:sloglint // one of eight words
		"provider", n.Provider.Name, "id", n.Provider.ID, "base_url", n.Provider.BaseURL, "kind", n.Provider.Kind.String(), "node", n.Provider.Node, "why", n.Why)
}

// dispatch asks those whose turn it is. The goroutines end within the timeout, and Run
// waits for them.
func (r *Registry) dispatch(ctx context.Context) {
	for {
		id, ok := r.plan.next()
		if !ok {
			return
		}
		v, ok := r.core.View(id)
		if !ok {
			r.plan.done(r.clock(), id, r.plan.all[id].took, false)
			r.plan.remove(id)
			continue
		}
		took, p := r.plan.all[id].took, v.Provider
		r.probing.Go(func() {
			began := time.Now()
			models, err := r.ask(ctx, &p)
			r.met.probed(began, err)
			r.answers <- answer{id, took, models, err} // has room for all
		})
	}
}
