// Package ollama holds the facts about Ollama that a router needs. It exports
// no metrics, so its load is known only by what was sent to it.
//
// Source: ollama/ollama at fb3076099687 (2026-08-21), and 0.1.48 and 0.12.0 for
// routes: none of them has one for metrics.
package ollama

import "github.com/llmgw/llmgw/engines"

// Capabilities returns what Ollama does with its usual settings.
func Capabilities() engines.Capabilities {
	return engines.Capabilities{
		StreamUsage:        true,
		ChecksModel:        true,
		AbortsOnDisconnect: true,
	}
}
