// Package vllm holds the facts about the vLLM engine: how its load is read, what
// it can do, and, as [Adapter], how it is launched, watched and stopped.
//
// Source: vllm-project/vllm at 017e9f4448b7 (2026-08-17), and the packages of
// the releases 0.9.2, 0.11.0, 0.12.0, 0.14.0, 0.17.0, 0.18.0, 0.19.0, 0.23.0,
// 0.28.0 and 0.33.0 for flags, metrics, log lines and routes. The help text is
// that of 0.32.0 as it prints it. Of Ray: the help text of 2.60.0, and what two
// of its nodes print.
package vllm

import (
	"time"

	"github.com/llmgw/llmgw/engines"
)

// Metrics returns vLLM's metric contract. How many requests it runs at once is
// --max-num-seqs, which no series tells: 256 by default, 1024 on GPUs of 70 GiB
// and more but for the A100. The page is open even when the API
// needs a key. With data parallelism behind one address the leader exports
// every rank, so counts are added and the fullest rank speaks for the cache.
// gpu_cache_usage_perc and gpu_prefix_cache_* are the names before v0.12; a
// fraction in spite of the suffix.
func Metrics() engines.MetricContract {
	return engines.MetricContract{
		Engine: engines.VLLM,
		Path:   "/metrics",
		Prefix: "vllm:",

		UsuallyRuns: 256,

		Running: engines.Metric{
			Names:     []string{"vllm:num_requests_running"},
			Aggregate: engines.AggregateSum,
		},
		Waiting: engines.Metric{
			Names:     []string{"vllm:num_requests_waiting"},
			Aggregate: engines.AggregateSum,
		},
		KVUsed: engines.Metric{
			Names:     []string{"vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"},
			Aggregate: engines.AggregateMax,
		},
		PrefixQueryTokens: engines.Metric{
			Names: []string{
				"vllm:prefix_cache_queries_total", "vllm:prefix_cache_queries",
				"vllm:gpu_prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries",
			},
			Aggregate: engines.AggregateSum,
		},
		PrefixHitTokens: engines.Metric{
			Names: []string{
				"vllm:prefix_cache_hits_total", "vllm:prefix_cache_hits",
				"vllm:gpu_prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits",
			},
			Aggregate: engines.AggregateSum,
		},
		Preemptions: engines.Metric{
			Names:     []string{"vllm:num_preemptions_total", "vllm:num_preemptions"},
			Aggregate: engines.AggregateSum,
		},
		KVCapacityTokens: engines.Metric{
			Names:     []string{"vllm:cache_config_info"},
			Factors:   []string{"num_gpu_blocks", "block_size"},
			Aggregate: engines.AggregateSum,
		},
	}
}

// Capabilities returns what vLLM does with its usual settings. A priority
// other than 0 is an error unless it runs with --scheduling-policy priority.
func Capabilities() engines.Capabilities {
	return engines.Capabilities{
		StreamUsage:        true,
		ContinuousUsage:    true,
		PriorityField:      "priority",
		PriorityOrder:      engines.PriorityLowFirst,
		ChecksModel:        true,
		AbortsOnDisconnect: true,
		TokenizePath:       "/tokenize",
		KeepAlive:          5 * time.Second,
		Sleeps:             true,
	}
}
