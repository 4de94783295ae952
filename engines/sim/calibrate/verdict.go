package calibrate

import (
	"fmt"
	"math"
	"strings"
)

// judge says, a sentence each, what is off by more than the tolerance. A
// figure that is no number is off.
func (r *Report) judge() []string {
	var poor []string
	off := func(ratio float64) bool { return !(math.Abs(ratio) <= r.ToleranceRatio) }
	fit := func(what string, m Misfit, points string) {
		if off(m.MedianRatio) {
			poor = append(poor, fmt.Sprintf("%s is off by %s, the median of %d %s, where it was fitted", what, percent(m.MedianRatio), m.Points, points))
		}
	}
	fit("TTFT", r.Model.TTFT, "lengths")
	fit("the time between tokens", r.Model.Interval, "points")
	if r.Check == nil {
		return poor
	}
	check := func(what string, c Compare) {
		if off(c.Ratio()) {
			poor = append(poor, fmt.Sprintf("%s in the check is %s", what, c))
		}
	}
	check("TTFT", r.Check.TTFT)
	check("the time between tokens", r.Check.Interval)
	return poor
}

// Err is nil if the model behaves like the engine, within the tolerance, as
// far as that was measured. Otherwise it wraps [ErrPoor] and says what is off
// and what helps.
func (r *Report) Err() error {
	if len(r.Poor) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s; at most %s is wanted; %s", ErrPoor, strings.Join(r.Poor, "; "), percent(r.ToleranceRatio), advice)
}

const advice = "measure again while nothing else uses the engine or the two machines, or with a longer budget"

// percent is for people, who need no figures beyond this.
func percent(ratio float64) string {
	if ratio >= 10 {
		return "more than 999 %"
	}
	return fmt.Sprintf("%.0f %%", 100*ratio)
}
