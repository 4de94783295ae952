// Package trtllm holds the facts about NVIDIA's trtllm-serve that a router
// needs: how its load is read and what it can do.
//
// Source: NVIDIA/TensorRT-LLM, metrics/collector.py at 050f80def8 (2026,
// first half).
package trtllm

import "github.com/llmgw/llmgw/engines"

// Metrics returns trtllm-serve's metric contract. The page is at
// /prometheus/metrics and exists only with return_perf_metrics; /metrics is
// JSON that empties a queue when read, so it must not be asked for. The gauges
// of requests and the token counters are newer than 1.1.0rc5: an older build
// leaves them unknown. The engine counts reused and missed blocks of cache, so
// the tokens asked are read from the token counters instead. It alone says how
// many requests it runs at once (--max_batch_size).
func Metrics() engines.MetricContract {
	return engines.MetricContract{
		Engine: engines.TRTLLM,
		Path:   "/prometheus/metrics",
		Prefix: "trtllm_",
		Running: engines.Metric{
			Names:     []string{"trtllm_num_requests_running"},
			Aggregate: engines.AggregateSum,
		},
		Waiting: engines.Metric{
			Names:     []string{"trtllm_num_requests_waiting"},
			Aggregate: engines.AggregateSum,
		},
		MaxRunning: engines.Metric{
			Names:     []string{"trtllm_max_num_active_requests"},
			Aggregate: engines.AggregateSum,
		},
		KVUsed: engines.Metric{
			Names:     []string{"trtllm_kv_cache_utilization"},
			Aggregate: engines.AggregateMax,
		},
		PrefixQueryTokens: engines.Metric{
			Names:     []string{"trtllm_prompt_tokens_total", "trtllm_prompt_tokens"},
			Aggregate: engines.AggregateSum,
		},
		PrefixHitTokens: engines.Metric{
			Names:     []string{"trtllm_prompt_cached_tokens_total", "trtllm_prompt_cached_tokens"},
			Aggregate: engines.AggregateSum,
		},
	}
}

// Capabilities returns what trtllm-serve does with its usual settings. That
// model names are checked is not established, so it is not relied on.
func Capabilities() engines.Capabilities {
	return engines.Capabilities{StreamUsage: true, AbortsOnDisconnect: true}
}
