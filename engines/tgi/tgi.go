// Package tgi holds the facts about Hugging Face's text-generation-inference
// that a router needs: how its load is read and what it can do.
//
// Source: huggingface/text-generation-inference at db931fcf42da (2026-01-08,
// v3.3.7, in maintenance mode), and its tags back to v0.3.0 for metrics.
package tgi

import "github.com/llmgw/llmgw/engines"

// Metrics returns TGI's metric contract. The names are those of every version
// from 0.3.0 on. There is no KV gauge; the one of the batch's token budget,
// tgi_batch_max_total_tokens since 2.3.1, is set before the page's recorder is
// there and so never shown. Series appear with their first use: the page is
// empty before the first request and has no gauges before the first that is
// queued, which means unknown, not idle. It takes 128 requests by default,
// waiting ones included (--max-concurrent-requests), and answers 429 to the
// next.
func Metrics() engines.MetricContract {
	return engines.MetricContract{
		Engine: engines.TGI,
		Path:   "/metrics",
		Prefix: "tgi_",

		UsuallyRuns: 128,

		Running: engines.Metric{
			Names:     []string{"tgi_batch_current_size"},
			Aggregate: engines.AggregateSum,
		},
		Waiting: engines.Metric{
			Names:     []string{"tgi_queue_size"},
			Aggregate: engines.AggregateSum,
		},
	}
}

// Capabilities returns what TGI does with its usual settings. A model name
// other than "tgi" is taken for a LoRA; an unknown one gets the base model.
func Capabilities() engines.Capabilities {
	return engines.Capabilities{
		StreamUsage:        true,
		AbortsOnDisconnect: true,
		TokenizePath:       "/tokenize",
	}
}
