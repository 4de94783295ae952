package reconcile

import (
	"cmp"
	"slices"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/placement"
)

// stray is a shard that a node has and that no row knows: its row was lost with a
// store that was restored from an older backup, or its node came back long after
// another replica took its place. It cannot be adopted, since what a replica's
// callers have to show stood in its row alone. It ends, but not under its requests.
type stray struct {
	status *engines.ShardStatus
	since  time.Time // when it was heard of first
	held   string    // what it is let be for; empty: nothing
	order  attempt   // to end it
}

// strayUse is what routers say of a replica that is not on record.
type strayUse struct {
	Use
	worked time.Time // when it was last seen to work
}

// found takes the status of a shard that no row knows.
func (c *Core) found(n *node, status *engines.ShardStatus) {
	if status.State == engines.ShardStopped {
		c.forget(n, status.ID)
		return
	}
	st := n.strays[status.ID]
	if st == nil || st.status.Generation != status.Generation {
		c.forget(n, status.ID)
		st = &stray{since: c.now}
		n.strays[status.ID] = st
		c.strays++
	}
	was := st.status
	st.status = status
	if was == nil && len(status.Cards) > 0 || was != nil && !slices.Equal(was.Cards, status.Cards) {
		c.cluster.Claim(placement.Claim{
			Replica: strayClaim(n.ID, status.ID), Shards: []placement.ShardPlace{{Node: n.ID, Cards: status.Cards}},
		})
	}
}

// forget takes a stray off the record: it is gone, or is none any more.
func (c *Core) forget(n *node, id engines.ShardID) {
	if n.strays[id] == nil {
		return
	}
	delete(n.strays, id)
	c.strays--
	c.cluster.Release(strayClaim(n.ID, id))
	c.space++
}

// strayClaim names what a stray holds. It is no replica's id.
func strayClaim(node string, id engines.ShardID) string {
	return "shard " + id.String() + " on " + node
}

// takeStrayUse keeps what routers say of replicas that are not on record.
func (c *Core) takeStrayUse(uses []Use) {
	old := c.strayUses
	c.strayUses = nil
	for _, use := range uses {
		if c.byID[use.Replica] != nil {
			continue
		}
		u := strayUse{Use: use, worked: old[use.Replica].worked}
		if age, known := use.Worked.Get(); known {
			u.worked = later(u.worked, c.now.Add(-age))
		}
		if c.strayUses == nil {
			c.strayUses = make(map[string]strayUse)
		}
		c.strayUses[use.Replica] = u
	}
}

// strayRefs are the replicas of strays, of which it matters that nobody uses them. It
// does not where nothing is a stray: every shard of a fleet is asked about then.
func (c *Core) strayRefs() (refs []Ref) {
	if c.strays == 0 || !c.places() {
		return nil
	}
	for _, n := range c.nodes {
		for id, st := range n.strays {
			ref := Ref{Replica: id.Replica, Generation: st.status.Generation}
			if id.Rank == 0 {
				ref.Start = st.status.Start
			}
			refs = append(refs, ref)
		}
	}
	// The leading shard's start is the one that routers know it by.
	slices.SortFunc(refs, func(a, b Ref) int { return cmp.Or(cmp.Compare(a.Replica, b.Replica), -cmp.Compare(a.Start, b.Start)) })
	return slices.CompactFunc(refs, func(a, b Ref) bool { return a.Replica == b.Replica })
}

// places reports whether there is a model that is to run, or a replica on record.
// Otherwise somebody else orders what runs, and nothing is a stray.
func (c *Core) places() bool {
	return len(c.replicas) > 0 || slices.ContainsFunc(c.models, func(m *model) bool { return m.fingerprint != "" })
}

// stopStrays ends what runs and is not wanted, once it has nothing left to do.
func (c *Core) stopStrays() {
	if c.strays == 0 || !c.places() {
		return
	}
	var leaders map[string]*engines.ShardStatus
	for _, n := range c.nodes {
		for id, st := range n.strays {
			if id.Rank == 0 {
				if leaders == nil {
					leaders = make(map[string]*engines.ShardStatus)
				}
				leaders[id.Replica] = st.status
			}
		}
	}
	for id, n := range c.nodes {
		for shard, st := range n.strays {
			st.held = c.holdsStray(n, st, leaders[shard.Replica])
			runs := st.status.State.Runs() || st.status.State == engines.ShardFailed
			if st.held != "" || !runs || !n.Connected || !st.order.due(c.now, c.cfg.OrderRetry) {
				continue
			}
			st.order.given(c.now)
			c.give(Order{
				Kind: Stop, Replica: shard.Replica, Generation: st.status.Generation, Node: id, Shard: shard,
				Reason: "nothing that is wanted is on record under its name",
			})
		}
	}
	slices.SortStableFunc(c.orders, func(a, b Order) int {
		return cmp.Or(cmp.Compare(a.Replica, b.Replica), cmp.Compare(a.Shard.Rank, b.Shard.Rank), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Node, b.Node))
	})
}

// holdsStray says what a stray is let be for; "": it may end. lead is its replica's
// leading shard, nil where no node that was heard of has it.
//
// Like one that is drained it is waited for until no router has anything there and
// its engine neither. DrainGrace bounds that only where nothing is seen to work:
// nobody ordered it to go. On a node that is drained somebody did.
func (c *Core) holdsStray(n *node, st *stray, lead *engines.ShardStatus) string {
	if lead != nil && lead.State != engines.ShardReady && lead.State != engines.ShardDraining {
		return "" // it answers nobody
	}
	use := c.strayUses[st.status.ID.Replica]
	if r := c.byID[st.status.ID.Replica]; r != nil {
		use = strayUse{r.use, r.worked}
	}
	some := func(n *int) bool { return n != nil && *n > 0 }
	why := ""
	switch {
	case lead != nil && (some(lead.Running) || some(lead.Waiting)):
		why = "its engine has requests"
	case !use.Released:
		why = "not every router has said that it lets go of it"
	case !use.InFlight.Is(0):
		why = "routers have requests there"
	}
	grace, works := c.cfg.DrainGrace, false
	if n.Cordon != placement.Draining { // what nothing has shown for LostAfter was looked for as long
		grace, works = max(grace, c.cfg.LostAfter), !use.worked.IsZero() && c.now.Sub(use.worked) < c.cfg.LostAfter
	}
	if why == "" || c.now.Sub(st.since) >= grace && !works {
		return ""
	}
	return why
}

// StrayView is a shard that a node has and that no row knows.
type StrayView struct {
	Node   string
	Status *engines.ShardStatus
	Since  time.Time
	// Held is what it is let be for. Empty: it is being ended.
	Held string
}

// strayViews are the strays, by shard and node.
func (c *Core) strayViews() (out []StrayView) {
	if c.strays == 0 || !c.rows || !c.places() {
		return nil
	}
	for id, n := range c.nodes {
		for _, st := range n.strays {
			out = append(out, StrayView{Node: id, Status: st.status, Since: st.since, Held: st.held})
		}
	}
	slices.SortFunc(out, func(a, b StrayView) int {
		x, y := a.Status.ID, b.Status.ID
		return cmp.Or(cmp.Compare(x.Replica, y.Replica), cmp.Compare(x.Rank, y.Rank), cmp.Compare(a.Node, b.Node))
	})
	return out
}
