package placement_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/placement"
)

// opts compares facts that may be missing.
func opts() cmp.Options {
	return cmp.Options{
		cmp.Comparer(func(a, b engines.Opt[uint64]) bool { return a == b }),
		cmp.Comparer(func(a, b engines.Opt[int]) bool { return a == b }),
	}
}

func TestNodeOf(t *testing.T) {
	foreign := []engines.GPUProcess{{PID: 7, Name: "python", MemoryBytes: engines.Known[uint64](30 << 30)}}
	inv := &engines.Inventory{
		CPU:    engines.CPU{Features: []string{"avx2"}},
		Memory: engines.Memory{TotalBytes: engines.Known[uint64](512 << 30), LimitBytes: engines.Known[uint64](256 << 30)},
		GPUs: []engines.GPU{
			{Index: 0, UUID: "a", Name: "NVIDIA H100", Vendor: engines.NVIDIA, MemoryBytes: engines.Known[uint64](80 << 30), NUMA: engines.Known(0)},
			{Index: 1, UUID: "b", Architecture: "gfx942", Vendor: engines.AMD},
			{Index: 2, UUID: "c", Vendor: engines.AMD},
			{Index: 3, UUID: "d", Name: "NVIDIA H100"},
		},
		Links:   [][]string{{"X", "NV18"}, {"NV18", "X"}},
		Fabrics: []engines.Fabric{{Name: "ib-a"}, {Name: "ib-b"}},
		State: engines.NodeState{
			MemoryAvailableBytes: engines.Known[uint64](200 << 30),
			GPUs: []engines.GPUState{
				{GPU: "a", MemoryFreeBytes: engines.Known[uint64](50 << 30), Foreign: foreign, Health: engines.Health{State: engines.Healthy}},
				{GPU: "b", Health: engines.Health{State: engines.Excluded, Reasons: []engines.HealthReason{{Kind: "xid-79"}, {Kind: "xid-48"}}}},
				{GPU: "c", Health: engines.Health{State: engines.RestartEngine}},
			},
			Fabrics: []engines.FabricState{{Name: "ib-b", Verdict: engines.Contradicted, Reasons: []string{"mlx5_0 is down", "and more"}}},
		},
	}
	want := placement.Node{
		ID:            "n1",
		Fabrics:       []placement.FabricMember{{Name: "ib-a"}, {Name: "ib-b", Verdict: engines.Contradicted, Reason: "mlx5_0 is down"}},
		HostBytes:     engines.Known[uint64](256 << 30),
		HostFreeBytes: engines.Known[uint64](200 << 30),
		CPUFeatures:   []string{"avx2"},
		Cards: []placement.Card{
			{
				ID: "a", Index: 0, Class: "NVIDIA H100", Vendor: engines.NVIDIA, Foreign: foreign, NUMA: engines.Known(0),
				MemoryBytes: engines.Known[uint64](80 << 30), FreeBytes: engines.Known[uint64](50 << 30),
			},
			{ID: "b", Index: 1, Class: "gfx942", Vendor: engines.AMD, Problem: "xid-79"},
			{ID: "c", Index: 2, Class: "amd", Vendor: engines.AMD},
			{ID: "d", Index: 3, Class: "NVIDIA H100", Problem: "its health is not known"},
		},
		Links: [][]string{{"X", "NV18", "", ""}, {"NV18", "X", "", ""}, {"", "", "", ""}, {"", "", "", ""}},
	}
	if diff := cmp.Diff(want, placement.NodeOf("n1", inv), opts()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(placement.Node{ID: "n2", CardsUnknown: true}, placement.NodeOf("n2", nil), opts()); diff != "" {
		t.Errorf("of nothing (-want +got):\n%s", diff)
	}
}

func TestSplitCardsAreTheirInstances(t *testing.T) {
	card := func(index int, uuid string, instances ...string) engines.GPU {
		g := engines.GPU{Index: index, UUID: uuid, Name: "NVIDIA A100", MIG: engines.Known(true), MemoryBytes: engines.Known[uint64](40 << 30)}
		for _, id := range instances {
			g.Instances = append(g.Instances, engines.MIGInstance{UUID: id, Profile: "3g.20gb", MemoryBytes: engines.Known[uint64](20e9)})
		}
		return g
	}
	healthy := engines.Health{State: engines.Healthy}
	inv := &engines.Inventory{
		GPUs:  []engines.GPU{card(0, "a", "a1", "a2"), card(1, "b"), card(2, "c", "c1")},
		Links: [][]string{{"X", "NV4", "SYS"}, {"NV4", "X", "SYS"}, {"SYS", "SYS", "X"}},
		State: engines.NodeState{GPUs: []engines.GPUState{
			{GPU: "a", Health: healthy, MemoryFreeBytes: engines.Known[uint64](39 << 30)},
			{GPU: "b", Health: healthy},
			{GPU: "c", Health: healthy, Foreign: []engines.GPUProcess{{PID: 7}}},
		}},
	}
	const class = "NVIDIA A100 MIG 3g.20gb"
	want := placement.Node{
		ID: "n1",
		Cards: []placement.Card{
			{ID: "a1", Index: 0, Class: class, MemoryBytes: engines.Known[uint64](20e9)},
			{ID: "a2", Index: 0, Class: class, MemoryBytes: engines.Known[uint64](20e9)},
			{ID: "b", Index: 1, Class: "NVIDIA A100", MemoryBytes: engines.Known[uint64](40 << 30), Problem: "it is split into instances (MIG), and has none"},
			{
				ID: "c1", Index: 2, Class: class, MemoryBytes: engines.Known[uint64](20e9),
				Problem: "others use an instance of the card, and which is not known: process 7",
			},
		},
		Links: [][]string{{"X", "X", "NV4", "SYS"}, {"X", "X", "NV4", "SYS"}, {"NV4", "NV4", "X", "SYS"}, {"SYS", "SYS", "SYS", "X"}},
	}
	if diff := cmp.Diff(want, placement.NodeOf("n1", inv), opts()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
