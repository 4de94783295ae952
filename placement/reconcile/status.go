package reconcile

import (
	"time"

	"github.com/llmgw/llmgw/engines"
)

// ModelState is how a model stands for who asks for it.
type ModelState uint8

// The states of models.
const (
	_ ModelState = iota // unset
	// ModelOff: none of it may run.
	ModelOff
	// ModelAsleep: none of it runs, and one will when somebody asks.
	ModelAsleep
	// ModelLoading: none of it serves, and one is on its way.
	ModelLoading
	// ModelServing: one serves.
	ModelServing
	// ModelFailing: none of it serves, the last ones did not come up or stay, and the
	// next start has to wait.
	ModelFailing
	// ModelUnplaced: none of it serves, and there is no place for one.
	ModelUnplaced
)

// String returns the state in one word, lower case.
func (s ModelState) String() string {
	return [...]string{"unset", "off", "asleep", "loading", "serving", "failing", "unplaced"}[s]
}

// ModelStatus is how a model stands, for routers to tell who asks for it.
type ModelStatus struct {
	Model string
	State ModelState
	// Ready is in how long it should serve, by how long earlier ones took. Not known:
	// none was loaded yet, or it takes longer than those.
	Ready engines.Opt[time.Duration]
	// Progress is how far the engine has come, by its log, for people. It may be empty.
	Progress string
	// Reason is why it is failing, or has no place.
	Reason string
	// Retry is in how long the next start is tried, of one that is failing.
	Retry engines.Opt[time.Duration]
}

// tell brings what routers are told of models up to date and reports whether it
// changed: what is only as much later as it was said to be is no change.
func (c *Core) tell() bool {
	changed := false
	for _, m := range c.models {
		if m.fingerprint == "" {
			continue
		}
		is := c.status(m)
		passed := c.now.Sub(m.toldAt)
		if is.State == m.told.State && is.Progress == m.told.Progress && is.Reason == m.told.Reason &&
			near(is.Ready, m.told.Ready, passed) && near(is.Retry, m.told.Retry, passed) {
			continue
		}
		m.told, m.toldAt, changed = is, c.now, true
	}
	if !changed && c.statuses != nil && c.statusesOf == c.catalog {
		return false
	}
	c.statusesOf = c.catalog
	c.statuses = make([]ModelStatus, 0, len(c.models))
	for _, m := range c.models {
		if m.fingerprint == "" {
			continue
		}
		s, passed := m.told, c.now.Sub(m.toldAt)
		s.Ready, s.Retry = aged(s.Ready, passed), aged(s.Retry, passed)
		c.statuses = append(c.statuses, s)
	}
	return true
}

// near reports whether a time that is left is about what it was said to be a while
// ago.
func near(is, was engines.Opt[time.Duration], passed time.Duration) bool {
	a, known := is.Get()
	b, told := aged(was, passed).Get()
	return known == told && (a-b).Abs() <= max(10*time.Second, a/4)
}

// aged is a time that is left once some of it has passed.
func aged(d engines.Opt[time.Duration], passed time.Duration) engines.Opt[time.Duration] {
	if left, known := d.Get(); known {
		return engines.Known(max(left-passed, 0))
	}
	return d
}

func (c *Core) status(m *model) ModelStatus {
	s := ModelStatus{Model: m.name}
	coming := furthest(m.kin.fresh)
	switch {
	case m.kin.ready > 0 || servesOld(c, m.kin.old):
		s.State = ModelServing
	case m.scaling.Max == 0:
		s.State = ModelOff
	case m.problem != "":
		s.State, s.Reason = ModelUnplaced, m.problem
	case coming != nil:
		s.State = ModelLoading
		s.Ready, s.Progress = c.left(m, coming), coming.progress()
	case m.failures > 0 && c.now.Before(m.after):
		s.State, s.Reason = ModelFailing, m.reason
		s.Retry = engines.Known(m.after.Sub(c.now))
	case m.count == 0:
		s.State, s.Ready = ModelAsleep, m.loads.estimate("")
		if len(m.kin.asleep) > 0 && m.wakes.estimate("") != (engines.Opt[time.Duration]{}) {
			s.Ready = m.wakes.estimate("")
		}
	case m.unplaced != nil:
		s.State, s.Reason = ModelUnplaced, m.unplaced.Why
	default:
		s.State, s.Ready = ModelLoading, m.loads.estimate("")
	}
	return s
}

// servesOld reports whether one of those that are to be replaced serves.
func servesOld(c *Core, old []*replica) bool {
	for _, r := range old {
		if r.row.State == Ready && c.serves(r) {
			return true
		}
	}
	return false
}

// furthest returns the replica that is on its way and nearest to serving; nil: none
// is.
func furthest(fresh []*replica) (best *replica) {
	for _, r := range fresh {
		if best == nil || rung(r) > rung(best) || rung(r) == rung(best) && r.begun.Before(best.begun) {
			best = r
		}
	}
	return best
}

// left is in how long a replica that is on its way should serve. One that takes
// longer than those before it takes nobody knows how long.
func (c *Core) left(m *model, r *replica) engines.Opt[time.Duration] {
	estimate, from := m.loads.estimate(c.classOf(r)), r.begun
	if !r.woken.IsZero() {
		estimate, from = m.wakes.estimate(c.classOf(r)), r.woken
	}
	whole, known := estimate.Get()
	if !known || from.IsZero() {
		return estimate
	}
	left := whole - c.now.Sub(from)
	if left < 0 {
		return engines.Opt[time.Duration]{}
	}
	return engines.Known(left)
}

// progress is how far the slowest of a replica's shards has come, by what its engine
// prints.
func (r *replica) progress() string {
	slowest := engines.PhaseFailed
	for _, s := range r.shards {
		switch {
		case s.status == nil:
			return r.row.State.String()
		case s.status.Phase != engines.PhaseUnset:
			slowest = min(slowest, s.status.Phase)
		}
	}
	if slowest == engines.PhaseFailed {
		return r.row.State.String()
	}
	return slowest.String()
}
