package weights_test

import (
	"math"
	"strings"
	"testing"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/storage/weights"
)

// What engines choose by the card they find, as their sources have it.
func TestDefaultsByCard(t *testing.T) {
	f := read(t, llama8B.directory(t, "BF16"), "model")
	choosing := func(requests float64) float64 { return requests * 128256 * 40 / mib }
	for _, test := range []struct {
		name        string
		profile     engines.Profile
		card        engines.Opt[uint64]
		activations float64 // MiB
		share       float64 // 0: not known
	}{
		// vLLM: 256 requests below 70 GiB, 1,024 above; from 160 GiB on, more tokens.
		{"vLLM, 24 GiB", engines.Profile{Engine: engines.VLLM}, card(24), choosing(256), 0.92},
		{"vLLM, 80 GiB", engines.Profile{Engine: engines.VLLM}, card(80), choosing(1024), 0.92},
		{"vLLM, no card known", engines.Profile{Engine: engines.VLLM}, unknownCard(), choosing(1024), 0.92},
		{"vLLM, one request on 180 GiB", engines.Profile{Engine: engines.VLLM, MaxRunning: 1}, card(180), 16384 * 2 * (2*4096 + 3*14336) / mib, 0.92},
		{"the same on 24 GiB", engines.Profile{Engine: engines.VLLM, MaxRunning: 1}, card(24), 2048 * 2 * (2*4096 + 3*14336) / mib, 0.92},
		{"vLLM, as told", engines.Profile{Engine: engines.VLLM, MemoryRatio: 0.8}, card(24), choosing(256), 0.8},
		// SGLang: 512 + 1.5 x chunk + 2 x graphs + cards ÷ 8 x 1024 MiB.
		{"SGLang, 16 GiB", engines.Profile{Engine: engines.SGLang}, card(16), 512 + 3072 + 16 + 128, 1 - 3728.0/(16*1024)},
		{"SGLang, 24 GiB", engines.Profile{Engine: engines.SGLang}, card(24), 512 + 3072 + 48 + 128, 1 - 3760.0/(24*1024)},
		{"four of them", engines.Profile{Engine: engines.SGLang, TensorParallel: 4}, card(24), 512 + 3072 + 160 + 512, 1 - 4256.0/(24*1024)},
		{"SGLang, 40 GiB", engines.Profile{Engine: engines.SGLang}, card(40), 512 + 6144 + 64 + 128, 1 - 6848.0/(40*1024)},
		{"SGLang, eight of 80 GiB", engines.Profile{Engine: engines.SGLang, TensorParallel: 8}, card(80), 512 + 12288 + 1024 + 1024, 1 - 14848.0/(80*1024)},
		{"SGLang, 192 GiB", engines.Profile{Engine: engines.SGLang}, card(192), 512 + 24576 + 1024 + 128, 1 - 26240.0/(192*1024)},
		{"SGLang, no card known", engines.Profile{Engine: engines.SGLang}, unknownCard(), 512 + 12288 + 512 + 128, 0},
		{"SGLang, as told", engines.Profile{Engine: engines.SGLang, MemoryRatio: 0.7}, unknownCard(), 512 + 12288 + 512 + 128, 0.7},
		{"a card smaller than that", engines.Profile{Engine: engines.SGLang}, card(2), 512 + 3072 + 16 + 128, 0},
		// llama.cpp: one text in one batch, without a number for each token.
		{"llama.cpp, embedding", engines.Profile{Engine: engines.LlamaCPP, Task: engines.TaskEmbed, ContextTokens: 8192}, unknownCard(),
			8192 * 4 * (4096 + 2*14336) / mib, 0},
		{"TEI", engines.Profile{Engine: engines.TEI, Task: engines.TaskEmbed}, unknownCard(), 16384 * 2 * (2*4096 + 3*14336) / mib, 0},
		{"Infinity", engines.Profile{Engine: engines.Infinity, Task: engines.TaskEmbed}, unknownCard(), 32 * 8192 * 2 * (2*4096 + 3*14336) / mib, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := weights.Estimate(f, test.profile, test.card)
			if got := mibs(m.Activations.Bytes); math.Abs(got-test.activations) > 0.1 {
				t.Errorf("activations of %.1f MiB, want %.1f; %s", got, test.activations, m.Activations.How)
			}
			if got := m.ShareRatio.Or(0); math.Abs(got-test.share) > 1e-9 {
				t.Errorf("a share of %v, want %v", got, test.share)
			}
		})
	}
}

func TestRuntime(t *testing.T) {
	f := read(t, llama8B.directory(t, "BF16"), "model")
	graphs := weights.Estimate(f, engines.Profile{Engine: engines.VLLM}, card(80))
	eager := weights.Estimate(f, engines.Profile{Engine: engines.VLLM, ExtraArgs: []string{"--enforce-eager"}}, card(80))
	if !eager.Runtime.Bytes.Is(0) || graphs.Runtime.Bytes.Or(0) < 360*mib {
		t.Errorf("CUDA graphs take %v, and %v without", graphs.Runtime.Bytes, eager.Runtime.Bytes)
	}
	two := weights.Estimate(f, engines.Profile{Engine: engines.VLLM, TensorParallel: 2}, card(80))
	if two.Overhead.Bytes.Or(0) <= graphs.Overhead.Bytes.Or(0) {
		t.Errorf("cards that talk to each other have %v of overhead, one alone %v", two.Overhead.Bytes, graphs.Overhead.Bytes)
	}
	// TGI claims its card although what it needs is not known.
	tgi := weights.Estimate(f, engines.Profile{Engine: engines.TGI}, card(80))
	if tgi.NeedBytes != (engines.Opt[uint64]{}) || !tgi.ClaimBytes.Is(80*gib) {
		t.Errorf("TGI needs %v and claims %v, want an unknown and the card", tgi.NeedBytes, tgi.ClaimBytes)
	}
	// vLLM without cards claims none, and what its process has is not known.
	cpu := weights.Estimate(f, engines.Profile{Engine: engines.VLLM, CPU: true}, card(80))
	if cpu.Shares || cpu.HostBytes != (engines.Opt[uint64]{}) || !cpu.Weights.Bytes.Is(f.TensorBytes) {
		t.Errorf("vLLM without cards: %+v", cpu)
	}
	// Engines that encode keep nothing, whatever the model could.
	tei := weights.Estimate(f, engines.Profile{Engine: engines.TEI, Task: engines.TaskEmbed}, card(24))
	if !tei.KV.Bytes.Is(0) || !strings.Contains(tei.KV.How, "nothing") {
		t.Errorf("TEI keeps %v: %s", tei.KV.Bytes, tei.KV.How)
	}
}

// Types of cached numbers, as engines spell them: bytes for a token of 32 numbers.
func TestCacheTypes(t *testing.T) {
	f := weights.Facts{Layers: []weights.Layer{{Cache: weights.Cache{Kind: weights.CacheHeads, Heads: 1, KeyLength: 16, ValueLength: 16}}}}
	for dtype, want := range map[string]uint64{
		"": 64, "auto": 64, "bfloat16": 64, "f16": 64, "f32": 128, "fp8": 32, "fp8_e4m3": 32, "fp8_e5m2": 32, "nvfp4": 18,
		"q8_0": 34, "q5_1": 24, "q5_0": 22, "q4_1": 20, "q4_0": 18, "iq4_nl": 18,
	} {
		if m := weights.Estimate(f, engines.Profile{Engine: engines.VLLM, KVCacheDType: dtype}, unknownCard()); !m.TokenBytes.Is(want) {
			t.Errorf("%q: a token takes %v, want %d", dtype, m.TokenBytes, want)
		}
	}
	for _, dtype := range []string{"q2_k", "fp8_per_token_head", "x"} {
		if m := weights.Estimate(f, engines.Profile{Engine: engines.VLLM, KVCacheDType: dtype}, unknownCard()); m.TokenBytes != (engines.Opt[uint64]{}) {
			t.Errorf("%q: a token takes %v, want that it is not known", dtype, m.TokenBytes)
		}
	}
}
