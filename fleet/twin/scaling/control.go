package scaling

import (
	"fmt"
	"slices"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/placement/reconcile"
	"github.com/llmgw/llmgw/router/endpoint"
)

// mostSteps bounds how often the core is stepped at one moment: each time it has
// heard what became of its orders.
const mostSteps = 8

// decide has the core decide, and what it orders done, until it orders nothing more.
func (t *Twin) decide() error {
	for range mostSteps {
		in := t.hear()
		d := t.core.Step(t.clock(), in)
		t.results = t.results[:0]
		for _, o := range d.Orders {
			t.results = append(t.results, t.do(o))
		}
		if d.StatusesChanged {
			t.tell(d.Statuses)
		}
		t.note()
		if d.Changed {
			if err := t.publish(d.Endpoints); err != nil {
				return err
			}
		}
		if len(d.Orders) == 0 {
			return nil
		}
	}
	return nil
}

// hear is what the control plane is told.
func (t *Twin) hear() reconcile.Inputs {
	in := reconcile.Inputs{Leads: true, Catalog: t.catalog, Results: slices.Clone(t.results), Use: []reconcile.Use{}, Demand: []reconcile.Demand{}}
	if t.endpoints == nil {
		in.Rows = &[]reconcile.Row{}
		t.endpoints = []reconcile.Endpoint{}
	}
	for _, m := range t.machines {
		if m.changed {
			in.Nodes, m.changed = append(in.Nodes, m.view()), false
		}
		for _, p := range m.shards {
			if p.engine == nil {
				continue
			}
			replica := p.status.ID.Replica
			in.Use = append(in.Use, reconcile.Use{
				Replica: replica, Worked: engines.Known(t.now - p.engine.worked), InFlight: engines.Known(p.engine.inFlight),
				Released: !slices.ContainsFunc(t.endpoints, func(e reconcile.Endpoint) bool { return e.Replica == replica }),
			})
		}
	}
	for i := range t.models {
		m := &t.models[i]
		d := reconcile.Demand{Model: m.Name, Waiting: len(m.waiting), Queued: m.queued}
		if m.everAsked {
			d.Asked = engines.Known(t.now - m.asked)
		}
		if full, known := t.admission.Saturation(m.Name); known && len(m.pool) > 0 {
			d.Load = engines.Known(full)
		}
		in.Demand = append(in.Demand, d)
	}
	return in
}

// tell has routers know how models stand.
func (t *Twin) tell(statuses []reconcile.ModelStatus) {
	for _, s := range statuses {
		if m := t.model(s.Model); m != nil {
			m.status, m.toldAt = s, t.now
		}
	}
}

func (t *Twin) model(name string) *model {
	i := slices.IndexFunc(t.models, func(m model) bool { return m.Name == name })
	if i < 0 {
		return nil
	}
	return &t.models[i]
}

// note keeps what was decided.
func (t *Twin) note() {
	for _, v := range t.core.View().Models {
		m := t.model(v.Name)
		m.thrashed = v.Thrashed
		if v.Wanted != m.wanted {
			t.decisions = append(t.decisions, Decision{At: t.now, Model: v.Name, From: m.wanted, To: v.Wanted, Why: v.Why})
			m.wanted = v.Wanted
		}
	}
}

// publish has routers use what serves now: who waited for a model that has an
// endpoint asks for room.
func (t *Twin) publish(endpoints []reconcile.Endpoint) error {
	t.endpoints = endpoints
	specs := make([]endpoint.Spec, 0, len(endpoints))
	for _, e := range endpoints {
		m := t.model(e.Model)
		specs = append(specs, endpoint.Spec{
			ID: e.Replica, URL: "http://" + e.Replica + ".invalid", MaxRunning: t.cfg.engine(m.size).MaxNumSeqs, Models: []endpoint.Model{{Name: e.Model}},
		})
	}
	if err := t.set.Replace(specs); err != nil {
		return fmt.Errorf("scaling: %w", err)
	}
	for i := range t.models {
		m := &t.models[i]
		if m.pool = t.set.Snapshot().ForModel(m.Name); len(m.pool) == 0 || len(m.waiting) == 0 {
			continue
		}
		waiting := m.waiting
		m.waiting = nil
		for _, r := range waiting {
			r.waits = false
			if err := t.admit(m, r); err != nil {
				return err
			}
		}
	}
	return nil
}
