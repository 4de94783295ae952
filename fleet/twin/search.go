package twin

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/llmgw/llmgw/engines/sim/workload"
)

// ErrNoSpeedup says that no speed-up in reach keeps the bound, or that all do.
var ErrNoSpeedup = errors.New("twin: no highest speed-up")

// Bounds of MaxSpeedup, and how far its result may be below the highest.
const (
	leastSpeedup = 1.0 / 1024
	mostSpeedup  = 1 << 20
	speedupStep  = 1.02
)

// MaxSpeedup finds the highest load that a fleet carries: how many times faster
// than recorded the trace may come while the TTFT of 90 % of its requests stays
// within bound. A refused request counts as one that waits for ever; one beyond
// the engines' context length does not count. The result is at most 2 % below
// the highest and comes with its report; it takes about ten runs.
//
// Errors are those of New and Run, or wrap [ErrNoSpeedup].
func MaxSpeedup(ctx context.Context, cfg Config, p Policy, trace *workload.Trace, bound time.Duration) (float64, *Report, error) {
	run := func(x float64) (*Report, error) {
		faster, err := trace.Speedup(x)
		if err != nil {
			return nil, fmt.Errorf("twin: %w", err)
		}
		t, err := New(cfg, p, faster)
		if err != nil {
			return nil, err
		}
		r, err := t.Run(ctx)
		if err == nil {
			r.Speedup = x
		}
		return r, err
	}
	var best *Report
	low, high := 0.0, math.Inf(1) // kept and broken
	for x := 1.0; high/low > speedupStep; {
		if x < leastSpeedup || x > mostSpeedup {
			is, want := "broken even", "ask for a longer time, or of more engines"
			if x > 1 {
				is, want = "still kept", "ask for a shorter time, or with more requests"
			}
			return 0, nil, fmt.Errorf("%w: a TTFT of %v at the 90th percentile is %s at a speed-up of %v: %s", ErrNoSpeedup, bound, is, x, want)
		}
		r, err := run(x)
		if err != nil {
			return 0, nil, err
		}
		if r.keeps(0.9, bound) {
			low, best = x, r
		} else {
			high = x
		}
		switch {
		case math.IsInf(high, 1):
			x *= 2
		case low == 0:
			x /= 2
		default:
			x = math.Sqrt(low * high)
		}
	}
	return low, best, nil
}

// keeps reports whether so great a share of the requests had their first token
// within bound.
func (r *Report) keeps(share float64, bound time.Duration) bool {
	within := 0
	for _, t := range r.ttft {
		if t <= bound {
			within++
		}
	}
	return float64(within) >= share*float64(r.Requests-r.Refused.TooLong)
}
