package control

import (
	"errors"
	"fmt"

	"github.com/llmgw/llmgw/engines"
)

// Why an order was not carried out.
var (
	// ErrNotLeader: this control plane gives no orders now. Nothing was sent.
	ErrNotLeader = errors.New("control: no orders are given here: this control plane does not lead")
	// ErrNotConnected: the node has no stream. Nothing was sent.
	ErrNotConnected = errors.New("control: the node is not connected")
	// ErrBusy: too many commands to the node have no answer. Nothing was sent.
	ErrBusy = errors.New("control: too many commands to the node have no answer")
	// ErrOrder: the order says what cannot be. Nothing was sent.
	ErrOrder = errors.New("control: not an order")
	// ErrUnanswered: the command was sent, and no answer came. It may have been
	// carried out; the same order again is safe.
	ErrUnanswered = errors.New("control: no answer came")
	// ErrStale is what [StaleError] wraps, ErrRefused what [RefusedError] wraps.
	ErrStale   = errors.New("control: a higher term or generation was heard of")
	ErrRefused = errors.New("control: the node refused")
)

// StaleError is an order whose term or generation is lower than what the node has
// heard of. Nothing was done.
type StaleError struct {
	Node  string
	Shard engines.ShardID
	// SentTerm and SentGeneration are the order's, Term and Generation what the
	// node has heard of.
	SentTerm, Term             uint64
	SentGeneration, Generation uint64
}

func (e *StaleError) Error() string {
	if e.Term > e.SentTerm {
		return fmt.Sprintf("node %s, shard %v: ordered under term %d, and it has heard of term %d: another control plane leads, or led", e.Node, e.Shard, e.SentTerm, e.Term)
	}
	return fmt.Sprintf("node %s, shard %v: ordered generation %d, and it has heard of generation %d", e.Node, e.Shard, e.SentGeneration, e.Generation)
}

// Unwrap returns [ErrStale].
func (e *StaleError) Unwrap() error { return ErrStale }

// RefusedError is an order that a node did not carry out. Nothing was started.
type RefusedError struct {
	Node  string
	Shard engines.ShardID
	// Again: it could not be done now, and the same order may be carried out
	// later. Else it is refused each time.
	Again bool
	// Reason says what was wrong, Advice what to do.
	Reason, Advice string
}

func (e *RefusedError) Error() string {
	text := fmt.Sprintf("node %s refused shard %v: %s", e.Node, e.Shard, e.Reason)
	if e.Advice != "" {
		text += "; " + e.Advice
	}
	return text
}

// Unwrap returns [ErrRefused].
func (e *RefusedError) Unwrap() error { return ErrRefused }
