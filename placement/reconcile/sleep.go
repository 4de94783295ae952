package reconcile

import (
	"fmt"
	"slices"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/placement"
)

// sleeplessFor is for how long no replica of a model is put to sleep after one did not
// wake: the next one would likely cost who asks the time to find out, and a load.
const sleeplessFor = time.Hour

// sleepable reports whether a replica that is let go should keep its weights in its
// node's memory: its engine can, none of its model does yet, none has failed to wake
// lately, and to wake one is known to take, or may take, less than half as long as to
// load one.
func (c *Core) sleepable(m *model, r *replica) bool {
	if !m.unwoken.IsZero() && c.now.Sub(m.unwoken) < sleeplessFor {
		return false
	}
	if !r.row.Profile.Sleep || r.outdated || r.move != "" || m.scaling.Max == 0 || len(m.kin.asleep) > 0 || r.row.State != Ready {
		return false
	}
	wake, woken := m.wakes.estimate(c.classOf(r)).Get()
	load, loaded := m.loads.estimate(c.classOf(r)).Get()
	return !woken || !loaded || wake < load/2
}

// sleeping has the shards of a replica give back what they have of their cards, and
// keeps it so until somebody asks for it, or until it has to go.
func (c *Core) sleeping(r *replica) {
	if !r.stored || !r.all(func(s *shard) bool { return s.reported || c.lost(s.place.Node) }) {
		return
	}
	if why, _ := c.fact(r); why != "" {
		c.fail(r, why)
		return
	}
	if node := c.silent(r); node != "" {
		r.to(Stopping, fmt.Sprintf("node %s is lost", node), c.now)
		return
	}
	if why := c.mustLeave(r); why != "" {
		r.to(Stopping, why, c.now)
		c.end(r)
		return
	}
	asleep := true
	for _, s := range r.shards {
		if s.status != nil && s.status.State == engines.ShardSleeping {
			continue
		}
		asleep = false
		if s.status != nil && c.node(s.place.Node).Connected && s.sleep.due(c.now, c.cfg.OrderRetry) {
			s.sleep.given(c.now)
			c.give(Order{Kind: Sleep, Replica: r.row.ID, Generation: r.row.Generation, Node: s.place.Node, Shard: s.id()})
		}
	}
	switch {
	case asleep && !r.asleep && (r.dirty || r.put.open): // two rows never share a card
	case asleep && !r.asleep:
		r.asleep = true
		c.claim(r)
		c.space++
	case !asleep && r.asleep: // somebody else has woken it
		r.asleep = false
		r.to(Stopping, "it does not sleep any more, and nobody here has woken it", c.now)
	case !asleep && c.now.Sub(r.since) >= c.cfg.StartTimeout:
		r.to(Stopping, fmt.Sprintf("it did not fall asleep within %v", c.cfg.StartTimeout), c.now)
	}
}

// mustLeave says why a replica that sleeps has to end; "": it has not.
func (c *Core) mustLeave(r *replica) string {
	m := c.byName[r.row.Model]
	switch {
	case c.catalog == nil || slices.Contains(c.aside, r.row.Model):
		return ""
	case m == nil:
		return "its model left the catalog"
	case m.fingerprint != "" && r.row.Command != m.fingerprint:
		return "its profile was changed"
	case m.scaling.Max == 0:
		return "none may run: max is 0"
	}
	for _, s := range r.shards {
		if why := c.leaves(s); why != "" {
			return why
		}
	}
	return ""
}

// dozes reports whether a replica is about to sleep: it can be woken in a moment, and
// not before.
func (r *replica) dozes() bool { return !r.asleep && r.evictedFor == "" }

// wakeable returns a replica of the model that sleeps and whose cards nobody has
// taken; nil: there is none.
func (c *Core) wakeable(m *model) *replica {
	for _, r := range m.kin.asleep {
		if r.row.State == Sleeping && r.asleep && c.cardsFree(r) {
			return r
		}
	}
	return nil
}

// cardsFree reports whether a replica that sleeps can have its cards back: no other
// one has them, and they may be used.
func (c *Core) cardsFree(r *replica) bool {
	for _, s := range r.shards {
		n := c.node(s.place.Node)
		if n.State != placement.Ready || !n.Connected || n.Cordon != placement.NoCordon {
			return false
		}
		for _, card := range n.Cards {
			if slices.Contains(s.place.Cards, card.ID) && card.Problem != "" {
				return false
			}
		}
	}
	for _, other := range c.replicas {
		if other == r || other.asleep {
			continue
		}
		for _, theirs := range other.shards {
			for _, ours := range r.shards {
				if theirs.place.Node == ours.place.Node && slices.ContainsFunc(theirs.place.Cards, func(id string) bool { return slices.Contains(ours.place.Cards, id) }) {
					return false
				}
			}
		}
	}
	return true
}

// wake has a replica that sleeps serve again.
func (c *Core) wake(m *model, r *replica) {
	m.kin.asleep = slices.DeleteFunc(m.kin.asleep, func(have *replica) bool { return have == r })
	r.asleep, r.evictedFor, r.woken = false, "", c.now
	r.to(Loading, "", c.now)
	r.dirty = true
	for _, s := range r.shards {
		s.wake.afresh()
		s.drain.afresh()
		s.drained = false // waking undoes it
	}
	c.claim(r)
	c.wakeShards(r)
}

// wakeShards orders those shards of a replica that sleep to wake.
func (c *Core) wakeShards(r *replica) {
	for _, s := range r.shards {
		if s.status == nil || s.status.State != engines.ShardSleeping || !c.node(s.place.Node).Connected || !s.wake.due(c.now, c.cfg.OrderRetry) {
			continue
		}
		s.wake.given(c.now)
		c.give(Order{Kind: Wake, Replica: r.row.ID, Generation: r.row.Generation, Node: s.place.Node, Shard: s.id()})
	}
}

// sleepResult takes what became of an order to sleep or to wake.
func (c *Core) sleepResult(r *replica, s *shard, res *Result) {
	order := &s.wake
	if res.Order.Kind == Sleep {
		order = &s.sleep
	}
	switch res.Outcome {
	case Done:
		order.answered(c.now, c.cfg.OrderRetry)
	case Refused:
		order.answered(c.now, c.cfg.OrderRetry)
		why := fmt.Sprintf("node %s refused to %v shard %d: %s", s.place.Node, res.Order.Kind, s.rank, res.Reason)
		switch {
		case res.Order.Kind == Sleep && r.row.State == Sleeping:
			r.to(Stopping, why, c.now)
		case res.Order.Kind == Wake && r.row.State == Loading:
			c.fail(r, why)
		}
	case Again, Fenced:
		order.answered(c.now, c.cfg.Interval)
	case Unknown:
		order.answered(c.now, 0)
	}
}

// loaded notes how long a replica that became ready took, from its first order or
// from when it was woken.
func (c *Core) loaded(r *replica) {
	m := c.byName[r.row.Model]
	switch {
	case m == nil:
	case !r.woken.IsZero():
		m.wakes.add(c.classOf(r), c.now.Sub(r.woken))
		r.worked = c.now // it was not idle while it slept
	case !r.begun.IsZero() && r.readyAt.IsZero():
		m.loads.add(c.classOf(r), c.now.Sub(r.begun))
	}
	r.woken = time.Time{}
}
