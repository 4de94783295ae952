package reconcile

// State is where a replica is in its life.
type State uint8

// The states of replicas.
const (
	_ State = iota // unset
	// Placed: its cards are chosen and taken, and its row is being stored.
	Placed
	// Starting: its shards are being ordered, and not all have begun.
	Starting
	// Loading: all have begun, and not all are ready.
	Loading
	// Ready: all are ready, and routers may use it.
	Ready
	// Settling: its row was found at a start, and not all its nodes have reported.
	Settling
	// Lost: a node of it is silent, nothing shows that it works, and another one
	// is being looked for. It may come back.
	Lost
	// Draining: it gets no more requests and finishes what it has.
	Draining
	// Stopping: its shards are being ended.
	Stopping
	// Failed: as Stopping, because a shard of it ended or could not begin.
	Failed
	// Sleeping: its engine keeps the weights in its node's memory, and has given its
	// cards back, or is giving them.
	Sleeping
)

var states = [...]string{"unset", "placed", "starting", "loading", "ready", "settling", "lost", "draining", "stopping", "failed", "sleeping"}

// String returns the state in one word, lower case.
func (s State) String() string { return states[s] }

// ParseState reads what [State.String] wrote. Unknown words are Settling: what
// the nodes report then says more than the word.
func ParseState(word string) State {
	for s, name := range states {
		if s > 0 && name == word {
			return State(s)
		}
	}
	return Settling
}

// holds reports whether a replica in the state is one of those that a model has.
func (s State) holds() bool { return s >= Placed && s <= Settling }

// ends reports whether its shards are to be ended.
func (s State) ends() bool { return s == Stopping || s == Failed }
