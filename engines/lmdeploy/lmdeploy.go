// Package lmdeploy holds the facts about LMDeploy's api_server that a router
// needs: how its load is read and what it can do.
//
// Source: InternLM/lmdeploy at 1263d5cd889b (2026-08-21, v0.16.0), and its tags
// back to v0.9.2 for metrics.
package lmdeploy

import "github.com/llmgw/llmgw/engines"

// Metrics returns LMDeploy's metric contract; the label engine is the
// data-parallel rank. gpu_cache_usage_perc is a fraction. Cached tokens are
// counted from 0.14 on. Requests beyond --max-batch-size wait before the engine
// and are not in what waits: num_api_requests_waiting counts them, but for ever
// if their client leaves while they wait, so it is not read. A server started
// with --max-concurrent-requests holds this page back too while it is full,
// and then looks absent. How many requests run at once, --max-batch-size, depends
// on the GPU by default, and no series tells.
func Metrics() engines.MetricContract {
	return engines.MetricContract{
		Engine: engines.LMDeploy,
		Path:   "/metrics",
		Prefix: "lmdeploy:",
		Running: engines.Metric{
			Names:     []string{"lmdeploy:num_requests_running"},
			Aggregate: engines.AggregateSum,
		},
		Waiting: engines.Metric{
			Names:     []string{"lmdeploy:num_requests_waiting"},
			Aggregate: engines.AggregateSum,
		},
		KVUsed: engines.Metric{
			Names:     []string{"lmdeploy:gpu_cache_usage_perc"},
			Aggregate: engines.AggregateMax,
		},
		PrefixQueryTokens: engines.Metric{
			Names:     []string{"lmdeploy:prompt_tokens_total", "lmdeploy:prompt_tokens"},
			Aggregate: engines.AggregateSum,
		},
		PrefixHitTokens: engines.Metric{
			Names:     []string{"lmdeploy:cached_tokens_total", "lmdeploy:cached_tokens"},
			Aggregate: engines.AggregateSum,
		},
	}
}

// Capabilities returns what LMDeploy does with its usual settings. It aborts
// abandoned requests only in part, so that is not relied on.
func Capabilities() engines.Capabilities {
	return engines.Capabilities{StreamUsage: true, ChecksModel: true}
}
