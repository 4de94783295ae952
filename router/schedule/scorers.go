package schedule

import "time"

// neutral is what an unknown signal is worth: half of the best, so that it is
// neither read as idle nor shut out.
const neutral = 0.5

// vote falls with load per unit of weight, this request counted in. It is 1/2
// where that reaches target and never 0, so order survives overload.
func vote(load, weight, target float64) float64 {
	room := weight * target
	return room / (room + load + 1)
}

// QueueDepth votes by the requests that the engine holds back, as it said and
// as decided since (see [Candidate.Waiting]). Unknown or stale, it votes half of
// what this router's own requests alone would.
type QueueDepth struct {
	Target         float64 // requests waiting for a vote of 1/2; positive
	TargetInFlight float64 // own requests for a vote of 1/4 where waiting is unknown; positive
}

// Name returns "queue".
func (QueueDepth) Name() string { return "queue" }

// Score votes by queue depth.
func (s QueueDepth) Score(_ *Request, cs []Candidate, out []float64) {
	for i := range cs {
		c := &cs[i]
		if waiting, ok := c.Waiting(); ok {
			out[i] = vote(waiting, c.Weight, s.Target)
		} else {
			out[i] = neutral * vote(float64(c.InFlight), c.Weight, s.TargetInFlight)
		}
	}
}

// LeastLoaded votes by the requests that the endpoint has: those of this router,
// which are never late, and those of others as far as the engine said. Without
// the others a router that has just started would take an engine that is
// flooded by its peers for an idle one.
type LeastLoaded struct {
	Target float64 // requests for a vote of 1/2; positive
}

// Name returns "inflight".
func (LeastLoaded) Name() string { return "inflight" }

// Score votes by requests in flight.
func (s LeastLoaded) Score(_ *Request, cs []Candidate, out []float64) {
	for i := range cs {
		out[i] = vote(cs[i].Requests(), cs[i].Weight, s.Target)
	}
}

// KVHeadroom votes by the share of KV cache in use, as the engine said and as
// estimated for what was decided since. The vote is 1/(1+x⁴), x being the
// share over the ceiling: half full hardly matters, since engines keep what
// they once computed, and near the ceiling it matters a lot, since there they
// preempt. Unknown or stale, it votes as QueueDepth does.
type KVHeadroom struct {
	Ceiling        float64 // share for a vote of 1/2; in (0,1]
	TargetInFlight float64 // as in QueueDepth
}

// Name returns "kv".
func (KVHeadroom) Name() string { return "kv" }

// Score votes by KV occupancy.
func (s KVHeadroom) Score(_ *Request, cs []Candidate, out []float64) {
	for i := range cs {
		c := &cs[i]
		if used, ok := c.KVUsedRatio(); ok {
			x := used / s.Ceiling
			x *= x
			out[i] = 1 / (1 + x*x)
		} else {
			out[i] = neutral * vote(float64(c.InFlight), c.Weight, s.TargetInFlight)
		}
	}
}

// Freshness votes 1 for a measurement that is young enough, and at most 1/2 and
// falling with age for an older one. It drops nobody: when a whole pool is stale,
// all fall alike. Where there has been none it votes 1: what is unknown is in the
// votes on load already, and a constant on top of it would, under load, where
// those are small, send a new router's first burst to the engine that it happened
// to measure first.
type Freshness struct {
	StaleAfter time.Duration // positive
}

// Name returns "freshness".
func (Freshness) Name() string { return "freshness" }

// Score votes by the age of the measurement.
func (s Freshness) Score(_ *Request, cs []Candidate, out []float64) {
	for i := range cs {
		switch c := &cs[i]; {
		case c.Load == nil:
			out[i] = 1
		case c.Age <= s.StaleAfter:
			out[i] = 1
		default:
			out[i] = neutral * float64(s.StaleAfter) / float64(c.Age)
		}
	}
}

// CleanRecord votes 1/(1+recent failures), so that an endpoint that fails fast
// does not draw traffic by never being busy.
type CleanRecord struct{}

// Name returns "record".
func (CleanRecord) Name() string { return "record" }

// Score votes by recent failures.
func (CleanRecord) Score(_ *Request, cs []Candidate, out []float64) {
	for i := range cs {
		out[i] = 1 / (1 + cs[i].Failures)
	}
}

// LargerFirst votes by weight, 1 for the greatest of the pool. The load scorers
// divide by weight already, which is what makes load proportional; this one
// only prefers the larger among equals and wants a small weight itself.
type LargerFirst struct{}

// Name returns "weight".
func (LargerFirst) Name() string { return "weight" }

// Score votes by weight.
func (LargerFirst) Score(_ *Request, cs []Candidate, out []float64) {
	var greatest float64
	for i := range cs {
		greatest = max(greatest, cs[i].Weight)
	}
	for i := range cs {
		out[i] = cs[i].Weight / greatest
	}
}
