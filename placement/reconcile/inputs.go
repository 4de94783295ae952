package reconcile

import (
	"maps"
	"slices"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/placement"
	"github.com/llmgw/llmgw/placement/catalog"
)

// Inputs are what has changed since the last step. What is left out is as it
// was.
type Inputs struct {
	// Leads: starts and stops may be ordered now. Without, nothing is, and only
	// what a node itself says is taken out of the endpoints.
	Leads bool
	// Rows are the stored replicas. They are given once, when the control plane
	// came to lead; before that nothing is decided. Not nil: these are all.
	Rows *[]Row
	// Catalog is what is wanted. Nil: as before.
	Catalog *catalog.Catalog
	// Aside are models that are wanted and cannot stand in the catalog, as after an
	// upgrade that does not accept an entry: what runs of them is let be, and is not
	// published. It goes with Catalog.
	Aside []string
	// Needs are what is known of the memory that replicas take beside what the
	// catalog states. They replace all that was known before. Nil: as before.
	Needs []Need
	// Nodes are those that are not as they were. Gone are the ids of nodes that
	// are not known any more.
	Nodes []Node
	Gone  []string
	// Use is what routers say of replicas. It replaces all that they said before.
	// Nil: as before.
	Use []Use
	// Demand is what routers say of models that are asked for. It replaces all that
	// they said before, but for when a model was asked for last. Nil: as before.
	Demand []Demand
	// Results are what became of orders, in the order in which it was heard.
	Results []Result
}

// Node is a machine and what it reports of its shards.
type Node struct {
	placement.Node
	// Address is where others reach its engines.
	Address string
	// Reported: its agent has registered with this control plane, so that Shards
	// are all it has. Otherwise nothing is known of them.
	Reported bool
	Shards   []engines.ShardStatus
	// Unfit are the cards from which what runs there has to go, by id, with why:
	// those that are excluded, and those whose engines have to be started anew.
	Unfit map[string]string
}

// Need is what is known of the memory that a replica of a model takes, where its
// entry states none.
type Need struct {
	Model string
	// Command is the [Fingerprint] of the profile that it is known of: it says nothing
	// of another one.
	Command string
	// CardBytes and ByClass are as in [placement.Need].
	CardBytes engines.Opt[uint64]
	ByClass   map[string]placement.ClassNeed
	// HostBytes is what a rank takes of its node's own memory.
	HostBytes engines.Opt[uint64]
	// Looking: nodes are being asked whether they have the weights, and not all have
	// answered. A replica that is missing waits for them, for some seconds at most: they
	// say where it had better go, and what it needs.
	Looking bool
}

// Over returns the wish with what is known where it states nothing.
func (n *Need) Over(w placement.Wish) placement.Wish {
	if _, stated := w.Need.CardBytes.Get(); !stated {
		w.Need.CardBytes, w.Need.ByClass = n.CardBytes, n.ByClass
	}
	if bytes, known := n.HostBytes.Get(); known {
		w.Need.Ranks = slices.Clone(w.Need.Ranks)
		for i := range w.Need.Ranks {
			if w.Need.Ranks[i].HostBytes == 0 {
				w.Need.Ranks[i].HostBytes = bytes
			}
		}
	}
	return w
}

// equal reports whether two needs ask for the same.
func (n *Need) equal(o *Need) bool {
	return n.Command == o.Command && n.CardBytes == o.CardBytes && n.HostBytes == o.HostBytes && maps.Equal(n.ByClass, o.ByClass)
}

// Ref names one start of a replica.
type Ref struct {
	Replica    string
	Generation uint64
	Start      string
}

// Use is what routers know of a replica's work.
type Use struct {
	Replica string
	// Worked is for how long no router has had a byte of it nor seen its counters
	// move. Not known: none has seen it work.
	Worked engines.Opt[time.Duration]
	// InFlight are the requests that routers have there. Not known: a router that
	// lives has not said.
	InFlight engines.Opt[int]
	// Released: every router that lives has acknowledged that it sends the replica
	// nothing any more.
	Released bool
}

// Demand is what routers know of who asks for a model.
type Demand struct {
	Model string
	// Waiting are the requests that wait for a replica to come up, Queued those that
	// wait for room at those that serve.
	Waiting, Queued int
	// Asked is for how long no request for it has come. Not known: none has.
	Asked engines.Opt[time.Duration]
	// Load is how full its replicas are, of what their engines run at once; above 1
	// where more waits. Not known: no router has said.
	Load engines.Opt[float64]
}

// Row is a replica as it is stored.
type Row struct {
	ID, Model string
	// Profile is what was ordered, and Command its hash: see [Fingerprint].
	Profile    engines.Profile
	Command    string
	Generation uint64
	Fabric     string
	Secret     string
	// Address is where it serves, and Start names the start of its engine, once it
	// does: what routers were told stands after a restart before its node has come.
	Address, Start string
	State          State
	Reason         string
	Shards         []placement.ShardPlace
	CreatedAt      time.Time
}

// Outcome is what became of an order.
type Outcome uint8

// The outcomes of orders.
const (
	_ Outcome = iota // unset
	// Done: it was carried out, or is.
	Done
	// Again: it was not, and can be later.
	Again
	// Refused: it was not, and never will be.
	Refused
	// Unknown: it may have been carried out. The same order again is safe.
	Unknown
	// Fenced: another control plane leads.
	Fenced
)

// String returns the outcome in one word.
func (o Outcome) String() string {
	return [...]string{"unset", "done", "again", "refused", "unknown", "fenced"}[o]
}

// Result is what became of an order.
type Result struct {
	Order   Order
	Outcome Outcome
	// Reason and Advice say for people why it is not Done.
	Reason, Advice string
	// Absent: the node has no such shard after it. How a shard is that it has, it
	// reports: an answer may be older than what it reported since.
	Absent bool
}
