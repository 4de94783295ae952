package schedule

import (
	"time"

	"github.com/llmgw/llmgw/router/endpoint"
)

// Request is what is known of a request when it is scheduled. Decide reads it
// and keeps nothing of it but in the decision record.
type Request struct {
	// Model is the canonical model.
	Model string
	// Session is the affinity key, empty for none.
	Session string
	// PromptBytes is the size of the prompt in the body.
	PromptBytes int
	// MaxTokens is the answer's limit in tokens, 0 if the request has none.
	MaxTokens int
	// Stream reports whether the answer is streamed.
	Stream bool
	// Tried are the instances that this request has been sent to before.
	Tried []*endpoint.Endpoint
	// Now is the time of the decision. Required.
	Now time.Time
}

// Candidate is one endpoint with the signals that a decision is made on, as
// they were read at its begin.
type Candidate struct {
	// Endpoint is the instance.
	Endpoint *endpoint.Endpoint
	// Weight is its share of the load, positive.
	Weight float64
	// InFlight is how many requests of this router it has.
	InFlight int64
	// Load is its last measurement, nil before the first.
	Load *endpoint.LoadState
	// Age is how old Load is; 0 without one.
	Age time.Duration
	// Stale: there is no measurement, or it is too old to be believed.
	Stale bool
}

// read fills the candidate from the endpoint.
func (c *Candidate) read(e *endpoint.Endpoint, now time.Time, staleAfter time.Duration) {
	c.Endpoint = e
	c.Weight = e.Weight()
	c.InFlight = e.InFlight()
	c.Load = e.Load()
	c.Age, c.Stale = 0, true
	if c.Load != nil {
		c.Age = max(now.Sub(c.Load.At), 0)
		c.Stale = c.Age > staleAfter
	}
}

// since is how many more requests of this router are in flight than the
// measurement has seen; negative when some have ended. Load is not nil.
func (c *Candidate) since() float64 { return float64(c.InFlight - c.Load.InFlight) }

// Waiting returns how many requests the engine holds back: those it said and
// those decided since. It is false when that is unknown or stale.
func (c *Candidate) Waiting() (float64, bool) {
	if c.Stale {
		return 0, false
	}
	waiting, ok := c.Load.Waiting.Get()
	if !ok {
		return 0, false
	}
	return max(waiting+c.since(), 0), true
}

// Requests returns how many requests the engine has, running or waiting, those
// of other routers included as far as the engine said. It is never less than
// InFlight, which is all that is known without a fresh measurement.
func (c *Candidate) Requests() float64 {
	own := float64(c.InFlight)
	if c.Stale {
		return own
	}
	running, ok := c.Load.Running.Get()
	if !ok {
		return own
	}
	return max(running+c.Load.Waiting.Or(0)+c.since(), own)
}

// firstRequestKVRatio is what one request on an engine of weight 1 is taken to
// occupy when none runs there to learn from: 1 % of the cache, about 1,000
// tokens of an 8B model on an 80 GB card.
const firstRequestKVRatio = 0.01

// KVUsedRatio returns the share of KV cache that is used: what the engine said
// and, for each request decided since, the mean of those that ran, up to 1:
// beyond that they wait. It is false when that is unknown or stale.
func (c *Candidate) KVUsedRatio() (float64, bool) {
	if c.Stale {
		return 0, false
	}
	used, ok := c.Load.KVUsedRatio.Get()
	if !ok {
		return 0, false
	}
	since := c.since()
	if since <= 0 {
		return used, true
	}
	each := firstRequestKVRatio / c.Weight
	if running := c.Load.Running.Or(0); running >= 1 {
		each = max(used/running, each)
	}
	return min(used+since*each, 1), true
}
