package rows

import (
	"fmt"
	"maps"
	"slices"

	"github.com/llmgw/llmgw/storage"
)

// Term is t as it is kept.
func Term(t storage.Term) storage.Term {
	t.BegunAt = Time(t.BegunAt)
	return t
}

// NextTerm is the term that r begins after last, which is the zero value for none;
// another cluster's is ErrConflict.
func NextTerm(last storage.Term, r storage.TermRequest) (storage.Term, error) {
	if last.Cluster != "" && last.Cluster != r.Cluster {
		return last, fmt.Errorf("%w: the store is that of cluster %q, not of %q", storage.ErrConflict, last.Cluster, r.Cluster)
	}
	number := max(last.Number, r.Above) + 1
	if number > storage.MaxTerm {
		return last, fmt.Errorf("%w: there is no term after %d", storage.ErrInvalid, last.Number)
	}
	return Term(storage.Term{Cluster: r.Cluster, Number: number, Holder: r.Holder, BegunAt: r.At}), nil
}

// CheckFence returns a [*storage.FencedError] if f is not the last term.
func CheckFence(f storage.Fence, last storage.Term) error {
	if now := last.Fence(); now != f {
		return &storage.FencedError{Wrote: f, Now: now}
	}
	return nil
}

// Node is n as it is kept in place of old, which is nil for none.
func Node(n storage.Node, old *storage.Node) storage.Node {
	n.Labels = maps.Clone(n.Labels)
	if len(n.Labels) == 0 {
		n.Labels = nil
	}
	n.Registration = compact(n.Registration)
	n.FirstSeen, n.LastSeen = Time(n.FirstSeen), Time(n.LastSeen)
	if old != nil {
		n.FirstSeen = old.FirstSeen
		if old.LastSeen.After(n.LastSeen) {
			n.LastSeen = old.LastSeen
		}
	}
	return n
}

// NodeParts are the columns of a node that are not its fields as they stand.
type NodeParts struct {
	Labels, Registration *string // JSON; nil for none
}

// PartsOfNode is a node's columns.
func PartsOfNode(n *storage.Node) (p NodeParts) {
	if len(n.Labels) > 0 {
		p.Labels = marshal(n.Labels)
	}
	if n.Registration != nil {
		p.Registration = new(string(n.Registration))
	}
	return p
}

// Into sets the node's fields, or says what cannot be one.
func (p NodeParts) Into(n *storage.Node) error {
	if err := unmarshal(p.Labels, &n.Labels); err != nil {
		return fmt.Errorf("labels: %w", err)
	}
	if p.Registration != nil {
		n.Registration = []byte(*p.Registration)
	}
	return nil
}

// Cordon is c as it is kept.
func Cordon(c storage.Cordon) storage.Cordon {
	c.At = Time(c.At)
	return c
}

// Replica is r as it is kept in place of old, which is nil for none. A higher
// generation that is kept is ErrConflict.
func Replica(r storage.Replica, old *storage.Replica) (storage.Replica, error) {
	r.CreatedAt, r.ChangedAt = Time(r.CreatedAt), Time(r.ChangedAt)
	r.Detail = compact(r.Detail)
	r.Shards = slices.Clone(r.Shards)
	for i := range r.Shards {
		s := &r.Shards[i]
		s.Cards, s.Ports = slices.Clone(s.Cards), maps.Clone(s.Ports)
	}
	if old == nil {
		return r, nil
	}
	r.CreatedAt = old.CreatedAt
	return r, CheckGeneration(*old, r.Generation)
}

// CheckGeneration is ErrConflict if a higher generation than that is kept.
func CheckGeneration(old storage.Replica, generation uint64) error {
	if old.Generation > generation {
		return fmt.Errorf("%w: generation %d of replica %q is kept, and this is %d", storage.ErrConflict, old.Generation, old.ID, generation)
	}
	return nil
}

// Detail is the column of a replica's detail, nil for none; IntoDetail reads it.
func Detail(r *storage.Replica) *string {
	if r.Detail == nil {
		return nil
	}
	return new(string(r.Detail))
}

// IntoDetail reads the column of a replica's detail.
func IntoDetail(column *string, r *storage.Replica) {
	if column != nil {
		r.Detail = []byte(*column)
	}
}

// Shards is the column of a replica's shards.
func Shards(r *storage.Replica) string { return *marshal(r.Shards) }

// IntoShards sets a replica's shards, or says why they cannot be any.
func IntoShards(column string, r *storage.Replica) error {
	if err := unmarshal(&column, &r.Shards); err != nil {
		return fmt.Errorf("shards: %w", err)
	}
	return nil
}
