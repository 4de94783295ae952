package console

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/llmgw/llmgw/auth/webui"
	"github.com/llmgw/llmgw/fleet/apipb"
	"github.com/llmgw/llmgw/fleet/apipb/telling"
)

// mostRowShards is how many shards of a replica a row of the table has.
const mostRowShards = 4

// replicaRow is a replica in the table.
type replicaRow struct {
	ID, Model, Since, Fabric, Address, InFlight, Idle string

	State      webui.Status
	Shards     []shardRow
	MoreShards int
	Troubles   some
}

// replicasView is all replicas.
type replicasView struct {
	List     list
	Leads    []string // said where orders are not given, or not all is known
	Replicas []replicaRow
	Model    string // only those of this one; empty: all
	Known    bool
}

// replicas shows the replicas, those that are broken first.
func (c *Console) replicas(w http.ResponseWriter, r *http.Request, _ webui.Visit) error {
	var missing []string
	model := r.URL.Query().Get("model")
	if len(model) > maxFilter {
		model = ""
	}
	l, page := asked(r, "replicas", param{"model", model})
	v := replicasView{Model: model}
	if answer, ok := ask(r.Context(), c, &missing, "the replicas", c.deps.Placement.ListReplicas, &apipb.ListReplicasRequest{Model: model}); ok {
		v.Known, v.Leads = answer.GetStanding().GetReplicasKnown(), doubts(answer.GetStanding())
		for _, replica := range cut(&l, page, c.cfg.Rows/2, sortedReplicas(answer.GetReplicas()), replicaWords) {
			v.Replicas = append(v.Replicas, replicaOf(replica, answer.GetAt(), mostRowShards))
		}
	}
	v.List = l
	return c.show(w, r, "replicas.html", "Replicas", missing, v)
}

// doubts are what is to be said of standing beside a table: nothing where orders are
// given and all is known.
func doubts(s *apipb.PlacementStanding) []string {
	if s != nil && s.Term != nil && s.GetReplicasKnown() {
		return nil
	}
	return telling.Leads(s)
}

func sortedReplicas(all []*apipb.Replica) []*apipb.Replica {
	out := slices.Clone(all)
	slices.SortStableFunc(out, func(a, b *apipb.Replica) int {
		return cmp.Or(cmp.Compare(replicaRank(a), replicaRank(b)), strings.Compare(a.GetId(), b.GetId()))
	})
	return out
}

// replicaRank is how soon a person should look at a replica; 0 is first.
func replicaRank(r *apipb.Replica) int {
	switch r.GetState() {
	case apipb.ReplicaState_REPLICA_STATE_FAILED:
		return 0
	case apipb.ReplicaState_REPLICA_STATE_LOST:
		return 1
	case apipb.ReplicaState_REPLICA_STATE_READY, apipb.ReplicaState_REPLICA_STATE_SLEEPING:
		switch {
		case r.GetHeld() != "" || r.GetLeaving() != "":
			return 2
		case r.GetState() == apipb.ReplicaState_REPLICA_STATE_SLEEPING:
			return 6
		}
		return 5
	case apipb.ReplicaState_REPLICA_STATE_DRAINING, apipb.ReplicaState_REPLICA_STATE_STOPPING:
		return 4
	case apipb.ReplicaState_REPLICA_STATE_UNSPECIFIED, apipb.ReplicaState_REPLICA_STATE_PLACED, apipb.ReplicaState_REPLICA_STATE_STARTING,
		apipb.ReplicaState_REPLICA_STATE_LOADING, apipb.ReplicaState_REPLICA_STATE_SETTLING:
	}
	return 3
}

func replicaStatus(r *apipb.Replica) webui.Status {
	kinds := [...]webui.Kind{webui.Bad, webui.Bad, webui.Warn, webui.Busy, webui.Busy, webui.Good, webui.Idle}
	return webui.Status{Kind: kinds[replicaRank(r)], Text: telling.ReplicaState(r.GetState())}
}

func replicaWords(b *strings.Builder, r *apipb.Replica) {
	words(b, r.GetId(), r.GetModel(), telling.ReplicaState(r.GetState()), r.GetFabric(), r.GetAddress(), r.GetEngine(), r.GetReason(), r.GetHeld(), r.GetLeaving())
	for _, s := range r.GetShards() {
		words(b, s.GetNode(), s.GetStatus().GetReason())
	}
}

// replicaOf is a replica with at most that many shards, those to look at first.
func replicaOf(r *apipb.Replica, at *timestamppb.Timestamp, most int) replicaRow {
	row := replicaRow{
		ID: r.GetId(), Model: r.GetModel(), Since: telling.Since(at, r.GetSince()), Fabric: telling.OrDash(r.GetFabric()), Address: telling.OrDash(r.GetAddress()),
		InFlight: telling.Optional(r.InFlight), Idle: telling.Idle(r.GetIdleSeconds()), State: replicaStatus(r),
	}
	if text := strings.TrimPrefix(telling.ReplicaTrouble(r.GetReason(), r.GetHeld(), r.GetLeaving()), ": "); text != "" {
		row.Troubles = first([]string{text}, mostRowTroubles, "")
	}
	for rank, s := range r.GetShards() {
		shard := shardRow{Rank: fmt.Sprint(rank), State: "not reported", Since: "-", Kind: webui.Idle, Work: "-"}
		if status := s.GetStatus(); status != nil {
			shard = shardOf(status, at)
			shard.Rank = fmt.Sprint(rank)
		}
		shard.Node, shard.Cards = s.GetNode(), short(telling.CardNames(s.GetCards()), maxText)
		row.Shards = append(row.Shards, shard)
	}
	if len(row.Shards) > most {
		slices.SortStableFunc(row.Shards, func(a, b shardRow) int { return cmp.Compare(b.Kind, a.Kind) }) // the worst have the highest kind
		row.MoreShards = len(row.Shards) - most
		row.Shards = row.Shards[:most]
	}
	return row
}

// replicaView is a replica.
type replicaView struct {
	replicaRow
	Facts []fact
}

// replica shows a replica with its shards and what their engines wrote last.
func (c *Console) replica(w http.ResponseWriter, r *http.Request, _ webui.Visit) error {
	id := r.URL.Query().Get("id")
	var missing []string
	answer, ok := ask(r.Context(), c, &missing, "the replica", c.deps.Placement.ListReplicas, &apipb.ListReplicasRequest{})
	if !ok {
		return c.show(w, r, "replica.html", "Replica "+short(id, 100), missing, nil)
	}
	i := slices.IndexFunc(answer.GetReplicas(), func(x *apipb.Replica) bool { return x.GetId() == id })
	if i < 0 {
		return none("replica", id, c.deps.Root+"replicas")
	}
	x, at := answer.GetReplicas()[i], answer.GetAt()
	v := replicaView{replicaRow: replicaOf(x, at, mostParts)}
	v.Facts = []fact{
		{"State", telling.ReplicaState(x.GetState()) + " for " + telling.Since(at, x.GetSince())},
		{"Generation", fmt.Sprint(x.GetGeneration())},
		{"Made", telling.Since(at, x.GetCreatedAt()) + " ago"},
		{"Engine", telling.OrDash(x.GetEngine())},
		{"Fabric", telling.OrDash(x.GetFabric())},
		{"Address", telling.OrDash(x.GetAddress())},
		{"In flight", telling.Optional(x.InFlight)},
		{"Idle", telling.Idle(x.GetIdleSeconds())},
	}
	return c.show(w, r, "replica.html", "Replica "+x.GetId(), missing, v)
}
