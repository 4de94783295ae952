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
	// Tenant and Band are who asks, as the router's Caller hook said: whose turn
	// it is, and the priority class. Empty: nobody in particular, the default
	// band. The built-in scorers do not look at them; one of your own may.
	Tenant, Band string
	// Session is the affinity key, empty for none.
	Session string
	// SessionHash is what the session is found by in place of Session's own hash,
	// 0 for that: who writes decisions down passes a keyed one, by which nobody can
	// guess sessions. Routers that use different ones keep a session at different
	// endpoints.
	SessionHash uint64
	// Prompt is what Deps.Prefixes knows the prompt by, nil for nothing. A
	// pointer costs no allocation here.
	Prompt any
	// Pin is the ID of the only endpoint that the request may go to, as when it
	// refers to what that one has stored; empty for none.
	Pin string
	// PromptBytes is the size of the prompt in the body.
	PromptBytes int
	// MaxTokens is the answer's limit in tokens, 0 if the request has none.
	MaxTokens int
	// Stream reports whether the answer is streamed.
	Stream bool
	// Trial: nobody is going to be sent anywhere. Outlook sets it, so that the
	// index neither counts the question nor takes note of it.
	Trial bool
	// Tried are the instances that this request has been sent to before.
	Tried []*endpoint.Endpoint
	// Now is the time of the decision. Required.
	Now time.Time
	// PoolVersion is the version of the snapshot that the pool is from, 0 for a
	// pool that is from none. All of one model and version must be one and the same
	// slice, which nobody changes: decisions on a large one remember what it is
	// made of.
	PoolVersion uint64
}

// sessionHash returns what the session is found by, false if there is none.
func (r *Request) sessionHash() (uint64, bool) {
	if r.SessionHash == 0 && r.Session != "" {
		return hashSession(r.Session), true
	}
	return r.SessionHash, r.SessionHash != 0
}

// Candidate is one endpoint with the signals that a decision is made on, as
// they were read at its begin. Make one with [NewCandidate].
type Candidate struct {
	// Endpoint is the instance. It is nil in a record that was read back, unless
	// who read it filled it in.
	Endpoint *endpoint.Endpoint
	// Hash is the endpoint's Hash, by which a record names it.
	Hash uint64
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
	// Failures is the weight of its recent failures, as the endpoint's
	// RecentFailures says.
	Failures float64
	// Prefix is how much of the prompt it holds. Filters do not see it.
	Prefix PrefixMatch

	// What the methods return, negative for unknown. They are worked out once,
	// while the measurement is in the processor's cache.
	waiting, kvUsed, requests float64
}

// firstRequestKVRatio is what one request on an engine of weight 1 is taken to
// occupy when none runs there to learn from: 1 % of the cache, about 1,000
// tokens of an 8B model on an 80 GB card.
const firstRequestKVRatio = 0.01

// takenIn is how long an engine with room takes, about, to begin with what it is
// sent: a few prefills that it is in the middle of. Replays of the traces of
// Mooncake and Azure (fleet/twin) do best with it, of 0.1, 0.25 and 1 s and all.
const takenIn = time.Second

// NewCandidate reads the endpoint's signals at now. A measurement older than
// staleAfter is stale.
func NewCandidate(e *endpoint.Endpoint, now time.Time, staleAfter time.Duration) Candidate {
	var c Candidate
	c.read(e, now, staleAfter)
	return c
}

func (c *Candidate) read(e *endpoint.Endpoint, now time.Time, staleAfter time.Duration) {
	c.Endpoint = e
	c.Hash = e.Hash()
	c.Weight = e.Weight()
	c.InFlight = e.InFlight()
	c.Load = e.Load()
	c.Age, c.Stale = 0, true
	if c.Load != nil {
		c.Age = max(now.Sub(c.Load.At), 0)
		c.Stale = c.Age > staleAfter
	}
	c.Failures, c.Prefix = e.RecentFailures(now), PrefixMatch{}
	c.work()
}

// work works out what the methods return.
func (c *Candidate) work() {
	c.waiting, c.kvUsed, c.requests = -1, -1, float64(c.InFlight)
	if c.Load != nil && !c.Stale {
		c.estimate()
	}
}

// estimate works out what the engine has: what it said, and what was decided
// or has ended since. Of what was decided since only the last part can still be
// waiting, if the engine has room; taken for waiting in full, it would make an
// engine look the emptier the younger its measurement is.
func (c *Candidate) estimate() {
	since := float64(c.InFlight - c.Load.InFlight)
	waiting, waitingKnown := c.Load.Waiting.Get()
	running, runningKnown := c.Load.Running.Get()
	used, usedKnown := c.Load.KVUsedRatio.Get()
	if waitingKnown {
		late := since
		if since > 0 && c.Age > takenIn {
			late *= float64(takenIn) / float64(c.Age)
		}
		c.waiting = max(waiting+late, 0)
	}
	if runningKnown {
		c.requests = max(running+waiting+since, c.requests)
	}
	if !usedKnown {
		return
	}
	c.kvUsed = max(used, 0)
	if since > 0 {
		each := firstRequestKVRatio / c.Weight
		if running >= 1 {
			each = max(used/running, each)
		}
		c.kvUsed = min(used+since*each, 1)
	}
}

// Waiting returns how many requests the engine holds back: those it said and, of
// those decided since, as many as come in a second. It is false when that is unknown
// or stale.
func (c *Candidate) Waiting() (float64, bool) { return max(c.waiting, 0), c.waiting >= 0 }

// load is the requests per unit of weight.
func (c *Candidate) load() float64 { return c.requests / c.Weight }

// name is the endpoint's ID or, in a record that was read back, its hash.
func (c *Candidate) name() string { return nameOf(c.Endpoint, c.Hash) }

// Requests returns how many requests the engine has, running or waiting, those
// of other routers included as far as the engine said. It is never less than
// InFlight, which is all that is known without a fresh measurement.
func (c *Candidate) Requests() float64 { return c.requests }

// KVUsedRatio returns the share of KV cache that is used: what the engine said
// and, for each request decided since, the mean of those that ran, up to 1:
// beyond that they wait. It is false when that is unknown or stale.
func (c *Candidate) KVUsedRatio() (float64, bool) { return max(c.kvUsed, 0), c.kvUsed >= 0 }
