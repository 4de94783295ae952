// Package tgi holds the facts about Hugging Face's text-generation-inference
// that a router needs: how its load is read and what it can do.
//
// Source: huggingface/text-generation-inference at db931fcf42da (2026-01-08,
// v3.3.7, in maintenance mode).
package tgi

import "github.com/llmgw/llmgw/engines"

// Metrics returns TGI's metric contract. There is no KV gauge. Series appear
// with their first use, so a page without them is normal on a cold engine and
// means unknown, not idle. It takes 128 requests by default, waiting ones
// included (--max-concurrent-requests), and answers 429 to the next.
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
