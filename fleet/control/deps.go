package control

import (
	"context"
	"crypto/tls"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmgw/llmgw/engines"
)

// Deps are the plane's collaborators.
type Deps struct {
	// Authority says in whose name orders are given. Required.
	Authority Authority
	// Journal keeps which nodes there are. Nil: a plane that starts knows none.
	Journal Journal
	// Verify reports why a connection does not prove that it comes from the
	// node. conn has at least one certificate of the agent's; whether the server
	// has verified it, its VerifiedChains tell. It is called for each stream, at the same time for several, and must not block. Nil: whoever
	// reaches the listener is believed, which suits a trusted network only.
	Verify func(conn *tls.ConnectionState, node string) error
	// Logger gets what happens. Nil discards.
	Logger *slog.Logger
	// Registerer gets the metrics. Nil leaves them unregistered.
	Registerer prometheus.Registerer
}

// Level is how much a control plane may do.
type Level uint8

const (
	// Standby holds no streams: agents are sent to another address. The zero
	// value.
	Standby Level = iota
	// Observer keeps its streams and gives no orders: a leader whose lease may
	// have gone to another, which has not heard of one.
	Observer
	// Leader gives orders.
	Leader
)

// String returns the level in one word.
func (l Level) String() string {
	switch l {
	case Observer:
		return "observer"
	case Leader:
		return "leader"
	default:
		return "standby"
	}
}

// Mandate is in whose name a control plane speaks, and how much it may do.
type Mandate struct {
	Level Level
	// Cluster is the cluster's id: see [engines.ValidID].
	Cluster string
	// Term goes up with each leader. At least 1 but for a standby.
	Term uint64
}

// Authority says in whose name orders are given. Its methods are called often
// and at the same time, and must not block.
type Authority interface {
	// Mandate returns what holds now. Each order is sent with the term of its
	// moment. When a standby becomes more, the plane begins anew: it loads the
	// journal, and silence counts from then.
	Mandate() Mandate
	// Outranked is told that a node has heard of a term that is higher than the
	// mandate's: whoever leads has to get a term above it before its orders are
	// followed again. It may be told the same more than once.
	Outranked(node string, term uint64)
}

// Journal keeps what is known of nodes beyond a run of the control plane. It may
// fail and be slow: that delays no stream, and is tried again. Methods are called
// one at a time; ctx ends with the plane's Run.
type Journal interface {
	// Nodes returns all nodes that were saved.
	Nodes(ctx context.Context) ([]Known, error)
	// Save writes nodes, each in the place of what was saved under its id.
	Save(ctx context.Context, nodes []Known) error
}

// Known is what is kept of a node.
type Known struct {
	ID           string             `json:"id"`
	Instance     string             `json:"instance"`
	AgentVersion string             `json:"agent_version,omitempty"`
	Address      string             `json:"address,omitempty"`
	Ports        PortRange          `json:"ports"`
	Labels       map[string]string  `json:"labels,omitempty"`
	Engines      []EngineOffer      `json:"engines,omitempty"`
	Inventory    *engines.Inventory `json:"inventory,omitempty"`
	// Heard is when the node was last heard before this was saved, which is not
	// saved with each heartbeat. It is for people; nothing is decided by it.
	Heard time.Time `json:"heard"`
}
