package engines

import "time"

// PriorityOrder says which of two requests an engine runs first when both
// carry a priority number.
type PriorityOrder uint8

const (
	// PriorityUnset is the zero value: the engine knows no priorities.
	PriorityUnset PriorityOrder = iota
	// PriorityLowFirst runs the lower number first.
	PriorityLowFirst
	// PriorityHighFirst runs the higher number first.
	PriorityHighFirst
)

// String returns "low first", "high first" or "unset".
func (o PriorityOrder) String() string {
	switch o {
	case PriorityLowFirst:
		return "low first"
	case PriorityHighFirst:
		return "high first"
	case PriorityUnset:
	}
	return "unset"
}

// Capabilities says, as data, what a router may rely on in an engine that
// runs with its usual settings. The zero value relies on nothing and is what
// an unknown engine gets.
type Capabilities struct {
	// StreamUsage: stream_options.include_usage is understood; the last chunk
	// before [DONE] carries the usage.
	StreamUsage bool
	// ContinuousUsage: stream_options.continuous_usage_stats is understood;
	// every chunk carries the usage so far.
	ContinuousUsage bool
	// PriorityField is the request field with a priority number, or "".
	PriorityField string
	// PriorityOrder says how PriorityField is read.
	PriorityOrder PriorityOrder
	// ChecksModel: an unknown model name is refused. Where it is not, the
	// caller must make sure that the name is one the engine serves.
	ChecksModel bool
	// AbortsOnDisconnect: a request whose client is gone stops running.
	AbortsOnDisconnect bool
	// TokenizePath is the path of the tokenizer route, or "".
	TokenizePath string
	// KeepAlive is how long the engine leaves an idle connection open. Zero
	// is unknown. A client must let go of idle connections before that.
	KeepAlive time.Duration
	// Sleeps: launched with [Profile.Sleep] it can give its cards' memory back and
	// take it again, as [Launch.Sleep] says.
	Sleeps bool
}
