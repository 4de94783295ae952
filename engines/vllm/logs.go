package vllm

import (
	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/internal/launch"
)

// logRules say what the lines of vllm serve mean, in the wordings of 0.11 up to
// 0.33.
func logRules() []engines.LogRule {
	at := func(phase engines.Phase, match, reason string) engines.LogRule {
		return engines.LogRule{Match: match, Phase: phase, Reason: reason}
	}
	failed := func(match, reason, advice string) engines.LogRule {
		return engines.LogRule{Match: match, Phase: engines.PhaseFailed, Reason: reason, Advice: advice}
	}
	rules := []engines.LogRule{
		failed(`Free memory on device \S*\s*\(([\d.]+)/([\d.]+) GiB\) on startup is less than .*?\(([\d.]+), ([\d.]+) GiB\)`,
			"of $2 GiB of the card $1 are free, and memory_ratio $3 asks for $4",
			"see with nvidia-smi who holds the rest, or lower memory_ratio"),
		failed(`estimated maximum model length is (\d+)`, "the KV cache has no room for one request of the whole context",
			"set context_tokens to $1 or less, raise memory_ratio, or use more cards"),
		failed(`To serve at least one request with the model`, "the KV cache has no room for one request of the whole context",
			"lower context_tokens, raise memory_ratio, or use more cards"),
		failed(`No available memory for the cache blocks`, "the weights leave no room for a KV cache",
			"raise memory_ratio, use more cards or a quantized model"),
		failed(`User-specified max_model_len \((\d+)\) is greater than the derived max_model_len \((?:[^=]*=)?([\d.]+)`,
			"context_tokens is $1, and the model was made for $2", "set context_tokens to $2 or less"),
		failed(`World size \((\d+)\) is larger than the number of available GPUs \((\d+)\)`,
			"the rank needs $1 cards, and vLLM sees $2", "check the driver and the cards of the node"),
		failed(`Cannot provide a placement group requiring (\d+) GPUs`, "Ray has not got the $1 cards of the replica together",
			"see which node is missing with: ray status; the ranks' own logs say why"),
		failed(`Current node has no GPU available`, "Ray gives the leader's node no card", "see with ray status who has them"),
		failed(`Failed to infer device type`, "vLLM sees no card that this build of it can use", "check the driver, and that the build is for these cards"),
		failed(`Total number of attention heads \((\d+)\) must be divisible by tensor parallel size \((\d+)\)`,
			"$1 attention heads cannot be divided over tensor_parallel $2", "choose a tensor_parallel that divides $1"),
		failed(`EngineDeadError|EngineCore encountered an (?:issue|fatal error)|EngineCore encountered a fatal error`,
			"the engine died behind its HTTP server", "read the lines before: the cause stands there"),
		failed(`Engine core initialization failed|EngineCore failed to start`,
			"the engine did not start", "read the lines before: the cause stands there"),

		at(engines.PhaseRendezvous, `Waiting for (\d+ local, \d+ remote) core engine proc`, "waits for data-parallel engines: $1"),
		at(engines.PhaseRendezvous, `headless multiproc executor, with head node address (\S+)`, "looks for the leader at $1"),
		at(engines.PhaseRendezvous, `data parallel engine\(s\) in headless mode, with head node address (\S+?)\.?$`, "looks for the leader at $1"),
		at(engines.PhaseRendezvous, `Waiting for creating a placement group of specs for (\d+) seconds`, "has waited $1 s for Ray to have all cards"),
		at(engines.PhaseLoading, `Starting to load model (\S+)`, ""),
		at(engines.PhaseLoading, `Loading safetensors checkpoint shards:\s+(\d+%)`, "weights: $1"),
		at(engines.PhaseLoading, `Loading weights took ([\d.]+) seconds`, "weights read in $1 s"),
		at(engines.PhaseWarming, `Model loading took ([\d.]+) Gi?B`, "weights take $1 GiB of each card"),
		at(engines.PhaseWarming, `Available KV cache memory: ([\d.]+) GiB`, "$1 GiB are left for the KV cache"),
		at(engines.PhaseWarming, `KV cache size: ([\d,]+) tokens`, "the KV cache has room for $1 tokens"),
		at(engines.PhaseWarming, `torch\.compile (?:took|takes) ([\d.]+) s`, "compiled in $1 s"),
		at(engines.PhaseWarming, `Capturing CUDA graphs|Graph capturing finished in (\d+)`, ""),
		at(engines.PhaseWarming, `init engine \(profile, create kv cache, warmup model\) took ([\d.]+)`, "the engine took $1 s to start"),
		at(engines.PhaseListening, `Starting vLLM (?:API )?server|Application startup complete`, ""),
		at(engines.PhaseStopping, `\[shutdown\]|Application shutdown complete|Shutting down\.?$`, ""),
	}
	return append(rules, launch.PythonFaults()...)
}
