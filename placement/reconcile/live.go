package reconcile

import (
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/placement"
)

// advance does what the life of a replica asks for next.
func (c *Core) advance(r *replica) {
	switch {
	case r.row.State.ends():
		c.end(r)
	case r.row.State == Draining:
		c.drain(r)
	case r.row.State == Sleeping:
		c.sleeping(r)
	default:
		c.live(r)
	}
}

// live brings a replica up, keeps it, or finds that it is no more.
func (c *Core) live(r *replica) {
	if !r.stored {
		return // intent before act; write stores it
	}
	if r.row.State == Settling && !c.settled(r) {
		return
	}
	if why, at := c.fact(r); why != "" {
		if r.works(at, c.now, c.cfg.LostAfter) {
			r.held = why
			return
		}
		c.fail(r, why)
		return
	}
	if node := c.silent(r); node != "" {
		why := fmt.Sprintf("node %s is lost", node)
		switch {
		case r.works(time.Time{}, c.now, c.cfg.LostAfter):
			r.held = why
		case r.row.State != Lost:
			r.to(Lost, why+", and nothing has shown for "+c.cfg.LostAfter.String()+" that the replica works", c.now)
		}
		return
	}
	r.held = ""
	c.bring(r)
	c.bound(r)
}

// settled reports whether a stored replica's nodes have all reported, or are
// lost, so that what is missing is missing.
func (c *Core) settled(r *replica) bool {
	return r.all(func(s *shard) bool { return s.reported || c.lost(s.place.Node) })
}

// lost reports whether a node is lost, or not known long after everything should
// be.
func (c *Core) lost(id string) bool {
	n := c.nodes[id]
	if n == nil || n.ID == "" {
		return c.now.Sub(c.begun) >= c.cfg.LostAfter
	}
	return n.State == placement.Lost
}

// silent returns a node of the replica that is lost, or "".
func (c *Core) silent(r *replica) string {
	for _, s := range r.shards {
		if c.lost(s.place.Node) {
			return s.place.Node
		}
	}
	return ""
}

// fact returns what a node itself says that ends a replica, and since when; ""
// if none does.
func (c *Core) fact(r *replica) (why string, at time.Time) {
	for _, s := range r.shards {
		switch {
		case !s.bad.IsZero():
			return s.trouble(), s.bad
		case s.absent.IsZero() || !s.begun || c.now.Sub(s.absent) < c.cfg.AbsentAfter:
		case r.row.State == Starting && r.begun != (time.Time{}): // it is ordered again
		default:
			return fmt.Sprintf("node %s has shard %d no more", s.place.Node, s.rank), s.absent
		}
	}
	return "", time.Time{}
}

// trouble says what a shard's node says of it.
func (s *shard) trouble() string {
	parts := []string{fmt.Sprintf("shard %d on node %s %s", s.rank, s.place.Node, s.status.State)}
	for _, more := range []string{s.status.Reason, s.status.Advice, s.status.Exit} {
		if more != "" {
			parts = append(parts, more)
		}
	}
	return strings.Join(parts, ": ")
}

// bring starts what is not started, and says how far the replica is.
func (c *Core) bring(r *replica) {
	ready, begun := true, true
	for _, s := range r.shards {
		ready = ready && s.ready()
		begun = begun && s.status != nil
	}
	switch {
	case ready:
		if r.row.State != Ready {
			c.loaded(r)
			r.to(Ready, "", c.now)
			c.claim(r)
		}
		if at := r.leads().status; at.Address != r.row.Address || at.Start != r.row.Start {
			r.row.Address, r.row.Start, r.dirty = at.Address, at.Start, true
		}
	case begun:
		if r.row.State != Loading {
			r.to(Loading, "", c.now)
		}
		c.wakeShards(r)
	default:
		if r.row.State != Starting {
			r.to(Starting, "", c.now)
		}
		c.startShards(r)
	}
}

// startShards orders the shards that their nodes do not have: the leading one
// first, whose ports the others are told.
func (c *Core) startShards(r *replica) {
	leader := r.leads()
	for _, s := range r.shards {
		n := c.node(s.place.Node)
		if s.status != nil || !n.Connected || !s.start.due(c.now, c.cfg.OrderRetry) {
			continue
		}
		if s.begun && !s.absent.IsZero() && c.now.Sub(s.absent) < c.cfg.AbsentAfter {
			continue // it was begun; its node's word may be older
		}
		spec := engines.ShardSpec{
			ID: s.id(), Generation: r.row.Generation, Profile: r.row.Profile, Cards: s.place.Cards,
			Fabric: r.row.Fabric, Secret: r.row.Secret,
		}
		if s != leader {
			if leader.status == nil || len(leader.status.Ports) == 0 {
				continue
			}
			spec.Leader, spec.LeaderPorts = c.host(leader), leader.status.Ports
		}
		if r.begun.IsZero() {
			r.begun = c.now
		}
		s.mayRun = true
		s.start.given(c.now)
		c.give(Order{Kind: Start, Replica: r.row.ID, Generation: r.row.Generation, Node: s.place.Node, Shard: s.id(), Spec: &spec})
	}
}

// host is where others meet a shard that was begun: what it has bound, which it keeps
// when its node becomes known by another address. A shard that serves nothing does
// not say; it is at its node's.
func (c *Core) host(s *shard) string {
	if host, _, err := net.SplitHostPort(s.status.Address); err == nil {
		return host
	}
	return c.node(s.place.Node).Address
}

// bound ends a replica that does not get on.
func (c *Core) bound(r *replica) {
	load := c.cfg.LoadTimeout
	if stated := r.row.Profile.LoadTimeout; stated > 0 {
		load = stated + c.cfg.StartTimeout
	}
	switch {
	case r.row.State == Starting && c.now.Sub(r.since) >= c.cfg.StartTimeout:
		c.fail(r, fmt.Sprintf("not all of its %d shards have been begun within %v", len(r.shards), c.cfg.StartTimeout))
	case r.row.State == Loading && !r.woken.IsZero() && c.now.Sub(r.woken) >= c.cfg.StartTimeout:
		c.fail(r, fmt.Sprintf("it did not wake within %v", c.cfg.StartTimeout))
	case r.row.State == Loading && c.now.Sub(r.since) >= load:
		c.fail(r, fmt.Sprintf("it was not ready within %v", load))
	}
}

// fail ends a replica for a reason that is no person's, and has its model wait
// before the next one.
func (c *Core) fail(r *replica, why string) {
	settled := r.row.State == Settling
	r.to(Failed, why, c.now)
	r.held = ""
	if m := c.byName[r.row.Model]; m != nil && !settled {
		m.failed(c, r, why)
	}
	c.end(r)
}

// retire ends a replica that people, or the number that is wanted, let go: its
// requests first.
func (c *Core) retire(r *replica, why string) {
	if r.served {
		r.to(Draining, why, c.now)
		return
	}
	r.to(Stopping, why, c.now)
}
