package reconcile

import (
	"cmp"
	"slices"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/placement/scale"
)

// kin are a model's replicas by what is to become of them.
type kin struct {
	// fresh stay, old are to be replaced, lost may come back, asleep serve once they are
	// woken, or will sleep. The rest is on its way out.
	fresh, old, lost, asleep []*replica
	// ready are those of fresh that routers know of.
	ready int
	// missing are to be placed now.
	missing int
}

// gather sorts a model's replicas.
func (c *Core) gather(m *model) {
	k := kin{fresh: m.kin.fresh[:0], old: m.kin.old[:0], lost: m.kin.lost[:0], asleep: m.kin.asleep[:0]}
	for _, r := range m.replicas {
		switch {
		case r.row.State == Lost:
			k.lost = append(k.lost, r)
		case r.row.State == Sleeping || r.row.State == Draining && r.toSleep:
			k.asleep = append(k.asleep, r)
		case !r.row.State.holds():
		default:
			c.judge(m, r)
			if r.move != "" || r.outdated {
				k.old = append(k.old, r)
			} else {
				k.fresh = append(k.fresh, r)
			}
		}
	}
	for _, r := range k.fresh {
		if r.row.State == Ready && c.serves(r) {
			k.ready++
		}
	}
	m.kin = k
}

// demand takes what routers say of who asks for models.
func (c *Core) demand(all []Demand) {
	for _, m := range c.models {
		m.demand = Demand{}
	}
	for i := range all {
		m := c.byName[all[i].Model]
		if m == nil {
			continue
		}
		m.demand = all[i]
		if age, known := all[i].Asked.Get(); known {
			m.askedAt = later(m.askedAt, c.now.Add(-age))
		}
	}
}

// scale decides how many replicas of a model are wanted.
func (c *Core) scale(m *model) {
	c.setFloor(m)
	in := scale.Input{
		Now: c.now, Floor: m.floor, Max: m.scaling.Max, Ready: m.kin.ready, Coming: len(m.kin.fresh) - m.kin.ready + len(m.kin.old),
		Disturbed: len(m.kin.old) > 0 || len(m.kin.lost) > 0, Waiting: m.demand.Waiting, Queued: m.demand.Queued, Load: m.demand.Load,
	}
	for _, r := range m.kin.fresh {
		in.Disturbed = in.Disturbed || r.row.State == Settling
	}
	in.Asked = c.asked(m)
	if m.unplaced != nil {
		in.NoRoom = m.unplaced.Why
	}
	in.Idle, in.Held = c.idleAll(m.kin.fresh), held(m.kin.fresh)
	rec := scale.Record{Config: c.scaleConfig(m), Input: in, Before: m.scaler.State()}
	m.scaled = m.scaler.Step(rec.Config, in)
	m.count = m.scaled.Want
	if rec.Decision = m.scaled; m.scaled.Changed {
		c.scaled = append(c.scaled, Scaled{m.name, rec})
	}
}

// scaleConfig is how it is decided for a model.
func (c *Core) scaleConfig(m *model) scale.Config {
	cfg := c.cfg.Scale
	cfg.IdleTimeout = cmp.Or(m.scaling.IdleTimeout, cfg.IdleTimeout)
	cfg.TargetLoad = cmp.Or(m.scaling.TargetLoad, cfg.TargetLoad)
	return cfg
}

// asked is for how long nobody has asked for a model.
func (c *Core) asked(m *model) engines.Opt[time.Duration] {
	if m.askedAt.IsZero() {
		return engines.Opt[time.Duration]{}
	}
	return engines.Known(max(c.now.Sub(m.askedAt), 0))
}

// setFloor looks once a minute how many have to run: schedules are in minutes.
func (c *Core) setFloor(m *model) {
	if minute := c.now.Truncate(time.Minute); !minute.Equal(m.floorAt) {
		m.floorAt = minute
		m.floor, m.prewarm = m.scaling.Floor(c.now)
	}
}

// idleAll is for how long none of the replicas that serve has had anything to do.
func (c *Core) idleAll(replicas []*replica) (least engines.Opt[time.Duration]) {
	for _, r := range replicas {
		if r.row.State != Ready {
			continue
		}
		idle, known := c.idleFor(r).Get()
		if !known {
			return engines.Opt[time.Duration]{}
		}
		if have, some := least.Get(); !some || idle < have {
			least = engines.Known(idle)
		}
	}
	return least
}

// held are the requests that routers have at the replicas that serve. Not known: a
// router has not said.
func held(replicas []*replica) engines.Opt[int] {
	sum := 0
	for _, r := range replicas {
		if r.row.State != Ready {
			continue
		}
		n, known := r.use.InFlight.Get()
		if !known {
			return engines.Opt[int]{}
		}
		sum += n
	}
	return engines.Known(sum)
}

// idleFor is for how long it has been known that a replica has nothing to do: every
// router that lives says so, its engine does not say otherwise, and its node is
// heard. It counts from when all that held last, at the latest from when the replica
// was ready. Not known: it does not hold now.
func (c *Core) idleFor(r *replica) engines.Opt[time.Duration] {
	if r.row.State != Ready || !c.quiet(r) {
		return engines.Opt[time.Duration]{}
	}
	from := later(later(r.worked, r.readyAt), later(r.unsure, c.begun))
	return engines.Known(max(c.now.Sub(from), 0))
}

// quiet reports whether nothing shows, and nothing hides, that a replica works now.
func (c *Core) quiet(r *replica) bool {
	return c.idle(r) && r.leads().status != nil && c.node(r.leads().place.Node).Connected
}

// watch notes which replicas are not known to be quiet.
func (c *Core) watch() {
	for _, r := range c.replicas {
		if !c.quiet(r) {
			r.unsure = c.now
		}
	}
}

// placeMissing has every model's missing replicas placed: first those that have to
// be there, in the order of the models, then the others, who has waited longest
// first.
func (c *Core) placeMissing(models []*model) {
	var more []*model
	for _, m := range models {
		if m.kin.missing == 0 {
			m.unplaced, m.waited = nil, time.Time{}
			continue
		}
		if c.waits(m) {
			continue
		}
		extra := m.extra()
		if extra > 0 {
			more = append(more, m)
		}
		c.placeSome(m, m.kin.missing-extra, true)
	}
	slices.SortStableFunc(more, func(a, b *model) int { return a.scaled.At.Compare(b.scaled.At) })
	for _, m := range more {
		c.placeSome(m, m.extra(), len(m.kin.fresh)+len(m.kin.old) == 0)
	}
}

// extra is how many of those that are missing are wanted above what has to be there
// and above what is.
func (m *model) extra() int {
	return min(m.kin.missing, max(0, m.count-max(m.floor, len(m.kin.fresh)+len(m.kin.old))))
}

// placeSome places replicas of a model as long as there is a place. Where there is
// none, urgent says that others may have to make room.
func (c *Core) placeSome(m *model, n int, urgent bool) {
	for range n {
		if c.place(m) {
			continue
		}
		if urgent {
			c.makeRoom(m)
		}
		c.yield(m, m.kin.old)
		return
	}
}
