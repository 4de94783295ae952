package reconcile

import (
	"fmt"
	"slices"

	"github.com/llmgw/llmgw/placement"
	"github.com/llmgw/llmgw/placement/catalog"
)

// Snapshot is how everything stood at one moment. All that is told of it is made
// of the same numbers. It does not change; one goroutine at a time uses it.
type Snapshot struct {
	*View
	// Cluster is the machines and what is held of them. Who changes it changes a
	// clone.
	Cluster *placement.Cluster
}

// Snapshot returns how everything stands.
func (c *Core) Snapshot() *Snapshot { return &Snapshot{View: c.View(), Cluster: c.cluster.Clone()} }

// Model returns a model that has a profile.
func (v *View) Model(name string) (ModelView, bool) {
	for i := range v.Models {
		if v.Models[i].Name == name {
			return v.Models[i], true
		}
	}
	return ModelView{}, false
}

// Explanation is why the replicas of a model are where they are, and where one
// more would go.
type Explanation struct {
	Model ModelView
	// Next is where one more replica would go, with every node that was not taken.
	// Nil: the model has a Problem.
	Next *placement.Decision
	// Placed are its replicas, by id.
	Placed []Reasked
}

// Reasked is a replica, and where it would go if it had no place.
type Reasked struct {
	Replica ReplicaView
	// Today is the answer of this snapshot, which need not be the one that it was
	// placed by: machines and other replicas have come and gone since. Nil: the
	// model has a Problem, or it was not asked for.
	Today *placement.Decision
	// Same: it would go just where it is, but for the order of its cards.
	Same bool
}

// Explain asks for each replica of a model, and for one more, where it would go;
// false: no such model has a profile. Of replicas only the first most are asked for,
// by ID; 0: all.
func (s *Snapshot) Explain(model string, most int) (*Explanation, bool) {
	m, known := s.Model(model)
	if !known {
		return nil, false
	}
	out := &Explanation{Model: m}
	if m.Problem == "" {
		wish := m.Wish
		wish.Replica = oneMore(model, 0)
		out.Next = new(s.Cluster.Place(wish))
	}
	without := s.Cluster.Clone() // one replica, and each in its turn
	for _, r := range s.Replicas {
		if r.Model != model {
			continue
		}
		asked := Reasked{Replica: r}
		if m.Problem == "" && (most == 0 || len(out.Placed) < most) {
			claim, held := without.ClaimOf(r.ID)
			without.Release(r.ID)
			wish := m.Wish
			wish.Replica = r.ID
			asked.Today = new(without.Place(wish))
			asked.Same = asked.Today.Placed && slices.EqualFunc(asked.Today.Shards, r.Row.Shards, samePlace)
			if held {
				without.Claim(claim)
			}
		}
		out.Placed = append(out.Placed, asked)
	}
	return out, true
}

func samePlace(a, b placement.ShardPlace) bool {
	return a.Node == b.Node && slices.Equal(slices.Sorted(slices.Values(a.Cards)), slices.Sorted(slices.Values(b.Cards)))
}

// oneMore names a replica that there is not.
func oneMore(model string, n int) string { return fmt.Sprintf("%s~%d", model, n+1) }

// WishFor returns what a replica of an entry would ask of the machines, as far as the
// entry states it; false: it has no profile. The error is why the profile cannot run
// anywhere.
func (l *Loop) WishFor(entry *catalog.Model) (w placement.Wish, runs bool, err error) {
	profile, runs := entry.RunProfile()
	if !runs {
		return placement.Wish{}, false, nil
	}
	shape, err := l.deps.Core.shape(profile)
	if err != nil {
		return placement.Wish{}, true, err
	}
	return wishOf(entry, profile, shape), true, nil
}
