package controlplane

import (
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/feed"
	"github.com/llmgw/llmgw/placement/catalog"
	"github.com/llmgw/llmgw/placement/reconcile"
)

// press is the feed to routers as a reconciler has it: where it says what they may
// use, what it hears of their use, and what they get of the catalog.
type press struct {
	feed    *feed.Publisher
	catalog reconcile.CatalogSource
	facts   func(engines.Name) *feed.Facts
	log     *slog.Logger

	told atomic.Pointer[catalog.Catalog] // the catalog that routers have
	// of what was heard of use, and of demand; the reconciler's goroutine only
	used, demanded uint64
	asked          int // drained replicas of which the use was asked last

	mu    sync.Mutex
	known map[engines.Name]*feed.Facts // guarded by mu
}

// SetEndpoints implements [reconcile.EndpointSink].
func (p *press) SetEndpoints(endpoints []reconcile.Endpoint) {
	entries := make([]feed.Entry, len(endpoints))
	for i, e := range endpoints {
		entries[i] = feed.Entry{
			Model: e.Model, Instance: feed.Instance{Replica: e.Replica, Generation: e.Generation, Start: e.Start},
			Address: e.Address, Secret: feed.Secret(e.Secret), Engine: e.Engine, Served: e.Served,
			MaxRunning: e.MaxRunning, PriorityScheduling: e.PriorityScheduling, Facts: p.factsOf(e.Engine), Node: e.Node, Fabric: e.Fabric,
		}
	}
	if err := p.feed.SetEntries(entries); err != nil {
		p.log.Error("replicas that cannot be published are left out", "err", err)
	}
}

// SetStatuses implements [reconcile.EndpointSink].
func (p *press) SetStatuses(statuses []reconcile.ModelStatus) {
	told := make([]feed.ModelStatus, len(statuses))
	for i, s := range statuses {
		told[i] = feed.ModelStatus{Model: s.Model, State: modelState(s.State), Ready: s.Ready, Progress: s.Progress, Reason: s.Reason, Retry: s.Retry}
	}
	if err := p.feed.SetStatuses(told); err != nil {
		p.log.Error("models whose status cannot be published are left out", "err", err)
	}
}

func modelState(s reconcile.ModelState) feed.ModelState {
	switch s {
	case reconcile.ModelOff:
		return feed.ModelOff
	case reconcile.ModelAsleep:
		return feed.ModelAsleep
	case reconcile.ModelLoading:
		return feed.ModelLoading
	case reconcile.ModelServing:
		return feed.ModelServing
	case reconcile.ModelFailing:
		return feed.ModelFailing
	case reconcile.ModelUnplaced:
		return feed.ModelUnplaced
	}
	return feed.ModelUnset
}

// factsOf is what the engine's adapter says of it, asked until it has answered.
func (p *press) factsOf(name engines.Name) *feed.Facts {
	if p.facts == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.known[name]
	if f == nil {
		if f = p.facts(name); f != nil { // else it may be known later
			p.known[name] = f
		}
	}
	return f
}

// Catalog implements [reconcile.CatalogSource]. What the reconciler goes by, routers
// get too.
func (p *press) Catalog() (wanted *catalog.Catalog, aside []string) {
	c, aside := p.catalog.Catalog()
	if c != nil && p.told.Swap(c) != c {
		if err := p.feed.SetModels(c.Models()); err != nil {
			p.log.Error("the catalog cannot be published; routers keep the one before", "err", err)
		}
	}
	return c, aside
}

// C implements [reconcile.CatalogSource].
func (p *press) C() <-chan struct{} { return p.catalog.C() }

// use is a press as [reconcile.UseSource].
type use struct{ *press }

// C implements [reconcile.UseSource].
func (u use) C() <-chan struct{} { return u.feed.C() }

// Use implements [reconcile.UseSource].
func (u use) Use(drained []reconcile.Ref) []reconcile.Use {
	since := u.used
	if len(drained) > u.asked { // some were not asked about before, whatever was heard since
		since = 0
	}
	u.asked = len(drained)
	uses, revision := u.feed.Use(since)
	if uses == nil {
		return nil
	}
	u.used = revision
	told := make(map[string]bool, len(uses)+len(drained)) // there may be one of each shard of a fleet
	for i := range uses {
		told[uses[i].Replica] = true
	}
	for _, ref := range drained { // also what this publisher has never published
		if !told[ref.Replica] {
			told[ref.Replica] = true
			uses = append(uses, u.feed.UseOf(feed.Instance{Replica: ref.Replica, Generation: ref.Generation, Start: ref.Start}))
		}
	}
	out := make([]reconcile.Use, 0, len(uses))
	for _, one := range feed.ByReplica(uses) {
		out = append(out, reconcile.Use{Replica: one.Replica, Worked: one.Worked, InFlight: one.InFlight, Released: one.Released})
	}
	return out
}

// Demand implements [reconcile.UseSource].
func (u use) Demand() []reconcile.Demand {
	demands, revision := u.feed.Demand(u.demanded)
	if demands == nil {
		return nil
	}
	u.demanded = revision
	out := make([]reconcile.Demand, len(demands))
	for i, d := range demands {
		out[i] = reconcile.Demand{Model: d.Model, Waiting: d.Waiting, Queued: d.Queued, Asked: d.Asked, Load: d.Saturation}
	}
	return out
}

// term has the feed speak in the name of a term before anything is decided in it.
func (p *press) term(cluster string, number uint64) {
	if err := p.feed.Lead(cluster, number); err != nil {
		p.log.Error("routers cannot be told anything in this term", "term", number, "err", err)
	}
}
