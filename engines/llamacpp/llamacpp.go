// Package llamacpp holds the facts about llama.cpp's llama-server that a
// router needs: how its load is read and what it can do.
//
// Source: ggml-org/llama.cpp at 3f545beccee6 (2026-08-22); what is marked
// "seen" was measured on the build in the wheel xllamacpp 2026.10.11549, against
// which .ci/engine/run holds this package and the router.
package llamacpp

import (
	"time"

	"github.com/llmgw/llmgw/engines"
)

// Metrics returns llama-server's metric contract; the page exists only with
// --metrics and is served only to callers with the API key. Its series carry
// no labels. The KV gauge was removed in May 2025 (pull request 13660), so on
// newer builds the occupancy is unknown. The prompt counter leaves cached
// tokens out, which is why the two counters are added for the tokens asked. How
// many slots there are, --parallel, stands in /props alone; 4 by default.
func Metrics() engines.MetricContract {
	return engines.MetricContract{
		Engine:   engines.LlamaCPP,
		Path:     "/metrics",
		Prefix:   "llamacpp:",
		NeedsKey: true,

		UsuallyRuns: 4,

		Running: engines.Metric{
			Names:     []string{"llamacpp:requests_processing"},
			Aggregate: engines.AggregateSum,
		},
		Waiting: engines.Metric{
			Names:     []string{"llamacpp:requests_deferred"},
			Aggregate: engines.AggregateSum,
		},
		KVUsed: engines.Metric{
			Names:     []string{"llamacpp:kv_cache_usage_ratio"},
			Aggregate: engines.AggregateMax,
		},
		PrefixQueryTokens: engines.Metric{
			Names:     []string{"llamacpp:prompt_tokens_total", "llamacpp:prompt_tokens"},
			Also:      []string{"llamacpp:prompt_tokens_cached_total"},
			Aggregate: engines.AggregateSum,
		},
		PrefixHitTokens: engines.Metric{
			Names:     []string{"llamacpp:prompt_tokens_cached_total", "llamacpp:prompt_tokens_cached"},
			Aggregate: engines.AggregateSum,
		},
	}
}

// Capabilities returns what llama-server does in single-model mode, where the
// model name of a request is ignored. A stream whose client leaves ends within
// some 10 ms, but an answer that is not streamed is written to its end (seen),
// so leaving cannot be relied on to free a slot. A connection is closed 5 s
// after its last answer, and with its hundredth (seen).
func Capabilities() engines.Capabilities {
	return engines.Capabilities{
		StreamUsage:  true,
		TokenizePath: "/tokenize",
		KeepAlive:    5 * time.Second,
	}
}
