// Package ollama holds the facts about Ollama that a router needs. It exports
// no metrics, so its load is known only by what was sent to it.
//
// Source: ollama/ollama at fb3076099687 (2026-08-21).
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
