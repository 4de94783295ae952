package gateway

import (
	"time"

	"github.com/llmgw/llmgw/admission"
	"github.com/llmgw/llmgw/router"
)

// Traffic is what goes through a gateway at a moment.
type Traffic struct {
	At time.Time
	// Models are what the requests for models came to since the gateway was made.
	Models []router.ModelTotals
	// InFlight are the requests that endpoints have, by canonical model; models of
	// which no endpoint has any are left out.
	InFlight map[string]int
	// Waking are the requests that wait for a model to come up, by canonical model.
	Waking map[string]int
	// Pools are how admission's pools stand. HasAdmission false: admission is switched
	// off, or an embedder's own, and nothing is known of it.
	Pools        []admission.PoolState
	HasAdmission bool
}

// Traffic returns what goes through the gateway now. All of it is counted anyway and
// only read here, for what a scrape of the metrics costs.
func (g *Gateway) Traffic() Traffic {
	t := Traffic{At: time.Now(), Models: g.router.Totals(), InFlight: make(map[string]int), Waking: g.wakes.waiting()}
	endpoints := g.endpoints.Snapshot()
	for _, name := range endpoints.Models() {
		n := 0
		for _, e := range endpoints.ForModel(name) {
			// One that serves several models has the same requests under each.
			if len(e.Spec().Models) == 1 {
				n += int(e.InFlight())
			}
		}
		if n > 0 {
			t.InFlight[name] = n
		}
	}
	if g.admitter != nil {
		t.Pools, t.HasAdmission = g.admitter.ctl.Pools(), true
	}
	return t
}
