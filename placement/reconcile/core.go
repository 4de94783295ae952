package reconcile

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/placement"
	"github.com/llmgw/llmgw/placement/catalog"
)

// CoreDeps are what a core asks of others. Its functions are called within
// [Core.Step] and must not block.
type CoreDeps struct {
	// Shape returns what a replica of a profile needs, rank by rank, as its
	// engine's adapter says. What wraps [engines.ErrUnavailable] is asked again after
	// [Config.BaseBackoff]; of the model nothing is placed until then, and what runs
	// of it runs on. Nil: every rank takes an equal part of the cards, and one port.
	Shape func(engines.Profile) (engines.Shape, error)
	// NewID returns an id for a replica of a model, one that none has had:
	// [engines.ValidID]. Required.
	NewID func(model string) string
	// NewSecret returns what a replica's engine asks of its callers. Nil: nothing.
	NewSecret func() string
}

// Core holds what runs against what is wanted. It is for one goroutine, and so is
// what its methods return that is said to be shared.
type Core struct {
	cfg  Config
	deps CoreDeps

	now   time.Time // of the step
	begun time.Time // when the rows were given
	rows  bool      // they were
	leads bool

	catalog  *catalog.Catalog
	aside    []string // models that are let be
	models   []*model // by name
	byName   map[string]*model
	cluster  *placement.Cluster
	nodes    map[string]*node
	replicas []*replica // by id
	byID     map[string]*replica
	// lastCame is when a node registered last that had not before, firstCame when the
	// first of those that came with it did.
	firstCame, lastCame time.Time
	// strays are so many, on all nodes.
	strays int
	// strayUses are what routers say of replicas that are not on record, by id.
	strayUses map[string]strayUse
	// space goes up when there may be room that was not there.
	space uint64

	orders    []Order
	scaled    []Scaled
	endpoints []Endpoint
	published bool // endpoints were decided about once
	statuses  []ModelStatus
	// statusesOf is the catalog that they are of.
	statusesOf *catalog.Catalog
}

// node is a machine as its agent told last.
type node struct {
	Node
	planned map[engines.ShardID]*shard
	strays  map[engines.ShardID]*stray
}

// NewCore returns a core that knows nothing and decides nothing until it is given
// rows.
func NewCore(cfg Config, deps CoreDeps) (*Core, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("reconcile: %w", err)
	}
	if deps.NewID == nil {
		return nil, errors.New("reconcile: CoreDeps.NewID is nil; want where a replica's id comes from")
	}
	return &Core{
		cfg: cfg, deps: deps, cluster: placement.NewCluster(nil, nil),
		byName: map[string]*model{}, nodes: map[string]*node{}, byID: map[string]*replica{},
	}, nil
}

// Step takes what has changed and returns what is to be done. now never goes
// back. Orders that were returned and have had no [Result] are not returned again.
func (c *Core) Step(now time.Time, in Inputs) Decisions {
	c.now, c.leads, c.orders, c.scaled = now, in.Leads, nil, nil
	c.take(in)
	again := time.Duration(0)
	if c.rows && c.leads {
		for _, r := range slices.Clone(c.replicas) {
			c.advance(r)
		}
		c.watch()
		if c.catalog != nil { // what is not known to be wanted is not unwanted
			models := c.byNeed()
			for _, m := range models {
				c.plan(m)
			}
			if again = c.gathers(); again == 0 {
				c.placeMissing(models)
			}
		}
		c.stopStrays()
		c.write()
	}
	d := Decisions{Orders: c.orders, Changed: c.publish(), Endpoints: c.endpoints, Scaled: c.scaled, Again: again}
	if c.rows && c.leads && c.catalog != nil {
		d.StatusesChanged = c.tell()
		d.Statuses = c.statuses
	}
	return d
}

// take brings the inputs in.
func (c *Core) take(in Inputs) {
	if in.Rows != nil && !c.rows {
		c.rows, c.begun = true, c.now
		for _, row := range *in.Rows {
			c.restore(row)
		}
	}
	if in.Catalog != nil {
		c.aside = in.Aside
		if in.Catalog != c.catalog {
			c.setCatalog(in.Catalog)
		}
	}
	if in.Needs != nil {
		c.setNeeds(in.Needs)
	}
	for i := range in.Nodes {
		c.setNode(&in.Nodes[i])
	}
	for _, id := range in.Gone {
		c.dropNode(id)
	}
	for i := range in.Results {
		c.result(&in.Results[i])
	}
	if in.Demand != nil {
		c.demand(in.Demand)
	}
	if in.Use != nil {
		c.takeStrayUse(in.Use)
		for _, r := range c.replicas {
			r.use = Use{}
		}
		for _, use := range in.Use {
			if r := c.byID[use.Replica]; r != nil {
				r.use = use
				if age, known := use.Worked.Get(); known {
					r.worked = later(r.worked, c.now.Add(-age))
				}
			}
		}
	}
}

// setNode takes a node as it is now.
func (c *Core) setNode(in *Node) {
	n := c.node(in.ID)
	if n.ID == "" || roomier(&n.Node.Node, &in.Node) {
		c.space++
	}
	if in.Reported && !n.Reported {
		if c.now.Sub(c.lastCame) >= c.cfg.Settle {
			c.firstCame = c.now
		}
		c.lastCame = c.now
	}
	n.Node = *in
	c.cluster.SetNode(in.Node)
	if !in.Reported {
		return // what it reported before still counts
	}
	seen := make(map[engines.ShardID]bool, len(in.Shards))
	for i := range in.Shards {
		status := &in.Shards[i]
		seen[status.ID] = true
		if s := n.planned[status.ID]; s != nil && s.replica.row.Generation == status.Generation {
			s.heard(status, c.now)
			c.forget(n, status.ID)
			continue
		}
		c.found(n, status)
	}
	for id := range n.strays {
		if !seen[id] {
			c.forget(n, id)
		}
	}
	for id, s := range n.planned {
		if !seen[id] || n.strays[id] != nil {
			s.missed(c.now)
		}
		s.reported = true
	}
}

// gathers is for how long yet nodes may be coming, one soon after the other, so that
// what the next ones allow is worth waiting for; 0: they are not.
func (c *Core) gathers() time.Duration {
	return max(0, min(c.lastCame.Add(c.cfg.Settle).Sub(c.now), c.firstCame.Add(5*c.cfg.Settle).Sub(c.now)))
}

// dropNode forgets a node that is not known any more.
func (c *Core) dropNode(id string) {
	if n := c.nodes[id]; n != nil {
		for shard := range n.strays {
			c.forget(n, shard)
		}
		n.Node = Node{} // its shards keep their place
		c.cluster.RemoveNode(id)
	}
}

// node returns the node with that id; its ID is empty where none is known.
func (c *Core) node(id string) *node {
	n := c.nodes[id]
	if n == nil {
		n = &node{planned: map[engines.ShardID]*shard{}, strays: map[engines.ShardID]*stray{}}
		c.nodes[id] = n
	}
	return n
}

// roomier reports whether a node as it is now may hold what it could not before.
// How much memory is free, which changes all the time, does not count.
func roomier(was, is *placement.Node) bool {
	usable := func(n *placement.Node) (count int) {
		for i := range n.Cards {
			if n.Cards[i].Problem == "" {
				count++
			}
		}
		return count
	}
	return is.State == placement.Ready && is.Connected &&
		(was.State != is.State || !was.Connected || was.Cordon != is.Cordon || usable(was) != usable(is) ||
			len(was.Fabrics) != len(is.Fabrics) || len(was.Labels) != len(is.Labels) || len(was.Engines) != len(is.Engines))
}

// add makes a replica one of those that are known.
func (c *Core) add(r *replica) {
	at, _ := slices.BinarySearchFunc(c.replicas, r.row.ID, func(r *replica, id string) int { return cmp.Compare(r.row.ID, id) })
	c.replicas = slices.Insert(c.replicas, at, r)
	c.byID[r.row.ID] = r
	for _, s := range r.shards {
		c.node(s.place.Node).planned[s.id()] = s
	}
	c.claim(r)
}

// claim enters what a replica holds. What it takes of memory and ports counts until
// it serves: then its nodes' readings show it.
func (c *Core) claim(r *replica) {
	if r.asleep {
		c.cluster.Release(r.row.ID)
		return
	}
	shards := r.row.Shards
	if r.row.State != Placed {
		shards = nil
		for i, s := range r.shards {
			if !s.freed {
				shards = append(shards, placement.ShardPlace{Node: r.row.Shards[i].Node, Cards: r.row.Shards[i].Cards})
			}
		}
	}
	c.cluster.Claim(placement.Claim{Replica: r.row.ID, Model: r.row.Model, Fabric: r.row.Fabric, Shards: shards, Apart: r.apart})
}

// drop forgets a replica of which nothing is left, not even its row: two rows
// never share a card, whenever this process ends.
func (c *Core) drop(r *replica) {
	c.replicas = slices.DeleteFunc(c.replicas, func(have *replica) bool { return have == r })
	delete(c.byID, r.row.ID)
	for _, s := range r.shards {
		delete(c.node(s.place.Node).planned, s.id())
	}
	c.cluster.Release(r.row.ID)
	c.space++
}

// restore takes a stored replica up.
func (c *Core) restore(row Row) {
	if row.State.holds() || row.State == Lost { // what sleeps does so by its own word
		row.State = Settling
	}
	if len(row.Profile.ServedNames) == 0 {
		row.Profile.ServedNames = []string{row.Model}
	}
	r := newReplica(row, c.now)
	r.written, r.stored = true, true
	for _, s := range r.shards {
		s.begun, s.mayRun = true, true
	}
	r.address, r.start = row.Address, row.Start
	r.served = true // it may have requests; a row of an older backup does not know
	c.add(r)
}

// give returns an order to who steps.
func (c *Core) give(o Order) { c.orders = append(c.orders, o) }

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}
