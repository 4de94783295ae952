package storage

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// Replica is the intent to run a model on certain cards, written before the
// first start is sent: what a control plane that starts anew knows of what it
// once ordered.
type Replica struct {
	// ID names the replica, 1 to 64 bytes.
	ID string
	// Model is the canonical model. 1 to 256 bytes.
	Model string
	// Command is a hash of what was ordered, so that a changed profile is seen.
	// At most 128 bytes.
	Command string
	// Generation goes up with every start of the replica. 1 to MaxTerm.
	Generation uint64
	// State is where the replica is in its life, a word of who writes; Reason says
	// for people why. At most 256 bytes each.
	State, Reason string
	// Shards are the ranks in order, the leading one first. 1 to 4096.
	Shards []ReplicaShard
	// Detail is what else who orders has to know again: JSON of at most 256 KiB, or
	// nil. It may hold what the replica's engine asks of its callers.
	Detail json.RawMessage

	CreatedAt, ChangedAt time.Time
}

// ReplicaShard is where one rank was ordered to run.
type ReplicaShard struct {
	// Node is the node's ID.
	Node string `json:"node"`
	// Cards are the UUIDs of its cards. At most 64.
	Cards []string `json:"cards,omitempty"`
	// Ports are its first ports by need, as far as they are known. At most 64.
	Ports map[string]int `json:"ports,omitempty"`
}

const (
	maxShards = 4096
	maxCards  = 64
	maxPorts  = 64
	maxDetail = 256 << 10 // bytes
)

// ReplicaQuery chooses replicas. The zero value means all.
type ReplicaQuery struct {
	Model string // empty: any
	Page
}

// Replicas keeps what was ordered to run.
type Replicas interface {
	// PutReplica keeps a replica, new or not. It returns ErrFenced if f is not the
	// last term, and ErrConflict if a higher generation is kept.
	PutReplica(ctx context.Context, f Fence, r Replica) error
	// Replica returns a replica, or ErrNotFound.
	Replica(ctx context.Context, id string) (Replica, error)
	// ListReplicas returns replicas, the oldest first, and the cursor of the next
	// page, empty after the last.
	ListReplicas(ctx context.Context, q ReplicaQuery) (replicas []Replica, next string, err error)
	// RemoveReplica forgets a replica that is gone. One that is not there is no
	// error. ErrFenced if f is not the last term, ErrConflict if a higher generation
	// than that is kept.
	RemoveReplica(ctx context.Context, f Fence, id string, generation uint64) error
}

// Validate reports every fault of a replica, joined. Each wraps ErrInvalid.
// Stores ask it.
func (r *Replica) Validate() error {
	f := faults{what: "replica"}
	f.text("ID", r.ID, 1, maxID)
	f.text("Model", r.Model, 1, maxText)
	f.text("Command", r.Command, 0, maxAsked)
	if r.Generation < 1 || r.Generation > MaxTerm {
		f.add("Generation", r.Generation, fmt.Sprintf("1 to %d", uint64(MaxTerm)))
	}
	f.text("State", r.State, 1, maxText)
	f.text("Reason", r.Reason, 0, maxText)
	if len(r.Shards) < 1 || len(r.Shards) > maxShards {
		f.add("Shards", len(r.Shards), fmt.Sprintf("1 to %d", maxShards))
	}
	for rank, s := range r.Shards {
		s.check(&f, fmt.Sprintf("Shards[%d]", rank))
	}
	if d := r.Detail; d != nil && (len(d) > maxDetail || !json.Valid(d) || !keepable(string(d))) {
		f.add("Detail", fmt.Sprintf("%d bytes", len(d)), fmt.Sprintf("nil, or JSON of at most %d bytes", maxDetail))
	}
	f.time("CreatedAt", r.CreatedAt)
	f.time("ChangedAt", r.ChangedAt)
	return f.err()
}

func (s *ReplicaShard) check(f *faults, field string) {
	f.text(field+".Node", s.Node, 1, maxID)
	if len(s.Cards) > maxCards {
		f.add(field+".Cards", len(s.Cards), fmt.Sprintf("at most %d", maxCards))
	}
	for _, card := range s.Cards {
		f.text(field+".Cards", card, 1, maxTag)
	}
	if len(s.Ports) > maxPorts {
		f.add(field+".Ports", len(s.Ports), fmt.Sprintf("at most %d", maxPorts))
	}
	for name, port := range s.Ports {
		f.text(field+".Ports", name, 1, maxTag)
		f.within(field+".Ports["+name+"]", int64(port), 1, 65535)
	}
}
