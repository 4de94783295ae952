package storage

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// MaxTerm bounds a term's number and a generation: stores keep signed integers.
const MaxTerm = 1 << 62

// Term is who leads a cluster, and since when. A later term has a higher number.
type Term struct {
	// Cluster names the cluster. A store is one cluster's, for good.
	Cluster string
	// Number is 1 or more.
	Number uint64
	// Holder is who began the term, for people.
	Holder  string
	BegunAt time.Time
}

// Fence is the term of who writes. A store refuses what a leader writes in any
// term but its last one, so that a former leader changes nothing.
type Fence struct {
	Cluster string
	Term    uint64
}

// Fence is the term's fence.
func (t Term) Fence() Fence { return Fence{t.Cluster, t.Number} }

// TermRequest asks for a new term.
type TermRequest struct {
	// Cluster names the cluster, 1 to 64 bytes.
	Cluster string
	// Holder is at most 256 bytes.
	Holder string
	// Above is the highest term that was heard of elsewhere, as by an agent: a
	// store that was restored from a backup may know less. At most MaxTerm - 1.
	Above uint64
	At    time.Time
}

// ErrFenced says that another term has begun than that of who writes. It is the
// class of every [*FencedError].
var ErrFenced = errors.New("storage: another term has begun")

// FencedError says which term a store is in.
type FencedError struct {
	// Wrote is the fence that was given, and Now the store's; zero where no term
	// has begun.
	Wrote, Now Fence
}

// Error names both terms.
func (e *FencedError) Error() string {
	if e.Now == (Fence{}) {
		return fmt.Sprintf("%v: term %d of cluster %q was never begun in this store", ErrFenced, e.Wrote.Term, e.Wrote.Cluster)
	}
	return fmt.Sprintf("%v: the store is in term %d of cluster %q, and this was written in term %d of cluster %q",
		ErrFenced, e.Now.Term, e.Now.Cluster, e.Wrote.Term, e.Wrote.Cluster)
}

// Unwrap returns [ErrFenced].
func (e *FencedError) Unwrap() error { return ErrFenced }

// Terms keeps who leads.
type Terms interface {
	// BeginTerm begins a term that is one above the last one and above r.Above, and
	// returns it. The first names the cluster; another cluster's is ErrConflict.
	// Writes that were begun under the last term are done or fenced when it
	// returns. Repeated, it begins another term, which harms nothing.
	BeginTerm(ctx context.Context, r TermRequest) (Term, error)
	// Term returns the last term, or ErrNotFound before the first.
	Term(ctx context.Context) (Term, error)
}

// Validate reports every fault, joined. Each wraps ErrInvalid. Stores ask it.
func (r *TermRequest) Validate() error {
	f := faults{what: "term"}
	f.text("Cluster", r.Cluster, 1, maxID)
	f.text("Holder", r.Holder, 0, maxText)
	if r.Above >= MaxTerm {
		f.add("Above", r.Above, fmt.Sprintf("less than %d", uint64(MaxTerm)))
	}
	f.time("At", r.At)
	return f.err()
}

// Validate reports every fault, joined. Each wraps ErrInvalid. Stores ask it.
func (f Fence) Validate() error {
	faults := faults{what: "fence"}
	faults.text("Cluster", f.Cluster, 1, maxID)
	if f.Term < 1 || f.Term > MaxTerm {
		faults.add("Term", f.Term, fmt.Sprintf("1 to %d", uint64(MaxTerm)))
	}
	return faults.err()
}
