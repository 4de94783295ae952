package vllm_test

import (
	"testing"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/internal/launch/launchtest"
	"github.com/llmgw/llmgw/engines/vllm"
)

// The lines of a normal start and of failures, as several versions print them.
func TestLogs(t *testing.T) {
	t.Parallel()
	l, err := vllm.Adapter{}.Launch(t.Context(), shard(0))
	if err != nil {
		t.Fatal(err)
	}
	says := launchtest.Says
	launchtest.Explain(t, l.Logs, []launchtest.Line{
		says("DEBUG Waiting for 2 local, 6 remote core engine proc(s) to connect.", engines.PhaseRendezvous, "waits for data-parallel engines: 2 local, 6 remote", ""),
		says("INFO Launching vLLM (v0.33.0) headless multiproc executor, with head node address 10.0.0.1:29501 for torch.distributed process group.", engines.PhaseRendezvous, "looks for the leader at 10.0.0.1:29501", ""),
		says("INFO Launching 2 data parallel engine(s) in headless mode, with head node address tcp://10.0.0.1:29550.", engines.PhaseRendezvous, "looks for the leader at tcp://10.0.0.1:29550", ""),
		says("INFO Waiting for creating a placement group of specs for 30 seconds. specs=[{'GPU': 1.0}]", engines.PhaseRendezvous, "has waited 30 s for Ray to have all cards", ""),
		says("INFO Starting to load model /models/qwen3-32b...", engines.PhaseLoading, "", ""),
		says("Loading safetensors checkpoint shards:  25% Completed | 1/4 [00:01<00:05,  1.7s/it]", engines.PhaseLoading, "weights: 25%", ""),
		says("INFO Loading weights took 33.10 seconds", engines.PhaseLoading, "weights read in 33.10 s", ""),
		says("INFO Model loading took 61.03 GiB memory and 35.123456 seconds", engines.PhaseWarming, "weights take 61.03 GiB of each card", ""),
		says("INFO Available KV cache memory: 9.31 GiB", engines.PhaseWarming, "9.31 GiB are left for the KV cache", ""),
		says("INFO GPU KV cache size: 147,456 tokens", engines.PhaseWarming, "the KV cache has room for 147,456 tokens", ""),
		says("INFO GPU KV cache size: 147,456 tokens, Maximum concurrency for 32,768 tokens per request: 4.50x", engines.PhaseWarming, "the KV cache has room for 147,456 tokens", ""),
		says("INFO torch.compile takes 42.05 s in total", engines.PhaseWarming, "compiled in 42.05 s", ""),
		says("INFO torch.compile took 42.05 s in total", engines.PhaseWarming, "compiled in 42.05 s", ""),
		says("INFO Graph capturing finished in 54 secs, took 0.61 GiB", engines.PhaseWarming, "", ""),
		says("INFO init engine (profile, create kv cache, warmup model) took 94.21 seconds", engines.PhaseWarming, "the engine took 94.21 s to start", ""),
		says("INFO Starting vLLM API server 0 on http://0.0.0.0:8000", engines.PhaseListening, "", ""),
		says("INFO Starting vLLM server on http://0.0.0.0:8000", engines.PhaseListening, "", ""),
		says("INFO:     Application startup complete.", engines.PhaseListening, "", ""),
		says("INFO [shutdown] MPClient: start timeout=30", engines.PhaseStopping, "", ""),
		says("INFO Engine 000: Avg prompt throughput: 1.0 tokens/s, Running: 1 reqs, Waiting: 0 reqs, GPU KV cache usage: 0.1%", engines.PhaseUnset, "", ""),

		says(
			"ValueError: Free memory on device (31.2/79.11 GiB) on startup is less than desired GPU memory utilization (0.92, 72.78 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.",
			engines.PhaseFailed, "of 79.11 GiB of the card 31.2 are free, and memory_ratio 0.92 asks for 72.78",
			"see with nvidia-smi who holds the rest, or lower memory_ratio",
		),
		says(
			"ValueError: Free memory on device cuda:0 (31.2/79.11 GiB) on startup is less than desired GPU memory utilization (0.92, 72.78 GiB).",
			engines.PhaseFailed, "of 79.11 GiB of the card 31.2 are free, and memory_ratio 0.92 asks for 72.78", "",
		),
		says(
			"ValueError: To serve at least one request with the models's max seq len (131072), (32.00 GiB KV cache is needed, which is larger than the available KV cache memory (9.31 GiB). Based on the available memory, the estimated maximum model length is 38128. Try increasing `gpu_memory_utilization`",
			engines.PhaseFailed, "the KV cache has no room for one request of the whole context",
			"set context_tokens to 38128 or less, raise memory_ratio, or use more cards",
		),
		says(
			"ValueError: To serve at least one request with the model's max seq len (131072), (32.00 GiB KV cache is needed, which is larger than the available KV cache memory (0.31 GiB). Try increasing",
			engines.PhaseFailed, "the KV cache has no room for one request of the whole context",
			"lower context_tokens, raise memory_ratio, or use more cards",
		),
		says("ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.", engines.PhaseFailed, "the weights leave no room for a KV cache", ""),
		says(
			"ValueError: User-specified max_model_len (65536) is greater than the derived max_model_len (max_position_embeddings=40960 or model_max_length=None in model's config.json).",
			engines.PhaseFailed, "context_tokens is 65536, and the model was made for 40960", "set context_tokens to 40960 or less",
		),
		says(
			"ValueError: World size (4) is larger than the number of available GPUs (2) in this node. If this is intentional and you are using:",
			engines.PhaseFailed, "the rank needs 4 cards, and vLLM sees 2", "",
		),
		says("ValueError: Cannot provide a placement group requiring 16 GPUs (placement_group_specs=[…]) within 1800 seconds.", engines.PhaseFailed, "Ray has not got the 16 cards of the replica together", ""),
		says("RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}", engines.PhaseFailed, "the engine did not start", ""),
		says("vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause.", engines.PhaseFailed, "the engine died behind its HTTP server", ""),
		says("OSError: [Errno 98] Address already in use", engines.PhaseFailed, "another process holds a port of the engine", ""),
	})
}
