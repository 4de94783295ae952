package sglang

import (
	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/internal/launch"
)

// logRules say what the lines of SGLang mean, in the wordings of 0.5.5 up to
// 0.5.23.
func logRules() []engines.LogRule {
	at := func(phase engines.Phase, match, reason string) engines.LogRule {
		return engines.LogRule{Match: match, Phase: phase, Reason: reason}
	}
	failed := func(match, reason, advice string) engines.LogRule {
		return engines.LogRule{Match: match, Phase: engines.PhaseFailed, Reason: reason, Advice: advice}
	}
	rules := []engines.LogRule{
		failed(`Not enough memory\. Please try to increase --mem-fraction-static\. Current value: \S*mem_fraction_static=([\d.]+)`,
			"the weights leave no room for a KV cache", "raise memory_ratio, which is $1 now, use more cards or a quantized model"),
		failed(`Not enough memory\. Please try to increase --mem-fraction-static`,
			"the weights leave no room for a KV cache", "raise memory_ratio, use more cards or a quantized model"),
		failed(`The memory capacity is unbalanced.*min_per_gpu_memory=([\d.]+), local_gpu_memory=([\d.]+)`,
			"one card has $1 GB free and another $2", "see with nvidia-smi who holds memory there"),
		failed(`ValueError: .*context_length \((\d+)\) is greater than the derived context_length \((\d+)\)`,
			"context_tokens is $1, and the model was made for $2", "set context_tokens to $2 or less"),
		failed(`Port is already in use\. dist_init_port=(\d+)`, "another process holds one of the ports from $1 on",
			"find it with: ss -ltnp; the launcher gives the next start other ports"),
		failed(`tp_size must be divisible by number of nodes`, "tensor_parallel cannot be divided over the ranks", "choose one that can, or fewer ranks"),
		failed(`Capture cuda graph failed: (.*)`, "graphs could not be made: $1", "lower memory_ratio or max_running"),
		failed(`Initialization failed\. warmup error`, "the request that warms it up failed", "read the lines before: the cause stands there"),
		failed(`Scheduler hit an exception|Received sigquit from a child process`, "a process of the engine died", "read the lines before: the cause stands there"),
		failed(`(?i)watchdog timeout \(`, "a step took longer than the watchdog allows", "look at the card with nvidia-smi and dmesg; --watchdog-timeout in extra_args gives more time"),

		at(engines.PhaseStarting, `server_args=`, ""),
		at(engines.PhaseRendezvous, `Init torch distributed begin`, "waits for the other ranks"),
		at(engines.PhaseLoading, `Init torch distributed ends`, "all ranks are there"),
		at(engines.PhaseLoading, `Load weight begin`, ""),
		at(engines.PhaseLoading, `Loading safetensors checkpoint shards:\s+(\d+%)`, "weights: $1"),
		at(engines.PhaseWarming, `Load weight end\..*?(?:mem usage=([\d.]+) GB)`, "weights take $1 GB of each card"),
		at(engines.PhaseWarming, `Load weight end`, ""),
		at(engines.PhaseWarming, `KV Cache is allocated\..*?#tokens: (\d+)`, "the KV cache has room for $1 tokens"),
		at(engines.PhaseWarming, `Memory pool end`, ""),
		at(engines.PhaseWarming, `(?i)Capture .*graph (?:begin|end)`, "makes graphs"),
		at(engines.PhaseWarming, `Uvicorn running on|Application startup complete`, "warms up"),
		at(engines.PhaseListening, `The server is fired up and ready to roll`, ""),
		at(engines.PhaseStopping, `SIGTERM received`, ""),
		at(engines.PhaseStopping, `Gracefully exiting\.\.\. Remaining number of requests (\d+)`, "$1 requests still run"),
	}
	return append(rules, launch.PythonFaults()...)
}
