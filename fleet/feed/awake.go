package feed

import "time"

// awake is a clock that runs while the process does. It is stepped once a tick;
// of a longer gap between two steps, in which the process was stopped, starved or
// suspended, two ticks count: it is no router's silence. Times are since the
// publisher's beginning, by the monotonic clock.
type awake struct {
	tick  time.Duration
	last  time.Duration // of the last step
	lived time.Duration // what counted until then
}

// at returns what counts at a moment after the last step.
func (a *awake) at(now time.Duration) time.Duration {
	return a.lived + min(max(now-a.last, 0), 2*a.tick)
}

// step moves the clock, and reports whether the process stood still before it:
// then what has arrived meanwhile is to be taken first.
func (a *awake) step(now time.Duration) (stalled bool) {
	gap := now - a.last
	a.lived = a.at(now)
	a.last = max(a.last, now)
	return gap > 2*a.tick
}
