package controlplane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/api"
	"github.com/llmgw/llmgw/fleet/apipb"
	"github.com/llmgw/llmgw/fleet/control"
	"github.com/llmgw/llmgw/placement"
	"github.com/llmgw/llmgw/placement/catalog"
	"github.com/llmgw/llmgw/placement/reconcile"
)

// About is what a status tells of beside placement. All of it may be nil.
type About struct {
	// Models has those that are set aside.
	Models api.Models
	// Certificates are the server's own, as they are now.
	Certificates func() []*apipb.CertificateExpiry
}

// Placement is what the plane places as the management API has it.
func (p *Plane) Placement(about About) api.Placement { return &placements{p, about} }

// placements is what a plane places as [api.Placement].
type placements struct {
	plane *Plane
	about About
}

var errNothingPlaced = errors.New("this control plane places nothing: no catalog was given to it")

// snapshot is what an answer is made of, all of it at one moment.
func (p *placements) snapshot() (*reconcile.Snapshot, *apipb.PlacementStanding, error) {
	if p.plane.placing == nil {
		return nil, nil, api.Precondition(errNothingPlaced)
	}
	s := p.plane.placing.Snapshot()
	mandate, why := p.plane.Standing()
	standing := &apipb.PlacementStanding{Cluster: mandate.Cluster, Why: why, ReplicasKnown: s.Known}
	if mandate.Level == control.Leader {
		standing.Term = &mandate.Term
	}
	return s, standing, nil
}

// moment is when a snapshot stood so.
func moment(v *reconcile.View) *timestamppb.Timestamp {
	if v.Now.IsZero() { // nothing was decided yet
		return timestamppb.Now()
	}
	return timestamppb.New(v.Now)
}

// GetStatus implements [api.Placement].
func (p *placements) GetStatus(ctx context.Context, _ *apipb.GetStatusRequest) (*apipb.GetStatusResponse, error) {
	s, standing, err := p.snapshot()
	if err != nil {
		return nil, err
	}
	out := statusView(s)
	out.Standing = standing
	if p.about.Certificates != nil {
		out.Certificates = p.about.Certificates()
	}
	if p.about.Models == nil {
		return out, nil
	}
	list, err := p.about.Models.ListModels(ctx, &apipb.ListModelsRequest{})
	if err != nil {
		return nil, err
	}
	for _, m := range list.GetModels() {
		if len(m.GetSetAside()) > 0 {
			out.SetAside = append(out.SetAside, &apipb.SetAsideModel{Name: m.GetName(), Why: m.GetSetAside()})
		}
	}
	return out, nil
}

// ListReplicas implements [api.Placement].
func (p *placements) ListReplicas(_ context.Context, req *apipb.ListReplicasRequest) (*apipb.ListReplicasResponse, error) {
	s, standing, err := p.snapshot()
	if err != nil {
		return nil, err
	}
	model := p.named(req.GetModel())
	out := &apipb.ListReplicasResponse{At: moment(s.View), Standing: standing}
	for i := range s.Replicas {
		if r := &s.Replicas[i]; model == "" || r.Model == model {
			out.Replicas = append(out.Replicas, replicaView(r))
		}
	}
	return out, nil
}

// named is the name of the model that a name or an alias is of.
func (p *placements) named(name string) string {
	if c, _ := p.plane.press.catalog.Catalog(); c != nil {
		if m, known := c.Resolve(name); known {
			return m.Name
		}
	}
	return name
}

// ExplainPlacement implements [api.Placement].
func (p *placements) ExplainPlacement(_ context.Context, req *apipb.ExplainPlacementRequest) (*apipb.ExplainPlacementResponse, error) {
	s, standing, err := p.snapshot()
	if err != nil {
		return nil, err
	}
	e, known := s.Explain(p.named(req.GetModel()), int(req.GetMostReplicas()))
	if !known {
		return nil, api.NotFound(p.notRun(s, req.GetModel()))
	}
	out := &apipb.ExplainPlacementResponse{At: moment(s.View), Standing: standing, Model: modelViews(s)[e.Model.Name]}
	if e.Next != nil {
		out.Need, out.Next = needView(&e.Model.Wish), decisionView(e.Next, true)
		if entry := p.entry(e.Model.Name); entry != nil {
			out.Need.Memory = memoryView(p.plane.needs.need(entry))
		}
	}
	for _, r := range e.Placed {
		view := &apipb.ExplainedReplica{Replica: r.Replica.ID, State: replicaState(r.Replica.State), Shards: placesView(r.Replica.Row.Shards), Same: r.Same}
		if r.Today != nil {
			today := *r.Today
			today.Rejected = nil
			if today.Placed {
				today.Fabrics = nil
			}
			view.Today = decisionView(&today, false)
		}
		out.Replicas = append(out.Replicas, view)
	}
	return out, nil
}

// entry is a model of the catalog; nil: it has none of that name.
func (p *placements) entry(name string) *catalog.Model {
	c, _ := p.plane.press.catalog.Catalog()
	if c == nil {
		return nil
	}
	m, known := c.Resolve(name)
	if !known || m.Profile == nil {
		return nil
	}
	return m
}

// notRun says why nothing is placed of a model, with what is.
func (p *placements) notRun(s *reconcile.Snapshot, name string) error {
	var names []string
	for _, m := range s.Models {
		names = append(names, m.Name)
	}
	const some = 20
	there := "no model has a profile"
	if len(names) > 0 {
		there = "there are " + strings.Join(names[:min(len(names), some)], ", ")
	}
	if c, _ := p.plane.press.catalog.Catalog(); c != nil {
		if m, known := c.Resolve(name); known {
			return fmt.Errorf("model %q has no profile, so nothing of it is placed; of those that have one %s", m.Name, there)
		}
	}
	return fmt.Errorf("there is no model %q that is placed; %s", name, there)
}

// WhatIf implements [api.Placement].
func (p *placements) WhatIf(ctx context.Context, req *apipb.WhatIfRequest) (*apipb.WhatIfResponse, error) {
	s, standing, err := p.snapshot()
	if err != nil {
		return nil, err
	}
	change := reconcile.Change{Drain: req.GetDrain(), Remove: req.GetRemove()}
	for _, n := range req.GetAddNodes() {
		node, err := newNode(n)
		if err != nil {
			return nil, api.Invalid(err)
		}
		change.Add = append(change.Add, node)
	}
	var warnings []string
	if text := req.GetAddModels(); text != "" {
		if change.Models, warnings, err = p.newModels(ctx, s, req.GetAddModelsFile(), text); err != nil {
			return nil, api.Invalid(err)
		}
	}
	forecast, err := s.WhatIf(change)
	switch {
	case errors.Is(err, reconcile.ErrNoSuchNode):
		return nil, api.NotFound(err)
	case err != nil:
		return nil, api.Invalid(err)
	}
	out := forecastView(forecast)
	out.At, out.Standing, out.Warnings = moment(s.View), standing, warnings
	if !s.Known {
		out.Warnings = append(out.Warnings, "which replicas there are is not known yet, so nothing is said of them")
	}
	return out, nil
}

// newNode is a node that would come, as it would be: heard, connected, and with
// nothing on it, whatever ran where the inventory is from. Of cards whose health
// nobody has told nothing is known against them.
func newNode(in *apipb.WhatIfNode) (placement.Node, error) {
	inv := new(engines.Inventory)
	text, err := protojson.Marshal(in.GetInventory())
	if err == nil {
		err = json.Unmarshal(text, inv)
	}
	if err != nil {
		return placement.Node{}, fmt.Errorf("add_nodes: the inventory of %s: %w", in.GetId(), err)
	}
	inv.State.MemoryAvailableBytes = engines.Opt[uint64]{}
	for i := range inv.State.GPUs {
		g := &inv.State.GPUs[i]
		g.MemoryFreeBytes, g.MemoryUsedBytes, g.Foreign = engines.Opt[uint64]{}, engines.Opt[uint64]{}, nil
	}
	for _, g := range inv.GPUs {
		if _, told := inv.State.GPU(g.ID()); !told {
			inv.State.GPUs = append(inv.State.GPUs, engines.GPUState{GPU: g.ID(), Health: engines.Health{State: engines.Healthy}})
		}
	}
	n := placement.NodeOf(in.GetId(), inv)
	n.State, n.Connected, n.Labels = placement.Ready, true, in.GetLabels()
	for _, name := range in.GetEngines() {
		if n.Engines == nil {
			n.Engines = make(map[engines.Name]string)
		}
		n.Engines[engines.Name(name)] = ""
	}
	return n, nil
}

// newModels are models that would be wanted.
func (p *placements) newModels(ctx context.Context, s *reconcile.Snapshot, file, text string) (wanted []reconcile.Wanted, warnings []string, err error) {
	d, err := catalog.Parse(file, []byte(text))
	if err != nil {
		return nil, nil, err
	}
	var looked []*catalog.Model
	for i := range d.Models {
		if d.Models[i].Profile != nil {
			looked = append(looked, &d.Models[i])
		}
	}
	p.plane.needs.await(ctx, lookPatience, looked...)
	for i := range d.Models {
		m := &d.Models[i]
		wish, runs, err := p.plane.placing.WishFor(m)
		count, _ := m.Replicas()
		switch {
		case err != nil:
			return nil, nil, fmt.Errorf("model %q: %w", m.Name, err)
		case !runs:
			return nil, nil, fmt.Errorf("model %q has no profile, so nothing of it would be placed", m.Name)
		case count == 0:
			warnings = append(warnings, fmt.Sprintf("model %q wants no replica (scaling.min); the answer is for one", m.Name))
			count = 1
		}
		wish = p.plane.needs.over(m, wish)
		if err := s.Cluster.Fits(wish); err != nil {
			warnings = append(warnings, err.Error())
		}
		wanted = append(wanted, reconcile.Wanted{Name: m.Name, Count: count, Wish: wish})
	}
	return wanted, warnings, nil
}

// seconds is a time as JSON has it: negative where it is not known.
func seconds(d engines.Opt[time.Duration]) float64 {
	if v, known := d.Get(); known {
		return v.Seconds()
	}
	return -1
}

// stateCounts counts replicas by state, in the order of a replica's life.
func stateCounts(v *reconcile.View) []*apipb.ReplicaCount {
	counts := make(map[apipb.ReplicaState]uint32)
	for i := range v.Replicas {
		counts[replicaState(v.Replicas[i].State)]++
	}
	var out []*apipb.ReplicaCount
	for state, n := range counts {
		out = append(out, &apipb.ReplicaCount{State: state, Count: n})
	}
	slices.SortFunc(out, func(a, b *apipb.ReplicaCount) int { return int(a.GetState()) - int(b.GetState()) })
	return out
}
