package reconcile

import (
	"cmp"
	"fmt"
	"slices"
)

// result takes what became of an order.
func (c *Core) result(res *Result) {
	o := &res.Order
	switch o.Kind {
	case PutRow, RemoveRow:
		c.rowResult(res)
		return
	case Start, Drain, Stop, Sleep, Wake:
	}
	r := c.byID[o.Replica]
	if r == nil || r.row.Generation != o.Generation || o.Shard.Rank >= len(r.shards) || r.shards[o.Shard.Rank].place.Node != o.Node {
		if st := c.node(o.Node).strays[o.Shard]; st != nil {
			st.order.answered(c.now, c.cfg.OrderRetry)
		}
		return
	}
	s := r.shards[o.Shard.Rank]
	switch o.Kind {
	case Start:
		c.startResult(r, s, res)
	case Drain:
		s.drain.answered(c.now, c.cfg.OrderRetry)
		s.drained = res.Outcome == Done || res.Outcome == Refused
	case Stop:
		s.stop.answered(c.now, c.cfg.OrderRetry)
		switch {
		case res.Outcome == Again:
			s.stop.next = c.now.Add(c.cfg.Interval)
		case res.Outcome == Done && res.Absent:
			s.mayRun = false // it is barred from being started, and is not there
			s.missed(c.now)
		}
	case Sleep, Wake:
		c.sleepResult(r, s, res)
	case PutRow, RemoveRow:
	}
}

func (c *Core) startResult(r *replica, s *shard, res *Result) {
	switch res.Outcome {
	case Done:
		s.start.answered(c.now, c.cfg.OrderRetry)
		s.begun = true
		if s.status == nil { // its node will report it
			s.absent = c.now
		}
	case Unknown:
		s.start.answered(c.now, 0)
	case Again, Fenced:
		s.start.answered(c.now, c.cfg.Interval)
	case Refused:
		s.start.answered(c.now, c.cfg.OrderRetry)
		if s.status == nil {
			s.mayRun = false
		}
		if r.row.State.holds() {
			why := fmt.Sprintf("node %s refused shard %d: %s", s.place.Node, s.rank, res.Reason)
			if res.Advice != "" {
				why += "; " + res.Advice
			}
			c.fail(r, why)
		}
	}
}

func (c *Core) rowResult(res *Result) {
	r := c.byID[res.Order.Replica]
	if r == nil {
		return
	}
	r.refused = ""
	if res.Outcome != Done {
		r.refused = cmp.Or(res.Reason, "nobody knows whether it was stored")
	}
	if res.Order.Kind == RemoveRow {
		r.remove.answered(c.now, c.cfg.Interval)
		if res.Outcome == Done {
			c.drop(r)
		}
		return
	}
	r.put.answered(c.now, 0)
	r.address, r.start = res.Order.Row.Address, res.Order.Row.Start
	if res.Outcome == Done {
		r.stored = true
		if r.row.State.ends() {
			c.free(r, res.Order.Row)
		}
		return
	}
	r.dirty = true
	r.put.next = c.now.Add(c.cfg.Interval)
	if !r.stored {
		r.row.Reason = "what is to run cannot be stored, so nothing is started"
	}
}

// write stores the rows that are not stored as they are.
func (c *Core) write() {
	for _, r := range c.replicas {
		if (r.stored && !r.dirty) || r.remove.open || !r.put.due(c.now, 0) {
			continue
		}
		if !r.stored && r.row.State.ends() {
			continue // it never came to be
		}
		row := r.row
		r.written, r.dirty = true, false
		r.put.given(c.now)
		c.give(Order{Kind: PutRow, Replica: row.ID, Generation: row.Generation, Row: &row})
	}
}

// publish brings the endpoints up to date and reports whether they changed, or
// are known for the first time.
func (c *Core) publish() bool {
	if !c.rows {
		return false
	}
	var now []Endpoint
	for _, r := range c.replicas {
		if c.serves(r) {
			now = append(now, r.endpoint())
		}
	}
	if c.published && slices.Equal(now, c.endpoints) {
		return false
	}
	c.endpoints, c.published = now, true
	return true
}

// serves reports whether routers may use a replica. Whoever leads, one that they
// were told of stays as long as no node says that it is no more.
func (c *Core) serves(r *replica) bool {
	if r.row.State != Ready && r.row.State != Settling || r.address == "" {
		return false
	}
	if !c.leads || r.row.State == Settling {
		why, _ := c.fact(r)
		return why == ""
	}
	return true
}

func (r *replica) endpoint() Endpoint {
	p := &r.row.Profile
	return Endpoint{
		Model: r.row.Model, Replica: r.row.ID, Generation: r.row.Generation, Start: r.start, Address: r.address, Secret: r.row.Secret,
		Engine: p.Engine, Served: p.ServedNames[0], MaxRunning: p.MaxRunning, PriorityScheduling: p.PriorityScheduling,
		Node: r.leads().place.Node, Fabric: r.row.Fabric,
	}
}
