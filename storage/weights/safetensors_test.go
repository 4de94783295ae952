package weights_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/storage/weights"
)

func TestSafetensorsFacts(t *testing.T) {
	d := llama8B.directory(t, "BF16")
	f := read(t, d, "model")
	if f.Format != weights.Safetensors || f.Architecture != "llama" || f.DType != "bfloat16" || len(f.Layers) != 32 {
		t.Errorf("%+v, want a llama of 32 layers", f)
	}
	// 8,030,261,248 parameters, as published.
	if f.TensorBytes != 2*8_030_261_248 {
		t.Errorf("%d bytes, want 8,030,261,248 parameters of two", f.TensorBytes)
	}
	if want := (weights.Cache{Kind: weights.CacheHeads, Heads: 8, KeyLength: 128, ValueLength: 128}); f.Layers[31].Cache != want {
		t.Errorf("a layer keeps %+v, want %+v", f.Layers[31].Cache, want)
	}
	if !f.ContextTokens.Is(8192) || !f.Vocabulary.Is(128256) || !f.Heads.Is(32) || !f.Hidden.Is(4096) || !f.FeedForward.Is(14336) {
		t.Errorf("%+v", f)
	}
	sum := f.EmbeddingBytes + f.OutputBytes + f.OtherBytes
	for _, l := range f.Layers {
		sum += l.Bytes
	}
	if sum != f.TensorBytes {
		t.Errorf("parts have %d bytes of %d", sum, f.TensorBytes)
	}
	if diff := cmp.Diff(f, read(t, d, "model/model.safetensors"), opts()); diff != "" {
		t.Errorf("the file instead of the directory: %s", diff)
	}
}

func TestSafetensorsIndex(t *testing.T) {
	all := llama8B.tensors("BF16")
	half := len(all) / 2
	var index []string
	for i, x := range all {
		index = append(index, fmt.Sprintf("%q: %q", x.name, map[bool]string{true: "one.safetensors", false: "two.safetensors"}[i < half]))
	}
	d := disk{
		"m/model.safetensors.index.json": whole([]byte(`{"metadata": {"total_size": 1, "x": [[{}]]}, "weight_map": {` + strings.Join(index, ",") + `}}`)),
		"m/one.safetensors":              safetensors(t, all[:half]...),
		"m/two.safetensors":              safetensors(t, all[half:]...),
		"m/consolidated.safetensors":     safetensors(t, all...), // the same again, as some models have it
		"m/config.json":                  llama8B.config(""),
	}
	f := read(t, d, "m")
	if f.TensorBytes != 2*8_030_261_248 || len(f.Files) != 2 {
		t.Errorf("%d bytes in %v, want the two files of the index", f.TensorBytes, f.Files)
	}
	if diff := cmp.Diff(f, read(t, d, "m/model.safetensors.index.json"), opts()); diff != "" {
		t.Errorf("the index instead of the directory: %s", diff)
	}
	delete(d, "m/two.safetensors")
	if e := readFault(t, d, "m", weights.ErrIncomplete); !slices.Equal(e.Missing, []string{"two.safetensors"}) {
		t.Errorf("missing %v, want the second", e.Missing)
	}
	for _, bad := range []string{`{"weight_map": {"a": "../up.safetensors"}}`, `{"weight_map": {"a": "/etc/passwd"}}`, `{"weight_map": {"a": 1}}`, `{"weight_map": []}`, `{}`, `[`} {
		d["m/model.safetensors.index.json"] = whole([]byte(bad))
		readFault(t, d, "m", weights.ErrCorrupt)
	}
}

// What layers keep, by what the configurations of known models look like.
func TestConfigCaches(t *testing.T) {
	heads := func(n, length, window int) weights.Cache {
		return weights.Cache{Kind: weights.CacheHeads, Heads: n, KeyLength: length, ValueLength: length, WindowTokens: window}
	}
	none := weights.Cache{Kind: weights.CacheNone}
	unknown := weights.Cache{}
	for _, test := range []struct {
		name, config string
		want         []weights.Cache
	}{
		{"as many as queries", `"num_hidden_layers": 1, "hidden_size": 512, "num_attention_heads": 8`, []weights.Cache{heads(8, 64, 0)}},
		{"GPT-2's names", `"n_layer": 1, "n_embd": 512, "n_head": 8`, []weights.Cache{heads(8, 64, 0)}},
		{"one for all", `"num_hidden_layers": 1, "hidden_size": 512, "num_attention_heads": 8, "multi_query": true`, []weights.Cache{heads(1, 64, 0)}},
		{"heads for each layer", `"num_hidden_layers": 2, "head_dim": 64, "num_kv_heads": [3, 5]`, []weights.Cache{heads(3, 64, 0), heads(5, 64, 0)}},
		{"within a model that sees", `"model_type": "gemma3", "text_config": {"num_hidden_layers": 1, "head_dim": 256, "num_key_value_heads": 4}`, []weights.Cache{heads(4, 256, 0)}},
		{"layers by name", `"num_hidden_layers": 5, "head_dim": 64, "num_key_value_heads": 8, "sliding_window": 128, "attention_chunk_size": 512,
			"layer_types": ["sliding_attention", "full_attention", "linear_attention", "chunked_attention", "new_attention"]`,
			[]weights.Cache{heads(8, 64, 128), heads(8, 64, 0), none, heads(8, 64, 512), unknown}},
		{"a window that is not used", `"num_hidden_layers": 1, "head_dim": 64, "num_key_value_heads": 8, "sliding_window": 128, "use_sliding_window": false`, []weights.Cache{heads(8, 64, 0)}},
		{"a window in all", `"model_type": "mistral", "num_hidden_layers": 1, "head_dim": 64, "num_key_value_heads": 8, "sliding_window": 4096`, []weights.Cache{heads(8, 64, 4096)}},
		{"none after all", `"model_type": "mistral", "num_hidden_layers": 1, "head_dim": 64, "num_key_value_heads": 8, "sliding_window": null`, []weights.Cache{heads(8, 64, 0)}},
		{"in every other", `"model_type": "gemma2", "num_hidden_layers": 2, "head_dim": 64, "num_key_value_heads": 8, "sliding_window": 4096`, []weights.Cache{heads(8, 64, 4096), heads(8, 64, 0)}},
		{"by a pattern", `"num_hidden_layers": 3, "head_dim": 64, "num_key_value_heads": 8, "sliding_window": 512, "sliding_window_pattern": 3`,
			[]weights.Cache{heads(8, 64, 512), heads(8, 64, 512), heads(8, 64, 0)}},
		{"from one layer on", `"model_type": "qwen2", "num_hidden_layers": 2, "head_dim": 64, "num_key_value_heads": 8, "sliding_window": 512, "use_sliding_window": true, "max_window_layers": 1`,
			[]weights.Cache{heads(8, 64, 0), heads(8, 64, 512)}},
		{"of a model that is not known", `"model_type": "x", "num_hidden_layers": 1, "head_dim": 64, "num_key_value_heads": 8, "sliding_window": 512`, []weights.Cache{heads(8, 64, 0)}},
		{"a latent vector", `"num_hidden_layers": 1, "num_attention_heads": 128, "num_key_value_heads": 128, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "v_head_dim": 128`,
			[]weights.Cache{{Kind: weights.CacheLatent, Heads: 1, KeyLength: 576}}},
		{"every fourth", `"num_hidden_layers": 4, "head_dim": 256, "num_key_value_heads": 2, "full_attention_interval": 4`, []weights.Cache{none, none, none, heads(2, 256, 0)}},
		{"one in a period", `"num_hidden_layers": 3, "head_dim": 64, "num_key_value_heads": 8, "attn_layer_period": 8, "attn_layer_offset": 1`, []weights.Cache{none, heads(8, 64, 0), none}},
		{"by letters", `"num_hidden_layers": 3, "head_dim": 64, "num_key_value_heads": 8, "hybrid_override_pattern": "M*-"`, []weights.Cache{none, heads(8, 64, 0), none}},
		{"shared ones", `"num_hidden_layers": 2, "head_dim": 64, "num_key_value_heads": 8, "num_kv_shared_layers": 1`, []weights.Cache{heads(8, 64, 0), none}},
		{"sees all at once", `"model_type": "xlm-roberta", "num_hidden_layers": 1, "hidden_size": 512, "num_attention_heads": 8`, []weights.Cache{none}},
		{"layouts not understood", `"num_hidden_layers": 1, "head_dim": 64, "num_key_value_heads": 8, "block_configs": [{}]`, []weights.Cache{unknown}},
		{"fields of other types", `"num_hidden_layers": 1, "head_dim": "x", "num_key_value_heads": 1.5, "torch_dtype": 7, "hidden_size": -1`, []weights.Cache{unknown}},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := disk{"m.safetensors": safetensors(t), "config.json": whole([]byte("{" + test.config + "}"))}
			var got []weights.Cache
			for _, l := range read(t, d, "m.safetensors").Layers {
				got = append(got, l.Cache)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestSafetensorsPlaces(t *testing.T) {
	x := func(name string) tensor { return tensor{name, "F8_E4M3", []uint64{64}} }
	f := read(t, disk{
		"m.safetensors": safetensors(t, x("model.layers.0.mlp.experts.7.up_proj.weight"), x("model.layers.0.mlp.shared_experts.up_proj.weight"),
			x("visual.blocks.0.attn.weight"), x("model.vision_tower.layers.9.weight"), x("language_model.model.layers.1.weight"),
			x("transformer.wte.weight"), x("lm_head.weight"), x("model.layers.2.mtp.weight"), x("encoder.layers"), x("layers.x.weight")),
		"config.json": whole([]byte(`{"num_hidden_layers": 2, "moe_intermediate_size": 32, "intermediate_size": 128,
			"num_experts": 8, "num_experts_per_tok": 2, "quantization_config": {"quant_method": "fp8"}}`)),
	}, "m.safetensors")
	layers := []weights.Layer{{Bytes: 128, ExpertBytes: 64}, {Bytes: 64}}
	if diff := cmp.Diff(layers, f.Layers); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	// Eyes, a layer that guesses ahead, and what cannot be told.
	if f.EmbeddingBytes != 64 || f.OutputBytes != 64 || f.OtherBytes != 4*64 || f.SpareBytes != 64 {
		t.Errorf("%+v, want 64, 64, 256 and 64 bytes beside the layers", f)
	}
	if m := weights.Estimate(f, engines.Profile{Engine: engines.VLLM, TensorParallel: 2}, unknownCard()); !m.Weights.Bytes.Is(64/2 + 64/2 + (128+64)/2 + 256) {
		t.Errorf("a card has %v of weights, want half of all but eyes, and nothing of what guesses ahead; %s", m.Weights.Bytes, m.Weights.How)
	}
	if !f.FeedForward.Is(32) || f.Quantization != "fp8" {
		t.Errorf("%+v, want the width of an expert, and fp8", f)
	}
}

// What the engine makes of weights at its start.
func TestLoadedAs(t *testing.T) {
	small := shape{2, 256, 512, 4, 2, 64, 1000, 1024, false}
	wide := read(t, small.directory(t, "F32"), "model")
	half := read(t, small.directory(t, "BF16"), "model")
	layers := half.Layers[0].Bytes + half.Layers[1].Bytes
	for _, test := range []struct {
		name    string
		facts   weights.Facts
		profile engines.Profile
		want    uint64
	}{
		{"32 bits become 16", wide, engines.Profile{Engine: engines.VLLM}, half.TensorBytes},
		{"unless they are asked for", wide, engines.Profile{Engine: engines.VLLM, DType: "float32"}, wide.TensorBytes},
		{"8 bits", half, engines.Profile{Engine: engines.VLLM, Quantization: "fp8"}, half.TensorBytes - layers/2},
		{"4 bits and a half", half, engines.Profile{Engine: engines.VLLM, Quantization: "bitsandbytes"}, half.TensorBytes - layers + layers*9/32},
		{"not known how small", half, engines.Profile{Engine: engines.VLLM, Quantization: "x"}, half.TensorBytes},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := weights.Estimate(test.facts, test.profile, unknownCard())
			if got := m.Weights.Bytes.Or(0); got < test.want || got > test.want+4 { // rounded up by layer
				t.Errorf("got %d, want %d; %s", got, test.want, m.Weights.How)
			}
		})
	}
}
