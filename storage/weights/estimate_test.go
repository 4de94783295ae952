package weights_test

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/storage/weights"
)

const (
	mib = 1 << 20
	gib = 1 << 30
)

func read(t testing.TB, d disk, name string) weights.Facts {
	t.Helper()
	f, err := weights.Read(d, name)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// mibs returns bytes in MiB; -1: not known.
func mibs(b engines.Opt[uint64]) float64 {
	n, ok := b.Get()
	if !ok {
		return -1
	}
	return float64(n) / mib
}

func unknownCard() engines.Opt[uint64]     { return engines.Opt[uint64]{} }
func card(gibs uint64) engines.Opt[uint64] { return engines.Known(gibs * gib) }

// What a token takes at 16 bits is published for these models.
func TestTokenBytes(t *testing.T) {
	for _, test := range []struct {
		name  string
		shape shape
		want  uint64
	}{
		{"Llama-3-8B", llama8B, 131_072},
		{"Llama-3-70B", llama70B, 327_680},
		{"Qwen2.5-32B", qwen32B, 262_144},
	} {
		t.Run(test.name, func(t *testing.T) {
			directory := read(t, test.shape.directory(t, "BF16"), "model")
			file := read(t, disk{"model.gguf": test.shape.gguf(12).file()}, "model.gguf")
			for _, f := range []weights.Facts{directory, file} {
				m := weights.Estimate(f, engines.Profile{Engine: engines.VLLM}, unknownCard())
				if !m.TokenBytes.Is(test.want) {
					t.Errorf("%s: a token takes %v, want %d", f.Format, m.TokenBytes, test.want)
				}
				m = weights.Estimate(f, engines.Profile{Engine: engines.VLLM, KVCacheDType: "fp8"}, unknownCard())
				if !m.TokenBytes.Is(test.want / 2) {
					t.Errorf("%s: at 8 bits a token takes %v, want %d", f.Format, m.TokenBytes, test.want/2)
				}
			}
		})
	}
}

// Sizes that engines wrote into their logs.
func TestLoggedSizes(t *testing.T) {
	llama := read(t, llama8B.directory(t, "BF16"), "model")
	llama70 := read(t, llama70B.directory(t, "BF16"), "model")
	random := read(t, disk{"m.gguf": shape{12, 512, 1408, 8, 4, 64, 557, 8192, false}.gguf(1).file()}, "m.gguf")
	cpu := func(running int, cache string) engines.Profile {
		return engines.Profile{Engine: engines.LlamaCPP, CPU: true, ContextTokens: 2048, MaxRunning: running, KVCacheDType: cache}
	}
	lite := weights.Facts{Hidden: engines.Known(2048), Vocabulary: engines.Known(102400), Heads: engines.Known(16), FeedForward: engines.Known(1408)}
	for range 27 {
		lite.Layers = append(lite.Layers, weights.Layer{Cache: weights.Cache{Kind: weights.CacheHeads, Heads: 16, KeyLength: 192, ValueLength: 128}})
	}
	qwen06 := shape{28, 1024, 3072, 16, 8, 128, 151936, 40960, true}
	for _, test := range []struct {
		name    string
		facts   weights.Facts
		profile engines.Profile
		card    engines.Opt[uint64]
		part    func(weights.Memory) weights.Part
		logged  float64 // MiB
		off     float64 // how much off the estimate may be, relative
	}{
		// vLLM 0.6, H100: "model weights take 14.96GiB", with two cards 7.48GiB.
		{"vLLM, weights of Llama-3-8B", llama, engines.Profile{Engine: engines.VLLM}, card(79), weightsOf, 14.96 * 1024, 0.001},
		{"the same over two cards", llama, engines.Profile{Engine: engines.VLLM, TensorParallel: 2}, card(79), weightsOf, 7.48 * 1024, 0.001},
		// The same: "PyTorch activation peak memory 1.26GiB", for 256 requests.
		{"vLLM, activations for 256 requests", llama, engines.Profile{Engine: engines.VLLM, MaxRunning: 256}, card(79), activationsOf, 1.26 * 1024, 0.05},
		// llm-d-planner, H100, vLLM in 2025 with 1,024 requests: 4.76, 4.84, 5.56 GiB.
		{"vLLM, activations for 1,024 requests", llama, engines.Profile{Engine: engines.VLLM}, card(79), activationsOf, 4.76 * 1024, 0.05},
		{"of Llama-3-70B over two cards", llama70, engines.Profile{Engine: engines.VLLM, TensorParallel: 2}, card(79), activationsOf, 4.84 * 1024, 0.05},
		{"of Qwen3-0.6B", read(t, qwen06.directory(t, "BF16"), "model"), engines.Profile{Engine: engines.VLLM}, card(79), activationsOf, 5.56 * 1024, 0.05},
		// llama.cpp: "CUDA0 compute buffer size = 258.50 MiB", "KV buffer size = 64.00
		// MiB" for 512 tokens.
		{"llama.cpp, computing with Llama-3-8B", read(t, disk{"m.gguf": llama8B.gguf(12).file()}, "m.gguf"),
			engines.Profile{Engine: engines.LlamaCPP, ContextTokens: 512, MaxRunning: 1}, unknownCard(), activationsOf, 258.5, 0},
		{"its cache", read(t, disk{"m.gguf": llama8B.gguf(12).file()}, "m.gguf"),
			engines.Profile{Engine: engines.LlamaCPP, ContextTokens: 512, MaxRunning: 1}, unknownCard(), kvOf, 64, 0},
		// llama-server b10434 without cards, for a model with random weights:
		// "CPU_Mapped model buffer size = 68.64 MiB", "CPU KV buffer size = 96.00 MiB",
		// "CPU compute buffer size = 14.26 MiB"; for one request and a cache of type
		// q8_0 "KV buffer size = 12.75 MiB" and "compute buffer size = 13.29 MiB".
		{"llama.cpp without cards, weights", random, cpu(4, ""), unknownCard(), weightsOf, 68.64, 0.001},
		{"its cache", random, cpu(4, ""), unknownCard(), kvOf, 96, 0},
		{"its computing", random, cpu(4, ""), unknownCard(), activationsOf, 14.26, 0.06},
		{"its smaller cache", random, cpu(1, "q8_0"), unknownCard(), kvOf, 12.75, 0},
		{"its computing", random, cpu(1, "q8_0"), unknownCard(), activationsOf, 13.29, 0.06},
		// With an RTX 3090, of DeepSeek-V2-Lite as it was converted at first: "KV 8640,
		// compute 2376" MiB for 32,768 tokens (ollama#5136).
		{"llama.cpp, computing with DeepSeek-V2-Lite", lite, engines.Profile{Engine: engines.LlamaCPP, ContextTokens: 32768, MaxRunning: 1},
			unknownCard(), activationsOf, 2376, 0.06},
		{"its cache", lite, engines.Profile{Engine: engines.LlamaCPP, ContextTokens: 32768, MaxRunning: 1}, unknownCard(), kvOf, 8640, 0},
		// With another, of Qwen2.5-3B: 300.75 MiB, and 144.00 MiB for 4,096 tokens.
		{"llama.cpp, computing with Qwen2.5-3B", read(t, disk{"m.gguf": qwen3B.gguf(12).file()}, "m.gguf"),
			engines.Profile{Engine: engines.LlamaCPP, ContextTokens: 4096, MaxRunning: 1}, unknownCard(), activationsOf, 300.75, 0},
		{"its cache", read(t, disk{"m.gguf": qwen3B.gguf(12).file()}, "m.gguf"),
			engines.Profile{Engine: engines.LlamaCPP, ContextTokens: 4096, MaxRunning: 1}, unknownCard(), kvOf, 144, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			part := test.part(weights.Estimate(test.facts, test.profile, test.card))
			bytes, ok := part.Bytes.Get()
			if got := float64(bytes) / mib; !ok || got < test.logged*(1-test.off) || got > test.logged*(1+test.off) {
				t.Errorf("estimated %.2f MiB, logged %.2f; %s", got, test.logged, part.How)
			}
		})
	}
}

func weightsOf(m weights.Memory) weights.Part     { return m.Weights }
func activationsOf(m weights.Memory) weights.Part { return m.Activations }
func kvOf(m weights.Memory) weights.Part          { return m.KV }

// llama.cpp wrote "CPU buffer size = 281.81 MiB" of the model above: the table of
// tokens stays with the processors.
func TestTableOfTokensStaysOnHost(t *testing.T) {
	f := read(t, disk{"m.gguf": llama8B.gguf(12).file()}, "m.gguf")
	p := engines.Profile{Engine: engines.LlamaCPP, ContextTokens: 512, MaxRunning: 1}
	m := weights.Estimate(f, p, unknownCard())
	if f.EmbeddingBytes*100/mib != 28181 {
		t.Errorf("the table has %d bytes, want 281.81 MiB", f.EmbeddingBytes)
	}
	if want := f.TensorBytes - f.EmbeddingBytes; !m.Weights.Bytes.Is(want) {
		t.Errorf("the card has %v of weights, want %d, all but the table", m.Weights.Bytes, want)
	}
	if got := m.HostBytes.Or(0); got < f.EmbeddingBytes || got > f.EmbeddingBytes+gib {
		t.Errorf("the machine has %d, want the table and little more", got)
	}

	p.CPU = true
	m = weights.Estimate(f, p, unknownCard())
	if !m.Weights.Bytes.Is(f.TensorBytes) || m.Cards != 0 || m.HostBytes != m.NeedBytes || m.ClaimBytes != (engines.Opt[uint64]{}) {
		t.Errorf("without cards: %+v, want all tensors in the machine's memory and nothing claimed of a card", m)
	}
}

func TestSpread(t *testing.T) {
	f := read(t, llama8B.directory(t, "BF16"), "model")
	file := read(t, disk{"m.gguf": llama8B.gguf(30).file()}, "m.gguf")
	layer := f.Layers[0].Bytes
	table := f.EmbeddingBytes
	for _, test := range []struct {
		name    string
		facts   weights.Facts
		profile engines.Profile
		weights uint64
		kv      uint64 // of 8,192 tokens
	}{
		{"one card", f, engines.Profile{Engine: engines.VLLM}, f.TensorBytes, gib},
		{"tensor parallel", f, engines.Profile{Engine: engines.VLLM, TensorParallel: 4}, (f.TensorBytes-f.OtherBytes)/4 + f.OtherBytes, gib / 4},
		{"more cards than heads", f, engines.Profile{Engine: engines.VLLM, TensorParallel: 16}, (f.TensorBytes-f.OtherBytes)/16 + f.OtherBytes, gib / 8},
		{"pipeline", f, engines.Profile{Engine: engines.VLLM, PipelineParallel: 2}, 16*layer + table + f.OtherBytes, gib / 2},
		{"uneven pipeline", f, engines.Profile{Engine: engines.VLLM, PipelineParallel: 3}, 11*layer + table + f.OtherBytes, gib / 32 * 11},
		{"whole copies", f, engines.Profile{Engine: engines.SGLang, Mode: "dp", DataParallel: 2}, f.TensorBytes, gib},
		{"llama.cpp by layers", file, engines.Profile{Engine: engines.LlamaCPP, PipelineParallel: 2}, 16*file.Layers[0].Bytes + file.OutputBytes + file.OtherBytes, gib / 2 * 4},
		{"llama.cpp by rows", file, engines.Profile{Engine: engines.LlamaCPP, TensorParallel: 2},
			(file.TensorBytes-file.EmbeddingBytes-file.OtherBytes)/2 + file.OtherBytes, gib / 2 * 4},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.profile.ContextTokens = 8192 // llama.cpp's four requests share the cache
			m := weights.Estimate(test.facts, test.profile, unknownCard())
			if !m.Weights.Bytes.Is(test.weights) || !m.KV.Bytes.Is(test.kv) {
				t.Errorf("weights %v and cache %v, want %d and %d; %s; %s", m.Weights.Bytes, m.KV.Bytes, test.weights, test.kv, m.Weights.How, m.KV.How)
			}
		})
	}
}

func TestTiedTable(t *testing.T) {
	f := read(t, qwen3B.directory(t, "BF16"), "model")
	one := weights.Estimate(f, engines.Profile{Engine: engines.VLLM}, unknownCard())
	if !one.Weights.Bytes.Is(f.TensorBytes) {
		t.Errorf("on one card the table is there once: %v of %d", one.Weights.Bytes, f.TensorBytes)
	}
	two := weights.Estimate(f, engines.Profile{Engine: engines.VLLM, PipelineParallel: 2}, unknownCard())
	if want := 18*f.Layers[0].Bytes + f.EmbeddingBytes + f.OtherBytes; !two.Weights.Bytes.Is(want) {
		t.Errorf("over two cards both ends have it: %v, want %d", two.Weights.Bytes, want)
	}
}

func TestExperts(t *testing.T) {
	f := weights.Facts{
		Format: weights.Safetensors, Files: []weights.File{{Name: "model.safetensors", Bytes: 1000 * mib}},
		TensorBytes: 100 * mib,
		Layers:      []weights.Layer{{Bytes: 100 * mib, ExpertBytes: 80 * mib, Cache: weights.Cache{Kind: weights.CacheNone}}},
	}
	for _, test := range []struct {
		name    string
		profile engines.Profile
		want    uint64
	}{
		{"tensor parallel", engines.Profile{Engine: engines.VLLM, TensorParallel: 4}, 25 * mib},
		{"vLLM shares them among copies", engines.Profile{Engine: engines.VLLM, Mode: "dp", DataParallel: 8}, 30 * mib},
		{"SGLang's copies do not", engines.Profile{Engine: engines.SGLang, Mode: "dp", DataParallel: 8}, 100 * mib},
		{"but with attention alone copied", engines.Profile{Engine: engines.SGLang, Mode: "dp-attention", DataParallel: 8}, 30 * mib},
	} {
		t.Run(test.name, func(t *testing.T) {
			if m := weights.Estimate(f, test.profile, unknownCard()); !m.Weights.Bytes.Is(test.want) {
				t.Errorf("got %v, want %d; %s", m.Weights.Bytes, test.want, m.Weights.How)
			}
		})
	}
}

// A window, a latent vector and layers without attention take less.
func TestCaches(t *testing.T) {
	layers := func(c weights.Cache) []weights.Layer {
		return []weights.Layer{{Cache: weights.Cache{Kind: weights.CacheHeads, Heads: 8, KeyLength: 128, ValueLength: 128}}, {Cache: c}}
	}
	const full = 8 * 256 * 2 // bytes of a token in one layer
	for _, test := range []struct {
		name    string
		cache   weights.Cache
		profile engines.Profile
		want    uint64
	}{
		{"a window, one request", weights.Cache{Kind: weights.CacheHeads, Heads: 8, KeyLength: 128, ValueLength: 128, WindowTokens: 1024},
			engines.Profile{Engine: engines.LlamaCPP, ContextTokens: 32768, MaxRunning: 1}, full * (32768 + 1536)},
		{"a window, four requests", weights.Cache{Kind: weights.CacheHeads, Heads: 8, KeyLength: 128, ValueLength: 128, WindowTokens: 1024},
			engines.Profile{Engine: engines.LlamaCPP, ContextTokens: 32768, MaxRunning: 4}, full * (4*32768 + 4608)},
		{"a window in pages", weights.Cache{Kind: weights.CacheHeads, Heads: 8, KeyLength: 128, ValueLength: 128, WindowTokens: 1024},
			engines.Profile{Engine: engines.VLLM, ContextTokens: 32768}, full * (32768 + 9216 + 16)},
		{"a window longer than the context", weights.Cache{Kind: weights.CacheHeads, Heads: 8, KeyLength: 128, ValueLength: 128, WindowTokens: 1024},
			engines.Profile{Engine: engines.VLLM, ContextTokens: 4096}, full * 2 * 4096},
		{"a latent vector, whole on each card", weights.Cache{Kind: weights.CacheLatent, Heads: 1, KeyLength: 576},
			engines.Profile{Engine: engines.VLLM, ContextTokens: 4096, TensorParallel: 8}, (full/8 + 576*2) * 4096},
		{"no attention", weights.Cache{Kind: weights.CacheNone}, engines.Profile{Engine: engines.VLLM, ContextTokens: 4096}, full * 4096},
		{"at 8.5 bits", weights.Cache{Kind: weights.CacheNone},
			engines.Profile{Engine: engines.LlamaCPP, ContextTokens: 4096, MaxRunning: 1, KVCacheDType: "q8_0"}, full / 2 * 34 / 32 * 4096},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := weights.Estimate(weights.Facts{Layers: layers(test.cache)}, test.profile, unknownCard())
			if !m.KV.Bytes.Is(test.want) {
				t.Errorf("got %v, want %d; %s", m.KV.Bytes, test.want, m.KV.How)
			}
		})
	}
}

// What is not known stays so, and says why.
func TestUnknown(t *testing.T) {
	whole := read(t, llama8B.directory(t, "BF16"), "model")
	bare := read(t, disk{"m.safetensors": safetensors(t, llama8B.tensors("BF16")...)}, "m.safetensors")
	for _, test := range []struct {
		name    string
		facts   weights.Facts
		profile engines.Profile
		part    func(weights.Memory) weights.Part
		how     string
	}{
		{"no weights", weights.Facts{}, engines.Profile{Engine: engines.VLLM}, weightsOf, "no weights"},
		{"no configuration", bare, engines.Profile{Engine: engines.VLLM, ContextTokens: 8192}, kvOf, "layer 0"},
		{"no width", bare, engines.Profile{Engine: engines.VLLM}, activationsOf, "how wide"},
		{"a type of cache", whole, engines.Profile{Engine: engines.VLLM, KVCacheDType: "int3"}, kvOf, `"int3"`},
		{"an engine", whole, engines.Profile{Engine: engines.LMDeploy}, kvOf, "lmdeploy"},
		{"more than can be counted", whole, engines.Profile{Engine: engines.LlamaCPP, ContextTokens: 1 << 30, MaxRunning: 1 << 30}, kvOf, "counted"},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := weights.Estimate(test.facts, test.profile, card(80))
			if part := test.part(m); part.Bytes != (engines.Opt[uint64]{}) || !strings.Contains(part.How, test.how) {
				t.Errorf("got %v: %q, want an unknown because of %q", part.Bytes, part.How, test.how)
			}
			if m.NeedBytes != (engines.Opt[uint64]{}) {
				t.Errorf("the sum is %v although a part is not known", m.NeedBytes)
			}
		})
	}
	if m := weights.Estimate(bare, engines.Profile{Engine: engines.VLLM}, unknownCard()); !m.Weights.Bytes.Is(bare.TensorBytes) {
		t.Errorf("without a configuration weights are %v, want %d", m.Weights.Bytes, bare.TensorBytes)
	}
}

func TestClaim(t *testing.T) {
	f := read(t, llama8B.directory(t, "BF16"), "model")
	p := func(e engines.Name) engines.Profile {
		return engines.Profile{Engine: e, ContextTokens: 8192, MaxRunning: 32}
	}
	for _, test := range []struct {
		name    string
		profile engines.Profile
		card    engines.Opt[uint64]
		shares  bool
		claim   float64 // MiB; -1: not known
	}{
		{"vLLM takes its part of the card", p(engines.VLLM), card(80), true, 0.92 * 80 * 1024},
		{"as the profile says", engines.Profile{Engine: engines.VLLM, MemoryRatio: 0.5}, card(80), true, 40960},
		{"which is not known without the card", p(engines.VLLM), unknownCard(), true, -1},
		{"SGLang all of it, in two parts", p(engines.SGLang), card(80), true, 81920},
		{"llama.cpp what it needs", p(engines.LlamaCPP), card(80), false, 14314.5 + 32768 + 258.5 + 500},
		// Weights without the table, 32 requests, a batch, the context of CUDA.
		{"whatever the card", p(engines.LlamaCPP), unknownCard(), false, 14314.5 + 32768 + 258.5 + 500},
		{"an engine that was not studied", p(engines.LMDeploy), card(80), false, -1},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := weights.Estimate(f, test.profile, test.card)
			if got := mibs(m.ClaimBytes); math.Abs(got-test.claim) > 0.1 || m.Shares != test.shares {
				t.Errorf("claims %.1f MiB (shares: %v), want %.1f (%v)\n%+v", got, m.Shares, test.claim, test.shares, m)
			}
		})
	}
}

func TestCheck(t *testing.T) {
	f := read(t, llama8B.directory(t, "BF16"), "model")
	p := engines.Profile{Engine: engines.VLLM, ContextTokens: 8192, MaxRunning: 32}
	if err := weights.Estimate(f, p, card(24)).Check(); err != nil {
		t.Errorf("Llama-3-8B on 24 GiB: %v", err)
	}
	err := weights.Estimate(f, p, card(16)).Check()
	small, ok := errors.AsType[*weights.TooSmallError](err)
	if !ok || small.RoomBytes >= small.NeedBytes || small.CardBytes != 16*gib || !strings.Contains(err.Error(), "16.00 GiB") {
		t.Errorf("Llama-3-8B on 16 GiB: %v, want a TooSmallError with the figures", err)
	}
	p.TensorParallel = 2
	if err := weights.Estimate(f, p, card(16)).Check(); err != nil {
		t.Errorf("on two of 16 GiB: %v", err)
	}
	if err := weights.Estimate(f, p, unknownCard()).Check(); err != nil {
		t.Errorf("on a card that is not known: %v", err)
	}
}

func TestCompare(t *testing.T) {
	f := read(t, llama8B.directory(t, "BF16"), "model")
	ggml := weights.Estimate(f, engines.Profile{Engine: engines.LlamaCPP, ContextTokens: 8192}, card(80))
	share := weights.Estimate(f, engines.Profile{Engine: engines.VLLM, ContextTokens: 8192}, card(80))
	blank := weights.Estimate(weights.Facts{}, engines.Profile{Engine: engines.LlamaCPP}, card(80))
	none := engines.Opt[weights.Peak]{}
	seen := func(bytes, size uint64) engines.Opt[weights.Peak] {
		return engines.Known(weights.Peak{Bytes: bytes, CardBytes: size})
	}
	for _, test := range []struct {
		name string
		m    weights.Memory
		peak engines.Opt[weights.Peak]
		want engines.Opt[uint64]
		why  string
	}{
		{"nothing measured", ggml, none, ggml.ClaimBytes, "estimated: nothing"},
		{"nothing at all", blank, none, engines.Opt[uint64]{}, "neither"},
		{"measured wins", ggml, seen(20*gib, 24*gib), engines.Known[uint64](20 * gib), "measured"},
		{"over no estimate, too", blank, seen(20*gib, 24*gib), engines.Known[uint64](20 * gib), "measured"},
		{"zero was not measured", ggml, seen(0, 24*gib), ggml.ClaimBytes, "estimated"},
		{"on the same card", share, seen(74*gib, 80*gib-300*mib), engines.Known[uint64](74 * gib), "measured"},
		{"a part of another card", share, seen(22*gib, 24*gib), share.ClaimBytes, "takes a part"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := weights.Compare(test.m, test.peak)
			if c.Bytes != test.want || !strings.Contains(c.Why, test.why) {
				t.Errorf("got %v: %q, want %v because %q", c.Bytes, c.Why, test.want, test.why)
			}
			if p, ok := test.peak.Get(); ok && p.Bytes > 0 && !c.PeakBytes.Is(p.Bytes) {
				t.Errorf("the peak is not shown: %+v", c)
			}
		})
	}
	if c := weights.Compare(ggml, seen(ggml.ClaimBytes.Or(0)/2, 80*gib)); !c.OffRatio.Is(1) {
		t.Errorf("an estimate of twice the peak is off by %v, want 1", c.OffRatio)
	}
}

// Facts and estimates are sent and stored as JSON.
func TestAsJSON(t *testing.T) {
	f := read(t, llama8B.directory(t, "BF16"), "model")
	asJSON(t, f)
	asJSON(t, read(t, disk{"m.gguf": newGGUF("x").u32("x.block_count", 2).file()}, "m.gguf")) // little of it known
	asJSON(t, weights.Estimate(f, engines.Profile{Engine: engines.VLLM}, card(80)))
	asJSON(t, weights.Estimate(weights.Facts{}, engines.Profile{Engine: engines.LMDeploy}, unknownCard()))
}

func asJSON[T any](t *testing.T, want T) {
	t.Helper()
	data, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got T
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, opts(), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%T: (-want +got)\n%s", want, diff)
	}
}
