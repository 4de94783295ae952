package models

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmgw/llmgw/placement/catalog"
	"github.com/llmgw/llmgw/storage"
)

// Store is what Models needs of a store. See [storage.Store] for its promises.
type Store interface {
	PutModels(ctx context.Context, changes []storage.ModelChange) error
	RemoveModel(ctx context.Context, name string, revision int64, why storage.Audit) error
	ListModels(ctx context.Context) ([]storage.Model, error)
}

// Deps are the collaborators of Models.
type Deps struct {
	// Store keeps what is added. Nil: nothing can be added.
	Store Store
	// ControlPlane: models with a profile can be run here. Without it they cannot be
	// added.
	ControlPlane bool
	// Check returns what is wrong with a model by what this package does not know,
	// such as its routing profile: errors joined, each beginning with the path of a
	// key of the entry. It must not keep the model, and may be called concurrently.
	// Nil: nothing.
	Check func(m *catalog.Model) error
	// Fits returns why no known node or fabric could run a model that is added even
	// if it were empty, as Check does, and what else is to be said of it. It is not
	// asked about what is there already. Nil: nothing is known of nodes.
	Fits func(ctx context.Context, m *catalog.Model) (warnings []string, err error)
	// Apply makes models, which are a valid catalog with those of the configuration
	// first, those that requests are resolved by. An error leaves everything as it
	// was. It is called by one caller at a time, must not call Models and does not
	// change the list. Nil: nobody needs to be told.
	Apply func(models []catalog.Model) error

	Now        func() time.Time      // nil is time.Now
	Logger     *slog.Logger          // nil discards
	Registerer prometheus.Registerer // nil leaves metrics unregistered
}

// Models holds the current catalog. Its methods may be called concurrently.
type Models struct {
	deps Deps
	log  *slog.Logger

	// busy is held by who changes something, over what is asked of the store, so that
	// what was read before a change does not follow it.
	busy chan struct{}
	now  atomic.Pointer[Snapshot]
}

// Snapshot is the catalog at one moment. It does not change.
type Snapshot struct {
	// Catalog has what callers may ask for, without what only an endpoint names.
	Catalog *catalog.Catalog
	// Version is 1 for the first snapshot, and higher for each later one.
	Version uint64

	configured []catalog.Model
	rows       []row
	at         map[string]int // where a stored model is in rows
	read       bool           // the store was read
	trouble    string         // why it could not be read the last time; empty: it could
	changed    chan struct{}
}

// row is a stored model, read.
type row struct {
	storage.Model
	entry catalog.Stored
	aside error // why it is not in the catalog; nil: it is
}

// Changed is closed when there is a later snapshot.
func (s *Snapshot) Changed() <-chan struct{} { return s.changed }

// Aside are the names of the models that are kept in the store and cannot stand in
// the catalog.
func (s *Snapshot) Aside() (names []string) {
	for i := range s.rows {
		if s.rows[i].aside != nil {
			names = append(names, s.rows[i].Name)
		}
	}
	return names
}

// Whole reports whether the models that were added are in the catalog: they are
// not before the store was read once, and what is missing until then is not gone.
func (s *Snapshot) Whole() bool { return s.read }

// New returns Models with those of the configuration, which must be a valid list,
// as the catalog. It asks no store and calls no Apply: who applied the
// configuration has done so already. Call Load and Run.
func New(configured []catalog.Model, deps Deps) (*Models, error) {
	c, err := catalog.New(configured)
	if err != nil {
		return nil, fmt.Errorf("models: %w", err)
	}
	if deps.Logger == nil {
		deps.Logger = slog.New(slog.DiscardHandler)
	}
	if deps.Now == nil {
		deps.Now = time.Now
	}
	m := &Models{deps: deps, log: deps.Logger, busy: make(chan struct{}, 1)}
	m.now.Store(&Snapshot{Catalog: c, Version: 1, configured: c.Models(), read: deps.Store == nil, changed: make(chan struct{})})
	if err := registerMetrics(deps.Registerer, m); err != nil {
		return nil, fmt.Errorf("models: %w", err)
	}
	return m, nil
}

// Current returns the catalog as it is now.
func (m *Models) Current() *Snapshot { return m.now.Load() }

// Reconfigure replaces the models of the configuration; those that were added stay.
// apply is called in the place of Deps.Apply, for who has more to apply of what was
// read. On error nothing has changed.
func (m *Models) Reconfigure(configured []catalog.Model, apply func(models []catalog.Model) error) error {
	if err := catalog.Validate(configured); err != nil {
		return fmt.Errorf("models: %w", err)
	}
	_ = m.begin(context.Background()) // which does not end
	defer m.end()
	s := m.now.Load()
	return m.swap(s.next(configured, s.rows), apply)
}

// begin waits until nobody else changes anything. Call end if it returns nil.
func (m *Models) begin(ctx context.Context) error {
	select {
	case m.busy <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (m *Models) end() { <-m.busy }

// next is a snapshot of these models that nobody sees yet.
func (s *Snapshot) next(configured []catalog.Model, rows []row) *Snapshot {
	out := &Snapshot{
		Version: s.Version + 1, configured: configured, rows: slices.Clone(rows), at: make(map[string]int, len(rows)), read: s.read, trouble: s.trouble,
		changed: make(chan struct{}),
	}
	for i := range rows {
		out.at[rows[i].Name] = i
	}
	return out
}

// put adds a stored model, or replaces the one of its name, in a snapshot that nobody
// sees yet.
func (s *Snapshot) put(r row) {
	if i := s.row(r.Name); i >= 0 {
		s.rows[i] = r
		return
	}
	s.at[r.Name] = len(s.rows)
	s.rows = append(s.rows, r)
}

// merge finds out what of the snapshot can stand in a catalog.
func (s *Snapshot) merge() (models []catalog.Model) {
	stored := make([]catalog.Stored, len(s.rows))
	for i := range s.rows {
		stored[i] = s.rows[i].entry
		s.rows[i].aside = nil
	}
	models, aside := catalog.Merge(s.configured, stored)
	for _, a := range aside {
		// Names of stored models differ.
		s.rows[s.row(a.Name)].aside = a.Why
	}
	return models
}

// row is where a stored model is in the list, -1 for one that is not.
func (s *Snapshot) row(name string) int {
	if i, there := s.at[name]; there {
		return i
	}
	return -1
}

// swap makes next the current snapshot, if apply takes its models. The caller has
// begun.
func (m *Models) swap(next *Snapshot, apply func([]catalog.Model) error) error {
	models := next.merge()
	c, err := catalog.New(models)
	if err != nil {
		return fmt.Errorf("models: %w", err) // which Merge has seen to
	}
	next.Catalog = c
	if apply != nil {
		if err := apply(models); err != nil {
			return err
		}
	}
	before := m.now.Swap(next)
	close(before.changed)
	m.tell(before, next)
	return nil
}

// tell logs which models are set aside, or are no longer, since the last snapshot.
func (m *Models) tell(before, after *Snapshot) {
	why := func(s *Snapshot) map[string]string {
		out := make(map[string]string)
		for _, r := range s.rows {
			if r.aside != nil {
				out[r.Name] = strings.ReplaceAll(r.aside.Error(), "\n", "; ")
			}
		}
		return out
	}
	old, now := why(before), why(after)
	for _, r := range after.rows {
		if text := now[r.Name]; text != "" && text != old[r.Name] {
			m.log.Error("a model that was added is set aside; it is kept in the store, and requests for it are refused",
				"model", r.Name, "actor", r.Actor, "why", text)
		}
	}
	for name := range old {
		if i := after.row(name); i >= 0 && now[name] == "" {
			m.log.Info("a model that was set aside stands in the catalog again", "model", name)
		}
	}
}

// rows reads stored models. What of one is not accepted is its own fault.
func (m *Models) rows(models []storage.Model) []row {
	out := make([]row, len(models))
	for i, stored := range models {
		out[i] = m.row(stored)
	}
	return out
}

func (m *Models) row(stored storage.Model) row {
	r := row{Model: stored, entry: catalog.Stored{Name: stored.Name}}
	d, err := catalog.Parse("", []byte(stored.Definition))
	switch {
	case err != nil:
		r.entry.Fault = err
	case len(d.Models) != 1 || d.Models[0].Name != stored.Name:
		r.entry.Fault = errors.New("name: the definition is of another model")
	default:
		r.entry.Model = d.Models[0]
		r.entry.Fault = m.check(&r.entry.Model)
	}
	return r
}

func (m *Models) check(model *catalog.Model) error {
	if m.deps.Check == nil {
		return nil
	}
	return m.deps.Check(model)
}
