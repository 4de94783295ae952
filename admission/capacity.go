package admission

import "time"

// How it is learned how many requests an engine runs at once: it is the most that
// it was ever seen to run. Until it was seen to be full that says only what it
// can at least, so it is taken for what is assumed or known of it. One that holds
// requests back has shown what it can, at the first sight where it holds back more
// than it runs: an assumption that was too high is given up within one
// measurement.
//
// Since admission itself bounds what an engine gets, the mark alone would never
// rise, so while an engine runs most of what it is taken to be able to and holds
// nothing back, it is given some more. That ends when it is seen to be full.
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
	// every trial puts requests into the engine's own queue. After holdMost
	// without being full it is taken again for what is assumed of it, since a
	// load that never uses most of it would not find out.
	holdFirst, holdMost = 30 * time.Second, time.Hour
	// turnover is the share of what an engine runs that may be found waiting
	// although it is not full: for each that ends another comes, and stands in
	// the queue until the next batch.
	turnover = 0.05
	// lowerAfter is how many measurements in a row must find an engine full that
	// runs less than lowerBelow of what it once ran, until that is forgotten: it
	// has started anew with other settings, or its requests have grown.
	lowerAfter = 5
	lowerBelow = 0.7
)

// engine is what is kept of one engine instance.
type engine struct {
	id       string
	instance uint64

	learned float64 // most requests seen running
	tried   float64 // capacity tried beyond; 0 none
	// suspect: one measurement alone said that it is full. Such a queue may have
	// been gone with the next batch, so that is believed for holdFirst, or until
	// the engine runs clearly more: one that is full is not always seen with every
	// place taken. A second time it is believed.
	suspect   bool
	suspectAt float64   // what it ran then
	suspectTo time.Time // zero: never suspected
	full      bool      // runs no more than learned
	fullAt    time.Time
	hold      time.Duration // how long nothing more is tried; 0 never seen full
	heldTo    time.Time
	lower     int     // measurements in a row that found it full and below
	lowered   float64 // most requests running in those

	measuredAt       time.Time // of the last measurement
	running, waiting Reading   // in it
	queue            float64   // held back in the last two measurements
}

func (s *engine) is(id string, instance uint64) bool { return s.id == id && s.instance == instance }

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
		s.hold, s.heldTo = 0, time.Time{}
		if running >= 1.5*s.suspectAt {
			s.suspect, s.suspectTo = false, time.Time{}
		}
	}
	if !hasWaiting { // whether it is full cannot be known
		return
	}
	if waiting > 0 {
		ran, ok := before.running.Get()
		s.held(e, cfg, running, waiting, ok && running <= ran && s.queue > 0)
		return
	}
	s.lower = 0
	if s.suspect && !e.MeasuredAt.Before(s.suspectTo) {
		s.suspect = false
	}
	if s.full && now.Sub(s.fullAt) >= holdMost {
		s.full = false
	}
	if c := s.capacity(e, cfg); running >= probeFrom*c && !now.Before(s.heldTo) && !kvFull(e, cfg) {
		s.tried = c + max(1, c*probeStep)
	}
}

// held takes in that the engine holds requests back. One such measurement may
// have come between an arrival and the engine's next batch; again is that the
// one before said the same, and that the engine ran no fewer then. An engine
// whose KV cache is full says nothing about how many requests it can run.
func (s *engine) held(e *EndpointLoad, cfg *SaturationConfig, running, waiting float64, again bool) {
	target := cfg.TargetWaiting * weight(e)
	enough := max(target, turnover*running)
	if s.capacity(e, cfg) <= 2*running { // it does not take much to believe it
		enough = max(min(target, max(1, running/4)), turnover*running)
	}
	sure := again && s.queue >= enough
	cacheFull := kvFull(e, cfg)
	if !cacheFull {
		if running >= 1 && waiting >= max(target, running) && !s.suspect {
			sure = sure || !s.suspectTo.IsZero()
			s.suspect, s.suspectAt, s.suspectTo = true, running, e.MeasuredAt.Add(holdFirst)
		}
		if sure {
			s.full, s.fullAt = true, e.MeasuredAt
		}
	}
	s.sink(running, sure && !cacheFull)
	if !sure {
		return
	}
	s.tried = 0
	if !e.MeasuredAt.Before(s.heldTo) {
		s.hold = min(max(2*s.hold, holdFirst), holdMost)
		s.heldTo = e.MeasuredAt.Add(s.hold)
	}
}

// sink lowers what the engine is known to run once it was full at much less for
// a while.
func (s *engine) sink(running float64, full bool) {
	if !full || running >= lowerBelow*s.learned {
		s.lower = 0
		return
	}
	if s.lower == 0 {
		s.lowered = 0
	}
	s.lowered = max(s.lowered, running)
	if s.lower++; s.lower >= lowerAfter {
		s.learned, s.lower = s.lowered, 0
	}
}

func kvFull(e *EndpointLoad, cfg *SaturationConfig) bool {
	kv, ok := e.KVUsedRatio.Get()
	return ok && kv >= cfg.KVCeiling
}

// capacity is how many requests the engine is taken to be able to run at once,
// 1 or more.
func (s *engine) capacity(e *EndpointLoad, cfg *SaturationConfig) float64 {
	c := max(s.learned, s.tried, 1)
	most, known := e.BatchCapacity.Get()
	known = known && most > 0
	if !s.full && !s.suspect {
		assumed, ok := e.AssumedCapacity.Get()
		switch {
		case known:
			assumed = most
		case !ok || assumed <= 0:
			assumed = cfg.AssumedCapacity
		}
		c = max(c, assumed)
	}
	if known {
		c = max(min(c, most), 1)
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
