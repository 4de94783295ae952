package controlplane

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/control"
	"github.com/llmgw/llmgw/fleet/feed"
	"github.com/llmgw/llmgw/placement/reconcile"
)

// Plane is a control plane. Its methods may be called at the same time.
type Plane struct {
	authority *authority
	control   *control.Plane
	targets   *targets
	nodes     *nodes

	// What follows is nil where nothing is placed.
	machines *machines
	needs    *needs
	press    *press
	placing  *reconcile.Loop
}

// New returns a plane, or what is wrong with cfg. It starts nothing: call Run.
func New(cfg Config, deps Deps) (*Plane, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("controlplane: %w", err)
	}
	if deps.Store == nil {
		return nil, errors.New("controlplane: Deps.Store is nil; want where the term and the nodes are kept")
	}
	if deps.Logger == nil {
		deps.Logger = slog.New(slog.DiscardHandler)
	}
	p := &Plane{
		authority: &authority{
			store: deps.Store, cluster: cfg.Cluster, holder: deps.Holder, timeout: cfg.StoreTimeout, log: deps.Logger,
			wake: make(chan struct{}, 1), why: "it has not begun yet",
		},
		targets: newTargets(deps.Store, cfg.StoreTimeout, deps.Logger),
	}
	var err error
	p.control, err = control.New(cfg.Control, control.Deps{
		Authority: p.authority, Journal: journal{deps.Store, p.authority, cfg.StoreTimeout}, Verify: deps.Verify,
		Logger: deps.Logger, Registerer: deps.Registerer,
	})
	if err != nil {
		return nil, err
	}
	p.nodes = &nodes{plane: p, store: deps.Store}
	if deps.Catalog != nil {
		err = p.place(cfg, deps)
	}
	if err == nil && deps.Registerer != nil {
		err = errors.Join(deps.Registerer.Register(newGauges(p)), deps.Registerer.Register(newCardGauges(p)))
	}
	return p, err
}

// place makes what brings the machines to what is wanted.
func (p *Plane) place(cfg Config, deps Deps) (err error) {
	p.needs = newNeeds(p.control, cfg.Reconcile.Interval)
	p.machines = newMachines(p.control, p.targets, p.needs, cfg.Reconcile.Interval)
	orders := &dispatcher{plane: p.control, store: deps.Store, authority: p.authority, timeout: cfg.StoreTimeout, log: deps.Logger}
	publisher, err := feed.NewPublisher(cfg.feed(), feed.PublisherDeps{
		Outranked: func(router string, term uint64) { p.authority.Outranked("router "+router, term) },
		Logger:    deps.Logger, Registerer: deps.Registerer,
	})
	if err != nil {
		return err
	}
	p.press = &press{feed: publisher, catalog: deps.Catalog, facts: deps.Facts, log: deps.Logger, known: map[engines.Name]*feed.Facts{}}
	p.authority.begun, p.authority.ended = p.press.term, publisher.Resign
	p.placing, err = reconcile.New(cfg.reconcile(), reconcile.Deps{
		Authority: p.authority, Rows: orders, Dispatcher: orders, Nodes: p.machines, Catalog: p.press, Use: use{p.press}, Sink: p.press, Scaled: deps.Scaled,
		Needs:  p.needs,
		Core:   reconcile.CoreDeps{Shape: deps.Shape, NewID: replicaID, NewSecret: rand.Text},
		Logger: deps.Logger, Registerer: deps.Registerer,
	})
	return err
}

// replicaID names a replica by its model, as far as an id can, and at random.
func replicaID(model string) string {
	const most = 40 // of 63, so that ranks and ports can be named after it
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '-'
	}, model)
	name = strings.Trim(name[:min(len(name), most)], "-")
	return strings.TrimPrefix(name+"-", "-") + strings.ToLower(rand.Text()[:6])
}

// Feed is how routers are told what they may use; nil where nothing is placed.
func (p *Plane) Feed() *feed.Publisher {
	if p.press == nil {
		return nil
	}
	return p.press.feed
}

// Placing is what brings the machines to what is wanted; nil where nothing is
// placed.
func (p *Plane) Placing() *reconcile.Loop { return p.placing }

// Handler returns the agents' service and the path to mount it at; see
// [control.Plane.Handler] and [control.Configure].
func (p *Plane) Handler() (path string, handler http.Handler) { return p.control.Handler() }

// Control is what orders go through.
func (p *Plane) Control() *control.Plane { return p.control }

// Run leads, watches and keeps what is to be kept, until ctx is done. It returns
// nil. Call it once.
func (p *Plane) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	runs := []func(context.Context) error{p.authority.run, p.targets.run, p.control.Run}
	if p.placing != nil {
		runs = append(runs, p.machines.run, p.press.feed.Run, p.placing.Run)
	}
	errs := make([]error, len(runs))
	for i, run := range runs {
		wg.Go(func() { errs[i] = run(ctx) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Standing says in whose name the plane orders, and why it does not; empty: it
// does.
func (p *Plane) Standing() (m control.Mandate, why string) { return p.authority.standing() }
