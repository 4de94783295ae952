package control

import "time"

// awake is a clock that runs while the process does. It is stepped once a tick;
// of a longer gap between two steps, in which the process was stopped, starved or
// suspended, two ticks count. Times are since the plane's beginning, by the
// monotonic clock.
type awake struct {
	tick  time.Duration
	last  time.Duration // of the last step
	lived time.Duration // what counted until then
}

// at returns what will have counted at a moment after the last step.
func (a *awake) at(now time.Duration) time.Duration {
	return a.lived + min(max(now-a.last, 0), 2*a.tick)
}

// step moves the clock, and returns by which of its times silence is to be judged
// now, and how much did not count. After a stall that is the time before it: what
// arrived meanwhile waits to be taken, and has until the next step.
func (a *awake) step(now time.Duration) (judge, stalled time.Duration) {
	before, gap := a.lived, now-a.last
	a.lived = a.at(now)
	a.last = max(a.last, now)
	if gap > 2*a.tick {
		return before, gap - 2*a.tick
	}
	return a.lived, 0
}
