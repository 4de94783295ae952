package launch_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/internal/launch"
)

func TestCards(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		cards []engines.Card
		env   map[string]string
		unset []string
	}{
		{
			"none", nil,
			map[string]string{"CUDA_VISIBLE_DEVICES": "-1", "HIP_VISIBLE_DEVICES": "-1"},
			[]string{"ROCR_VISIBLE_DEVICES"},
		},
		{
			"by number", []engines.Card{{Vendor: engines.NVIDIA, Index: 3}, {Vendor: engines.NVIDIA, Index: 1, UUID: "GPU-b"}},
			map[string]string{"CUDA_VISIBLE_DEVICES": "3,1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"},
			[]string{"HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"},
		},
		{
			"by lasting name", []engines.Card{{Vendor: engines.NVIDIA, Index: 3, UUID: "GPU-a"}, {Vendor: engines.NVIDIA, Index: 1, UUID: "GPU-b"}},
			map[string]string{"CUDA_VISIBLE_DEVICES": "GPU-a,GPU-b", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"},
			[]string{"HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"},
		},
		{
			"AMD", []engines.Card{{Vendor: engines.AMD, Index: 2, UUID: "GPU-x"}},
			map[string]string{"HIP_VISIBLE_DEVICES": "2"},
			[]string{"CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			env, unset := launch.Cards(tt.cards)
			if diff := cmp.Diff(tt.env, env); diff != "" {
				t.Errorf("variables (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.unset, unset); diff != "" {
				t.Errorf("unset (-want +got):\n%s", diff)
			}
		})
	}
}

func TestIgnored(t *testing.T) {
	t.Parallel()
	var fs engines.Faults
	launch.Ignored(&fs, "Toy", engines.Profile{Revision: "main", MaxRunning: 4, DataParallel: 1}, map[string]string{
		"revision": "name another file", "data_parallel": "", "expert_parallel": "",
	})
	want := engines.Faults{{Field: "revision", Problem: "is main, and Toy has nothing like it", Advice: "name another file"}}
	if diff := cmp.Diff(want, fs); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
}
