package sglang_test

import (
	"testing"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/internal/launch/launchtest"
	"github.com/llmgw/llmgw/engines/sglang"
)

// The lines of a normal start and of failures, as several versions print them.
func TestLogs(t *testing.T) {
	t.Parallel()
	l, err := sglang.Adapter{}.Launch(t.Context(), shard(0))
	if err != nil {
		t.Fatal(err)
	}
	says := launchtest.Says
	launchtest.Explain(t, l.Logs, []launchtest.Line{
		says("[2026-07-20 10:00:00] server_args=ServerArgs(model_path='/models/m', ...)", engines.PhaseStarting, "", ""),
		says("[2026-07-20 10:00:01 TP0] Init torch distributed begin.", engines.PhaseRendezvous, "waits for the other ranks", ""),
		says("[2026-07-20 10:00:02 TP0] Init torch distributed ends. elapsed=1.20 s, mem usage=0.09 GB", engines.PhaseLoading, "all ranks are there", ""),
		says("[2026-07-20 10:00:02 TP0] Load weight begin. avail mem=78.50 GB", engines.PhaseLoading, "", ""),
		says("Loading safetensors checkpoint shards:  50% Completed | 2/4 [00:01<00:01,  1.7it/s]", engines.PhaseLoading, "weights: 50%", ""),
		says("[2026-07-20 10:00:09 TP0] Load weight end. elapsed=7.02 s, type=Qwen3ForCausalLM, avail mem=47.81 GB, mem usage=30.69 GB.", engines.PhaseWarming, "weights take 30.69 GB of each card", ""),
		says("[2026-07-20 10:00:10 TP0] KV Cache is allocated. #tokens: 184320, K size: 11.25 GB, V size: 11.25 GB", engines.PhaseWarming, "the KV cache has room for 184320 tokens", ""),
		says("[2026-07-20 10:00:10 TP0] KV Cache is allocated. dtype: torch.bfloat16, #tokens: 184320, KV size: 22.50 GB", engines.PhaseWarming, "the KV cache has room for 184320 tokens", ""),
		says("[2026-07-20 10:00:11 TP0] Capture cuda graph begin. This can take up to several minutes. avail mem=22.10 GB", engines.PhaseWarming, "makes graphs", ""),
		says("[2026-07-20 10:00:11 TP0] Capture decode CUDA graph begin. avail mem=22.10 GB", engines.PhaseWarming, "makes graphs", ""),
		says("INFO:     Uvicorn running on http://0.0.0.0:30000 (Press CTRL+C to quit)", engines.PhaseWarming, "warms up", ""),
		says("[2026-07-20 10:00:29] The server is fired up and ready to roll!", engines.PhaseListening, "", ""),
		says("[2026-07-20 11:00:00] SIGTERM received. signum=15 frame=None. Draining requests and shutting down...", engines.PhaseStopping, "", ""),
		says("[2026-07-20 11:00:05] Gracefully exiting... Remaining number of requests 3. Remaining requests remaining_rids=[].", engines.PhaseStopping, "3 requests still run", ""),
		says("[2026-07-20 10:30:00 TP0] Decode batch, #running-req: 7, #token: 5120, token usage: 0.03", engines.PhaseUnset, "", ""),

		says("RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. Current value: self.server_args.mem_fraction_static=0.85", engines.PhaseFailed,
			"the weights leave no room for a KV cache", "raise memory_ratio, which is 0.85 now, use more cards or a quantized model"),
		says("RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. Current value: mem_fraction_static=0.85", engines.PhaseFailed,
			"the weights leave no room for a KV cache", "raise memory_ratio, which is 0.85 now, use more cards or a quantized model"),
		says("RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.", engines.PhaseFailed,
			"the weights leave no room for a KV cache", "raise memory_ratio, use more cards or a quantized model"),
		says("RuntimeError: The memory capacity is unbalanced. Some GPUs may be occupied by other processes. min_per_gpu_memory=20.1, local_gpu_memory=78.5, local_gpu_memory * 0.9=70.6", engines.PhaseFailed,
			"one card has 20.1 GB free and another 78.5", ""),
		says("ValueError: Warning: User-specified context_length (65536) is greater than the derived context_length (40960). This may lead to incorrect model outputs or CUDA errors.", engines.PhaseFailed,
			"context_tokens is 65536, and the model was made for 40960", "set context_tokens to 40960 or less"),
		says("Port is already in use. dist_init_port=20000 port_base=20001 detokenizer_port=20002", engines.PhaseFailed,
			"another process holds one of the ports from 20000 on", ""),
		says("[2026-07-20 10:00:12 TP1] Scheduler hit an exception: Traceback (most recent call last):", engines.PhaseFailed, "a process of the engine died", ""),
		says("launch_server.py: error: unrecognized arguments: --nsa-prefill", engines.PhaseFailed, "this version of the engine does not know: --nsa-prefill", ""),
	})
}
