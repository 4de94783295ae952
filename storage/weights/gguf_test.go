package weights_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/storage/weights"
)

func opts() cmp.Option {
	return cmp.Options{
		cmp.Comparer(func(a, b engines.Opt[int]) bool { return a == b }),
		cmp.Comparer(func(a, b engines.Opt[uint64]) bool { return a == b }),
		cmp.Comparer(func(a, b engines.Opt[float64]) bool { return a == b }),
	}
}

func TestGGUFFacts(t *testing.T) {
	g := newGGUF("llama").text("general.name", "tiny").
		u32("llama.block_count", 2).u32("llama.embedding_length", 64).u32("llama.feed_forward_length", 128).
		u32("llama.context_length", 8192).u32("llama.attention.head_count", 4).u32("llama.attention.head_count_kv", 2).
		raw("llama.rope.freq_base", 6, float32(10000)).raw("tokenizer.ggml.add_bos_token", 7, true).
		words("tokenizer.ggml.tokens", 300).
		tensor("token_embd.weight", 8, 300*64/32*34, 64, 300). // Q8_0
		tensor("output.weight", 1, 300*64*2, 64, 300).         // F16
		tensor("output_norm.weight", 0, 64*4, 64).
		tensor("blk.0.attn_q.weight", 8, 64*64/32*34, 64, 64).
		tensor("blk.1.ffn_up.weight", 8, 64*128/32*34, 64, 128)
	d := disk{"a.gguf": g.file()}
	cache := weights.Cache{Kind: weights.CacheHeads, Heads: 2, KeyLength: 16, ValueLength: 16}
	want := weights.Facts{
		Format: weights.GGUF, Architecture: "llama",
		Files: []weights.File{{Name: "a.gguf", Bytes: d["a.gguf"].size}},
		Types: []weights.TypeBytes{
			{Type: "F16", Tensors: 1, Bytes: 38400}, {Type: "Q8_0", Tensors: 3, Bytes: 20400 + 4352 + 8704}, {Type: "F32", Tensors: 1, Bytes: 256},
		},
		TensorBytes: 72112, EmbeddingBytes: 20400, OutputBytes: 38400, OtherBytes: 256,
		Layers: []weights.Layer{{Bytes: 4352, Cache: cache}, {Bytes: 8704, Cache: cache}},
		Hidden: engines.Known(64), Vocabulary: engines.Known(300), Heads: engines.Known(4), FeedForward: engines.Known(128),
		ContextTokens: engines.Known(8192), Quantization: "F16",
	}
	for _, name := range []string{"a.gguf", "."} {
		if diff := cmp.Diff(want, read(t, d, name), opts()); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
	}
	if got := want.Bytes(); got != d["a.gguf"].size {
		t.Errorf("files have %d bytes, want %d", got, d["a.gguf"].size)
	}
	// Ollama names files by their content.
	blob := read(t, disk{"blobs/sha256-0123": g.file()}, "blobs/sha256-0123")
	if blob.TensorBytes != want.TensorBytes {
		t.Errorf("a file without a suffix: %+v", blob)
	}
}

func TestGGUFSet(t *testing.T) {
	part := func(first bool, i int) sparse {
		g := newGGUF("")
		if first {
			g = newGGUF("llama").u32("llama.block_count", 3).u32("llama.attention.head_count", 4).u32("llama.embedding_length", 64).
				raw("split.tensors.count", 5, int32(3))
		}
		return g.raw("split.no", 2, uint16(i)).raw("split.count", 2, uint16(3)).
			tensor(fmt.Sprintf("blk.%d.attn_q.weight", i), 0, 64*64*4, 64, 64).file()
	}
	d := disk{"m/big-00001-of-00003.gguf": part(true, 0), "m/big-00002-of-00003.gguf": part(false, 1), "m/big-00003-of-00003.gguf": part(false, 2)}
	for _, name := range []string{"m", "m/big-00001-of-00003.gguf", "m/big-00003-of-00003.gguf"} {
		f := read(t, d, name)
		if f.TensorBytes != 3*64*64*4 || len(f.Files) != 3 || len(f.Layers) != 3 || f.Layers[2].Bytes != 64*64*4 || f.Architecture != "llama" {
			t.Errorf("%s: %+v, want all three files", name, f)
		}
	}

	delete(d, "m/big-00002-of-00003.gguf")
	e := readFault(t, d, "m", weights.ErrIncomplete)
	if !slices.Equal(e.Missing, []string{"big-00002-of-00003.gguf"}) {
		t.Errorf("missing %v, want the second file", e.Missing)
	}
	// Renamed: the header still says that there are others.
	readFault(t, disk{"one.gguf": part(true, 0)}, "one.gguf", weights.ErrIncomplete)
	// A file of another model among them.
	other := newGGUF("").tensor("blk.1.attn_q.weight", 0, 4, 1).tensor("blk.1.attn_k.weight", 0, 4, 1).file()
	d["m/big-00002-of-00003.gguf"] = other
	readFault(t, d, "m", weights.ErrCorrupt)
}

// What layers keep, by what the keys of known architectures look like.
func TestGGUFCaches(t *testing.T) {
	heads := func(n, length, window int) weights.Cache {
		return weights.Cache{Kind: weights.CacheHeads, Heads: n, KeyLength: length, ValueLength: length, WindowTokens: window}
	}
	none := weights.Cache{Kind: weights.CacheNone}
	base := func(arch string, blocks uint32) *gguf {
		return newGGUF(arch).u32(arch+".block_count", blocks).u32(arch+".embedding_length", 512).u32(arch+".attention.head_count", 8)
	}
	for _, test := range []struct {
		name string
		g    *gguf
		want []weights.Cache
	}{
		{"as many as queries", base("llama", 1), []weights.Cache{heads(8, 64, 0)}},
		{"heads for each layer", base("openelm", 3).u32s("openelm.attention.head_count_kv", 4, 2, 0), []weights.Cache{heads(4, 64, 0), heads(2, 64, 0), none}},
		{"lengths for each layer", base("x", 2).u32s("x.attention.key_length", 32, 128).u32s("x.attention.value_length", 32, 128),
			[]weights.Cache{heads(8, 32, 0), heads(8, 128, 0)}},
		{"every sixth looks at all", base("gemma3", 7).u32("gemma3.attention.head_count_kv", 1).u32("gemma3.attention.key_length", 256).
			u32("gemma3.attention.value_length", 256).u32("gemma3.attention.sliding_window", 1024),
			[]weights.Cache{heads(1, 256, 1024), heads(1, 256, 1024), heads(1, 256, 1024), heads(1, 256, 1024), heads(1, 256, 1024), heads(1, 256, 0), heads(1, 256, 1024)}},
		{"a pattern as a number", base("x", 3).u32("x.attention.sliding_window", 128).u32("x.attention.sliding_window_pattern", 3),
			[]weights.Cache{heads(8, 64, 128), heads(8, 64, 128), heads(8, 64, 0)}},
		{"a pattern as a list", base("x", 3).u32("x.attention.sliding_window", 128).u32s("x.attention.sliding_window_pattern", 1, 0, 1).
			u32("x.attention.key_length_swa", 32).u32("x.attention.value_length_swa", 32),
			[]weights.Cache{heads(8, 32, 128), heads(8, 64, 0), heads(8, 32, 128)}},
		{"a window of no known layers", base("x", 1).u32("x.attention.sliding_window", 128), []weights.Cache{heads(8, 64, 0)}},
		{"a latent vector", base("deepseek2", 1).u32("deepseek2.attention.head_count_kv", 1).u32("deepseek2.attention.key_length", 576).
			u32("deepseek2.attention.value_length", 512).u32("deepseek2.attention.key_length_mla", 192).u32("deepseek2.attention.value_length_mla", 128),
			[]weights.Cache{{Kind: weights.CacheLatent, Heads: 1, KeyLength: 576}}},
		{"converted before that was known", base("deepseek2", 1).u32("deepseek2.attention.head_count_kv", 128).u32("deepseek2.attention.key_length", 192).
			u32("deepseek2.attention.value_length", 128), []weights.Cache{{Kind: weights.CacheHeads, Heads: 128, KeyLength: 192, ValueLength: 128}}},
		{"linear attention but every fourth", base("qwen3next", 4).u32("qwen3next.full_attention_interval", 4), []weights.Cache{none, none, none, heads(8, 64, 0)}},
		{"layers that guess ahead", base("glm4moe", 2).u32("glm4moe.nextn_predict_layers", 1), []weights.Cache{heads(8, 64, 0), none}},
		{"layers that use another's", base("gemma4", 2).u32("gemma4.attention.shared_kv_layers", 1), []weights.Cache{heads(8, 64, 0), none}},
		{"no attention", base("mamba", 1), []weights.Cache{none}},
		{"sees all at once", base("bert", 1).raw("bert.attention.causal", 7, false), []weights.Cache{none}},
		{"nothing known", newGGUF("x").u32("x.block_count", 1), []weights.Cache{{}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := read(t, disk{"m.gguf": test.g.file()}, "m.gguf")
			var got []weights.Cache
			for _, l := range f.Layers {
				got = append(got, l.Cache)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestGGUFMixture(t *testing.T) {
	g := newGGUF("qwen3moe").u32("qwen3moe.block_count", 1).u32("qwen3moe.feed_forward_length", 6144).u32("qwen3moe.expert_feed_forward_length", 768).
		u32("qwen3moe.expert_count", 128).u32("qwen3moe.expert_used_count", 8).
		tensor("blk.0.ffn_gate_exps.weight", 0, 4096, 32, 32).tensor("blk.0.ffn_gate_inp.weight", 0, 128, 32).
		tensor("blk.0.ffn_up_shexp.weight", 0, 256, 64)
	f := read(t, disk{"m.gguf": g.file()}, "m.gguf")
	if l := f.Layers[0]; l.Bytes != 4096+128+256 || l.ExpertBytes != 4096 {
		t.Errorf("layer %+v, want 4,096 bytes of experts, without the router and the shared one", l)
	}
	if !f.Mixture() || !f.FeedForward.Is(768) || !f.Experts.Is(128) || !f.ExpertsUsed.Is(8) {
		t.Errorf("%+v, want a mixture of 128 experts, 768 wide", f)
	}
}

// The next quantization will have a number that is not known here.
func TestGGUFUnknownType(t *testing.T) {
	g := newGGUF("llama").tensor("blk.0.a.weight", 999, 1000, 64, 2).tensor("blk.0.b.weight", 0, 256, 64).tensor("blk.1.c.weight", 999, 512, 64)
	f := read(t, disk{"m.gguf": g.file()}, "m.gguf")
	if f.Layers[0].Bytes != 1024+256 || f.Layers[1].Bytes != 512 || f.Types[0].Type != "type 999" {
		t.Errorf("%+v, want the bytes up to the next tensor", f)
	}
}
