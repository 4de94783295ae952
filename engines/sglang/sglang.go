// Package sglang holds the facts about the SGLang engine: how its load is read,
// what it can do, and, as [Adapter], how it is launched, watched and stopped.
//
// Source: sgl-project/sglang at 8905cbd42f4a (2026-07-20), and the packages of
// the releases 0.5.3, 0.5.5, 0.5.9, 0.5.15, 0.5.18, 0.5.20, 0.5.22 and 0.5.23 for
// flags, metrics, log lines and routes. The help texts are those of 0.5.9 and
// 0.5.23 as they print them.
package sglang

import "github.com/llmgw/llmgw/engines"

// Metrics returns SGLang's metric contract; the page exists only with
// --enable-metrics and is open even when the API needs a key.
//
// Every pipeline stage may report the same batch, so only stage 0 counts. With
// priority scheduling the series with the empty priority is the total and the
// numbered ones are its parts. Data-parallel ranks are added. The queues of a
// prefill or decode instance stand beside the ordinary one and wait as well.
// The cached tokens of a request are counted either by the tier in which they
// were found (device, host, storage) or, by older versions, under the source
// "total", never both, so that the sources are added. How many requests run at
// once follows from the memory unless --max-running-requests says it; no series
// tells.
func Metrics() engines.MetricContract {
	total := map[string]string{"pp_rank": "0", "priority": ""}
	return engines.MetricContract{
		Engine: engines.SGLang,
		Path:   "/metrics",
		Prefix: "sglang:",
		Running: engines.Metric{
			Names:     []string{"sglang:num_running_reqs"},
			Labels:    total,
			Aggregate: engines.AggregateSum,
		},
		Waiting: engines.Metric{
			Names: []string{"sglang:num_queue_reqs"},
			Also: []string{
				"sglang:num_prefill_bootstrap_queue_reqs",
				"sglang:num_prefill_prealloc_queue_reqs", // its name up to 0.5.9
				"sglang:num_prefill_inflight_queue_reqs",
				"sglang:num_decode_prealloc_queue_reqs",
				"sglang:num_decode_transfer_queue_reqs",
			},
			Labels:    total,
			Aggregate: engines.AggregateSum,
		},
		KVUsed: engines.Metric{
			Names:     []string{"sglang:token_usage"},
			Labels:    total,
			Aggregate: engines.AggregateMax,
		},
		PrefixQueryTokens: engines.Metric{
			Names:     []string{"sglang:prompt_tokens_total", "sglang:prompt_tokens"},
			Aggregate: engines.AggregateSum,
		},
		PrefixHitTokens: engines.Metric{
			Names:     []string{"sglang:cached_tokens_total", "sglang:cached_tokens"},
			Aggregate: engines.AggregateSum,
		},
		Preemptions: engines.Metric{
			Names:     []string{"sglang:num_retracted_requests_total"},
			Labels:    total,
			Aggregate: engines.AggregateSum,
		},
		KVCapacityTokens: engines.Metric{
			Names:     []string{"sglang:max_total_num_tokens"},
			Labels:    total,
			Aggregate: engines.AggregateSum,
		},
	}
}

// Capabilities returns what SGLang does with its usual settings. Priorities
// count only with --enable-priority-scheduling, and the higher number runs
// first, opposite to vLLM. Any model name is answered by whatever runs there.
func Capabilities() engines.Capabilities {
	return engines.Capabilities{
		StreamUsage:        true,
		PriorityField:      "priority",
		PriorityOrder:      engines.PriorityHighFirst,
		AbortsOnDisconnect: true,
		TokenizePath:       "/tokenize",
	}
}
