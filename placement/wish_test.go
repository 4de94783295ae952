package placement_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/placement"
)

func TestClassMatches(t *testing.T) {
	tests := []struct {
		accepted, class string
		want            bool
	}{
		{"H100", "NVIDIA H100 80GB HBM3", true},
		{"h100 80gb", "NVIDIA H100 80GB HBM3", true},
		{"NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB HBM3", true},
		{"A100", "NVIDIA A100-SXM4-80GB", true},
		{"a100 sxm4", "NVIDIA A100-SXM4-80GB", true},
		{"MI300X", "AMD Instinct MI300X", true},
		{"3g.20gb", "NVIDIA A100-SXM4-40GB MIG 3g.20gb", true},
		{"A10", "NVIDIA A100-SXM4-80GB", false},
		{"L40", "NVIDIA L40S", false},
		{"H100 HBM3", "NVIDIA H100 80GB HBM3", false},
		{"NVIDIA H100 80GB HBM3e", "NVIDIA H100 80GB HBM3", false},
		{"H100", "", false},
		{"", "NVIDIA H100 80GB HBM3", false},
		{"-", "NVIDIA H100 80GB HBM3", false},
	}
	for _, tt := range tests {
		if got := placement.ClassMatches(tt.accepted, tt.class); got != tt.want {
			t.Errorf("ClassMatches(%q, %q) = %v, want %v", tt.accepted, tt.class, got, tt.want)
		}
	}
}

func TestWishSaysSomething(t *testing.T) {
	rank := func(r placement.RankNeed) placement.Wish {
		return placement.Wish{Model: "m", Need: placement.Need{Ranks: []placement.RankNeed{r}}}
	}
	if err := rank(placement.RankNeed{}).Validate(); err != nil {
		t.Errorf("one rank that takes nothing: %v, want no error", err)
	}
	for name, w := range map[string]placement.Wish{
		"no ranks": {Model: "m"},
		"cards":    rank(placement.RankNeed{Cards: -1}),
		"ports":    rank(placement.RankNeed{Ports: -1}),
	} {
		if err := w.Validate(); !errors.Is(err, placement.ErrWish) {
			t.Errorf("%s: %v, want %v", name, err, placement.ErrWish)
		}
	}
}

func TestNeedOf(t *testing.T) {
	shape := engines.Shape{Ranks: []engines.RankShape{
		{Cards: 4, ServesHTTP: true, Ports: []engines.PortNeed{{Name: engines.PortHTTP, Count: 1}, {Name: "rpc", Count: 8}}},
		{Cards: 4},
	}}
	got := placement.NeedOf(engines.Profile{Engine: engines.VLLM}, shape)
	want := placement.Need{Engine: engines.VLLM, Ranks: []placement.RankNeed{{Cards: 4, Ports: 9}, {Cards: 4}}}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b engines.Opt[uint64]) bool { return a == b })); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got.Cards() != 8 {
		t.Errorf("%d cards, want 8", got.Cards())
	}
}
