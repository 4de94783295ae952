package launch_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/internal/launch"
)

func cards(vendor engines.Vendor, indices ...int) []engines.Card {
	var out []engines.Card
	for _, i := range indices {
		out = append(out, engines.Card{Vendor: vendor, Index: i, UUID: "GPU-x"})
	}
	return out
}

func TestTorch(t *testing.T) {
	tests := []struct {
		name  string
		shard engines.Shard
		own   map[string]string
		want  map[string]string
	}{
		{"NVIDIA", engines.Shard{Cards: cards(engines.NVIDIA, 3, 1)}, nil, map[string]string{"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "3,1"}},
		{"AMD", engines.Shard{Cards: cards(engines.AMD, 0, 1)}, nil, map[string]string{"HIP_VISIBLE_DEVICES": "0,1"}},
		{"no cards see none", engines.Shard{}, nil, map[string]string{"CUDA_VISIBLE_DEVICES": "-1", "HIP_VISIBLE_DEVICES": "-1"}},
		{
			"the network", engines.Shard{Cards: cards(engines.AMD, 0), Interface: "eth1", HCAs: []string{"mlx5_0", "mlx5_1"}}, nil,
			map[string]string{"HIP_VISIBLE_DEVICES": "0", "NCCL_SOCKET_IFNAME": "=eth1", "GLOO_SOCKET_IFNAME": "eth1", "NCCL_IB_HCA": "=mlx5_0,mlx5_1"},
		},
		{
			"the profile wins over the adapter, the cards over both",
			engines.Shard{Cards: cards(engines.AMD, 2), Profile: engines.Profile{Model: "/m", Env: map[string]string{"A": "profile", "HF_HUB_OFFLINE": "0", "HIP_VISIBLE_DEVICES": "7"}}},
			map[string]string{"A": "adapter", "B": "adapter"},
			map[string]string{"A": "profile", "B": "adapter", "HF_HUB_OFFLINE": "0", "HIP_VISIBLE_DEVICES": "2"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, unset := launch.Torch(tt.shard, tt.own, "B", "C")
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			for name := range got {
				if slices.Contains(unset, name) {
					t.Errorf("%s is set and unset", name)
				}
			}
			if !slices.Contains(unset, "C") || !slices.Contains(unset, "RAY_ADDRESS") || !slices.IsSorted(unset) {
				t.Errorf("unset: %q", unset)
			}
		})
	}
}
