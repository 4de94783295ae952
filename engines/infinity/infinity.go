// Package infinity holds the facts about Infinity that a router needs, and
// launches it. It embeds, ranks and classifies: what it does is the model's.
//
// It exports no load: its /metrics has what any web server's has, so its load
// is known only by what was sent to it.
//
// Source: infinity_emb 0.0.78 (2026-10), and 0.0.52 for metrics.
package infinity

import (
	"time"

	"github.com/llmgw/llmgw/engines"
)

// Capabilities returns what Infinity does with its usual settings. It refuses
// a name that it does not serve with 400. A connection is closed after 5 s
// without a request, as its web server uvicorn does.
func Capabilities() engines.Capabilities {
	return engines.Capabilities{
		ChecksModel: true,
		KeepAlive:   5 * time.Second,
	}
}
