package admission

import "time"

// How an engine's batch capacity is learned: it is the most requests that it
// was ever seen to run at once. Since admission itself bounds what an engine
// gets, that mark alone would never rise, so while an engine runs most of what
// it is taken to be able to and holds nothing back, it is given some more. That
// ends when it is seen to be full, which two measurements in a row must say: one
// alone may have come between an arrival and the engine's next batch.
const (
	// probeFrom is the share of an engine's capacity that must be running for
	// more to be tried. It lies above the ceilings of bands that are meant to
	// leave room, so a batch load alone raises nothing.
	probeFrom = 0.8
	// probeStep is how much more is tried per measurement: from 8 to 256 in
	// 16 of them.
	probeStep = 0.25
	// fullFor is how long an engine that was seen to be full is taken to have
	// no more capacity than what it ran.
	fullFor = 5 * time.Minute
)

// engine is what is kept of one engine instance.
type engine struct {
	id      string
	learned float64 // most requests seen running
	tried   float64 // capacity tried beyond; 0 none
	fullAt  time.Time
	small   bool // seen full below the target, with a queue to show for it

	measuredAt       time.Time // of the last measurement
	running, waiting Reading   // in it
	queue            float64   // held back in the last two measurements
}

// observe takes in the measurement of e, unless it is one that was seen before.
func (s *engine) observe(now time.Time, e *EndpointLoad, cfg *SaturationConfig) {
	if !e.MeasuredAt.After(s.measuredAt) || now.Sub(e.MeasuredAt) > cfg.StaleAfter {
		return
	}
	running, hasRunning := e.Running.Get()
	waiting, hasWaiting := e.Waiting.Get()
	before, seenWaiting := s.waiting.Get()
	ranBefore, seenRunning := s.running.Get()
	if e.MeasuredAt.Sub(s.measuredAt) > cfg.StaleAfter {
		seenWaiting, seenRunning = false, false
	}

	s.queue = waiting
	if seenWaiting {
		s.queue = min(waiting, before)
	}
	if hasRunning {
		if running > s.learned {
			s.learned, s.fullAt, s.small = running, time.Time{}, false
		}
		switch {
		case !hasWaiting: // whether it is full cannot be known
		case waiting > 0:
			if seenRunning && seenWaiting && before > 0 && running <= ranBefore {
				s.fullAt, s.tried = e.MeasuredAt, 0
				s.small = s.small || s.queue >= cfg.TargetWaiting*weight(e)/2
			}
		case now.Sub(s.fullAt) > fullFor && !kvFull(e, cfg):
			s.small = false
			if c := s.capacity(e, cfg); running >= probeFrom*c {
				s.tried = c + max(1, c*probeStep)
			}
		}
	}
	s.measuredAt, s.running, s.waiting = e.MeasuredAt, e.Running, e.Waiting
}

func kvFull(e *EndpointLoad, cfg *SaturationConfig) bool {
	kv, ok := e.KVUsedRatio.Get()
	return ok && kv >= cfg.KVCeiling
}

// capacity is how many requests the engine is taken to be able to run at once.
func (s *engine) capacity(e *EndpointLoad, cfg *SaturationConfig) float64 {
	if c, ok := e.BatchCapacity.Get(); ok && c > 0 {
		return c
	}
	if s.small {
		return max(s.learned, 1)
	}
	return max(s.learned, s.tried, cfg.TargetInflight*weight(e))
}

func (s *engine) fresh(now time.Time, cfg *SaturationConfig) bool {
	return !s.measuredAt.IsZero() && now.Sub(s.measuredAt) <= cfg.StaleAfter
}

// demand is how many requests the engine has: the caller's own, and what the
// engine had beyond them as it was measured.
func (s *engine) demand(e *EndpointLoad, fresh bool) float64 {
	own, _ := e.InFlight.Get()
	if !fresh {
		return own
	}
	running, _ := e.Running.Get()
	waiting, _ := e.Waiting.Get()
	then, ok := e.MeasuredInFlight.Get()
	if !ok {
		then = own
	}
	return own + max(0, running+waiting-then)
}
