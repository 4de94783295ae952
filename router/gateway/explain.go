package gateway

import (
	"log/slog"

	"github.com/llmgw/llmgw/router"
	"github.com/llmgw/llmgw/router/schedule"
)

// explaining logs each decision of the profile debug with its votes, and tells
// the embedder's Recorder of every outcome.
type explaining struct {
	log  *slog.Logger
	next router.Recorder // nil: nobody
}

// Record is called at the end of a request, whose last decision it shows.
func (x explaining) Record(o *router.Outcome) {
	if d := o.Decision; d != nil && d.Profile == schedule.Debug {
		x.log.Info("decision", "request", o.ID, "endpoint", o.Endpoint, "result", o.Result.String(),
			"attempts", o.Attempts, "decision", d.Explain())
	}
	if x.next != nil {
		x.next.Record(o)
	}
}
