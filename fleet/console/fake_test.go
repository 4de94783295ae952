package console_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/llmgw/llmgw/auth/webui"
	"github.com/llmgw/llmgw/fleet/apipb"
	"github.com/llmgw/llmgw/fleet/console"
)

var now = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC) //nolint:gochecknoglobals // a moment, as a constant

func ago(d time.Duration) *timestamppb.Timestamp { return timestamppb.New(now.Add(-d)) }

// services answer with what they hold. Messages are made once and not changed.
type services struct {
	mu sync.Mutex

	nodes    *apipb.ListNodesResponse
	node     *apipb.GetNodeResponse
	status   *apipb.GetStatusResponse
	replicas *apipb.ListReplicasResponse
	explain  *apipb.ExplainPlacementResponse
	models   *apipb.ListModelsResponse
	model    *apipb.GetModelResponse
	sums     []*apipb.UsageSum
	keys     []*apipb.Key
	users    []*apipb.User
	traffic  console.TrafficReading // guarded by mu

	err error // what every call fails with; nil: none does
}

var errNotThere = errors.New("there is no such thing")

func (s *services) ListNodes(context.Context, *apipb.ListNodesRequest) (*apipb.ListNodesResponse, error) {
	return s.nodes, s.err
}

func (s *services) GetNode(_ context.Context, req *apipb.GetNodeRequest) (*apipb.GetNodeResponse, error) {
	if s.err == nil && req.GetNode() == "gone" {
		return nil, errNotThere
	}
	return s.node, s.err
}

func (s *services) GetStatus(context.Context, *apipb.GetStatusRequest) (*apipb.GetStatusResponse, error) {
	return s.status, s.err
}

func (s *services) ListReplicas(context.Context, *apipb.ListReplicasRequest) (*apipb.ListReplicasResponse, error) {
	return s.replicas, s.err
}

func (s *services) ExplainPlacement(context.Context, *apipb.ExplainPlacementRequest) (*apipb.ExplainPlacementResponse, error) {
	return s.explain, s.err
}

func (s *services) ListModels(context.Context, *apipb.ListModelsRequest) (*apipb.ListModelsResponse, error) {
	return s.models, s.err
}

func (s *services) GetModel(context.Context, *apipb.GetModelRequest) (*apipb.GetModelResponse, error) {
	return s.model, s.err
}

// paged is a page of a list.
func paged[T any](list []T, token string, size uint32) ([]T, string) {
	from := 0
	_, _ = fmt.Sscan(token, &from)
	to := min(from+int(size), len(list))
	if to == len(list) {
		return list[from:to], ""
	}
	return list[from:to], fmt.Sprint(to)
}

func (s *services) ListUsageSums(_ context.Context, req *apipb.ListUsageSumsRequest) (*apipb.ListUsageSumsResponse, error) {
	list, next := paged(s.sums, req.GetPageToken(), req.GetPageSize())
	return &apipb.ListUsageSumsResponse{Sums: list, NextPageToken: next}, s.err
}

func (s *services) ListKeys(_ context.Context, req *apipb.ListKeysRequest) (*apipb.ListKeysResponse, error) {
	list, next := paged(s.keys, req.GetPageToken(), req.GetPageSize())
	return &apipb.ListKeysResponse{Keys: list, NextPageToken: next}, s.err
}

func (s *services) ListUsers(_ context.Context, req *apipb.ListUsersRequest) (*apipb.ListUsersResponse, error) {
	all := s.users
	if req.GetState() != apipb.UserState_USER_STATE_UNSPECIFIED {
		all = nil
		for _, u := range s.users {
			if u.GetState() == req.GetState() {
				all = append(all, u)
			}
		}
	}
	list, next := paged(all, req.GetPageToken(), req.GetPageSize())
	return &apipb.ListUsersResponse{Users: list, NextPageToken: next}, s.err
}

func (s *services) Traffic() console.TrafficReading {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.traffic
}

// deps are all of them.
func (s *services) deps(tb testing.TB) console.Deps {
	tb.Helper()
	site, err := webui.New(webui.DefaultConfig(), webui.Deps{})
	if err != nil {
		tb.Fatal(err)
	}
	return console.Deps{
		Site: site, Nodes: s, Placement: s, Models: s, Usage: s, Keys: s, Users: s, Traffic: s, Now: func() time.Time { return now },
		Extras: console.Extras{Elsewhere: &console.Elsewhere{Admin: "127.0.0.1:9090", Metrics: "10.0.0.1:9100"}},
		Fault: func(err error) console.Fault {
			if errors.Is(err, errNotThere) {
				return console.Fault{Text: err.Error(), NotFound: true}
			}
			return console.Fault{}
		},
	}
}

// made is a console of such deps.
func made(tb testing.TB, deps console.Deps) *console.Console {
	tb.Helper()
	c, err := console.New(console.DefaultConfig(), deps)
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

// get loads a page.
func get(tb testing.TB, h http.Handler, path string) (status int, page string, header http.Header) {
	tb.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(tb.Context(), http.MethodGet, path, nil))
	body, err := io.ReadAll(w.Result().Body)
	if err != nil {
		tb.Fatal(err)
	}
	return w.Code, string(body), w.Result().Header
}

// large is a fleet of the sizes that every structure is built for: names are as long
// as people make them, and of everything there is some that is wrong.
func large() *services {
	const nodes, models, replicas, keys, users = 1000, 500, 1000, 10_000, 10_000
	s := &services{
		nodes:    &apipb.ListNodesResponse{At: ago(0), Term: new(uint64(3)), Cluster: "c"},
		status:   &apipb.GetStatusResponse{At: ago(0), Standing: leads(), WholeFreeNodes: 100},
		replicas: &apipb.ListReplicasResponse{At: ago(0), Standing: leads()},
		models:   &apipb.ListModelsResponse{},
	}
	node := func(i int) string { return fmt.Sprintf("gpu-%04d.rack-%02d.fra1.example.org", i, i/40) }
	model := func(i int) string { return fmt.Sprintf("organisation-%02d/Some-Model-%03d-Instruct-FP8", i%20, i) }
	for i := range nodes {
		n := &apipb.Node{
			Id: node(i), State: apipb.NodeState_NODE_STATE_READY, Since: ago(time.Hour), Heard: ago(time.Second), Connected: true, Address: fmt.Sprintf("10.1.%d.%d", i/250, i%250),
			AgentVersion: "v1.4.2", Target: apipb.NodeTarget_NODE_TARGET_ACTIVE, HardwareKnown: true, Fabrics: []*apipb.NodeFabric{{Name: fmt.Sprintf("ib-%03d", i/8), Verdict: "confirmed"}},
			MemoryBytes: new(uint64(2 << 40)), Labels: map[string]string{"rack": fmt.Sprint(i / 40)}, Cpu: "AMD EPYC 9654 96-Core Processor",
		}
		for g := range 8 {
			n.Gpus = append(n.Gpus, &apipb.NodeGPU{
				Id: fmt.Sprintf("GPU-%08d-aaaa-bbbb-cccc-%012d", i, g), Index: uint32(g), Name: "NVIDIA H100 80GB HBM3", Usable: i%10 != 0 || g != 3, MemoryBytes: new(uint64(80 << 30)), MemoryUsedBytes: new(uint64(g%2) * 40 << 30),
				UtilizationRatio: new(0.5), TemperatureC: new(61.0),
			})
			if i%10 == 0 && g == 3 {
				n.Gpus[3].Reasons = []string{"xid-79: the card has fallen off the bus, and is not used until its node was restarted"}
			}
		}
		n.Shards = append(n.Shards, &apipb.NodeShard{Replica: fmt.Sprintf("some-model-%03d-%04d", i%models, i), State: "ready", Since: ago(time.Hour), Running: new(uint32(3)), Waiting: new(uint32(1))})
		switch i % 100 {
		case 1:
			n.State, n.Connected = apipb.NodeState_NODE_STATE_LOST, false
		case 2:
			n.Target, n.TargetReason = apipb.NodeTarget_NODE_TARGET_DRAINED, "a fan is broken"
		}
		s.nodes.Nodes = append(s.nodes.Nodes, n)
	}
	hardware, err := structpb.NewStruct(map[string]any{"driver": "550.54", "cpu": strings.Repeat("flags ", 8000)})
	if err != nil {
		panic(err)
	}
	s.node = &apipb.GetNodeResponse{At: ago(0), Node: s.nodes.GetNodes()[0], Inventory: hardware}
	s.status.Nodes = []*apipb.NamedCount{{Name: "ready", Count: nodes - 10}, {Name: "lost", Count: 10}}
	for i := range 6 {
		k := &apipb.CardClass{Class: fmt.Sprintf("NVIDIA H%d00 80GB", i+1), Total: 1334, Free: 300, Taken: 800, Unusable: 34, Away: 100, Occupied: 100, MemoryBytes: new(uint64(100)), MemoryUsedBytes: new(uint64(52))}
		for j := range 5 {
			k.UnusableWhy = append(k.UnusableWhy, &apipb.UnusableCards{Reason: fmt.Sprintf("xid-%d", j), Count: 7, Nodes: []string{node(1), node(2), node(3)}})
		}
		s.status.Classes = append(s.status.Classes, k)
	}
	for i := range nodes / 8 {
		f := &apipb.FabricStatus{Fabric: fmt.Sprintf("ib-%03d", i), Members: 8, WholeFree: 2, FreeCards: 17}
		for j := range 12 {
			f.Holds = append(f.Holds, &apipb.NamedCount{Name: model(i*3 + j), Count: 1})
			f.Weights = append(f.Weights, &apipb.FabricWeights{Model: model(i*3 + j), Nodes: 2, Filers: 1})
		}
		s.status.Fabrics = append(s.status.Fabrics, f)
	}
	for i := range models {
		m := &apipb.PlacedModel{
			Name: model(i), Wanted: 2, Ready: 2, IdleSeconds: float64(i * 60), Scaling: &apipb.PlacedScaling{
				State: apipb.ModelStanding_MODEL_STANDING_SERVING, Floor: 1, Max: 4, Why: "2 are 70 % full", Since: ago(time.Minute), Load: new(0.7), AskedSeconds: 1, LoadSeconds: 80, IdleTimeoutSeconds: 900,
			},
		}
		if i%5 == 0 {
			m.Ready, m.Unplaced, m.CouldEver = 0, "no fabric holds all 3 ranks: ib-001 has 2 whole free nodes, and one more is short; the others have less", true
			m.Scaling.State = apipb.ModelStanding_MODEL_STANDING_UNPLACED
			m.Failures, m.Failure, m.NextTry = 3, "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", ago(-time.Minute)
		}
		s.status.Models = append(s.status.Models, m)
		s.models.Models = append(s.models.Models, &apipb.Model{Name: model(i), Engine: "vllm", Source: "hf:" + model(i), Aliases: []string{fmt.Sprintf("alias-%d", i)}})
		s.traffic.Models = append(s.traffic.Models, console.ModelTraffic{Model: model(i), Requests: 1000, Failed: 3, OutputTokens: 9000, HasTokens: true, InFlight: 4, HasInFlight: true})
		p := console.Pool{Name: model(i), Leases: 20, Saturation: 0.8, HasSaturation: true}
		for b, name := range []string{"platinum", "gold", "silver", "bronze"} {
			p.Bands = append(p.Bands, console.Band{Name: name, Priority: 4 - b, Ceiling: 0.9, Waiting: i % 7, Admitted: 100, Rejected: 2})
		}
		s.traffic.Pools = append(s.traffic.Pools, p)
	}
	s.traffic.HasPools = true
	s.model = &apipb.GetModelResponse{Model: s.models.GetModels()[0], Definition: "name: x\nprices:\n- input: 1\n  output: 2\nprofile:\n  env:\n    TOKEN: hunter2\n"}
	for i := range replicas {
		r := &apipb.Replica{
			Id: fmt.Sprintf("some-model-%03d-%04d", i%models, i), Model: model(i % models), State: apipb.ReplicaState_REPLICA_STATE_READY, Since: ago(time.Hour), CreatedAt: ago(time.Hour), Engine: "vllm",
			Fabric: fmt.Sprintf("ib-%03d", i/8), Address: "10.0.0.1:20000", IdleSeconds: 3, InFlight: new(uint32(2)), Generation: 7,
		}
		for j := range 2 {
			at := (i + j) % nodes
			st := &apipb.NodeShard{State: "ready", Since: ago(time.Hour), Running: new(uint32(2)), Waiting: new(uint32(0)), Address: "10.0.0.1:20000"}
			if i%9 == 0 {
				r.State, r.Reason = apipb.ReplicaState_REPLICA_STATE_FAILED, "shard 0 on node gpu-3 failed"
				st.State, st.Reason, st.Advice = "failed", "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", "lower memory_ratio"
				for range 50 {
					st.Lines = append(st.Lines, `File "/opt/vllm/lib/python3.12/site-packages/vllm/engine/core.py", line 451, in run_engine_core`)
				}
			}
			r.Shards = append(r.Shards, &apipb.ReplicaShard{Node: node(at), Cards: []string{s.nodes.GetNodes()[at].GetGpus()[j].GetId(), s.nodes.GetNodes()[at].GetGpus()[j+4].GetId()}, Status: st})
		}
		s.replicas.Replicas = append(s.replicas.Replicas, r)
		if i%3 == 0 {
			s.status.Troubled = append(s.status.Troubled, &apipb.TroubledReplica{Replica: r.GetId(), Model: r.GetModel(), State: r.GetState(), Since: ago(time.Minute), Reason: "shard 0 failed"})
		}
	}
	s.status.Replicas = []*apipb.ReplicaCount{{State: apipb.ReplicaState_REPLICA_STATE_READY, Count: replicas}}
	s.status.Certificates = []*apipb.CertificateExpiry{{Use: "agent_listener", Name: "cp-1", NotAfter: ago(-5 * 24 * time.Hour)}}
	next := &apipb.PlacementDecision{Why: "no fabric holds both ranks", CouldEver: true}
	for i := range nodes {
		next.Rejected = append(next.Rejected, &apipb.NodeRejection{Node: node(i), Reasons: []*apipb.RejectionReason{
			{Kind: "cards-short", Text: "it needs 8 cards that are wholly free, and 3 are"}, {Kind: "weights", Text: "the weights are not there, and would have to be fetched first"},
		}})
	}
	for i := range nodes / 8 {
		next.Fabrics = append(next.Fabrics, &apipb.FabricStanding{Text: fmt.Sprintf("fabric ib-%03d: 1 node short; 2 of 8 wholly free", i)})
	}
	s.explain = &apipb.ExplainPlacementResponse{At: ago(0), Standing: leads(), Model: s.status.GetModels()[0], Next: next, Need: &apipb.ReplicaNeed{Engine: "vllm", Ranks: []*apipb.RankNeed{{Cards: 8}, {Cards: 8}}}}
	for i := range 40 {
		s.explain.Replicas = append(s.explain.Replicas, &apipb.ExplainedReplica{
			Replica: fmt.Sprintf("some-%d", i), State: apipb.ReplicaState_REPLICA_STATE_READY, Same: true, Shards: []*apipb.PlacementShard{{Node: node(i)}, {Node: node(i + 1)}},
			Today: &apipb.PlacementDecision{Placed: true, Why: "it is the only fabric with two whole free nodes"},
		})
	}
	for i := range keys {
		s.keys = append(s.keys, &apipb.Key{Id: fmt.Sprintf("key_%d", i), State: apipb.KeyState(1 + i%3)})
		s.sums = append(s.sums, &apipb.UsageSum{Start: ago(time.Duration(i%6) * 24 * time.Hour), KeyId: fmt.Sprintf("key_%d", i), Owner: fmt.Sprintf("team-%04d", i%5000), Model: model(i % models), Requests: 10, Failed: 1, InputTokens: 5000, OutputTokens: 700, CostNanos: 12e6})
	}
	for i := range users {
		s.users = append(s.users, &apipb.User{Address: fmt.Sprintf("some.body-%05d@department.example.org", i), State: apipb.UserState(1 + i%3), Keys: 3, CreatedAt: ago(time.Hour), SignedInAt: ago(time.Minute)})
	}
	return s
}

func leads() *apipb.PlacementStanding {
	return &apipb.PlacementStanding{Cluster: "c", Term: new(uint64(3)), ReplicasKnown: true}
}

// pages are all there are, with what makes them long.
func pages(s *services) []string {
	return []string{
		"/admin/", "/admin/nodes", "/admin/nodes?page=20", "/admin/nodes?q=xid-79", "/admin/node?id=" + s.node.GetNode().GetId(), "/admin/fabrics", "/admin/models", "/admin/models?q=unplaced",
		"/admin/model?name=" + s.models.GetModels()[0].GetName(), "/admin/replicas", "/admin/replicas?q=failed", "/admin/replica?id=" + s.replicas.GetReplicas()[0].GetId(),
		"/admin/queues", "/admin/rates", "/admin/usage", "/admin/usage?of=1d", "/admin/usage?by=owner", "/admin/usage?by=model&of=30d", "/admin/accounts", "/admin/accounts?q=some", "/admin/accounts?q=09999",
		"/admin/elsewhere",
	}
}
