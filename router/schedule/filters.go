package schedule

import "slices"

// Present drops instances that have left their set since the pool was taken.
type Present struct{}

// Name returns "present".
func (Present) Name() string { return "present" }

// Keep reports whether the instance is still in its set.
func (Present) Keep(_ *Request, c *Candidate) bool { return !c.Endpoint.Gone() }

// Untried drops instances that the request was sent to before.
type Untried struct{}

// Name returns "untried".
func (Untried) Name() string { return "untried" }

// Keep reports whether the request has not been there.
func (Untried) Keep(req *Request, c *Candidate) bool {
	return len(req.Tried) == 0 || !slices.Contains(req.Tried, c.Endpoint)
}

// Admitting drops instances whose breaker is open or that cool down. One that
// owes a probe stays.
type Admitting struct{}

// Name returns "breaker".
func (Admitting) Name() string { return "breaker" }

// Keep reports whether the breaker would let the request through.
func (Admitting) Keep(req *Request, c *Candidate) bool { return c.Endpoint.Admissible(req.Now) }
