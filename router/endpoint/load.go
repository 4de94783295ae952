package endpoint

import (
	"time"

	"github.com/llmgw/llmgw/engines"
)

// LoadState is one measurement of an endpoint's load. It is immutable once it
// was given to [Endpoint.SetLoad].
type LoadState struct {
	// InFlight is how many requests of this router the measurement has seen:
	// those in flight when it was made. What has been decided since is the
	// difference to [Endpoint.InFlight].
	InFlight int64
	// At is when the measurement was made.
	At time.Time
	// Load is what the engine said.
	engines.Load
	// Engine is what was found to run there.
	Engine engines.Name
}

// NewLoadState returns a measurement as it was recorded: when it was made, how many
// requests it has seen, and what the engine said. A NaN is what it did not say.
func NewLoadState(at time.Time, inFlight int64, running, waiting, kvUsedRatio float64) *LoadState {
	return &LoadState{
		InFlight: inFlight,
		At:       at,
		Load: engines.Load{
			Running: engines.Read(running), Waiting: engines.Read(waiting), KVUsedRatio: engines.Read(kvUsedRatio),
		},
	}
}
