package reconcile

import (
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/placement/scale"
)

// Kind is what an order is.
type Kind uint8

// The kinds of orders.
const (
	_ Kind = iota // unset
	// PutRow stores Order.Row.
	PutRow
	// RemoveRow removes the row of Order.Replica.
	RemoveRow
	// Start has Order.Node begin Order.Spec.
	Start
	// Drain tells Order.Node that the shard gets no more requests.
	Drain
	// Stop has Order.Node end the shard.
	Stop
	// Sleep has Order.Node take what the shard has of its cards' memory, and keep its
	// weights.
	Sleep
	// Wake has Order.Node bring a shard that sleeps back.
	Wake
)

// String returns the kind in one word.
func (k Kind) String() string {
	return [...]string{"unset", "put-row", "remove-row", "start", "drain", "stop", "sleep", "wake"}[k]
}

// Order is something to be done. What became of it comes back as a [Result]
// with the order in it; until then it is not given again.
type Order struct {
	Kind       Kind
	Replica    string
	Generation uint64
	// Row is what PutRow stores.
	Row *Row
	// Node and Shard are whose the order is; of all but PutRow and RemoveRow.
	Node  string
	Shard engines.ShardID
	// Spec is what to start.
	Spec *engines.ShardSpec
	// Reason says for people why; of Stop.
	Reason string
}

// Endpoint is a replica that routers may use.
type Endpoint struct {
	Model, Replica string
	Generation     uint64
	// Start names this start of the engine: another one has another name.
	Start string
	// Address is where it answers, host:port; Secret what it asks of its callers,
	// empty: nothing.
	Address, Secret string
	Engine          engines.Name
	// Served is the name that the engine knows the model by.
	Served string
	// MaxRunning bounds the requests that it runs at once; 0: not stated.
	MaxRunning int
	// PriorityScheduling: it heeds the priority of a request.
	PriorityScheduling bool
	// Node and Fabric say where it is, for people.
	Node, Fabric string
}

// Scaled is a decision on how many replicas of a model are wanted, with all that it
// was made on.
type Scaled struct {
	Model string
	scale.Record
}

// Step is what one step decided.
type Decisions struct {
	// Again: something is due after so long though nothing changes. 0: nothing is.
	Again time.Duration
	// Orders are to be carried out, in any order and at the same time.
	Orders []Order
	// Endpoints are all that routers may use now, by replica. They are the same
	// slice as long as nothing changes.
	Endpoints []Endpoint
	// Changed: Endpoints are not as they were.
	Changed bool
	// Statuses are how models stand for who asks for them, by name. They are the same
	// slice until StatusesChanged. Without authority there are none.
	Statuses        []ModelStatus
	StatusesChanged bool
	// Scaled are the decisions of this step that changed how many replicas of a model
	// are wanted.
	Scaled []Scaled
}
