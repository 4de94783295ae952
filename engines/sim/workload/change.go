package workload

// The methods of this file return a new trace and leave t alone. What they
// refuse wraps [ErrInvalid].

// First keeps the first n requests, all if there are fewer; n is 1 or more.
func (t *Trace) First(n int) (*Trace, error) { return t, nil }

// Repeat plays the trace n times, n is 1 or more. A pass begins a mean gap
// after the last request of the one before. Passes share nothing: blocks and
// sessions are renumbered, so that the hit share stays that of the trace;
// only texts that the trace has itself come again as they are.
func (t *Trace) Repeat(n int) (*Trace, error) { return t, nil }

// Speedup divides all times by x, more than 0.
func (t *Trace) Speedup(x float64) (*Trace, error) { return t, nil }

// Scale multiplies the lengths, rounded and at least 1; both factors are more
// than 0. Blocks grow and shrink with the prompts, so the same requests share
// the same share of them: BlockTokens is rounded, and the real factor of
// prompts is the new one divided by the old. Prompts of a trace that has
// their texts cannot be scaled.
func (t *Trace) Scale(prompt, output float64) (*Trace, error) { return t, nil }

// WithArrivals replaces the times of all requests and keeps their order.
func (t *Trace) WithArrivals(a Arrivals, seed uint64) (*Trace, error) { return t, nil }
