// Package tei holds the facts about Hugging Face's text-embeddings-inference
// that a router needs, and launches it. It embeds, ranks and classifies: what
// it does is the model's, and it serves one.
//
// Source: huggingface/text-embeddings-inference at 0d124dc9773b (2026-07-24,
// v1.9.3), and its tags back to v0.1.0 for metrics.
package tei

import "github.com/llmgw/llmgw/engines"

// Metrics returns TEI's metric contract. The name is that of every version. It
// tells what waits and not what runs. Series appear with their first use: the
// page is empty before the first request and has no queue before the first that
// is queued, which means unknown, not idle. It takes 512 requests by default,
// waiting ones included (--max-concurrent-requests), and answers 429 to the
// next.
func Metrics() engines.MetricContract {
	return engines.MetricContract{
		Engine: engines.TEI,
		Path:   "/metrics",
		Prefix: "te_",

		UsuallyRuns: 512,

		Waiting: engines.Metric{
			Names:     []string{"te_queue_size"},
			Aggregate: engines.AggregateSum,
		},
	}
}

// Capabilities returns what TEI does with its usual settings. It does not look
// at the model that a request names.
func Capabilities() engines.Capabilities {
	return engines.Capabilities{
		AbortsOnDisconnect: true,
		TokenizePath:       "/tokenize",
	}
}
