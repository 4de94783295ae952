package reconcile

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/llmgw/llmgw/placement"
)

// plan decides how many replicas of a model are wanted, lets go what is not, and how
// many are missing.
func (c *Core) plan(m *model) {
	if !m.askAgain.IsZero() && !c.now.Before(m.askAgain) {
		entry := m.entry
		c.want(m, &entry)
	}
	c.gather(m)
	c.scale(m)
	c.retireSurplus(m, m.kin.fresh)
	c.retireOld(m, m.kin.old, m.kin.ready)
	if m.kin.ready >= m.count {
		for _, r := range m.kin.lost {
			c.retire(r, "another one serves in its place")
		}
	}
	m.kin.missing = c.missing(m, m.kin.fresh, m.kin.old, m.kin.ready)
}

// judge says whether a replica has to leave where it is, or is not what is
// wanted any more.
func (c *Core) judge(m *model, r *replica) {
	if !slices.Equal(r.apart, m.wish.Apart) {
		r.apart = m.wish.Apart
		c.claim(r)
	}
	r.outdated = m.fingerprint != "" && r.row.Command != m.fingerprint
	why := ""
	for _, s := range r.shards {
		if why = c.leaves(s); why != "" {
			break
		}
	}
	if (why == "" && !r.outdated) || r.moveAt.IsZero() {
		r.moveAt = c.now
	}
	r.move = why
}

// leaves says why a shard has to leave its node; "": it has not.
func (c *Core) leaves(s *shard) string {
	n := c.nodes[s.place.Node]
	if n == nil || n.ID == "" {
		return ""
	}
	if n.Cordon == placement.Draining {
		return fmt.Sprintf("node %s is drained", n.ID)
	}
	for _, id := range s.place.Cards {
		if why := n.Unfit[id]; why != "" {
			return fmt.Sprintf("card %s of node %s: %s", id, n.ID, why)
		}
	}
	return ""
}

// retireSurplus lets go what is more than is wanted: what is furthest from
// serving first, then what has least to do, then the youngest.
func (c *Core) retireSurplus(m *model, fresh []*replica) {
	surplus := len(fresh) - m.count
	if surplus <= 0 {
		return
	}
	why := fmt.Sprintf("%d wanted", m.count)
	if m.scaled.Why != "" {
		why += ": " + m.scaled.Why
	}
	slices.SortStableFunc(fresh, func(a, b *replica) int {
		return cmp.Or(cmp.Compare(rung(a), rung(b)), cmp.Compare(a.use.InFlight.Or(0), b.use.InFlight.Or(0)), -a.row.CreatedAt.Compare(b.row.CreatedAt), cmp.Compare(a.row.ID, b.row.ID))
	})
	for _, r := range fresh[:surplus] {
		if c.sleepable(m, r) {
			m.kin.asleep, r.toSleep = append(m.kin.asleep, r), true
		}
		c.retire(r, why)
	}
}

// rung is how near a replica is to serving.
func rung(r *replica) int {
	switch r.row.State {
	case Ready:
		return 4
	case Settling:
		return 3
	case Loading:
		return 2
	case Starting:
		return 1
	case Placed, Lost, Draining, Stopping, Failed, Sleeping:
	}
	return 0
}

// retireOld lets go what is replaced: as many as are not needed beside those
// that serve in their place. One that does not serve is never needed.
func (c *Core) retireOld(m *model, old []*replica, ready int) {
	slices.SortStableFunc(old, func(a, b *replica) int {
		return cmp.Or(cmp.Compare(rung(a), rung(b)), -cmp.Compare(len(a.move), len(b.move)), cmp.Compare(a.row.ID, b.row.ID))
	})
	needed := max(m.count-ready, 0)
	for i, r := range old {
		switch {
		case len(old)-i > needed:
			c.retire(r, r.leaving())
		case r.row.State != Ready && r.row.State != Settling && r.outdated:
			c.retire(r, r.leaving()) // it would never serve as what is wanted
		}
	}
}

// leaving says why a replica is replaced.
func (r *replica) leaving() string {
	if r.move != "" {
		return r.move
	}
	return "its profile was changed"
}

// missing is how many replicas are to be placed now.
func (c *Core) missing(m *model, fresh, old []*replica, ready int) int {
	if m.problem != "" || c.now.Before(m.after) {
		return 0
	}
	stay, leave, outdated := min(len(fresh), m.count), 0, 0
	for _, r := range old {
		if r.row.State.holds() {
			leave++
			if r.move == "" {
				outdated++
			}
		}
	}
	n := m.count - stay - leave // nobody is there for these
	// In the place of those that leave a node, all at once; of those whose profile
	// was changed one at a time, so that a bad one takes no more than that down.
	inProgress := stay - min(ready, stay)
	surge := leave - outdated
	if outdated > 0 {
		surge++
	}
	return max(n, 0) + max(min(surge, m.count-stay-max(n, 0))-inProgress, 0)
}

// place puts one replica somewhere, if there is a place.
func (c *Core) place(m *model) bool {
	if r := c.wakeable(m); r != nil {
		m.unplaced = nil
		c.wake(m, r)
		return true
	}
	if slices.ContainsFunc(m.kin.asleep, (*replica).dozes) {
		return false // it is woken as soon as it can be
	}
	if m.unplaced != nil && m.space == c.space && c.now.Before(m.retry) {
		return false
	}
	wish := m.wish
	wish.Replica = c.deps.NewID(m.name)
	d := c.cluster.Place(wish)
	if !d.Placed {
		if m.unplaced == nil {
			m.tries = 0
		}
		if m.unplaced == nil || !c.now.Before(m.retry) {
			m.tries++
			m.retry = c.now.Add(c.backoff(m.tries))
		}
		d.Rejected, d.Runners, d.Others = nil, nil, nil // who wants them asks again
		m.unplaced, m.space = &d, c.space
		return false
	}
	m.unplaced = nil
	if !m.evicted.IsZero() && c.now.Sub(m.evicted) < thrashWindow {
		m.thrashed++
		m.evicted = time.Time{}
	}
	row := Row{
		ID: wish.Replica, Model: m.name, Profile: m.profile, Command: m.fingerprint, Generation: 1, Fabric: d.Fabric,
		State: Placed, Shards: d.Shards, CreatedAt: c.now,
	}
	if c.deps.NewSecret != nil {
		row.Secret = c.deps.NewSecret()
	}
	r := newReplica(row, c.now)
	r.apart = wish.Apart
	c.add(r)
	return true
}

// yield lets go one of the replicas that are to be replaced where none can be
// placed beside them and the grace is over: its cards may be what is missing. A
// model that has one going lets no other go.
func (c *Core) yield(m *model, old []*replica) {
	for _, r := range m.replicas {
		if r.row.State == Draining || r.row.State.ends() {
			return
		}
	}
	for _, r := range old {
		if r.row.State.holds() && c.now.Sub(r.moveAt) >= c.cfg.MoveGrace {
			c.retire(r, fmt.Sprintf("%s; no other place was found within %v", r.leaving(), c.cfg.MoveGrace))
			return
		}
	}
}
