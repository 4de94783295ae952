package convert_test

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/fleetpb"
	"github.com/llmgw/llmgw/fleet/internal/convert"
	"github.com/llmgw/llmgw/storage/weights"
	"github.com/llmgw/llmgw/storage/weights/weightstest"
)

// What weights say of themselves arrives as it is, but for the names of their files,
// and layers that are alike travel once.
func TestWeights(t *testing.T) {
	dir := t.TempDir()
	if err := weightstest.Tiny().Write(filepath.Join(dir, "m.gguf")); err != nil {
		t.Fatal(err)
	}
	read, err := weights.Read(os.DirFS(dir), "m.gguf")
	if err != nil {
		t.Fatal(err)
	}
	mixed := read
	mixed.Layers = []weights.Layer{
		{Bytes: 7, ExpertBytes: 3, Cache: weights.Cache{Kind: weights.CacheLatent, Heads: 1, KeyLength: 576}},
		{Bytes: 7, Cache: weights.Cache{Kind: weights.CacheHeads, Heads: 8, KeyLength: 128, ValueLength: 64, WindowTokens: 4096}},
		{Bytes: 7, Cache: weights.Cache{Kind: weights.CacheHeads, Heads: 8, KeyLength: 128, ValueLength: 64, WindowTokens: 4096}},
		{Bytes: 7, Cache: weights.Cache{Kind: weights.CacheNone}},
		{},
	}
	mixed.Hidden, mixed.Experts, mixed.ExpertsUsed = engines.Opt[int]{}, engines.Known(64), engines.Known(0)
	mixed.SpareBytes, mixed.DType, mixed.Quantization = 5, "bfloat16", "fp8"
	for name, f := range map[string]weights.Facts{"read": read, "mixed": mixed, "nothing": {}} {
		wire := convert.WeightsToWire(&f)
		data, err := proto.Marshal(wire)
		if err != nil {
			t.Fatal(err)
		}
		var arrived fleetpb.WeightsFacts
		if err := proto.Unmarshal(data, &arrived); err != nil {
			t.Fatal(err)
		}
		got, err := convert.WeightsFromWire(&arrived, 99)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		want := f
		want.Files = []weights.File{{Bytes: 99}}
		if diff := cmp.Diff(&want, got, cmp.Comparer(func(a, b engines.Opt[int]) bool { return a == b })); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if n := len(convert.WeightsToWire(&mixed).GetLayers()); n != 4 {
		t.Errorf("%d kinds of layers in a row; want 4", n)
	}
}

// Numbers that no weights have are refused, above all those by which a few bytes
// would become much memory.
func TestWeightsThatCannotBe(t *testing.T) {
	many := func(n int) (out []*fleetpb.WeightsLayer) {
		for range n {
			out = append(out, &fleetpb.WeightsLayer{Count: 1 << 11})
		}
		return out
	}
	for want, m := range map[string]*fleetpb.WeightsFacts{
		"weights.hidden":              {Hidden: new(int64(-1))},
		"weights.vocabulary":          {Vocabulary: new(int64(math.MaxInt64))},
		"weights.layers":              {Layers: many(3)},
		"weights.layers: 0 of a kind": {Layers: []*fleetpb.WeightsLayer{{}}},
		"4294967295 of a kind":        {Layers: []*fleetpb.WeightsLayer{{Count: math.MaxUint32}}},
		"weights.layers.heads":        {Layers: []*fleetpb.WeightsLayer{{Count: 1, Cache: "heads", Heads: -1}}},
		"weights.layers.value_length": {Layers: []*fleetpb.WeightsLayer{{Count: 1, Cache: "heads", ValueLength: 1 << 40}}},
	} {
		if _, err := convert.WeightsFromWire(m, 0); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
	// A cache of a kind that is not known here is one of which nothing is known.
	f, err := convert.WeightsFromWire(&fleetpb.WeightsFacts{Layers: []*fleetpb.WeightsLayer{{Count: 1, Cache: "new", Heads: -1}}}, 0)
	if err != nil || f.Layers[0].Cache != (weights.Cache{}) {
		t.Errorf("%+v, %v", f, err)
	}
}
