package engine

import (
	"fmt"

	"github.com/llmgw/llmgw/cmd/internal/bench/wire"
)

// metricsPage renders the counters under vLLM's names, so that a gateway which
// scrapes its engines does that work here too.
func (e *Engine) metricsPage() []byte {
	var b []byte
	add := func(kind, name string, v float64) {
		b = fmt.Appendf(b, "# HELP %[1]s Of the bench's engine.\n# TYPE %[1]s %[2]s\n%[1]s{engine=\"0\",model_name=%[3]q} %[4]v\n",
			name, kind, wire.Model, v)
	}
	running := float64(e.running.Load())
	add("gauge", "vllm:num_requests_running", running)
	add("gauge", "vllm:num_requests_waiting", 0)
	// As if 4,096 sequences filled the cache: never a reason to route elsewhere.
	add("gauge", "vllm:kv_cache_usage_perc", min(running/4096, 1))
	add("counter", "vllm:prompt_tokens_total", float64(e.promptTokens.Load()))
	add("counter", "vllm:generation_tokens_total", float64(e.outputTokens.Load()))
	add("counter", "vllm:prefix_cache_queries_total", 0)
	add("counter", "vllm:prefix_cache_hits_total", 0)
	add("counter", "vllm:num_preemptions_total", 0)
	return b
}
