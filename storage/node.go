package storage

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// Node is a machine as it registered last.
type Node struct {
	// ID is the node's name, 1 to 64 bytes.
	ID string
	// Instance is the random name of the agent's state directory: two machines
	// with one ID have two. At most 64 bytes.
	Instance string
	// Address is where its engines are reached. At most 256 bytes.
	Address string
	// AgentVersion is that of the agent's program, and Boot the machine's boot.
	AgentVersion, Boot string
	// Labels are the operator's own. At most 32, of 128 bytes each, name and value.
	Labels map[string]string
	// Registration is what else it registered with, above all its hardware: JSON of
	// at most 1 MiB; nil: nothing is known.
	Registration json.RawMessage
	// FirstSeen is when it registered first, LastSeen when it was heard of last, as
	// far as somebody wrote it down. Stores keep the first FirstSeen and the latest
	// LastSeen.
	FirstSeen, LastSeen time.Time
}

// maxRegistration bounds what a node registered with, in bytes.
const maxRegistration = 1 << 20

// Cordon is an operator's word that a node gets no new replicas.
type Cordon struct {
	// Node is the node's ID.
	Node string
	// Target is what is to become of the node.
	Target CordonTarget
	// Reason is for people. At most 256 bytes.
	Reason string
	At     time.Time
}

// CordonTarget is what an operator wants of a node. The zero value is none.
type CordonTarget uint8

// The targets, with the text that stands for them in stores, JSON and commands.
const (
	TargetCordoned CordonTarget = iota + 1 // "cordoned": what runs stays, nothing comes
	TargetDrained                          // "drained": what runs goes elsewhere
)

// Nodes keeps the machines that registered, and what operators want of them.
type Nodes interface {
	// PutNodes keeps nodes, new or not, all or none. ErrFenced if f is not the last
	// term. Of two with one ID the later counts.
	PutNodes(ctx context.Context, f Fence, nodes []Node) error
	// Node returns a node, or ErrNotFound.
	Node(ctx context.Context, id string) (Node, error)
	// ListNodes returns nodes, the first seen first, and the cursor of the next
	// page, empty after the last.
	ListNodes(ctx context.Context, p Page) (nodes []Node, next string, err error)
	// RemoveNode forgets a node and its cordon, and keeps an audit row. ErrNotFound
	// if there is none, ErrConflict while a replica has a shard on it, ErrFenced if
	// f is not the last term.
	RemoveNode(ctx context.Context, f Fence, id string, why Audit) error

	// SetCordon keeps an operator's word, in place of one before, and its audit row.
	// The node need not be known: it can be cordoned before it registers.
	SetCordon(ctx context.Context, c Cordon, why Audit) error
	// ClearCordon takes the word back and keeps an audit row. One that is not there
	// is no error, and keeps no row.
	ClearCordon(ctx context.Context, node string, why Audit) error
	// ListCordons returns all cordons, by node.
	ListCordons(ctx context.Context) ([]Cordon, error)
}

// Validate reports every fault of a node, joined. Each wraps ErrInvalid. Stores
// ask it.
func (n *Node) Validate() error {
	f := faults{what: "node"}
	f.text("ID", n.ID, 1, maxID)
	f.text("Instance", n.Instance, 0, maxID)
	f.text("Address", n.Address, 0, maxText)
	f.text("AgentVersion", n.AgentVersion, 0, maxText)
	f.text("Boot", n.Boot, 0, maxID)
	if len(n.Labels) > maxTags {
		f.add("Labels", len(n.Labels), fmt.Sprintf("at most %d", maxTags))
	}
	for name, value := range n.Labels {
		f.text("Labels", name, 1, maxTag)
		f.text("Labels["+name+"]", value, 0, maxTag)
	}
	if i := n.Registration; i != nil && (len(i) > maxRegistration || !json.Valid(i) || !keepable(string(i))) {
		f.add("Registration", fmt.Sprintf("%d bytes", len(i)), fmt.Sprintf("nil, or JSON of at most %d bytes", maxRegistration))
	}
	f.time("FirstSeen", n.FirstSeen)
	f.time("LastSeen", n.LastSeen)
	return f.err()
}

// Validate reports every fault of a cordon, joined. Each wraps ErrInvalid. Stores
// ask it.
func (c *Cordon) Validate() error {
	f := faults{what: "cordon"}
	f.text("Node", c.Node, 1, maxID)
	if c.Target < TargetCordoned || c.Target > TargetDrained {
		f.add("Target", c.Target, "cordoned or drained")
	}
	f.text("Reason", c.Reason, 0, maxText)
	f.time("At", c.At)
	return f.err()
}
