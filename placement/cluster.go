package placement

import (
	"cmp"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/llmgw/llmgw/engines"
)

// Cluster is the nodes of a fleet and what replicas hold of them, kept so that a
// place is found quickly. One goroutine at a time uses it; its clones are used by
// others as they like. The zero value is a fleet without nodes.
type Cluster struct {
	entries []*entry             // by node ID; none is changed
	claims  map[string]*Claim    // by replica
	holds   map[string][]hold    // by node, known or not; in order of replicas; none is changed
	whole   map[string]int       // nodes that take replicas and are wholly free, by fabric
	alike   map[string]*topology // by the distances in it
	// shared: another Cluster has the same maps and slices, which are copied
	// before a change.
	shared bool
}

// hold is what a shard holds of a node.
type hold struct {
	claim *Claim
	shard int
}

func (h hold) place() *ShardPlace { return &h.claim.Shards[h.shard] }

// NewCluster returns the cluster of nodes and of what replicas hold. The order of
// neither matters. Of two nodes with one ID, or two claims of one replica, the
// last counts.
func NewCluster(nodes []Node, claims []Claim) *Cluster {
	c := new(Cluster)
	c.own()
	for _, claim := range claims {
		c.hold(&claim)
	}
	for i := range nodes {
		c.entries = append(c.entries, c.entryOf(&nodes[i]))
	}
	slices.SortStableFunc(c.entries, func(a, b *entry) int { return strings.Compare(a.node.ID, b.node.ID) })
	kept := c.entries[:0]
	for i, e := range c.entries {
		if i+1 == len(c.entries) || c.entries[i+1].node.ID != e.node.ID {
			kept = append(kept, e)
			c.count(e, 1)
		}
	}
	clear(c.entries[len(kept):])
	c.entries = kept
	return c
}

// Clone returns a copy that changes for itself. It costs next to nothing; the
// first change to either copies pointers to the nodes and claims, not these.
func (c *Cluster) Clone() *Cluster {
	c.shared = true
	out := *c
	return &out
}

// own makes the maps and slices this cluster's alone.
func (c *Cluster) own() {
	switch {
	case c.claims == nil:
		c.claims, c.holds = make(map[string]*Claim), make(map[string][]hold)
		c.whole, c.alike = make(map[string]int), make(map[string]*topology)
	case c.shared:
		c.entries = slices.Clone(c.entries)
		c.claims, c.holds = maps.Clone(c.claims), maps.Clone(c.holds)
		c.whole, c.alike = maps.Clone(c.whole), maps.Clone(c.alike)
	}
	c.shared = false
}

// Node returns a node.
func (c *Cluster) Node(id string) (Node, bool) {
	if i, found := c.find(id); found {
		return c.entries[i].node, true
	}
	return Node{}, false
}

// Nodes returns all nodes, by ID. The cluster must not be changed meanwhile.
func (c *Cluster) Nodes() iter.Seq[Node] {
	return func(yield func(Node) bool) {
		for _, e := range c.entries {
			if !yield(e.node) {
				return
			}
		}
	}
}

// ClaimOf returns what a replica holds.
func (c *Cluster) ClaimOf(replica string) (Claim, bool) {
	if claim := c.claims[replica]; claim != nil {
		return *claim, true
	}
	return Claim{}, false
}

// SetNode adds a node, or puts it in place of the one with its ID. What replicas
// hold there stays held.
func (c *Cluster) SetNode(n Node) {
	c.own()
	e := c.entryOf(&n)
	i, found := c.find(n.ID)
	if found {
		c.count(c.entries[i], -1)
		c.entries[i] = e
	} else {
		c.entries = slices.Insert(c.entries, i, e)
	}
	c.count(e, 1)
}

// RemoveNode removes a node, if it is there. What replicas hold of it stays held,
// should it come back.
func (c *Cluster) RemoveNode(id string) {
	i, found := c.find(id)
	if !found {
		return
	}
	c.own()
	c.count(c.entries[i], -1)
	c.entries = slices.Delete(c.entries, i, i+1)
}

// Claim notes what a replica holds, in place of what it held before. Nodes and
// cards that are not known are noted too. A card that two replicas claim is
// taken until both have released it.
func (c *Cluster) Claim(claim Claim) {
	c.Release(claim.Replica)
	c.own()
	c.hold(&claim)
	c.refresh(&claim)
}

// Release gives back what a replica holds, if it holds anything.
func (c *Cluster) Release(replica string) {
	claim := c.claims[replica]
	if claim == nil {
		return
	}
	c.own()
	c.drop(claim)
	c.refresh(claim)
}

// hold notes a claim, without a look at the nodes.
func (c *Cluster) hold(claim *Claim) {
	if before := c.claims[claim.Replica]; before != nil {
		c.drop(before)
	}
	c.claims[claim.Replica] = claim
	for i := range claim.Shards {
		id := claim.Shards[i].Node
		at, _ := slices.BinarySearchFunc(c.holds[id], hold{claim, i}, compareHolds)
		c.holds[id] = slices.Insert(slices.Clone(c.holds[id]), at, hold{claim, i})
	}
}

// drop is the opposite of hold.
func (c *Cluster) drop(claim *Claim) {
	delete(c.claims, claim.Replica)
	for i := range claim.Shards {
		id := claim.Shards[i].Node
		left := slices.DeleteFunc(slices.Clone(c.holds[id]), func(h hold) bool { return h.claim == claim })
		if c.holds[id] = left; len(left) == 0 {
			delete(c.holds, id)
		}
	}
}

func compareHolds(a, b hold) int {
	return cmp.Or(strings.Compare(a.claim.Replica, b.claim.Replica), a.shard-b.shard)
}

// refresh looks anew at the nodes of a claim.
func (c *Cluster) refresh(claim *Claim) {
	for i := range claim.Shards {
		at, found := c.find(claim.Shards[i].Node)
		if !found {
			continue
		}
		e := c.entries[at]
		c.count(e, -1)
		c.entries[at] = e.holding(c.holds[e.node.ID])
		c.count(c.entries[at], 1)
	}
}

// find returns where a node is, or would be.
func (c *Cluster) find(id string) (int, bool) {
	return slices.BinarySearchFunc(c.entries, id, func(e *entry, id string) int { return strings.Compare(e.node.ID, id) })
}

// count adds by for each fabric to its wholly free nodes, if e is one.
func (c *Cluster) count(e *entry, by int) {
	if !e.takes || !e.whole {
		return
	}
	for i := range e.node.Fabrics {
		f := &e.node.Fabrics[i]
		if f.Verdict != engines.Contradicted && e.first(i) {
			c.whole[f.Name] += by
		}
	}
}

// mostAlike bounds how many topologies are remembered.
const mostAlike = 256

// entryOf returns a node's entry with what is held there.
func (c *Cluster) entryOf(n *Node) *entry {
	apart := apartOf(n)
	t := c.alike[string(apart)]
	if t == nil {
		t = newTopology(apart, len(n.Cards))
		if len(c.alike) >= mostAlike {
			clear(c.alike)
		}
		c.alike[string(apart)] = t
	}
	e := &entry{node: *n, topology: t, rooms: make([]room, len(n.Cards))}
	for i := range n.Cards {
		e.rooms[i] = roomOf(&e.node, &e.node.Cards[i])
	}
	e.takes = n.State == Ready && n.Connected && n.Cordon == NoCordon
	return e.holding(c.holds[n.ID])
}

// entry is a node with what is held there. It is not changed.
type entry struct {
	node     Node
	topology *topology
	rooms    []room // by card
	takes    bool   // ready, connected, and no operator wants otherwise

	holds     []hold
	owners    []*Claim     // by card; nil: free
	classes   []classCards // by name
	freeCards int          // that may be used and nobody claims
	whole     bool         // it has cards, and all may be used and are wholly free
	freePorts engines.Opt[int]
	freeHost  engines.Opt[uint64]
}

// holding returns the entry with other holds.
func (e *entry) holding(holds []hold) *entry {
	out := *e
	out.holds = holds
	out.owners = make([]*Claim, len(e.node.Cards))
	ports, hostBytes := 0, uint64(0)
	for _, h := range holds {
		place := h.place()
		ports += place.Ports
		hostBytes += min(place.HostBytes, math.MaxUint64-hostBytes)
		for _, id := range place.Cards {
			at := slices.IndexFunc(e.node.Cards, func(c Card) bool { return c.ID == id })
			if at >= 0 && out.owners[at] == nil {
				out.owners[at] = h.claim
			}
		}
	}
	if free, known := e.node.FreePorts.Get(); known {
		out.freePorts = engines.Known(max(0, free-ports))
	}
	if free, known := e.node.HostFreeBytes.Get(); known {
		out.freeHost = engines.Known(free - min(free, hostBytes))
	}
	out.classes, out.freeCards, out.whole = nil, 0, len(e.node.Cards) > 0
	for i := range e.node.Cards {
		class := out.class(e.node.Cards[i].Class)
		if out.owners[i] != nil || e.node.Cards[i].Problem != "" {
			out.whole = false
			continue
		}
		out.freeCards++
		class.free = append(class.free, i)
		class.least = min(class.least, e.rooms[i].least())
		class.whole = class.whole && e.rooms[i].whole()
		out.whole = out.whole && class.whole
	}
	slices.SortFunc(out.classes, func(a, b classCards) int { return strings.Compare(a.name, b.name) })
	return &out
}

// class returns the node's cards of a class, of which it has some.
func (e *entry) class(name string) *classCards {
	for i := range e.classes {
		if e.classes[i].name == name {
			return &e.classes[i]
		}
	}
	e.classes = append(e.classes, classCards{name: name, least: math.MaxUint64, whole: true})
	return &e.classes[len(e.classes)-1]
}

// classCards is a node's cards of one class.
type classCards struct {
	name string
	free []int // the places of those that may be used and nobody claims, ascending
	// least is what every one of these holds at least, and whole that all are
	// wholly free, so that they need not be looked at one by one.
	least uint64
	whole bool
}

// first reports whether the fabric at i is not named by one before it, too.
func (e *entry) first(i int) bool {
	return !slices.ContainsFunc(e.node.Fabrics[:i], func(f FabricMember) bool { return f.Name == e.node.Fabrics[i].Name })
}

// sees reports whether the node was seen to have the weights of a key.
func (e *entry) sees(key string) bool {
	return e.node.Weights[key] == Holds || e.node.WeightsShared[key] != ""
}
