package agent

import (
	"fmt"
	"maps"
	"time"

	"github.com/llmgw/llmgw/engines"
)

// orderKind is what an order wants.
type orderKind uint8

const (
	orderStart orderKind = iota + 1
	orderStop
	orderDrain
	orderSleep
	orderWake
)

// String returns the order in one word.
func (k orderKind) String() string {
	return [...]string{"unset", "start", "stop", "drain", "sleep", "wake"}[k]
}

// order is a command about one shard, as it came over a stream.
type order struct {
	// ID names it within a run of the control plane; session is the stream by
	// which it came, and by which alone it is answered.
	ID      uint64
	session uint64

	Cluster    string
	Term       uint64
	Kind       orderKind
	Shard      engines.ShardID
	Generation uint64
	// Spec is what to start.
	Spec engines.ShardSpec
	// Drain is how long an engine that is to stop may finish what it has, and
	// Reason why it is to, for people.
	Drain  time.Duration
	Reason string
}

// memory is what an agent must not forget: what it has heard of orders. It is a
// value; what changes it returns another one. It is persisted before anything is
// done by it.
type memory struct {
	// Cluster is the only one that may order. Empty: none was heard of yet.
	Cluster string
	// Term is the highest one heard of.
	Term   uint64
	Shards map[engines.ShardID]heard
	// Defaults are what it said last of what the node's configuration leaves open.
	Defaults defaults
}

// heard is what was ordered of one shard.
type heard struct {
	// Generation is the highest one heard of; what is lower is never done again.
	Generation uint64
	// Stopped: the generation was ordered to stop, and is never started (again).
	Stopped bool
	// StopBy is when the engine is to be asked to end at the latest. Zero: at
	// once. It counts only while the shard stops.
	StopBy time.Time
	// Draining: the generation gets no more requests.
	Draining bool
	// Posture is how its engine was ordered to be.
	Posture posture
	// At is when the last order was heard, from which a tombstone's time counts.
	At time.Time
}

// posture is whether an engine was ordered to sleep.
type posture uint8

const (
	// asItIs: nothing was ordered; an engine that starts is awake.
	asItIs posture = iota
	asleep
	awake
)

// String returns the posture as the state file has it.
func (p posture) String() string { return [...]string{"", "asleep", "awake"}[p] }

// parsePosture reads what String wrote. Of another version's nothing is known.
func parsePosture(s string) posture {
	switch s {
	case asleep.String():
		return asleep
	case awake.String():
		return awake
	}
	return asItIs
}

// presence is what a node has of a shard, whatever was ordered.
type presence struct {
	// Here: there is a shard, be it failed or stopped.
	Here       bool
	Generation uint64
	// Undecided: it was ordered to start, and whether it can be is not known yet.
	Undecided bool
	// Ended: nothing of it is left but its directory.
	Ended bool
	// Sleeps: its engine can sleep.
	Sleeps bool
}

// verdict is what is to become of an order.
type verdict uint8

const (
	// verdictAct: it is to be done, once the memory is persisted.
	verdictAct verdict = iota + 1
	// verdictAlready: it was done before, or there is nothing to do.
	verdictAlready
	// verdictStale: it is older than what was heard of.
	verdictStale
	// verdictRefuse: it is nothing that this node can ever do.
	verdictRefuse
	// verdictLater: it cannot be done now.
	verdictLater
)

// String returns the verdict in one word.
func (v verdict) String() string {
	return [...]string{"unset", "act", "already", "stale", "refuse", "later"}[v]
}

// decision is the verdict with its reason, for people.
type decision struct {
	Verdict        verdict
	Reason, Advice string
}

// apply decides about one order. It returns the memory as it has to be persisted
// before the order is done; where nothing was learned that is m itself. It does
// nothing else, and is all that stands between an order that is late, comes twice
// or is a deposed leader's, and two engines of one shard.
//
// An order of the highest term is done if its generation is the highest heard of
// and, to start it, was not ordered to stop before and is not here already. One
// exception: what is here can always be stopped, drained, put to sleep and woken by
// the number it has.
func apply(m memory, o order, has presence, now time.Time) (memory, decision) {
	if m.Cluster == "" || o.Cluster != m.Cluster {
		return m, decision{
			verdictRefuse, fmt.Sprintf("the order is of cluster %q, and this node belongs to %q", o.Cluster, m.Cluster),
			"point the agent at a control plane of its own cluster",
		}
	}
	if o.Term < m.Term {
		return m, decision{Verdict: verdictStale, Reason: fmt.Sprintf("term %d is over; term %d was heard of", o.Term, m.Term)}
	}
	m.Term = o.Term
	known := m.Shards[o.Shard]
	exactly := has.Here && has.Generation == o.Generation
	if o.Generation < known.Generation && (!exactly || o.Kind == orderStart) {
		return m, decision{Verdict: verdictStale, Reason: fmt.Sprintf("generation %d is over; generation %d was heard of", o.Generation, known.Generation)}
	}
	if o.Generation > known.Generation {
		known = heard{Generation: o.Generation}
	}
	newest := o.Generation == known.Generation
	before := m.Shards[o.Shard]
	d := decision{Verdict: verdictAct}
	switch o.Kind {
	case orderStart:
		switch {
		case known.Stopped:
			return m, decision{verdictRefuse, fmt.Sprintf("generation %d was ordered to stop and is never started again", o.Generation), "order a higher one"}
		case exactly && !has.Undecided: // else the shard answers, once it is decided
			return m, decision{Verdict: verdictAlready}
		}
	case orderStop:
		if !has.Here || has.Generation > o.Generation || has.Ended {
			d.Verdict = verdictAlready
		}
		if newest {
			by := now.Add(o.Drain)
			if known.Stopped && known.StopBy.Before(by) {
				by = known.StopBy // an order can hasten a stop, and does not delay it
			}
			known.Stopped, known.StopBy = true, by
		}
	case orderDrain:
		if !exactly {
			return m, decision{verdictRefuse, fmt.Sprintf("there is no generation %d of the shard here", o.Generation), "start it first"}
		}
		if has.Ended || newest && known.Stopped {
			d.Verdict = verdictAlready
		} else if newest {
			known.Draining = true
		}
	case orderSleep, orderWake:
		switch {
		case !exactly:
			return m, decision{verdictRefuse, fmt.Sprintf("there is no generation %d of the shard here", o.Generation), "start it first"}
		case has.Ended || newest && known.Stopped:
			return m, decision{verdictRefuse, fmt.Sprintf("generation %d was ordered to stop", o.Generation), "order a higher one to start"}
		case has.Undecided:
			return m, decision{verdictLater, fmt.Sprintf("whether generation %d can be started is not decided yet", o.Generation), "wait for its status"}
		case o.Kind == orderSleep && !has.Sleeps:
			return m, decision{verdictRefuse, "its engine was not launched so that it can sleep", "stop it, or start it with sleep in its profile"}
		case newest && o.Kind == orderSleep:
			known.Posture = asleep
		case newest:
			known.Posture, known.Draining = awake, false
		}
	}
	if newest && known != before {
		known.At = now
		m = m.with(o.Shard, known)
	}
	return m, d
}

// with returns the memory with another entry, and m as it was.
func (m memory) with(id engines.ShardID, h heard) memory {
	m.Shards = maps.Clone(m.Shards)
	if m.Shards == nil {
		m.Shards = make(map[engines.ShardID]heard)
	}
	m.Shards[id] = h
	return m
}

// join is apply for the welcome of a control plane: a cluster is joined once,
// a higher term is heard of, and what was said counts, whatever the term: whoever
// welcomes the node leads. The error says why this control plane is not this node's.
func (m memory) join(cluster string, term uint64, said defaults) (memory, error) {
	switch m.Cluster {
	case "":
		m.Cluster = cluster
	case cluster:
	default:
		return m, fmt.Errorf("the control plane is of cluster %q, and this node belongs to %q: point the agent at its own, or stop its engines and remove its state directory to give the node away", cluster, m.Cluster)
	}
	m.Term = max(m.Term, term)
	m.Defaults = m.Defaults.with(said)
	return m, nil
}

// found is apply for what stands in the directories: a shard that is there was
// ordered, also where nothing else remembers it.
func (m memory) found(id engines.ShardID, generation uint64, now time.Time) memory {
	if known, ok := m.Shards[id]; ok && known.Generation >= generation {
		return m
	}
	return m.with(id, heard{Generation: generation, At: now})
}

// forget drops what was heard of shards that are not here, after keep.
func (m memory) forget(now time.Time, keep time.Duration, here func(engines.ShardID) bool) memory {
	old := func(id engines.ShardID, h heard) bool { return !here(id) && now.Sub(h.At) > keep }
	for id, h := range m.Shards {
		if old(id, h) {
			m.Shards = maps.Clone(m.Shards)
			maps.DeleteFunc(m.Shards, old)
			break
		}
	}
	return m
}

// equal reports whether two memories say the same.
func (m memory) equal(o memory) bool {
	return m.Cluster == o.Cluster && m.Term == o.Term && m.Defaults == o.Defaults && maps.EqualFunc(m.Shards, o.Shards, func(a, b heard) bool {
		return a.Generation == b.Generation && a.Stopped == b.Stopped && a.Draining == b.Draining && a.Posture == b.Posture &&
			a.StopBy.Equal(b.StopBy) && a.At.Equal(b.At)
	})
}
