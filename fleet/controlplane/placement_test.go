package controlplane_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/sim/simtest"
	"github.com/llmgw/llmgw/fleet/api"
	"github.com/llmgw/llmgw/fleet/apipb"
	"github.com/llmgw/llmgw/fleet/controlplane"
	"github.com/llmgw/llmgw/placement/catalog"
	"github.com/llmgw/llmgw/placement/reconcile"
)

// asideModels has one model that is set aside.
type asideModels struct{ api.Models }

func (asideModels) ListModels(context.Context, *apipb.ListModelsRequest) (*apipb.ListModelsResponse, error) {
	return &apipb.ListModelsResponse{Models: []*apipb.Model{{Name: "fine"}, {Name: "odd", SetAside: []string{"its name is taken"}}}}, nil
}

// ask calls the API and fails the test if that fails.
func ask[Q, A any](t *testing.T, call func(context.Context, Q) (A, error), req Q) A {
	t.Helper()
	out, err := call(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// settled is a plane of four nodes on two fabrics, whose gang of two nodes serves
// and whose gang of three has no place.
func settled(t *testing.T) (*running, *routers, api.Placement, *writtenRegistry) {
	var network simtest.Network
	huge := twoNodes("huge", 1)
	huge.Aliases, huge.Profile.Ranks, huge.Profile.TensorParallel = []string{"largest"}, 3, 24
	plain := catalog.Model{Name: "plain"}
	r, reg := newRouters(t), &writtenRegistry{Registry: prometheus.NewPedanticRegistry()}
	p := beginWith(t, &network, controlplane.Deps{Store: newMemory(), Holder: "test", Catalog: r, Registerer: reg})
	r.mu.Lock()
	r.from = p.Feed()
	r.mu.Unlock()
	rack(t, &network, 4, 2)
	until(t, "four nodes are known", func() bool { return p.Placing().Snapshot().Cluster.Capacity().WholeFree == 4 })
	r.want(t, twoNodes("big", 1), huge, plain)
	until(t, "a replica serves, and another has no place", func() bool {
		s := p.Placing().Snapshot()
		huge, _ := s.Model("huge")
		return len(r.serving("big")) == 1 && s.Cluster.Capacity().WholeFree == 2 && huge.Unplaced != nil && s.Replicas[0].State == reconcile.Ready
	})
	expiry := &apipb.CertificateExpiry{Use: "agent_listener", Name: "cp-1", NotAfter: timestamppb.New(time.Unix(2e9, 0))}
	return p, r, p.Placement(controlplane.About{
		Models: asideModels{}, Certificates: func() []*apipb.CertificateExpiry { return []*apipb.CertificateExpiry{expiry} },
	}), reg
}

func TestStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _, about, _ := settled(t)
		got := ask(t, about.GetStatus, &apipb.GetStatusRequest{})
		replica := p.Placing().View().Replicas[0]
		empty := "fabric-1"
		if replica.Fabric == empty {
			empty = "fabric-0"
		}
		if !got.GetStanding().GetReplicasKnown() || got.GetStanding().GetTerm() != 1 || got.GetStanding().GetWhy() != "" || got.GetAt() == nil {
			t.Errorf("standing %v at %v", got.GetStanding(), got.GetAt())
		}
		want := &apipb.GetStatusResponse{
			Nodes: []*apipb.NamedCount{{Name: "ready", Count: 4}},
			Classes: []*apipb.CardClass{{
				Class: "Simulated 80GB", Total: 32, Free: 16, Taken: 16, MemoryBytes: new(uint64(32 * 80 << 30)), MemoryUsedBytes: new(uint64(0)),
			}},
			Fabrics: []*apipb.FabricStatus{
				{Fabric: replica.Fabric, Members: 2, Holds: []*apipb.NamedCount{{Name: "big", Count: 1}}},
				{Fabric: empty, Members: 2, WholeFree: 2, FreeCards: 16},
			},
			WholeFreeNodes: 2,
			Replicas:       []*apipb.ReplicaCount{{State: apipb.ReplicaState_REPLICA_STATE_READY, Count: 1}},
			Models: []*apipb.PlacedModel{
				{Name: "big", Wanted: 1, Ready: 1, IdleSeconds: -1, Scaling: &apipb.PlacedScaling{
					State: apipb.ModelStanding_MODEL_STANDING_SERVING, Floor: 1, Max: 1, Why: "at least 1 run", AskedSeconds: -1, LoadSeconds: 10, IdleTimeoutSeconds: 900,
				}},
				{Name: "huge", Wanted: 1, IdleSeconds: -1, Scaling: &apipb.PlacedScaling{
					State: apipb.ModelStanding_MODEL_STANDING_UNPLACED, Floor: 1, Max: 1, Why: "at least 1 run", AskedSeconds: -1, LoadSeconds: -1, IdleTimeoutSeconds: 900,
				}},
			},
			SetAside:     []*apipb.SetAsideModel{{Name: "odd", Why: []string{"its name is taken"}}},
			Certificates: []*apipb.CertificateExpiry{{Use: "agent_listener", Name: "cp-1", NotAfter: &timestamppb.Timestamp{Seconds: 2e9}}},
		}
		slices.SortFunc(want.GetFabrics(), func(a, b *apipb.FabricStatus) int { return strings.Compare(a.GetFabric(), b.GetFabric()) })
		if diff := cmp.Diff(want, got, protocmp.Transform(), protocmp.IgnoreFields(&apipb.GetStatusResponse{}, "at", "standing"),
			protocmp.IgnoreFields(&apipb.PlacedModel{}, "unplaced"), protocmp.IgnoreFields(&apipb.PlacedScaling{}, "since")); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if why := got.GetModels()[1].GetUnplaced(); !strings.Contains(why, "no fabric holds all 3 ranks") {
			t.Errorf("huge: %q", why)
		}

		// The lists are of the same numbers.
		list := ask(t, about.ListReplicas, &apipb.ListReplicasRequest{})
		if len(list.GetReplicas()) != 1 || len(list.GetReplicas()[0].GetShards()) != 2 {
			t.Fatalf("%v; want one replica of two shards", list)
		}
		one := list.GetReplicas()[0]
		if one.GetState() != apipb.ReplicaState_REPLICA_STATE_READY || one.GetIdleSeconds() != -1 || one.InFlight != nil || one.GetAddress() == "" {
			t.Errorf("%v; want it ready, with no word of its work from routers", one)
		}
		for _, s := range one.GetShards() {
			if s.GetStatus().GetState() != "ready" || len(s.GetCards()) != 8 {
				t.Errorf("shard %v", s)
			}
		}
		if list := ask(t, about.ListReplicas, &apipb.ListReplicasRequest{Model: "largest"}); len(list.GetReplicas()) != 0 {
			t.Errorf("%v; want none of huge", list)
		}
	})
}

func TestExplainPlacement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, about, _ := settled(t)
		big := ask(t, about.ExplainPlacement, &apipb.ExplainPlacementRequest{Model: "big"})
		if len(big.GetReplicas()) != 1 || !big.GetReplicas()[0].GetSame() || big.GetReplicas()[0].GetToday().GetWhy() == "" {
			t.Errorf("its replica: %v", big.GetReplicas())
		}
		if n := big.GetNext(); !n.GetPlaced() || len(n.GetShards()) != 2 || len(n.GetRejected()) != 2 {
			t.Errorf("one more: %v; want it on the two free nodes", n)
		}
		if len(big.GetNeed().GetRanks()) != 2 || big.GetNeed().GetRanks()[0].GetCards() != 8 || big.GetNeed().CardMemoryBytes != nil {
			t.Errorf("needs %v", big.GetNeed())
		}
		huge := ask(t, about.ExplainPlacement, &apipb.ExplainPlacementRequest{Model: "largest"})
		next := huge.GetNext()
		if huge.GetModel().GetName() != "huge" || next.GetPlaced() || next.GetCouldEver() || len(next.GetRejected()) != 4 || len(next.GetFabrics()) != 2 {
			t.Fatalf("%v; want four nodes rejected and two fabrics short", huge)
		}
		if f := next.GetFabrics()[0]; f.GetNeeds() != 3 || f.GetShort() == 0 || !strings.Contains(f.GetText(), "short") {
			t.Errorf("fabric %v", f)
		}
		for model, want := range map[string]string{"plain": "has no profile", "nope": "there are big, huge"} {
			_, err := about.ExplainPlacement(t.Context(), &apipb.ExplainPlacementRequest{Model: model})
			if !errors.Is(err, api.ErrNotFound) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v; want %q", model, err, want)
			}
		}
	})
}

func TestWhatIf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _, about, _ := settled(t)
		replica := p.Placing().View().Replicas[0]
		node := replica.Shards[1].Node
		got := ask(t, about.WhatIf, &apipb.WhatIfRequest{Drain: []string{node}})
		if len(got.GetReplicas()) != 1 || got.GetReplicas()[0].GetFate() != apipb.ReplicaFate_REPLICA_FATE_MOVES || got.GetReplicas()[0].GetDecision().GetFabric() == replica.Fabric {
			t.Errorf("drain of %s: %v; want it on the other fabric", node, got.GetReplicas())
		}
		if len(got.GetNew()) != 1 || got.GetNew()[0].GetBefore() == "" || got.GetNew()[0].GetDecision().GetPlaced() {
			t.Errorf("new: %v; want huge to be without a place still", got.GetNew())
		}
		if before, after := got.GetBefore().GetWholeFreeNodes(), got.GetAfter().GetWholeFreeNodes(); before != 2 || after != 1 {
			t.Errorf("whole free nodes %d, then %d; want 2, then 1", before, after)
		}

		// A third node on each fabric, as an agent tells of it, has room for huge.
		var inventory structpb.Struct
		inv := engines.Inventory{Fabrics: []engines.Fabric{{Name: "fabric-0"}, {Name: "fabric-1"}}}
		for i := range 8 {
			inv.GPUs = append(inv.GPUs, engines.GPU{Index: i, UUID: "NEW-" + string(rune('a'+i)), Name: "Simulated 80GB", Vendor: engines.SimulatedCard, MemoryBytes: engines.Known(uint64(80 << 30))})
		}
		text, err := json.Marshal(inv)
		if err == nil {
			err = inventory.UnmarshalJSON(text)
		}
		if err != nil {
			t.Fatal(err)
		}
		got = ask(t, about.WhatIf, &apipb.WhatIfRequest{AddNodes: []*apipb.WhatIfNode{{Id: "new-1", Inventory: &inventory}}})
		if len(got.GetNew()) != 1 || !got.GetNew()[0].GetDecision().GetPlaced() || got.GetReplicas()[0].GetFate() != apipb.ReplicaFate_REPLICA_FATE_STAYS {
			t.Errorf("with new-1: %v, %v; want huge to have a place", got.GetNew(), got.GetReplicas())
		}

		const more = "name: more\nsource: sim/more\nprofile:\n  engine: sim\n  tensor_parallel: 4\nscaling:\n  min: 2\n  max: 2\n"
		got = ask(t, about.WhatIf, &apipb.WhatIfRequest{AddModels: more})
		placed := 0
		for _, n := range got.GetNew() {
			if n.GetAdded() && n.GetDecision().GetPlaced() {
				placed++
			}
		}
		if placed != 2 {
			t.Errorf("%d of more are placed; want 2: %v", placed, got.GetNew())
		}
		for _, tt := range []struct {
			req   *apipb.WhatIfRequest
			class error
			want  string
		}{
			{&apipb.WhatIfRequest{Drain: []string{"gone"}}, api.ErrNotFound, `"gone"`},
			{&apipb.WhatIfRequest{AddNodes: []*apipb.WhatIfNode{{Id: node}}}, api.ErrInvalid, "there is a node"},
			{&apipb.WhatIfRequest{AddModels: "nme: x\n"}, api.ErrInvalid, "nme"},
			{&apipb.WhatIfRequest{AddModels: strings.Replace(more, "name: more", "name: big", 1)}, api.ErrInvalid, `there is a model "big"`},
			{&apipb.WhatIfRequest{AddModels: "name: x\n"}, api.ErrInvalid, "no profile"},
		} {
			if _, err := about.WhatIf(t.Context(), tt.req); !errors.Is(err, tt.class) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v: %v; want %q", tt.req, err, tt.want)
			}
		}
		if v := p.Placing().View(); len(v.Replicas) != 1 || v.Replicas[0].Leaving != "" {
			t.Errorf("questions changed something: %+v", v.Replicas)
		}
	})
}

// A plane without a catalog says that it places nothing.
func TestNothingPlaced(t *testing.T) {
	p, err := controlplane.New(controlplane.DefaultConfig(), controlplane.Deps{Store: newMemory()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Placement(controlplane.About{}).GetStatus(t.Context(), &apipb.GetStatusRequest{}); !errors.Is(err, api.ErrPrecondition) {
		t.Errorf("%v; want that nothing is placed", err)
	}
}

// The page is made when it is asked for, of what is reported then; each plane has a
// page of its own.
func TestFleetMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, r, _, reg := settled(t)
		_, _, _, other := settled(t)
		replica := p.Placing().View().Replicas[0]
		const models = `
# HELP llmgw_fleet_leads 1 while this control plane gives orders. While another one leads, nothing else of the fleet is told here.
# TYPE llmgw_fleet_leads gauge
llmgw_fleet_leads 1
# HELP llmgw_fleet_cards Cards by class and by what they are: free, taken, unusable, away, occupied.
# TYPE llmgw_fleet_cards gauge
llmgw_fleet_cards{class="Simulated 80GB",state="away"} 0
llmgw_fleet_cards{class="Simulated 80GB",state="free"} 16
llmgw_fleet_cards{class="Simulated 80GB",state="occupied"} 0
llmgw_fleet_cards{class="Simulated 80GB",state="taken"} 16
llmgw_fleet_cards{class="Simulated 80GB",state="unusable"} 0
# HELP llmgw_fleet_model_replicas_ready Replicas of a model that serve and are to stay.
# TYPE llmgw_fleet_model_replicas_ready gauge
llmgw_fleet_model_replicas_ready{model="big"} 1
llmgw_fleet_model_replicas_ready{model="huge"} 0
# HELP llmgw_fleet_model_unplaced 1 for a model of which a replica is missing that no place was found for.
# TYPE llmgw_fleet_model_unplaced gauge
llmgw_fleet_model_unplaced{model="big"} 0
llmgw_fleet_model_unplaced{model="huge"} 1
# HELP llmgw_fleet_replicas Replicas by model and state; states of which there are none are absent.
# TYPE llmgw_fleet_replicas gauge
llmgw_fleet_replicas{model="big",state="ready"} 1
`
		names := []string{"llmgw_fleet_leads", "llmgw_fleet_cards", "llmgw_fleet_model_replicas_ready", "llmgw_fleet_model_unplaced", "llmgw_fleet_replicas"}
		for _, reg := range []*writtenRegistry{reg, other} {
			if err := testutil.GatherAndCompare(reg, strings.NewReader(models), names...); err != nil {
				t.Error(err)
			}
		}
		count := func(name string) int {
			t.Helper()
			n, err := testutil.GatherAndCount(reg, name)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		for name, want := range map[string]int{
			"llmgw_fleet_node_ready": 4, "llmgw_fleet_gpu_memory_bytes": 32, "llmgw_fleet_gpu_usable": 32, "llmgw_fleet_fabric_whole_free_nodes": 2,
			// Nobody has read these, nor seen the replica work: they are not zero.
			"llmgw_fleet_gpu_memory_used_bytes": 0, "llmgw_fleet_gpu_utilization_ratio": 0, "llmgw_fleet_replica_idle_seconds": 0,
			"llmgw_fleet_replica_in_flight": 0,
		} {
			if n := count(name); n != want {
				t.Errorf("%d of %s; want %d", n, name, want)
			}
		}
		sameAsWritten(t, reg)
		// What is gone is gone from the page.
		r.want(t)
		until(t, "nothing is left", func() bool { return len(p.Placing().View().Replicas) == 0 })
		if n := count("llmgw_fleet_replicas") + count("llmgw_fleet_model_replicas_wanted"); n != 0 {
			t.Errorf("%d series of replicas %s and its model are left", n, replica.ID)
		}
		p.stop()
	})
}

// written is a collector that writes its own part of a page.
type written interface {
	prometheus.Collector
	WriteText(w io.Writer, wanted func(family string) bool) error
}

// writtenRegistry remembers the collectors that do.
type writtenRegistry struct {
	*prometheus.Registry
	written []written
}

func (r *writtenRegistry) Register(c prometheus.Collector) error {
	if w, ok := c.(written); ok {
		r.written = append(r.written, w)
	}
	return r.Registry.Register(c)
}

// What collectors write of themselves is what a registry makes of them.
func sameAsWritten(t *testing.T, reg *writtenRegistry) {
	t.Helper()
	if len(reg.written) == 0 {
		t.Fatal("nothing writes its part of a page")
	}
	for _, w := range reg.written {
		alone := prometheus.NewRegistry()
		alone.MustRegister(w)
		families, err := alone.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, only := range append(families, nil) {
			var want, got bytes.Buffer
			for _, f := range families {
				if only == nil || f == only {
					if _, err := expfmt.MetricFamilyToText(&want, f); err != nil {
						t.Fatal(err)
					}
				}
			}
			if err := w.WriteText(&got, func(family string) bool { return only == nil || family == only.GetName() }); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(sortedLines(want.String()), sortedLines(got.String())); diff != "" || want.Len() == 0 {
				t.Errorf("%s: (-built +written):\n%s", only.GetName(), diff)
			}
		}
	}
}

// sortedLines are the lines of each family of a page, in order.
func sortedLines(text string) (out [][]string) {
	for family := range strings.SplitSeq(text, "# HELP ") {
		lines := strings.Split(family, "\n")
		slices.Sort(lines)
		out = append(out, lines)
	}
	return out
}
