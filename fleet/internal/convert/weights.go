package convert

import (
	"math"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/fleetpb"
	"github.com/llmgw/llmgw/storage/weights"
)

// WeightsToWire converts what weights say of themselves, but for the names of their
// files.
func WeightsToWire(f *weights.Facts) *fleetpb.WeightsFacts {
	out := &fleetpb.WeightsFacts{
		Format: string(f.Format), Architecture: f.Architecture, TensorBytes: f.TensorBytes, EmbeddingBytes: f.EmbeddingBytes,
		OutputBytes: f.OutputBytes, OtherBytes: f.OtherBytes, SpareBytes: f.SpareBytes,
		Hidden: optIntToWire(f.Hidden), Vocabulary: optIntToWire(f.Vocabulary), Heads: optIntToWire(f.Heads),
		FeedForward: optIntToWire(f.FeedForward), Experts: optIntToWire(f.Experts), ExpertsUsed: optIntToWire(f.ExpertsUsed),
		ContextTokens: optIntToWire(f.ContextTokens), Dtype: f.DType, Quantization: f.Quantization,
		Types: each(f.Types, func(t weights.TypeBytes) *fleetpb.WeightsType {
			return &fleetpb.WeightsType{Type: t.Type, Tensors: int64(t.Tensors), Bytes: t.Bytes}
		}),
	}
	for i, l := range f.Layers {
		if i > 0 && l == f.Layers[i-1] {
			out.Layers[len(out.GetLayers())-1].Count++
			continue
		}
		out.Layers = append(out.Layers, &fleetpb.WeightsLayer{
			Count: 1, Bytes: l.Bytes, ExpertBytes: l.ExpertBytes, Cache: string(l.Cache.Kind), Heads: int64(l.Cache.Heads),
			KeyLength: int64(l.Cache.KeyLength), ValueLength: int64(l.Cache.ValueLength), WindowTokens: int64(l.Cache.WindowTokens),
		})
	}
	return out
}

// mostLayers bounds the layers of a model, and so what a few bytes can unfold to.
const mostLayers = 1 << 12

// WeightsFromWire converts what weights say of themselves. Numbers that no weights
// have are errors. That there are files is a fact of its own: there is one without a
// name, of that size.
func WeightsFromWire(m *fleetpb.WeightsFacts, bytes int64) (*weights.Facts, error) {
	out := &weights.Facts{
		Format: weights.Format(m.GetFormat()), Architecture: m.GetArchitecture(), TensorBytes: m.GetTensorBytes(),
		EmbeddingBytes: m.GetEmbeddingBytes(), OutputBytes: m.GetOutputBytes(), OtherBytes: m.GetOtherBytes(), SpareBytes: m.GetSpareBytes(),
		DType: m.GetDtype(), Quantization: m.GetQuantization(),
		Files: []weights.File{{Bytes: bytes}},
	}
	for _, one := range []struct {
		field string
		from  *int64
		to    *engines.Opt[int]
	}{
		{"hidden", m.Hidden, &out.Hidden},
		{"vocabulary", m.Vocabulary, &out.Vocabulary},
		{"heads", m.Heads, &out.Heads},
		{"feed_forward", m.FeedForward, &out.FeedForward},
		{"experts", m.Experts, &out.Experts},
		{"experts_used", m.ExpertsUsed, &out.ExpertsUsed},
		{"context_tokens", m.ContextTokens, &out.ContextTokens},
	} {
		if one.from == nil {
			continue
		}
		if *one.from < 0 || *one.from > math.MaxInt32 {
			return nil, faulty("weights."+one.field, "%d; want 0 to %d", *one.from, math.MaxInt32)
		}
		*one.to = optIntFromWire(one.from)
	}
	for _, t := range m.GetTypes() {
		out.Types = append(out.Types, weights.TypeBytes{Type: t.GetType(), Tensors: int(t.GetTensors()), Bytes: t.GetBytes()})
	}
	for _, l := range m.GetLayers() {
		layer, err := layerFromWire(l)
		if err != nil {
			return nil, err
		}
		if l.GetCount() == 0 || int(l.GetCount()) > mostLayers-len(out.Layers) {
			return nil, faulty("weights.layers", "%d of a kind after %d; want at most %d in all", l.GetCount(), len(out.Layers), mostLayers)
		}
		for range l.GetCount() {
			out.Layers = append(out.Layers, layer)
		}
	}
	return out, nil
}

func layerFromWire(l *fleetpb.WeightsLayer) (weights.Layer, error) {
	out := weights.Layer{Bytes: l.GetBytes(), ExpertBytes: l.GetExpertBytes()}
	switch kind := weights.CacheKind(l.GetCache()); kind {
	case weights.CacheHeads, weights.CacheLatent, weights.CacheNone:
		out.Cache.Kind = kind
	default: // of a version that knows more: what it keeps is not known here
		return out, nil
	}
	for _, one := range []struct {
		field string
		from  int64
		to    *int
	}{
		{"heads", l.GetHeads(), &out.Cache.Heads},
		{"key_length", l.GetKeyLength(), &out.Cache.KeyLength},
		{"value_length", l.GetValueLength(), &out.Cache.ValueLength},
		{"window_tokens", l.GetWindowTokens(), &out.Cache.WindowTokens},
	} {
		if one.from < 0 || one.from > math.MaxInt32 {
			return out, faulty("weights.layers."+one.field, "%d; want 0 to %d", one.from, math.MaxInt32)
		}
		*one.to = int(one.from)
	}
	return out, nil
}
