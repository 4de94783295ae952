package weights

import (
	"cmp"
	"slices"

	"github.com/llmgw/llmgw/engines"
)

const (
	mib = 1 << 20
	gib = 1 << 30
)

// family is how an engine uses memory.
type family uint8

const (
	// otherFamily: not studied.
	otherFamily family = iota
	// ggmlFamily takes what it needs, the cache for all its requests at once.
	ggmlFamily
	// pageFamily takes a part of the card: what weights and computing leave of it is
	// cut into pages for keys and values.
	pageFamily
	// encoderFamily computes one batch at a time and keeps nothing.
	encoderFamily
)

// habits are how an engine uses memory with one profile on one card.
type habits struct {
	family family
	// share is the part of the card that is taken; not known although shares is
	// true: it depends on a card that is not known. aside: it is for weights and
	// cache alone.
	shares, aside bool
	share         engines.Opt[float64]
	// batch is how many tokens one step computes at most, running how many requests
	// it is for. 0: not known.
	batch, running uint64
	// reserve is what is set aside for computing. 0: it has to be estimated.
	reserve uint64

	overhead, runtime Part
}

// Sizes of what processes have beside the model: see docs/explanation/memory.md.
const (
	cudaContext   = 500 * mib
	vllmAlone     = 300 * mib
	vllmConnected = 2150 * mib
	vllmGraphs    = 900 * mib
	ggmlProcess   = 150 * mib
)

// habitsOf returns the habits of the engine of p.
func habitsOf(p engines.Profile, card engines.Opt[uint64]) habits {
	var h habits
	connected := p.TensorParallel*p.PipelineParallel*p.DataParallel > 1
	none := known(0, "nothing that is known")
	switch p.Engine {
	case engines.LlamaCPP:
		h = habits{family: ggmlFamily, batch: 512, running: uint64(cmp.Or(p.MaxRunning, 4)), overhead: contextPart(), runtime: none}
		if p.Task != engines.TaskGenerate && p.ContextTokens > 0 {
			h.batch = uint64(p.ContextTokens) // one text in one batch
		}
	case engines.Ollama:
		h = habits{family: ggmlFamily, batch: 512, running: uint64(max(p.MaxRunning, 1)), overhead: contextPart(), runtime: none}
	case engines.VLLM:
		h = vllmHabits(p, card)
		h.overhead = known(vllmAlone, "a process alone on its card has 0.13 to 0.3 GiB outside of its tensors")
		if connected {
			h.overhead = known(vllmConnected, "a process that talks to others has up to 2.1 GiB outside of its tensors, mostly buffers of NCCL")
		}
	case engines.SGLang:
		h = sglangHabits(p, card)
	case engines.TGI:
		h = habits{family: pageFamily, shares: true, share: engines.Known(cmp.Or(p.MemoryRatio, 1)), overhead: contextPart()}
		h.runtime = unknown("what TGI's CUDA graphs take was not studied")
	case engines.TEI:
		h = habits{family: encoderFamily, batch: 16384, overhead: contextPart(), runtime: none}
	case engines.Infinity:
		h = habits{family: encoderFamily, overhead: contextPart(), runtime: none}
	default:
		h = habits{overhead: unknown("how %s uses memory was not studied", p.Engine), runtime: unknown("how %s uses memory was not studied", p.Engine)}
	}
	if p.CPU {
		h.shares, h.aside, h.share, h.reserve, h.runtime = false, false, engines.Opt[float64]{}, 0, none
		h.overhead = unknown("what a process of %s has on a machine without cards was not studied", p.Engine)
		if h.family == ggmlFamily {
			h.overhead = known(ggmlProcess, "a process of llama.cpp has some 150 MiB of its own")
		}
	}
	return h
}

func contextPart() Part {
	return known(cudaContext, "the context of CUDA, 0.3 to 0.6 GiB by card and driver")
}

// vllmHabits has the defaults of --gpu-memory-utilization, --max-num-seqs and
// --max-num-batched-tokens. Source: vllm/engine/arg_utils.py.
func vllmHabits(p engines.Profile, card engines.Opt[uint64]) habits {
	h := habits{family: pageFamily, shares: true, share: engines.Known(cmp.Or(p.MemoryRatio, 0.92)), batch: 8192, running: 1024}
	switch size := card.Or(80 * gib); {
	case p.CPU:
		h.batch, h.running = 2048, 128
	case size >= 160*gib:
		h.batch = 16384
	case size < 70*gib:
		h.batch, h.running = 2048, 256
	}
	if p.MaxRunning > 0 {
		h.running = uint64(p.MaxRunning)
	}
	h.runtime = known(vllmGraphs, "CUDA graphs, 0.36 to 0.89 GiB where they were measured")
	if slices.Contains(p.ExtraArgs, "--enforce-eager") {
		h.runtime = known(0, "no CUDA graphs, by --enforce-eager")
	}
	return h
}

// sglangHabits has what SGLang sets aside for computing and for CUDA graphs, and so
// the default of --mem-fraction-static, the part that weights and cache get.
// Source: _handle_gpu_memory_settings in sglang/srt/server_args.py.
func sglangHabits(p engines.Profile, card engines.Opt[uint64]) habits {
	h := habits{family: pageFamily, shares: true, aside: true, batch: 8192}
	graphs := uint64(256)
	wide := p.TensorParallel >= 4
	switch size := card.Or(80 * gib); {
	case size < 20*gib:
		h.batch, graphs = 2048, 8
	case size < 35*gib && !wide:
		h.batch, graphs = 2048, 24
	case size < 35*gib:
		h.batch, graphs = 2048, 80
	case size < 60*gib && !wide:
		h.batch, graphs = 4096, 32
	case size < 60*gib:
		h.batch, graphs = 4096, 160
	case size >= 160*gib:
		h.batch, graphs = 16384, 512
	case wide:
		graphs = 512
	}
	cards := ways(p.TensorParallel) * ways(p.PipelineParallel)
	h.reserve = times(512+h.batch*3/2+graphs*2+cards*1024/8, mib)
	h.running = uint64(max(p.MaxRunning, 0))
	h.overhead = known(0, "within what is set aside for computing")
	h.runtime = known(0, "CUDA graphs are within what is set aside for computing")
	size, ok := card.Get()
	switch {
	case p.MemoryRatio > 0:
		h.share = engines.Known(p.MemoryRatio)
	case ok && size > h.reserve:
		h.share = engines.Known(float64(size-h.reserve) / float64(size))
	}
	return h
}
