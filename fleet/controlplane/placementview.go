package controlplane

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/apipb"
	"github.com/llmgw/llmgw/placement"
	"github.com/llmgw/llmgw/placement/reconcile"
)

// statusView is how a snapshot stands.
func statusView(s *reconcile.Snapshot) *apipb.GetStatusResponse {
	capacity := capacityView(s.Cluster.Capacity())
	out := &apipb.GetStatusResponse{
		At: moment(s.View), Classes: capacity.GetClasses(), Fabrics: capacity.GetFabrics(), WholeFreeNodes: capacity.GetWholeFreeNodes(),
		Nodes: nodeCounts(s.Cluster), Replicas: stateCounts(s.View),
	}
	for _, class := range out.GetClasses() {
		viewCards(class, s.Cluster)
	}
	held, there := heldIn(s), weightsIn(s)
	for _, fabric := range out.GetFabrics() {
		fabric.Holds, fabric.Weights = namedCounts(held[fabric.GetFabric()]), there[fabric.GetFabric()]
	}
	models := modelViews(s)
	for _, name := range slices.Sorted(maps.Keys(models)) {
		out.Models = append(out.Models, models[name])
	}
	for i := range s.Replicas {
		r := &s.Replicas[i]
		if r.Held == "" && r.Leaving == "" && r.State != reconcile.Lost && r.State != reconcile.Failed && r.Reason == "" {
			continue
		}
		out.Troubled = append(out.Troubled, &apipb.TroubledReplica{
			Replica: r.ID, Model: r.Model, State: replicaState(r.State), Since: stamp(r.Since), Reason: r.Reason, Held: r.Held, Leaving: r.Leaving,
		})
	}
	for i := range s.Strays {
		st := &s.Strays[i]
		out.Strays = append(out.Strays, &apipb.StrayShard{Node: st.Node, Status: shardView(st.Status), Since: stamp(st.Since), Held: st.Held})
	}
	return out
}

func capacityView(c placement.Capacity) *apipb.PlacementCapacity {
	out := &apipb.PlacementCapacity{WholeFreeNodes: number(c.WholeFree)}
	for _, k := range c.Classes {
		out.Classes = append(out.Classes, &apipb.CardClass{
			Class: k.Class, Total: number(k.Total), Free: number(k.Free), Taken: number(k.Taken),
			Unusable: number(k.Unusable), Away: number(k.Away), Occupied: number(k.Occupied),
		})
	}
	for _, f := range c.Fabrics {
		out.Fabrics = append(out.Fabrics, &apipb.FabricStatus{
			Fabric: f.Fabric, Members: number(f.Members), Contradicted: number(f.Contradicted), WholeFree: number(f.WholeFree), FreeCards: number(f.FreeCards),
		})
	}
	return out
}

// number is a count as the protocol has it.
func number(n int) uint32 { return uint32(max(n, 0)) } //nolint:gosec // counts of nodes and cards

// nodeCounts counts nodes by state, and those that operators keep replicas off.
func nodeCounts(c *placement.Cluster) []*apipb.NamedCount {
	counts := make(map[string]int)
	for n := range c.Nodes() {
		counts[n.State.String()]++
		if n.Cordon != placement.NoCordon {
			counts[n.Cordon.String()]++
		}
		if n.State == placement.Ready && !n.Connected {
			counts["not connected"]++
		}
	}
	return namedCounts(counts)
}

func namedCounts(counts map[string]int) []*apipb.NamedCount {
	var out []*apipb.NamedCount
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		out = append(out, &apipb.NamedCount{Name: name, Count: number(counts[name])})
	}
	return out
}

// viewCards says why cards of a class are unusable, and how full those are that
// are heard of.
func viewCards(class *apipb.CardClass, c *placement.Cluster) {
	const someNodes = 8
	why := make(map[string]*apipb.UnusableCards)
	for n := range c.Nodes() {
		for i := range n.Cards {
			card := &n.Cards[i]
			if card.Class != class.GetClass() {
				continue
			}
			if card.Problem != "" {
				if why[card.Problem] == nil {
					why[card.Problem] = &apipb.UnusableCards{Reason: card.Problem}
				}
				u := why[card.Problem]
				u.Count++
				if len(u.GetNodes()) < someNodes && !slices.Contains(u.GetNodes(), n.ID) {
					u.Nodes = append(u.Nodes, n.ID)
				}
			}
			total, known := card.MemoryBytes.Get()
			free, also := card.FreeBytes.Get()
			if known && also && n.State == placement.Ready && !n.Unified {
				class.MemoryBytes = new(class.GetMemoryBytes() + total)
				class.MemoryUsedBytes = new(class.GetMemoryUsedBytes() + total - min(free, total))
			}
		}
	}
	class.UnusableWhy = slices.SortedFunc(maps.Values(why), func(a, b *apipb.UnusableCards) int {
		return cmp.Or(cmp.Compare(b.GetCount(), a.GetCount()), cmp.Compare(a.GetReason(), b.GetReason()))
	})
}

// heldIn counts, by fabric and model, the replicas that have a shard there.
func heldIn(s *reconcile.Snapshot) map[string]map[string]int {
	held := make(map[string]map[string]int)
	for i := range s.Replicas {
		r := &s.Replicas[i]
		in := make(map[string]bool)
		for j := range r.Shards {
			n, _ := s.Cluster.Node(r.Shards[j].Node)
			for _, f := range n.Fabrics {
				in[f.Name] = true
			}
		}
		for fabric := range in {
			if held[fabric] == nil {
				held[fabric] = make(map[string]int)
			}
			held[fabric][r.Model]++
		}
	}
	return held
}

// modelViews are the models that are placed, by name.
func modelViews(s *reconcile.Snapshot) map[string]*apipb.PlacedModel {
	out := make(map[string]*apipb.PlacedModel, len(s.Models))
	for i := range s.Models {
		m := &s.Models[i]
		view := &apipb.PlacedModel{
			Name: m.Name, Wanted: number(m.Wanted), Ready: number(m.Ready), Coming: number(m.Coming), Leaving: number(m.Leaving), Lost: number(m.Lost), Asleep: number(m.Asleep),
			Problem: m.Problem, Failures: number(m.Failures), Failure: m.Reason, IdleSeconds: seconds(idleOf(m.Name, s.View)),
		}
		view.Scaling = scalingView(m)
		if m.Unplaced != nil {
			view.Unplaced, view.CouldEver = m.Unplaced.Why, m.Unplaced.CouldEver
		}
		if m.After.After(s.Now) {
			view.NextTry = timestamppb.New(m.After)
		}
		out[m.Name] = view
	}
	return out
}

func scalingView(m *reconcile.ModelView) *apipb.PlacedScaling {
	if m.Since.IsZero() {
		return nil
	}
	out := &apipb.PlacedScaling{
		State: modelStanding(m.State), Floor: number(m.Floor), Max: number(m.Max), Why: m.Why, Since: timestamppb.New(m.Since), Prewarm: m.Prewarm,
		AskedSeconds: seconds(m.Asked), Waiting: number(m.Waiting), Queued: number(m.Queued), LoadSeconds: seconds(m.LoadTime), Thrashed: number(m.Thrashed),
		IdleTimeoutSeconds: m.IdleTimeout.Seconds(),
	}
	if load, known := m.Load.Get(); known {
		out.Load = &load
	}
	return out
}

func modelStanding(s reconcile.ModelState) apipb.ModelStanding {
	switch s {
	case reconcile.ModelOff:
		return apipb.ModelStanding_MODEL_STANDING_OFF
	case reconcile.ModelAsleep:
		return apipb.ModelStanding_MODEL_STANDING_ASLEEP
	case reconcile.ModelLoading:
		return apipb.ModelStanding_MODEL_STANDING_LOADING
	case reconcile.ModelServing:
		return apipb.ModelStanding_MODEL_STANDING_SERVING
	case reconcile.ModelFailing:
		return apipb.ModelStanding_MODEL_STANDING_FAILING
	case reconcile.ModelUnplaced:
		return apipb.ModelStanding_MODEL_STANDING_UNPLACED
	}
	return apipb.ModelStanding_MODEL_STANDING_UNSPECIFIED
}

// idleOf is for how long nobody has asked for a model. It is known if it is of
// each of its ready replicas, and there is one.
func idleOf(model string, v *reconcile.View) (idle engines.Opt[time.Duration]) {
	for i := range v.Replicas {
		r := &v.Replicas[i]
		if r.Model != model || r.State != reconcile.Ready {
			continue
		}
		d, known := r.Idle.Get()
		if !known {
			return engines.Opt[time.Duration]{}
		}
		if least, some := idle.Get(); !some || d < least {
			idle = engines.Known(d)
		}
	}
	return idle
}

func replicaView(r *reconcile.ReplicaView) *apipb.Replica {
	out := &apipb.Replica{
		Id: r.ID, Model: r.Model, Generation: r.Generation, State: replicaState(r.State), Since: stamp(r.Since), CreatedAt: stamp(r.CreatedAt),
		Reason: r.Reason, Held: r.Held, Leaving: r.Leaving, Engine: string(r.Profile.Engine), Fabric: r.Fabric, Address: r.Address,
		IdleSeconds: seconds(r.Idle),
	}
	if n, known := r.Use.InFlight.Get(); known {
		out.InFlight = new(number(n))
	}
	for i := range r.Shards {
		shard := &apipb.ReplicaShard{Node: r.Shards[i].Node, Cards: r.Shards[i].Cards}
		if status := r.Shards[i].Status; status != nil {
			shard.Status = shardView(status)
		}
		out.Shards = append(out.Shards, shard)
	}
	return out
}

func replicaState(s reconcile.State) apipb.ReplicaState {
	switch s {
	case reconcile.Placed:
		return apipb.ReplicaState_REPLICA_STATE_PLACED
	case reconcile.Starting:
		return apipb.ReplicaState_REPLICA_STATE_STARTING
	case reconcile.Loading:
		return apipb.ReplicaState_REPLICA_STATE_LOADING
	case reconcile.Ready:
		return apipb.ReplicaState_REPLICA_STATE_READY
	case reconcile.Settling:
		return apipb.ReplicaState_REPLICA_STATE_SETTLING
	case reconcile.Lost:
		return apipb.ReplicaState_REPLICA_STATE_LOST
	case reconcile.Draining:
		return apipb.ReplicaState_REPLICA_STATE_DRAINING
	case reconcile.Stopping:
		return apipb.ReplicaState_REPLICA_STATE_STOPPING
	case reconcile.Failed:
		return apipb.ReplicaState_REPLICA_STATE_FAILED
	case reconcile.Sleeping:
		return apipb.ReplicaState_REPLICA_STATE_SLEEPING
	}
	return apipb.ReplicaState_REPLICA_STATE_UNSPECIFIED
}

func needView(w *placement.Wish) *apipb.ReplicaNeed {
	out := &apipb.ReplicaNeed{
		Engine: string(w.Need.Engine), CardMemoryBytes: pointer(w.Need.CardBytes), Classes: w.Need.Classes,
		Nodes: w.Nodes, Labels: w.Labels, Spread: w.Spread, Apart: w.Apart, Weights: w.WeightsKey,
	}
	for _, r := range w.Need.Ranks {
		out.Ranks = append(out.Ranks, &apipb.RankNeed{Cards: number(r.Cards), Ports: number(r.Ports), HostMemoryBytes: r.HostBytes})
	}
	return out
}

func placesView(shards []placement.ShardPlace) []*apipb.PlacementShard {
	var out []*apipb.PlacementShard
	for _, s := range shards {
		out = append(out, &apipb.PlacementShard{Node: s.Node, Cards: s.Cards})
	}
	return out
}

func decisionView(d *placement.Decision, others bool) *apipb.PlacementDecision {
	out := &apipb.PlacementDecision{
		Placed: d.Placed, Why: d.Why, Fabric: d.Fabric, Class: d.Class, Shards: placesView(d.Shards), CouldEver: d.CouldEver,
	}
	if others {
		out.Others = d.Others
	}
	for i := range d.Runners {
		r := &d.Runners[i]
		runner := &apipb.PlacementRunner{Fabric: r.Fabric, Class: r.Class, Nodes: r.Nodes, BehindBy: "its name"}
		if c, differ := d.Score.Differs(&r.Score); differ {
			runner.BehindBy = fmt.Sprintf("%s (%d, not %d)", c, r.Score[c], d.Score[c])
		}
		out.Runners = append(out.Runners, runner)
	}
	for i := range d.Rejected {
		rejected := &apipb.NodeRejection{Node: d.Rejected[i].Node}
		for _, reason := range d.Rejected[i].Reasons {
			rejected.Reasons = append(rejected.Reasons, &apipb.RejectionReason{Kind: reason.Kind.String(), Text: reason.String()})
		}
		out.Rejected = append(out.Rejected, rejected)
	}
	for i := range d.Fabrics {
		f := &d.Fabrics[i]
		out.Fabrics = append(out.Fabrics, &apipb.FabricStanding{
			Fabric: f.Fabric, Class: f.Class, Members: number(f.Members), Contradicted: number(f.Contradicted), WholeFree: number(f.WholeFree),
			Needs: number(f.Needs), Fits: number(f.Fits), Short: number(f.Short), Text: f.String(),
		})
	}
	return out
}

func forecastView(f *reconcile.Forecast) *apipb.WhatIfResponse {
	decision := forecastDecisions()
	out := &apipb.WhatIfResponse{Before: capacityView(f.Before), After: capacityView(f.After)}
	for i := range f.Replicas {
		r := &f.Replicas[i]
		view := &apipb.WhatIfReplica{
			Replica: r.Replica.ID, Model: r.Replica.Model, Fate: fateView(r.Fate), Why: r.Why, From: placesView(r.Replica.Row.Shards),
		}
		if r.Decision != nil {
			view.Decision = decision(r.Decision)
		}
		out.Replicas = append(out.Replicas, view)
	}
	for i := range f.New {
		n := &f.New[i]
		view := &apipb.WhatIfNew{Model: n.Model, Added: n.Added, Before: n.Before, Problem: n.Problem}
		if n.Decision != nil {
			view.Decision = decision(n.Decision)
		}
		out.New = append(out.New, view)
	}
	return out
}

// forecastDecisions views decisions among many: every node that would not do is
// told only where no place is found, and of a few of these.
func forecastDecisions() func(*placement.Decision) *apipb.PlacementDecision {
	left := 8
	return func(d *placement.Decision) *apipb.PlacementDecision {
		short := *d
		switch {
		case short.Placed:
			short.Runners, short.Rejected, short.Fabrics = nil, nil, nil
		case left > 0:
			left--
		default:
			short.Rejected = nil
		}
		return decisionView(&short, false)
	}
}

func fateView(f reconcile.Fate) apipb.ReplicaFate {
	switch f {
	case reconcile.Stays:
		return apipb.ReplicaFate_REPLICA_FATE_STAYS
	case reconcile.Moves:
		return apipb.ReplicaFate_REPLICA_FATE_MOVES
	case reconcile.MovesAfter:
		return apipb.ReplicaFate_REPLICA_FATE_MOVES_AFTER_END
	case reconcile.NoPlace:
		return apipb.ReplicaFate_REPLICA_FATE_NO_PLACE
	case reconcile.Ends:
		return apipb.ReplicaFate_REPLICA_FATE_ENDS
	case reconcile.Leaves:
		return apipb.ReplicaFate_REPLICA_FATE_LEAVES
	}
	return apipb.ReplicaFate_REPLICA_FATE_UNSPECIFIED
}
