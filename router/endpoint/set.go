package endpoint

import (
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Set is the endpoints a router knows. Make one with NewSet.
type Set struct {
	cfg     Config
	attach  func(*Endpoint) any
	log     *slog.Logger
	tickets ticketPool

	replacing sync.Mutex // held by Replace; readers never take it
	instances uint64     // made so far; guarded by replacing
	snapshot  atomic.Pointer[Snapshot]
}

// NewSet validates cfg and returns an empty set.
func NewSet(cfg Config, deps Deps) (*Set, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &Set{cfg: cfg, attach: deps.Attach, log: deps.Logger}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.snapshot.Store(newSnapshot(0, nil))
	if deps.Registerer != nil {
		now := deps.Now
		if now == nil {
			now = time.Now
		}
		if err := deps.Registerer.Register(collector{set: s, now: now}); err != nil {
			return nil, fmt.Errorf("endpoint: %w", err)
		}
	}
	return s, nil
}

// Snapshot returns the endpoints as they are. It never blocks and allocates
// nothing.
func (s *Set) Snapshot() *Snapshot { return s.snapshot.Load() }

// Replace makes specs the set's endpoints, in that order. An endpoint whose
// spec is the same keeps its instance, whatever its place; a changed or new
// one begins a new instance; the rest are gone and their attachments closed.
// If any spec is at fault nothing changes, and the error names every fault.
// If nothing would change the snapshot stays the same one.
func (s *Set) Replace(specs []Spec) error {
	if err := ValidateSpecs(specs); err != nil {
		return err
	}
	s.replacing.Lock()
	defer s.replacing.Unlock()

	old := s.snapshot.Load()
	held := make(map[string]*Endpoint, len(old.all))
	for _, e := range old.all {
		held[e.spec.ID] = e
	}
	all := make([]*Endpoint, 0, len(specs))
	for _, spec := range specs {
		spec = spec.normal()
		if e, ok := held[spec.ID]; ok && e.spec.equal(spec) {
			delete(held, spec.ID)
			all = append(all, e)
			continue
		}
		s.instances++
		e, err := newEndpoint(spec, s.instances, s.cfg, &s.tickets, s.log)
		if err != nil {
			return fmt.Errorf("endpoint %s: %w", spec.ID, err)
		}
		all = append(all, e)
	}
	if slices.Equal(all, old.all) {
		return nil
	}
	if s.attach != nil {
		for _, e := range all {
			if !slices.Contains(old.all, e) {
				e.attachment = s.attach(e)
			}
		}
	}
	s.snapshot.Store(newSnapshot(old.version+1, all))
	close(old.changed)
	for _, e := range held {
		e.gone.Store(true)
	}
	for _, e := range held {
		if c, ok := e.attachment.(io.Closer); ok {
			if err := c.Close(); err != nil {
				s.log.Warn("closing what was attached to an endpoint", slog.String("endpoint", e.spec.ID), slog.Any("err", err))
			}
		}
	}
	return nil
}

// Snapshot is the endpoints of a set at one moment. It never changes.
type Snapshot struct {
	version uint64
	all     []*Endpoint
	byModel map[string][]*Endpoint
	models  []string
	changed chan struct{}
}

func newSnapshot(version uint64, all []*Endpoint) *Snapshot {
	s := &Snapshot{
		version: version,
		all:     all,
		byModel: make(map[string][]*Endpoint),
		changed: make(chan struct{}),
	}
	for _, e := range all {
		for _, m := range e.spec.Models {
			if _, ok := s.byModel[m.Name]; !ok {
				s.models = append(s.models, m.Name)
			}
			s.byModel[m.Name] = append(s.byModel[m.Name], e)
		}
	}
	slices.Sort(s.models)
	return s
}

// ForModel returns the endpoints that serve the model, in the set's order, and
// none for a model that nobody serves. The caller must not change the slice.
func (s *Snapshot) ForModel(name string) []*Endpoint { return s.byModel[name] }

// All returns every endpoint, in the set's order. The caller must not change
// the slice.
func (s *Snapshot) All() []*Endpoint { return s.all }

// Models returns the names of the models that some endpoint serves, sorted.
// The caller must not change the slice.
func (s *Snapshot) Models() []string { return s.models }

// Version grows with each change of the set, from 0 for the empty set that
// NewSet returns.
func (s *Snapshot) Version() uint64 { return s.version }

// Changed is closed when the set has a newer snapshot.
func (s *Snapshot) Changed() <-chan struct{} { return s.changed }
