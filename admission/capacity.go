package admission

import "time"

// How an engine's batch capacity is learned: it is the most requests that it
// was ever seen to run at once. Since admission itself bounds what an engine
// gets, that mark alone would never rise, so while an engine runs most of what
// it is taken to be able to and holds nothing back, it is given some more. That
// ends when it is seen to be full.
const (
	// probeFrom is the share of an engine's capacity that must be running for
	// more to be tried. It lies above the ceilings of bands that are meant to
	// leave room, so a batch load alone raises nothing.
	probeFrom = 0.8
	// probeStep is how much more is tried per measurement: from 8 to 256 in
	// 16 of them.
	probeStep = 0.25
	// An engine that was seen to be full is tried again after holdFirst, and
	// each time that it proves full again after twice as long, up to holdMost:
	// every trial puts requests into the engine's own queue.
	holdFirst, holdMost = 30 * time.Second, time.Hour
	// strikesOut is how many measurements must find an engine holding requests
	// back while it runs no more than it ever did, until it is believed to be
	// smaller than the target.
	strikesOut = 3
)

// engine is what is kept of one engine instance.
type engine struct {
	id      string
	learned float64       // most requests seen running
	tried   float64       // capacity tried beyond; 0 none
	hold    time.Duration // how long nothing more is tried; 0 never seen full
	heldTo  time.Time
	strikes int
	small   bool // runs fewer than the target

	measuredAt       time.Time // of the last measurement
	running, waiting Reading   // in it
	queue            float64   // held back in the last two measurements
}

// observe takes in the measurement of e, unless it is one that was seen before.
func (s *engine) observe(now time.Time, e *EndpointLoad, cfg *SaturationConfig) {
	if !e.MeasuredAt.After(s.measuredAt) || now.Sub(e.MeasuredAt) > cfg.StaleAfter {
		return
	}
	before := *s
	if e.MeasuredAt.Sub(s.measuredAt) > cfg.StaleAfter {
		before.running, before.waiting = Reading{}, Reading{}
	}
	s.measuredAt, s.running, s.waiting = e.MeasuredAt, e.Running, e.Waiting

	waiting, hasWaiting := e.Waiting.Get()
	waitedBefore, hadWaiting := before.waiting.Get()
	s.queue = waiting
	if hadWaiting {
		s.queue = min(waiting, waitedBefore)
	}
	running, hasRunning := e.Running.Get()
	if !hasRunning {
		return
	}
	if running > s.learned {
		s.learned = running
		s.hold, s.heldTo, s.strikes, s.small = 0, time.Time{}, 0, false
	}
	if !hasWaiting { // whether it is full cannot be known
		return
	}
	if waiting > 0 {
		ran, ok := before.running.Get()
		s.held(e, cfg, ok && running <= ran && s.queue > 0)
		return
	}
	if c := s.capacity(e, cfg); running >= probeFrom*c && !now.Before(s.heldTo) && !kvFull(e, cfg) {
		s.tried = c + max(1, c*probeStep)
	}
}

// held takes in that the engine holds requests back. One such measurement may
// have come between an arrival and the engine's next batch; again is that the
// one before said the same, and that the engine ran no fewer then.
func (s *engine) held(e *EndpointLoad, cfg *SaturationConfig, again bool) {
	if running, _ := e.Running.Get(); running >= s.learned && !kvFull(e, cfg) {
		s.strikes++
	}
	if again && s.queue >= cfg.TargetWaiting*weight(e)/2 || s.strikes >= strikesOut {
		s.small = true
	}
	if !again && !s.small {
		return
	}
	s.tried = 0
	if !e.MeasuredAt.Before(s.heldTo) {
		s.hold = min(max(2*s.hold, holdFirst), holdMost)
		s.heldTo = e.MeasuredAt.Add(s.hold)
	}
}

func kvFull(e *EndpointLoad, cfg *SaturationConfig) bool {
	kv, ok := e.KVUsedRatio.Get()
	return ok && kv >= cfg.KVCeiling
}

// capacity is how many requests the engine is taken to be able to run at once,
// 1 or more.
func (s *engine) capacity(e *EndpointLoad, cfg *SaturationConfig) float64 {
	if c, ok := e.BatchCapacity.Get(); ok && c > 0 {
		return max(c, 1)
	}
	c := max(s.learned, s.tried, 1)
	if !s.small {
		c = max(c, cfg.TargetInflight*weight(e))
	}
	return c
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
