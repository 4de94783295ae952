package feed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmgw/llmgw/fleet/apipb"
	"github.com/llmgw/llmgw/placement/catalog"
)

// PublisherDeps are a publisher's collaborators.
type PublisherDeps struct {
	// Outranked is told that a router has heard of a term above the publisher's:
	// whoever leads has to get one above it before this router follows again. It may
	// be told the same more than once, and must not block. Nil: nobody is told.
	Outranked func(router string, term uint64)
	// Logger gets what happens. Nil discards.
	Logger *slog.Logger
	// Registerer gets the metrics. Nil leaves them unregistered.
	Registerer prometheus.Registerer
}

// Publisher tells routers what they may use, and knows what they do. Its methods
// may be called at the same time and block for no router.
type Publisher struct {
	cfg     PublisherConfig
	deps    PublisherDeps
	log     *slog.Logger
	metrics *publisherMetrics
	base    time.Time     // of the times below
	wake    chan struct{} // has an element when there is something to publish
	useC    chan struct{} // has an element when routers have said something that matters

	mu      sync.Mutex
	clock   awake         // guarded by mu
	leads   bool          // guarded by mu
	cluster string        // guarded by mu
	term    uint64        // guarded by mu
	begun   time.Duration // guarded by mu; since when it leads, by clock

	// What is to be published; nil: not said yet in this term.
	entries *[]Entry              // guarded by mu
	models  *[]definition         // guarded by mu; sorted by name
	revoked map[string]Revocation // by the key's ID; guarded by mu
	// statuses are by model; statusDue: some of it waits for its time.
	statuses  map[string]ModelStatus // guarded by mu
	statusDue bool                   // guarded by mu

	// What is published.
	seq      uint64              // guarded by mu
	table    table               // guarded by mu
	snapshot *apipb.FeedSnapshot // guarded by mu; of seq, without statuses; nil: not made yet

	sessions map[string]*session    // guarded by mu; by id
	routers  map[routerKey]*router  // guarded by mu; whose lease lives
	known    map[Instance]*instance // guarded by mu
	slots    slots                  // guarded by mu
	// asked is when a router last saw a request for a model, since base; guarded by mu.
	asked map[string]time.Duration
	// forgotten is the sequence from which on an instance that is not known is not in
	// the feed either; guarded by mu.
	forgotten uint64
	revision  uint64 // guarded by mu; of what Use and Demand return
}

// NewPublisher returns a publisher, or what is wrong with cfg. It starts nothing,
// and sends routers away until [Publisher.Lead] is called.
func NewPublisher(cfg PublisherConfig, deps PublisherDeps) (*Publisher, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("feed: %w", err)
	}
	p := &Publisher{
		cfg: cfg, deps: deps, log: deps.Logger, base: time.Now(),
		wake: make(chan struct{}, 1), useC: make(chan struct{}, 1),
		clock: awake{tick: time.Second}, revoked: map[string]Revocation{}, table: newTable(),
		sessions: map[string]*session{}, routers: map[routerKey]*router{}, known: map[Instance]*instance{}, asked: map[string]time.Duration{},
	}
	if p.log == nil {
		p.log = slog.New(slog.DiscardHandler)
	}
	var err error
	if p.metrics, err = newPublisherMetrics(deps.Registerer, p); err != nil {
		return nil, fmt.Errorf("feed: metrics: %w", err)
	}
	return p, nil
}

// Lead has the publisher speak in the name of a term, from now on. Nothing is
// published before the entries and the models have been set in it; until then
// routers keep what they have. Where it led already, what was set stays set. The
// error is for a cluster or a term that cannot be, or a *VersionError for a lower
// term than before.
func (p *Publisher) Lead(cluster string, term uint64) error {
	v, err := versionFromWire(&apipb.FeedVersion{Cluster: cluster, Term: term})
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case cluster == p.cluster && term < p.term:
		return &VersionError{Got: v, Have: Version{Cluster: p.cluster, Term: p.term}, Cause: ErrStale}
	case p.leads && cluster == p.cluster && term == p.term:
		return nil
	}
	if cluster != p.cluster {
		p.sendAway(errStandby)
		clear(p.routers)
	}
	if !p.leads {
		p.entries, p.statuses = nil, nil
	}
	p.leads, p.cluster, p.term = true, cluster, term
	p.begun = p.clock.at(p.now())
	p.seq, p.snapshot, p.forgotten = 0, nil, 1
	for _, i := range p.known {
		i.removed = 1
	}
	for _, s := range p.sessions {
		s.owe()
	}
	p.changed()
	p.ring()
	return nil
}

// Resign sends all routers away, to whoever leads. Publishers that do not lead say
// nothing of endpoints, and no router loses one by it.
func (p *Publisher) Resign() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.leads {
		return
	}
	p.leads = false
	p.sendAway(errStandby)
	clear(p.routers)
	p.changed()
}

// sendAway ends all sessions. p.mu is held.
func (p *Publisher) sendAway(why error) {
	for _, s := range p.sessions {
		s.stop(refuse(reasonStandby, why))
	}
}

// SetEntries says what routers may use, in place of all that was said before.
// Entries at fault are left out, and the error names them. The slice is the
// caller's own again; what entries refer to is kept, and must not be changed any
// more.
func (p *Publisher) SetEntries(entries []Entry) error {
	var errs []error
	seen := make(map[string]bool, len(entries))
	good := make([]Entry, 0, len(entries))
	for i := range entries {
		e := &entries[i]
		err := e.Validate()
		switch {
		case err != nil:
		case seen[e.Replica]:
			err = errors.New("has two entries")
		case len(good) == MaxEntries:
			err = fmt.Errorf("is beyond the %d entries of a feed", MaxEntries)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("feed: replica %.80q: %w", e.Replica, err))
			continue
		}
		seen[e.Replica] = true
		good = append(good, *e)
	}
	p.mu.Lock()
	p.entries = &good
	p.mu.Unlock()
	p.ring()
	return errors.Join(errs...)
}

// SetModels says which models there are, in place of all that was said before. If
// one is at fault nothing changes, and the error names every fault. Nothing of the
// slice is kept.
func (p *Publisher) SetModels(models []catalog.Model) error {
	if err := catalog.Validate(models); err != nil {
		return fmt.Errorf("feed: %w", err)
	}
	defined := make([]definition, len(models))
	for i := range models {
		var err error
		if defined[i], err = define(models[i]); err != nil {
			return fmt.Errorf("feed: %w", err)
		}
	}
	p.mu.Lock()
	p.models = &defined
	p.mu.Unlock()
	p.ring()
	return nil
}

// Revoke adds keys that count no more, or were changed. A key that counts no more is
// not changed after that. Of more than [MaxRevoked] those that were changed go first,
// then the oldest.
func (p *Publisher) Revoke(revoked ...Revocation) {
	p.mu.Lock()
	for _, r := range revoked {
		if was, there := p.revoked[r.KeyID]; there && !was.Changed && r.Changed {
			continue
		}
		if r.KeyID != "" && len(r.KeyID) <= MaxTextBytes && plain(r.KeyID) {
			p.revoked[r.KeyID] = r
		}
	}
	p.mu.Unlock()
	p.ring()
}

// Version returns what was published last; a sequence of 0: nothing yet in this
// term. It is false where the publisher does not lead.
func (p *Publisher) Version() (v Version, leads bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.version(), p.leads
}

// version needs p.mu.
func (p *Publisher) version() Version { return Version{Cluster: p.cluster, Term: p.term, Seq: p.seq} }

// Run publishes what is set, and judges silence, until ctx is done; then it sends
// all routers away and returns nil. Call it once.
func (p *Publisher) Run(ctx context.Context) error {
	p.mu.Lock()
	p.clock.last = p.now() // the time before is no stall
	p.mu.Unlock()
	ticker := time.NewTicker(p.clock.tick)
	defer ticker.Stop()
	gather := time.NewTimer(0)
	defer gather.Stop()
	wake := p.wake // nil while what changes is gathered
	for {
		select {
		case <-ctx.Done():
			p.mu.Lock()
			defer p.mu.Unlock()
			p.leads = false
			p.sendAway(errEnding)
			return nil
		case <-ticker.C:
			p.tick()
		case <-gather.C:
			wake = p.wake
		case <-wake:
			if p.publish() {
				wake = nil
				gather.Reset(p.cfg.Gather)
			}
		}
	}
}

// now is the time since the publisher's beginning.
func (p *Publisher) now() time.Duration { return time.Since(p.base) }

// ring has Run publish.
func (p *Publisher) ring() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}
