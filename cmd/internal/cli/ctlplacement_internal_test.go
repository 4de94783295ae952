package cli

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/llmgw/llmgw/fleet/api"
	"github.com/llmgw/llmgw/fleet/apipb"
)

var placedAt = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) *timestamppb.Timestamp { return timestamppb.New(placedAt.Add(-d)) }

// fakePlacement answers with a fleet in which something of everything is wrong.
type fakePlacement struct {
	mu    sync.Mutex
	asked *apipb.WhatIfRequest
}

func leading() *apipb.PlacementStanding {
	return &apipb.PlacementStanding{Cluster: "c", Term: new(uint64(3)), ReplicasKnown: true}
}

func (*fakePlacement) GetStatus(context.Context, *apipb.GetStatusRequest) (*apipb.GetStatusResponse, error) {
	return &apipb.GetStatusResponse{
		At: ago(0), Standing: leading(), Nodes: []*apipb.NamedCount{{Name: "draining", Count: 1}, {Name: "lost", Count: 1}, {Name: "ready", Count: 4}}, WholeFreeNodes: 1,
		Classes: []*apipb.CardClass{{
			Class: "H100", Total: 40, Free: 10, Taken: 20, Unusable: 1, Away: 8, Occupied: 1, MemoryBytes: new(uint64(100)), MemoryUsedBytes: new(uint64(52)),
			UnusableWhy: []*apipb.UnusableCards{{Reason: "xid-79", Count: 1, Nodes: []string{"gpu-7"}}},
		}},
		Fabrics: []*apipb.FabricStatus{
			{Fabric: "east", Members: 3, Contradicted: 1, WholeFree: 1, FreeCards: 10, Holds: []*apipb.NamedCount{{Name: "big", Count: 2}}},
			{Fabric: "west", Members: 2, Weights: []*apipb.FabricWeights{{Model: "big", Nodes: 1, Filers: 2}, {Model: "small", Nodes: 3}}},
		},
		Replicas: []*apipb.ReplicaCount{{State: apipb.ReplicaState_REPLICA_STATE_READY, Count: 2}, {State: apipb.ReplicaState_REPLICA_STATE_LOST, Count: 1}},
		Models: []*apipb.PlacedModel{
			{Name: "big", Wanted: 2, Ready: 2, IdleSeconds: 7200, Scaling: &apipb.PlacedScaling{
				State: apipb.ModelStanding_MODEL_STANDING_SERVING, Floor: 1, Max: 4, Why: "1 are 95 % full, for 30s", Since: ago(5 * time.Minute), Load: new(0.62),
				AskedSeconds: 7200, LoadSeconds: 1200, IdleTimeoutSeconds: 900, Thrashed: 3, Queued: 2, Prewarm: "@daily",
			}},
			{Name: "huge", Wanted: 1, IdleSeconds: -1, Unplaced: "no fabric holds all 3 ranks"},
			{
				Name: "small", Wanted: 1, Lost: 1, IdleSeconds: -1, Unplaced: "0 of 4 nodes fit", CouldEver: true, Failures: 2, Failure: "out of memory",
				NextTry: ago(-40 * time.Second),
			},
		},
		Troubled: []*apipb.TroubledReplica{
			{Replica: "small-a", Model: "small", State: apipb.ReplicaState_REPLICA_STATE_LOST, Since: ago(3 * time.Minute), Reason: "node gpu-9 is lost"},
			{Replica: "big-b", Model: "big", State: apipb.ReplicaState_REPLICA_STATE_READY, Since: ago(time.Hour), Held: "node gpu-8 is lost", Leaving: "node gpu-8 is drained"},
		},
		SetAside: []*apipb.SetAsideModel{{Name: "odd", Why: []string{"its name is taken"}}},
		Strays: []*apipb.StrayShard{
			{Node: "gpu-2", Since: ago(2 * time.Minute), Held: "routers have requests there", Status: &apipb.NodeShard{Replica: "old-x", State: "ready"}},
			{Node: "gpu-3", Since: ago(time.Minute), Status: &apipb.NodeShard{Replica: "old-x", Rank: 1, State: "stopping"}},
		},
		Certificates: []*apipb.CertificateExpiry{{Use: "agent_listener", Name: "cp-1", NotAfter: ago(-20 * 24 * time.Hour)}},
	}, nil
}

func (*fakePlacement) ListReplicas(context.Context, *apipb.ListReplicasRequest) (*apipb.ListReplicasResponse, error) {
	return &apipb.ListReplicasResponse{At: ago(0), Standing: leading(), Replicas: []*apipb.Replica{
		{
			Id: "big-a", Model: "big", State: apipb.ReplicaState_REPLICA_STATE_READY, Since: ago(time.Hour), Fabric: "east", Address: "10.0.0.1:20000",
			IdleSeconds: 0, InFlight: new(uint32(2)), Shards: []*apipb.ReplicaShard{
				{Node: "gpu-1", Cards: []string{"GPU-11111111-1111", "GPU-11111111-2222"}, Status: &apipb.NodeShard{State: "ready", Since: ago(time.Hour), Running: new(uint32(2)), Waiting: new(uint32(0))}},
				{Node: "gpu-2", Cards: []string{"GPU-3"}, Status: &apipb.NodeShard{State: "ready", Since: ago(time.Hour)}},
			},
		},
		{
			Id: "small-a", Model: "small", State: apipb.ReplicaState_REPLICA_STATE_FAILED, Since: ago(3 * time.Second), Reason: "shard 0 on node gpu-3 failed", IdleSeconds: -1,
			Shards: []*apipb.ReplicaShard{{Node: "gpu-3", Status: &apipb.NodeShard{State: "failed", Reason: "out of memory", Advice: "lower memory_ratio", Lines: []string{"CUDA error"}}}, {Node: "gpu-4"}},
		},
	}}, nil
}

func (*fakePlacement) ExplainPlacement(_ context.Context, req *apipb.ExplainPlacementRequest) (*apipb.ExplainPlacementResponse, error) {
	if req.GetModel() != "big" {
		return nil, api.NotFound(errors.New("there is no such model"))
	}
	shards := []*apipb.PlacementShard{{Node: "gpu-1", Cards: []string{"a", "b"}}, {Node: "gpu-2", Cards: []string{"a", "b"}}}
	return &apipb.ExplainPlacementResponse{
		At: ago(0), Standing: leading(), Model: &apipb.PlacedModel{Name: "big", Wanted: 2, Ready: 1},
		Need: &apipb.ReplicaNeed{Engine: "vllm", Ranks: []*apipb.RankNeed{{Cards: 2, Ports: 3}, {Cards: 2, Ports: 3}}, Classes: []string{"H100"}, Memory: &apipb.MemoryNeed{
			Source: apipb.MemorySource_MEMORY_SOURCE_LEARNED, Why: "learned: replicas were seen to use it", HostBytes: new(uint64(3 << 20)), Looking: true,
			Weights: &apipb.WeightsSeen{Format: "gguf", Architecture: "llama", Bytes: 15 << 30, Files: 2, Node: "gpu-1", Path: "/models/big", Nodes: 3, OtherNodes: 1},
			Classes: []*apipb.ClassMemory{
				{
					Class: "H100", Source: apipb.MemorySource_MEMORY_SOURCE_LEARNED, CardBytes: new(uint64(80 << 30)), NeedBytes: new(uint64(30 << 30)),
					EstimateBytes: new(uint64(33 << 30)), PeakBytes: new(uint64(30 << 30)), Bytes: new(uint64(30 << 30)), OffRatio: new(0.1), Why: "measured: the most",
					Parts: []*apipb.MemoryPart{{Name: "weights", Bytes: new(uint64(29 << 30)), How: "15.00 GiB of tensors"}, {Name: "kv cache", How: "not studied"}},
				},
				{Class: "L4", CardBytes: new(uint64(24 << 30)), Never: "it needs 30 GiB", Parts: []*apipb.MemoryPart{{Name: "weights", Bytes: new(uint64(0))}, {Name: "kv cache"}}},
				{Class: "Odd", Why: "neither measured nor estimated", Parts: []*apipb.MemoryPart{{Name: "weights"}, {Name: "kv cache"}}},
			},
		}},
		Replicas: []*apipb.ExplainedReplica{{
			Replica: "big-a", State: apipb.ReplicaState_REPLICA_STATE_READY, Shards: shards, Same: true,
			Today: &apipb.PlacementDecision{Placed: true, Why: "it is the only fabric", Shards: shards},
		}},
		Next: &apipb.PlacementDecision{
			Why: "no fabric holds both ranks", CouldEver: true, Others: []string{"gpu-5"},
			Fabrics:  []*apipb.FabricStanding{{Fabric: "west", Short: 1, Text: "fabric west: 1 node short"}},
			Rejected: []*apipb.NodeRejection{{Node: "gpu-3", Reasons: []*apipb.RejectionReason{{Kind: "draining", Text: "an operator drains it"}, {Kind: "cards-short", Text: "needs 2 cards"}}}},
		},
	}, nil
}

func (f *fakePlacement) WhatIf(_ context.Context, req *apipb.WhatIfRequest) (*apipb.WhatIfResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = req
	to := &apipb.PlacementDecision{Placed: true, Fabric: "west", Shards: []*apipb.PlacementShard{{Node: "gpu-5", Cards: []string{"a", "b"}}}}
	return &apipb.WhatIfResponse{
		At: ago(0), Standing: leading(), Warnings: []string{"something is odd"},
		Replicas: []*apipb.WhatIfReplica{
			{Replica: "big-a", Model: "big", Fate: apipb.ReplicaFate_REPLICA_FATE_MOVES, Why: "node gpu-1 is drained", From: []*apipb.PlacementShard{{Node: "gpu-1"}}, Decision: to},
			{Replica: "big-b", Model: "big", Fate: apipb.ReplicaFate_REPLICA_FATE_STAYS},
			{
				Replica: "huge-a", Model: "huge", Fate: apipb.ReplicaFate_REPLICA_FATE_NO_PLACE, Why: "node gpu-1 is drained", From: []*apipb.PlacementShard{{Node: "gpu-1"}},
				Decision: &apipb.PlacementDecision{Why: "no fabric holds all 3 ranks", Fabrics: []*apipb.FabricStanding{{Text: "fabric west: 1 node short"}}},
			},
		},
		New:    []*apipb.WhatIfNew{{Model: "small", Before: "0 of 4 nodes fit", Decision: to}},
		Before: &apipb.PlacementCapacity{Classes: []*apipb.CardClass{{Class: "H100", Free: 4, Total: 8}}, Fabrics: []*apipb.FabricStatus{{Fabric: "west", WholeFree: 2, Members: 2}}},
		After:  &apipb.PlacementCapacity{Classes: []*apipb.CardClass{{Class: "H100", Free: 2, Total: 8}}, Fabrics: []*apipb.FabricStatus{{Fabric: "west", WholeFree: 1, Members: 2}}},
	}, nil
}

// placed runs llmgw ctl against a fake.
func placed(t *testing.T, f api.Placement, args ...string) (code int, out, errs string) {
	t.Helper()
	mux := http.NewServeMux()
	for _, path := range api.Paths() {
		mux.Handle(path, api.NewHandler(api.Deps{Placement: f}))
	}
	s := httptest.NewServer(mux)
	defer s.Close()
	var stdout, stderr strings.Builder
	code = Main(t.Context(), append(append([]string{"ctl"}, args...), "--admin", s.URL), Streams{Out: &stdout, Err: &stderr})
	return code, stdout.String(), stderr.String()
}

func TestCtlPlacement(t *testing.T) {
	tests := []struct {
		args []string
		want []string
	}{
		{[]string{"status"}, []string{
			"cluster c: this control plane gives orders, in term 3\n", "nodes: 1 lost, 4 ready; of these 1 draining\n",
			"CLASS  CARDS                       TAKEN  FREE  UNUSABLE  AWAY  OCCUPIED  MEMORY USED\n",
			"H100   [#########ox----.....]  40  20     10    1         8     1         52%\n",
			"FABRIC  NODES              WHOLE FREE  FREE CARDS  HOLDS  WEIGHTS OF\n",
			"east    3, 1 contradicted  1           10          2 big  -\n",
			"west    2                  0           0           -      big (1 node, 2 filers), small (3 nodes)\n",
			"free cards elsewhere are no capacity for it", "replicas: 2 ready, 1 lost\nmodels: 1 of 3 have all replicas that are wanted\n",
			"\nH100: 1 unusable, xid-79 (gpu-7)", "\nhuge has no place, not even on empty nodes: no fabric holds all 3 ranks",
			"\nsmall has no place: 0 of 4 nodes fit", "\nsmall failed 2 times in a row: out of memory; the next start is tried in 40s",
			"\nreplica small-a of small is lost for 3m: node gpu-9 is lost",
			"\nreplica big-b of big is ready for 1h0m: it would be taken down, but works all the same: node gpu-8 is lost; it is to be replaced: node gpu-8 is drained",
			"\nbig: nobody has asked for it for 2h0m", "\nodd is set aside: its name is taken",
			"\nnode gpu-2 has shard 0 of old-x, which no replica on record knows, for 2m: it is ready, gets no requests, and ends when it has none left: routers have requests there",
			"\nnode gpu-3 has shard 1 of old-x, which no replica on record knows, for 1m: it is stopping, gets no requests, and is being ended",
			"\ncertificate cp-1 (agent_listener) expires in 20d, on 2026-03-22",
		}},
		{[]string{"models"}, []string{
			"MODEL  STATE    WANTED  OF   READY  COMING  LEAVING  LOST  ASLEEP  FULL  WAITING  IDLE  NEXT TRY\n",
			"big    serving  2       1-4  2      0       0        0     0       62%   2        2h0m  -\n",
			"\nbig was loaded again 3 times within 10m of making room for another model: more is asked for than the cards hold\n",
			"\nbig: a load takes 20m, and it is stopped after 15m without use; raise scaling.idle_timeout\n",
			"small  -        1       -    0      0       0        1     0       -     0        -     40s\n", "\nhuge has no place",
		}},
		{[]string{"replicas"}, []string{
			"big-a    big    ready   1h0m  east    10.0.0.1:20000  2          0s\n", "small-a  small  failed  3s    -       -               -          -\n",
			"big-a/0    gpu-1  2      ready         1h0m  2        0\n", "big-a/1    gpu-2  GPU-3  ready         1h0m  -        -\n",
			"small-a/1  gpu-4  -      not reported  -     -        -\n",
			"\nsmall-a: shard 0 on node gpu-3 failed", "\nsmall-a/0 on gpu-3: out of memory; lower memory_ratio", "\n  | CUDA error",
		}},
		{[]string{"replicas", "--json"}, []string{`"idle_seconds":-1`, `"idle_seconds":0`}},
		{[]string{"explain-placement", "big"}, []string{
			"big: 2 wanted, 1 ready,", "one replica needs 2 nodes with 2 cards and 3 ports; all in one fabric; as much free on each card as is told below, by class; cards that are H100; the engine vllm\n",
			"\nmemory: learned: replicas were seen to use it\nweights: gguf, llama, 15.00 GiB in 2 files, at /models/big on gpu-1 and 2 nodes more; others of that name are on 1 node, and the largest count\n",
			"weights: nodes are looking, and not all have answered\nof its machine's own memory a rank takes 3.0 MiB, as estimated\n",
			"CARDS  SIZE       WEIGHTS    KV CACHE  SUM        ESTIMATE   PEAK       OFF   PLANNED\n",
			"H100   80.00 GiB  29.00 GiB  -         30.00 GiB  33.00 GiB  30.00 GiB  +10%  30.00 GiB\n",
			"L4     24.00 GiB  0          -         -          -          -          -     never\n", "Odd    -          -          -         -          -          -          -     whole card\n",
			"  H100: measured: the most\n  L4: none can ever hold it: it needs 30 GiB\n", "  weights: 15.00 GiB of tensors\n  kv cache: not studied\n",
			"big-a is ready on gpu-1 (2 cards), gpu-2 (2 cards)\n  asked again as things are now, it would go there: it is the only fabric\n",
			"one more has no place: no fabric holds both ranks\n", "fabric west: 1 node short\n", "not taken, and would do: gpu-5\n",
			"gpu-3  draining     an operator drains it\n       cards-short  needs 2 cards\n",
		}},
		{[]string{"what-if", "--drain", "gpu-1"}, []string{
			"note: something is odd\n", "big-a   moves", "from gpu-1  to gpu-5 (2 cards) in west  node gpu-1 is drained\n", "huge-a  finds no place",
			"small   is missing, finds a place that it has not now", "1 of 3 replicas stay as they are\n",
			"huge-a: no fabric holds all 3 ranks\n  fabric west: 1 node short\n", "H100: 4 free of 8 cards, then 2 of 8\n", "fabric west: 2 whole free nodes of 2, then 1 of 2\n",
		}},
	}
	for _, tt := range tests {
		t.Run(strings.Join(tt.args, " "), func(t *testing.T) {
			code, out, errs := placed(t, new(fakePlacement), tt.args...)
			if code != 0 || errs != "" {
				t.Fatalf("exit code %d, %s", code, errs)
			}
			for _, want := range tt.want {
				if !strings.Contains(strings.ReplaceAll(out, ": ", ":"), strings.ReplaceAll(want, ": ", ":")) {
					t.Errorf("it lacks %q:\n%s", want, out)
				}
			}
		})
	}
}

func TestCtlWhatIfAsks(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	f := new(fakePlacement)
	node := file("gpu-7.json", `{"node":{"id":"gpu-7","labels":{"zone":"a"},"engines":[{"engine":"vllm"},{"engine":"sglang","problem":"gone"}],"later":1},"inventory":{"gpus":[]}}`)
	bare := file("bare.json", `{"gpus":[{"index":0}]}`)
	model := file("m.yaml", "name: m\n")
	code, _, errs := placed(t, f, "what-if", "--drain", "a", "--drain", "b", "--remove-node", "c", "--add-node", node, "--add-node", "twin="+bare, "--add-model", model)
	if code != 0 || f.asked == nil {
		t.Fatalf("exit code %d, %s", code, errs)
	}
	add := f.asked.GetAddNodes()
	if strings.Join(f.asked.GetDrain(), " ") != "a b" || strings.Join(f.asked.GetRemove(), " ") != "c" || f.asked.GetAddModels() != "name: m\n" || len(add) != 2 {
		t.Fatalf("asked %v", f.asked)
	}
	if add[0].GetId() != "gpu-7" || add[0].GetLabels()["zone"] != "a" || strings.Join(add[0].GetEngines(), " ") != "vllm" || add[0].GetInventory() == nil {
		t.Errorf("the node of ctl nodes: %v", add[0])
	}
	if add[1].GetId() != "twin" || len(add[1].GetEngines()) != 0 || add[1].GetInventory().GetFields()["gpus"] == nil {
		t.Errorf("the inventory: %v", add[1])
	}
	for _, tt := range []struct {
		args []string
		want string
	}{
		{nil, "nothing is changed"},
		{[]string{"--add-node", file("x.json", "{}")}, "neither node nor gpus or cpu"},
		{[]string{"--add-node", file("y.json", "nodes:")}, "want the JSON of llmgw ctl nodes"},
		{[]string{"--add-node", file("z.json", `{"node":{"id":"z"}}`)}, "it has no inventory"},
		{[]string{"--add-node", filepath.Join(dir, "nope")}, "no such file"},
	} {
		if code, out, errs := placed(t, f, append([]string{"what-if"}, tt.args...)...); code != 1 || out != "" || !strings.Contains(errs, tt.want) {
			t.Errorf("%q: exit code %d, %q, %q; want %q", tt.args, code, out, errs, tt.want)
		}
	}
	if code, _, errs := placed(t, f, "explain-placement", "nope"); code != 1 || errs != "llmgw: ctl explain-placement: there is no such model\n" {
		t.Errorf("exit code %d, %q", code, errs)
	}
	if code, _, errs := placed(t, nil, "status"); code != 1 || !strings.Contains(errs, "no control plane") {
		t.Errorf("no control plane: exit code %d, %q", code, errs)
	}
}

// An answer that is followed is printed every two seconds; what fails in between is
// told, and asked again.
func TestRepeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun, asked := time.Now(), 0
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ask := func(context.Context) (*apipb.ListReplicasResponse, error) {
			asked++
			switch {
			case asked == 2:
				return nil, errors.New("the server begins anew")
			case asked == 4:
				cancel()
			}
			return new(apipb.ListReplicasResponse), nil
		}
		text := func(w io.Writer, _ *apipb.ListReplicasResponse) error {
			_, err := io.WriteString(w, "x\n")
			return err
		}
		var out, errs strings.Builder
		streams := Streams{Out: &out, Err: &errs}
		if err := repeat(ctx, &watchFlags{Watch: true}, streams, ask, text); err != nil {
			t.Error(err)
		}
		if took := time.Since(begun); asked != 4 || took != 6*time.Second || out.String() != "x\nx\n" || errs.String() != "llmgw: the server begins anew\n" {
			t.Errorf("asked %d times in %v: %q, %q", asked, took, out.String(), errs.String())
		}
		failing := func(context.Context) (*apipb.ListReplicasResponse, error) { return nil, errors.New("away") }
		if err := repeat(t.Context(), &watchFlags{Watch: true}, streams, failing, text); err == nil || err.Error() != "away" {
			t.Errorf("the first time: %v", err)
		}
	})
}
