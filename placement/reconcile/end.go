package reconcile

import (
	"fmt"
	"slices"
)

// drain waits until a replica that gets no more requests has none, or the grace
// is over.
func (c *Core) drain(r *replica) {
	leader := r.leads()
	if s := leader; r.use.Released && !s.drained && s.status != nil && s.status.State.Runs() &&
		c.node(s.place.Node).Connected && s.drain.due(c.now, c.cfg.OrderRetry) {
		s.drain.given(c.now)
		c.give(Order{Kind: Drain, Replica: r.row.ID, Generation: r.row.Generation, Node: s.place.Node, Shard: s.id()})
	}
	switch {
	case leader.reported && (leader.status == nil || !leader.status.State.Runs()):
		r.to(Stopping, r.row.Reason+"; its engine runs no more", c.now)
	case r.use.Released && c.idle(r) && r.toSleep:
		r.toSleep = false
		r.to(Sleeping, r.row.Reason, c.now)
		for _, s := range r.shards {
			s.sleep.afresh()
		}
		c.sleeping(r)
		return
	case r.use.Released && c.idle(r):
		r.to(Stopping, r.row.Reason, c.now)
	case c.now.Sub(r.since) >= c.cfg.DrainGrace:
		r.to(Stopping, fmt.Sprintf("%s; the grace of %v is over", r.row.Reason, c.cfg.DrainGrace), c.now)
	default:
		return
	}
	c.end(r)
}

// idle reports whether a replica is known to have nothing to do: no router that
// lives has a request there, and its engine, if it tells, neither. What a machine
// that is lost said last is no word of it.
func (c *Core) idle(r *replica) bool {
	if !r.use.InFlight.Is(0) {
		return false
	}
	status := r.leads().status
	if status == nil || c.lost(r.leads().place.Node) {
		return true
	}
	none := func(n *int) bool { return n == nil || *n == 0 }
	return none(status.Running) && none(status.Waiting)
}

// end has every shard of a replica ended, and forgets it when all are. Where one
// takes its time, as on a machine that is away, the others' cards come free before.
func (c *Core) end(r *replica) {
	gone, free := true, false
	for _, s := range r.shards {
		if s.ended() {
			free = free || !s.freed
			continue
		}
		n := c.node(s.place.Node)
		if n.ID == "" && c.lost(s.place.Node) {
			continue // nobody knows the machine; if it comes back, what runs there is stopped
		}
		gone = false
		if !n.Connected || !s.stop.due(c.now, c.cfg.OrderRetry) {
			continue
		}
		s.stop.given(c.now)
		c.give(Order{
			Kind: Stop, Replica: r.row.ID, Generation: r.row.Generation, Node: s.place.Node, Shard: s.id(), Reason: r.row.Reason,
		})
	}
	if !gone {
		if free {
			c.giveUp(r)
		}
		return
	}
	if !r.written {
		c.drop(r)
		return
	}
	if r.remove.due(c.now, c.cfg.OrderRetry) && !r.put.open {
		r.remove.given(c.now)
		c.give(Order{Kind: RemoveRow, Replica: r.row.ID, Generation: r.row.Generation})
	}
}

// giveUp takes the cards of shards that have ended out of the replica's row. They are
// free once that is stored: two rows never share a card.
func (c *Core) giveUp(r *replica) {
	r.row.Shards = slices.Clone(r.row.Shards)
	for i, s := range r.shards {
		if s.ended() && len(r.row.Shards[i].Cards) > 0 {
			r.row.Shards[i].Cards, r.dirty = nil, true
		}
	}
}

// free gives what a replica that ends has given up in its stored row to others.
func (c *Core) free(r *replica, stored *Row) {
	changed := false
	for i, s := range r.shards {
		if !s.freed && s.ended() && len(stored.Shards[i].Cards) == 0 {
			s.freed, s.place.Cards, changed = true, nil, true
		}
	}
	if changed {
		c.claim(r)
		c.space++
	}
}
