package weights_test

import (
	"errors"
	"testing"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/storage/weights"
)

// mostSize is how large a fuzzed file says it is at most: what is behind its
// beginning is zeros, which are read, too.
const mostSize = 1 << 20

// fuzzed holds what Read promises of any file against what it did. size is what can
// be read.
func fuzzed(t *testing.T, d disk, name string, size int) {
	var (
		f   weights.Facts
		err error
	)
	n := allocated(func() { f, err = weights.Read(d, name) })
	if most := uint64(1<<20 + 16*size); n > most {
		t.Errorf("%d bytes were allocated for %d", n, size)
	}
	if err != nil {
		if _, ok := errors.AsType[*weights.ReadError](err); !ok {
			t.Errorf("%T: %v, want a ReadError", err, err)
		}
		return
	}
	sum := f.EmbeddingBytes + f.OutputBytes + f.OtherBytes + f.SpareBytes
	types := uint64(0)
	for _, l := range f.Layers {
		sum += l.Bytes
		if l.ExpertBytes > l.Bytes {
			t.Errorf("a layer of %d bytes has experts of %d", l.Bytes, l.ExpertBytes)
		}
	}
	for _, x := range f.Types {
		types += x.Bytes
	}
	if sum != f.TensorBytes || types != f.TensorBytes {
		t.Errorf("parts have %d bytes and types %d, of %d", sum, types, f.TensorBytes)
	}
	for _, e := range []engines.Name{engines.VLLM, engines.SGLang, engines.LlamaCPP, engines.TEI} {
		for _, ways := range []int{1, 3} {
			m := weights.Estimate(f, engines.Profile{Engine: e, TensorParallel: ways, PipelineParallel: ways}, card(80))
			for _, part := range m.Parts() {
				if part.How == "" {
					t.Errorf("%s: the %s do not say how they were computed", e, part.Name)
				}
			}
		}
	}
}

func FuzzGGUF(f *testing.F) {
	small := shape{2, 256, 512, 4, 2, 64, 100, 1024, false}
	for _, s := range []sparse{
		small.gguf(12).file(), small.gguf(30).file(), newGGUF("mamba").u32s("mamba.block_count", 1).file(),
		newGGUF("x").u32("x.block_count", 2).u32("x.attention.sliding_window", 8).u32s("x.attention.sliding_window_pattern", 1, 0).tensor("blk.1.a", 77, 32, 8).file(),
	} {
		f.Add(s.begin, s.size)
	}
	f.Fuzz(func(t *testing.T, begin []byte, size int64) {
		fuzzed(t, disk{"a.gguf": {begin, min(max(size, 0), mostSize)}}, "a.gguf", mostSize)
	})
}

func FuzzSafetensors(f *testing.F) {
	small := shape{2, 256, 512, 4, 2, 64, 100, 1024, false}
	s := safetensors(f, small.tensors("BF16")...)
	f.Add(s.begin, s.size, small.config("").begin)
	f.Add(s.begin, s.size, small.config(`, "layer_types": ["sliding_attention", "full_attention"], "sliding_window": 4`).begin)
	f.Add(s.begin, s.size, []byte(`{"text_config": {"n_layer": 2, "kv_lora_rank": 512, "qk_rope_head_dim": 64}, "hybrid_override_pattern": "M*"}`))
	f.Fuzz(func(t *testing.T, begin []byte, size int64, config []byte) {
		d := disk{"a.safetensors": {begin, min(max(size, 0), mostSize)}, "config.json": whole(config)}
		fuzzed(t, d, "a.safetensors", mostSize+len(config))
	})
}
