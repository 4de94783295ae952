package reconcile

import "fmt"

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
// lives has a request there, and its engine, if it tells, neither.
func (c *Core) idle(r *replica) bool {
	if !r.use.InFlight.Is(0) {
		return false
	}
	status := r.leads().status
	if status == nil {
		return true
	}
	none := func(n *int) bool { return n == nil || *n == 0 }
	return none(status.Running) && none(status.Waiting)
}

// end has every shard of a replica ended, and forgets it when all are.
func (c *Core) end(r *replica) {
	gone := true
	for _, s := range r.shards {
		if s.ended() {
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
