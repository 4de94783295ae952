package gateway

import (
	"context"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/feed"
	"github.com/llmgw/llmgw/router/endpoint"
	"github.com/llmgw/llmgw/router/proxy"
)

// Follow brings what a control plane tells into force, until ctx is done, and
// returns nil: its replicas, and its models too unless they come from elsewhere in
// this process. What cannot be brought into force is logged, and what was stays. The
// follower's Reporter has to be the gateway; the caller runs the follower.
//
// While it runs, requests for models that nothing serves wait, as the section
// on_demand says.
func (g *Gateway) Follow(ctx context.Context, f *feed.Follower, modelsToo bool) error {
	g.wakes.following.Store(true)
	defer g.wakes.following.Store(false)
	was := &feed.State{} // in force
	for {
		s, changed := f.State()
		if s.Version != (feed.Version{}) {
			old := was.Version == (feed.Version{}) || !same(was.Entries, s.Entries) || !same(was.Models, s.Models)
			if !old || g.follow(s, modelsToo) {
				was = s
				f.Applied(s.Version)
			}
			g.wakes.setStatuses(s.Statuses)
		}
		for waits := true; waits; {
			select {
			case <-ctx.Done():
				return nil
			case <-changed:
				waits = false
			case <-g.wakes.news:
				f.Hurry()
			}
		}
	}
}

// same reports whether two lists are one and the same.
func same[T any](a, b []T) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }

func (g *Gateway) follow(s *feed.State, modelsToo bool) bool {
	replicas := make([]Replica, len(s.Entries))
	for i, e := range s.Entries {
		replicas[i] = Replica{
			ID: e.Replica, Generation: e.Generation, Start: e.Start, Model: e.Model, Served: e.Served, Address: e.Address,
			Secret: e.Secret.Reveal(), Engine: e.Engine, MaxRunning: e.MaxRunning, PriorityScheduling: e.PriorityScheduling,
		}
		if facts := e.Facts; facts != nil {
			replicas[i].ChecksSecret, replicas[i].Capabilities, replicas[i].Metrics = facts.ChecksSecret, facts.Capabilities, facts.Metrics
		}
	}
	if modelsToo {
		if err := g.SetModels(s.Models); err != nil {
			g.log.Error("the control plane's models cannot be used; those before stay", "version", s.Version.String(), "err", err)
		}
	}
	if err := g.SetReplicas(replicas); err != nil {
		g.log.Error("the control plane's replicas cannot be used; those before stay", "version", s.Version.String(), "err", err)
		return false
	}
	return true
}

// Reports implements [feed.Reporter]: what this router knows of the replicas that
// it may send requests to, and of those that are gone and still have some.
func (g *Gateway) Reports() []feed.Report {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	reports := make([]feed.Report, 0, len(g.known))
	for e, k := range g.known {
		switch {
		case !e.Gone():
		case k.gone.IsZero():
			k.gone = now
			g.known[e] = k
		case e.InFlight() == 0 && now.Sub(k.gone) > lateBegin:
			delete(g.known, e)
			continue
		}
		reports = append(reports, report(e, k.Instance, now))
	}
	return reports
}

// Demand implements [feed.DemandReporter]: what models that a control plane has to do
// with are asked for here.
func (g *Gateway) Demand() []feed.Demand {
	all := g.wakes.demand(time.Now())
	if g.admitter != nil {
		snapshot := g.endpoints.Snapshot()
		for _, p := range g.admitter.ctl.Pools() {
			d := all[p.Name]
			if d == nil {
				continue
			}
			d.Queued = p.Waiting
			if len(snapshot.ForModel(p.Name)) > 0 && p.HasSaturation {
				d.Saturation = engines.Known(p.Saturation)
			}
		}
	}
	demands := make([]feed.Demand, 0, len(all))
	for _, d := range all {
		demands = append(demands, *d)
	}
	return demands
}

// lateBegin is for how long an endpoint that is gone and has nothing is told of: a
// request that chose it the moment before may yet begin there.
const lateBegin = time.Minute

// followed is an endpoint that is a replica, or was.
type followed struct {
	feed.Instance
	gone time.Time // when that was seen; zero: it is not
}

func report(e *endpoint.Endpoint, id feed.Instance, now time.Time) feed.Report {
	r := feed.Report{Instance: id, InFlight: int(e.InFlight()), Requests: engines.Known(uint64(max(e.Begun(), 0)))}
	if t, is := e.Attachment().(*proxy.Target); is {
		if at, ever := t.LastByte(); ever {
			r.LastByte = engines.Known(max(now.Sub(at), 0))
		}
	}
	if at, ever := e.Moved(); ever {
		r.CountersMoved = engines.Known(max(now.Sub(at), 0))
	}
	return r
}

// note remembers which endpoints are replicas. The caller holds mu.
func (g *Gateway) note(replicas []Replica) {
	byID := make(map[string]feed.Instance, len(replicas))
	for i := range replicas {
		r := &replicas[i]
		byID[r.ID] = feed.Instance{Replica: r.ID, Generation: r.Generation, Start: r.Start}
	}
	for _, e := range g.endpoints.Snapshot().All() {
		if id, is := byID[e.ID()]; is && e.Spec().Start == id.Start {
			g.known[e] = followed{Instance: id}
		}
	}
}
