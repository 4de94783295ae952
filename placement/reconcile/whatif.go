package reconcile

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/llmgw/llmgw/placement"
)

// Change is what somebody thinks of doing to a fleet.
type Change struct {
	// Drain and Remove are ids of nodes. A node that is removed is gone at once;
	// one that is drained serves until what is there runs elsewhere.
	Drain, Remove []string
	// Add are nodes that would come.
	Add []placement.Node
	// Models would be wanted beside those that are.
	Models []Wanted
}

// Wanted is a model that is to be.
type Wanted struct {
	Name  string
	Count int
	// Wish is as in [ModelView].
	Wish placement.Wish
}

var (
	// ErrNoSuchNode is the class of errors about nodes that are not known.
	ErrNoSuchNode = errors.New("reconcile: no such node")
	// ErrTaken is the class of errors about names that are taken.
	ErrTaken = errors.New("reconcile: the name is taken")
)

// Fate is what would become of a replica.
type Fate uint8

// The fates of replicas.
const (
	_ Fate = iota // unset
	// Stays: the change does not touch it.
	Stays
	// Moves: another one would take its place elsewhere.
	Moves
	// MovesAfter: likewise, and only once it has ended where it is, since what it
	// holds is needed: in between it does not serve.
	MovesAfter
	// NoPlace: there is none for another one.
	NoPlace
	// Ends: it is one more than is wanted.
	Ends
	// Leaves: it is on its way out already, or lost, whatever is changed.
	Leaves
)

// String returns the fate in one word.
func (f Fate) String() string {
	return [...]string{"unset", "stays", "moves", "moves-after-end", "no-place", "ends", "leaves"}[f]
}

// ReplicaFate is what would become of a replica.
type ReplicaFate struct {
	Replica ReplicaView
	Fate    Fate
	// Why says what moves it, or why it leaves. Empty: it stays.
	Why string
	// Decision is where another one would go, or why nowhere; of Moves, MovesAfter
	// and NoPlace.
	Decision *placement.Decision
}

// NewFate is what would become of a replica that is wanted and is not there.
type NewFate struct {
	Model string
	// Added: the model is one of the change's.
	Added bool
	// Before is why it has no place as things are. Empty: it has one, or was not
	// wanted.
	Before string
	// Problem is why it can run nowhere, whatever is free; Decision is nil then.
	Problem  string
	Decision *placement.Decision
}

// Forecast is what a change would come to.
type Forecast struct {
	Replicas []ReplicaFate // by id
	// New are the replicas that are wanted and not there: by model, in the order
	// in which they would be placed.
	New []NewFate
	// Before and After are what is free as things are, and once all is done.
	Before, After placement.Capacity
}

// WhatIf says what a change would come to: what would move and where, in the
// order in which a [Core] places, and what would have no place, and why. It
// changes nothing. That engines start, and how long they take, is taken for
// granted; pauses after failures are not waited for. The error wraps
// [ErrNoSuchNode] or [ErrTaken].
func (s *Snapshot) WhatIf(ch Change) (*Forecast, error) {
	q := &whatIf{snapshot: s, change: ch, cluster: s.Cluster.Clone(), before: s.Cluster.Clone(), out: &Forecast{Before: s.Cluster.Capacity()}}
	if err := q.apply(); err != nil {
		return nil, err
	}
	q.sort()
	for _, m := range q.models {
		q.plan(m)
	}
	q.settle()
	q.out.After = q.cluster.Capacity()
	slices.SortFunc(q.out.Replicas, func(a, b ReplicaFate) int { return cmp.Compare(a.Replica.ID, b.Replica.ID) })
	return q.out, nil
}

// whatIf is a question on its way.
type whatIf struct {
	snapshot *Snapshot
	change   Change
	cluster  *placement.Cluster // as it would be
	before   *placement.Cluster // without the change, with what is missing placed
	touched  map[string]string  // why what runs there has to go, by node
	models   []*asked
	out      *Forecast
	names    int
}

// asked is a model with its replicas, by what the change does to them.
type asked struct {
	ModelView
	added  bool
	stay   int
	moving []int // places in the outcome's Replicas
}

// apply makes the change to the machines.
func (q *whatIf) apply() error {
	q.touched = make(map[string]string)
	for _, id := range q.change.Drain {
		n, known := q.cluster.Node(id)
		if !known {
			return fmt.Errorf("%w: %q, which is to be drained", ErrNoSuchNode, id)
		}
		n.Cordon, n.CordonReason = placement.Draining, "as the question has it"
		q.cluster.SetNode(n)
		q.touched[id] = fmt.Sprintf("node %s is drained", id)
	}
	for _, id := range q.change.Remove {
		if _, known := q.snapshot.Cluster.Node(id); !known {
			return fmt.Errorf("%w: %q, which is to be removed", ErrNoSuchNode, id)
		}
		q.cluster.RemoveNode(id)
		q.touched[id] = fmt.Sprintf("node %s is gone", id)
	}
	for _, n := range q.change.Add {
		if _, known := q.cluster.Node(n.ID); known {
			return fmt.Errorf("%w: there is a node %q; give the new one another ID (--add-node ID=FILE)", ErrTaken, n.ID)
		}
		q.cluster.SetNode(n)
	}
	for _, w := range q.change.Models {
		if _, known := q.snapshot.Model(w.Name); known {
			return fmt.Errorf("%w: there is a model %q; give the new one another name", ErrTaken, w.Name)
		}
	}
	return nil
}

// sort brings models and replicas together, the models in the order in which they
// are placed.
func (q *whatIf) sort() {
	byName := make(map[string]*asked)
	for _, m := range q.snapshot.Models {
		byName[m.Name] = &asked{ModelView: m}
		q.models = append(q.models, byName[m.Name])
	}
	for _, w := range q.change.Models {
		q.models = append(q.models, &asked{ModelView: ModelView{Name: w.Name, Wanted: w.Count, Wish: w.Wish}, added: true})
	}
	slices.SortStableFunc(q.models, func(a, b *asked) int {
		x, y := a.Wish.Need, b.Wish.Need
		return cmp.Or(cmp.Compare(len(y.Ranks), len(x.Ranks)), cmp.Compare(y.Cards(), x.Cards()), cmp.Compare(a.Name, b.Name))
	})
	for _, r := range q.snapshot.Replicas {
		fate := ReplicaFate{Replica: r, Fate: Stays}
		m := byName[r.Model]
		switch why := q.moves(&r); {
		case m == nil || !r.State.holds() || r.Leaving != "":
			fate.Fate, fate.Why = Leaves, cmp.Or(r.Leaving, r.Reason)
		case why != "":
			fate.Why = why
			m.moving = append(m.moving, len(q.out.Replicas))
		default:
			m.stay++
		}
		q.out.Replicas = append(q.out.Replicas, fate)
	}
}

// moves says why the change has a replica go; "": it does not.
func (q *whatIf) moves(r *ReplicaView) string {
	for _, s := range r.Shards {
		if why := q.touched[s.Node]; why != "" {
			return why
		}
	}
	return ""
}

// plan places what of a model has to move, and what of it is missing, beside all
// that runs.
func (q *whatIf) plan(m *asked) {
	room := max(m.Wanted-m.stay, 0)
	for n, at := range m.moving {
		fate := &q.out.Replicas[at]
		if n >= room {
			fate.Fate = Ends
			continue
		}
		d := q.place(q.cluster, m)
		if fate.Decision = d; d.Placed {
			fate.Fate = Moves
		} else {
			fate.Fate = NoPlace
		}
	}
	for range room - min(room, len(m.moving)) {
		fate := NewFate{Model: m.Name, Added: m.added, Problem: m.Problem}
		if m.Problem == "" {
			if !m.added {
				if before := q.place(q.before, m); !before.Placed {
					fate.Before = before.Why
				}
			}
			fate.Decision = q.place(q.cluster, m)
		}
		q.out.New = append(q.out.New, fate)
	}
}

// place takes a place for one more replica of a model, if there is one.
func (q *whatIf) place(in *placement.Cluster, m *asked) *placement.Decision {
	wish := m.Wish
	wish.Replica = oneMore(m.Name, q.names)
	q.names++
	d := in.Place(wish)
	if d.Placed {
		in.Claim(wish.Claim(d))
	}
	return &d
}

// settle gives back what those hold that have moved, and asks again for those
// without a place: first for what has to move, once it holds nothing, then for
// what is missing.
func (q *whatIf) settle() {
	for _, fate := range q.out.Replicas {
		if fate.Fate == Moves || fate.Fate == Ends {
			q.cluster.Release(fate.Replica.ID)
		}
	}
	models := make(map[string]*asked)
	for _, m := range q.models {
		models[m.Name] = m
		for _, at := range m.moving {
			fate := &q.out.Replicas[at]
			if fate.Fate != NoPlace {
				continue
			}
			q.cluster.Release(fate.Replica.ID)
			if fate.Decision = q.place(q.cluster, m); fate.Decision.Placed {
				fate.Fate = MovesAfter
			}
		}
	}
	for i := range q.out.New {
		if fate := &q.out.New[i]; fate.Decision != nil && !fate.Decision.Placed {
			fate.Decision = q.place(q.cluster, models[fate.Model])
		}
	}
}
