package cli

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/llmgw/llmgw/fleet/apipb"
)

// troubled is a node with something of everything that a person should look at.
func troubled(now time.Time) *apipb.Node {
	return &apipb.Node{
		Id: "gpu-7", State: apipb.NodeState_NODE_STATE_READY, Since: timestamppb.New(now.Add(-3 * time.Hour)), Heard: timestamppb.New(now.Add(-2 * time.Second)), Connected: true, Address: "10.0.0.7",
		AgentVersion: "v1", Target: apipb.NodeTarget_NODE_TARGET_DRAINED, TargetReason: "fan", HardwareKnown: true, MemoryBytes: new(uint64(512 << 30)),
		Gpus: []*apipb.NodeGPU{
			{Id: "GPU-a", Index: 0, Name: "H100", Usable: true, MemoryBytes: new(uint64(80 << 30)), MemoryUsedBytes: new(uint64(0))},
			{Id: "GPU-b", Index: 1, Name: "H100", Reasons: []string{"xid-79: fell off the bus (excluded)"}},
			{Id: "GPU-c", Index: 2, Name: "H100", Usable: true, Foreign: []*apipb.NodeGPUProcess{{Pid: 4711, Name: "python", MemoryBytes: new(uint64(3 << 30))}}},
		},
		Fabrics: []*apipb.NodeFabric{{Name: "ib-east", Verdict: "contradicted", Reasons: []string{"mlx5_0 port 1 is DOWN"}}, {Name: "ok", Verdict: "confirmed"}},
		Engines: []*apipb.NodeEngine{{Engine: "vllm", Problem: "/opt/vllm is not there"}},
		Shards: []*apipb.NodeShard{
			{Replica: "llama-1", State: "ready", Running: new(uint32(3)), Waiting: new(uint32(0)), Address: "10.0.0.7:20000"},
			{Replica: "llama-2", State: "failed", Reason: "out of memory", Advice: "lower memory_ratio"},
			{Replica: "llama-0", State: "stopped"},
		},
		Warnings: []string{"its clock is 10m0s ahead of this one's\x1b[31m"},
	}
}

func TestWriteNodes(t *testing.T) {
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	quiet := &apipb.Node{Id: "cpu-1", State: apipb.NodeState_NODE_STATE_LOST, Since: timestamppb.New(now.Add(-72 * time.Hour)), Target: apipb.NodeTarget_NODE_TARGET_ACTIVE}
	var out strings.Builder
	if err := writeNodes(&out, &apipb.ListNodesResponse{At: timestamppb.New(now), Nodes: []*apipb.Node{quiet, troubled(now)}}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"NODE   STATE  FOR   TARGET   GPUS       SHARDS        ADDRESS   AGENT\n",
		"cpu-1  lost   3d    active   not known  0             -         -\n",
		"gpu-7  ready  3h0m  drained  2 of 3     1 ready of 2  10.0.0.7  v1\n",
		"\ngpu-7: GPU 1 H100 (GPU-b) is excluded: xid-79: fell off the bus (excluded)",
		"\ngpu-7: GPU 2 H100 (GPU-c) is used by a process that the agent did not start: pid 4711 python, 3.0 GiB",
		"\ngpu-7: fabric ib-east is contradicted: mlx5_0 port 1 is DOWN",
		"\ngpu-7: vllm cannot be launched: /opt/vllm is not there",
		"\ngpu-7: shard llama-2/0 failed: out of memory; lower memory_ratio",
		"\ngpu-7: its clock is 10m0s ahead of this one's\\u001b[31m",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it lacks %q:\n%s", want, out.String())
		}
	}
	for _, other := range []string{"fabric ok", "GPU 0", "cpu-1:", "\x1b"} {
		if strings.Contains(out.String(), other) {
			t.Errorf("it has %q:\n%s", other, out.String())
		}
	}
	out.Reset()
	if err := writeNodes(&out, &apipb.ListNodesResponse{Why: "no term could be begun"}); err != nil ||
		out.String() != "this control plane gives no orders: no term could be begun\nno node has registered yet; start one with llmgw agent -c agent.yaml\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
}

func TestWriteNode(t *testing.T) {
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	inventory, err := structpb.NewStruct(map[string]any{"host": map[string]any{"hostname": "gpu-7"}})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := writeNode(&out, &apipb.GetNodeResponse{At: timestamppb.New(now), Node: troubled(now), Inventory: inventory}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"target   drained; fan\n", "heard    2s ago\n", "memory   512.0 GiB, not known available\n",
		"gpu 0    H100, 0.0 GiB of 80.0 GiB used, usable\n", "gpu 1    H100, not known of not known used, excluded\n",
		"engine   vllm, by the executable that its adapter knows\n", "at 10.0.0.7:20000, 3 running, 0 waiting\n", "\"hostname\"",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it lacks %q:\n%s", want, out.String())
		}
	}
}

// What a store has of a node says nothing of how its cards are now.
func TestWriteNodeNotHeard(t *testing.T) {
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	node := &apipb.Node{
		Id: "gpu-7", State: apipb.NodeState_NODE_STATE_EXPECTED, Since: timestamppb.New(now.Add(-2 * time.Second)), HardwareKnown: true,
		Target:  apipb.NodeTarget_NODE_TARGET_ACTIVE,
		Gpus:    []*apipb.NodeGPU{{Id: "GPU-a", Name: "H100", Reasons: []string{"it was not heard"}}, {Id: "GPU-b", Index: 1, Name: "H100", Reasons: []string{"it was not heard"}}},
		Fabrics: []*apipb.NodeFabric{{Name: "ib-east", Verdict: "unknown"}},
	}
	var list, one strings.Builder
	if err := writeNodes(&list, &apipb.ListNodesResponse{At: timestamppb.New(now), Nodes: []*apipb.Node{node}}); err != nil {
		t.Fatal(err)
	}
	if text := list.String(); !strings.Contains(text, "expected  2s   active  not known of 2  0 ") || strings.Contains(text, "gpu-7:") {
		t.Errorf("the list blames cards that nobody has looked at:\n%s", text)
	}
	if err := writeNode(&one, &apipb.GetNodeResponse{At: timestamppb.New(now), Node: node}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"heard    not since this control plane began\n", "gpu 1    H100, not known of not known used, not known whether usable\n"} {
		if !strings.Contains(one.String(), want) {
			t.Errorf("it lacks %q:\n%s", want, one.String())
		}
	}
}
