package placement

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/llmgw/llmgw/engines"
)

var (
	// ErrUnfit is the class of errors about wishes that no known node or fabric
	// could hold, were it empty and well.
	ErrUnfit = errors.New("placement: no known node could hold it, even empty")
	// ErrNotKnownYet is the class of errors about wishes of which nobody can tell,
	// since nodes that matter are not known yet.
	ErrNotKnownYet = errors.New("placement: too little is known to tell")
)

// UnfitError says why no known node could hold a wish. It unwraps to [ErrUnfit].
type UnfitError struct {
	Model string
	// Why is the sentence for people.
	Why string
	// Rejected are all nodes with what lasts of their reasons; Fabrics are as in
	// [Decision].
	Rejected []Rejection
	Fabrics  []Standing
}

// Error names the model and says why.
func (e *UnfitError) Error() string { return fmt.Sprintf("%v: model %q: %s", ErrUnfit, e.Model, e.Why) }

// Unwrap returns [ErrUnfit].
func (e *UnfitError) Unwrap() error { return ErrUnfit }

// Fits reports whether the fleet could hold the replica if nobody held anything
// and all nodes were well: ready, connected, not cordoned, every card healthy,
// every port free, every fabric as its label says, no engine with a problem. What
// remains is what only other machines, labels or another wish could change. Nil:
// it could. A wish that it could not hold is an [*UnfitError]; one of which that
// cannot be said is [ErrNotKnownYet], as with no nodes, nodes of unknown cards, or
// pins to nodes that are not known; one that is none is [ErrWish].
func (c *Cluster) Fits(w Wish) error {
	if err := w.Validate(); err != nil {
		return err
	}
	s := newSearch(c, &w, true)
	s.look()
	d := Decision{Model: w.Model}
	fits := len(s.options) > 0
	if s.ganged {
		s.form()
		d.Fabrics = s.standings()
		fits = slices.ContainsFunc(s.gangs, func(g *gang) bool { return g.short == 0 })
	}
	if fits {
		return nil
	}
	if what := s.notKnown(); what != "" {
		return fmt.Errorf("%w: model %q: %s", ErrNotKnownYet, w.Model, what)
	}
	s.reject(&d)
	s.whyNot(&d)
	return &UnfitError{Model: w.Model, Why: d.Why, Rejected: d.Rejected, Fabrics: d.Fabrics}
}

// notKnown says what would have to be known to tell that a wish does not fit.
func (s *search) notKnown() string {
	if len(s.cluster.entries) == 0 {
		return "no node is known yet"
	}
	for _, id := range s.wish.Nodes {
		if _, known := s.cluster.find(id); !known {
			return fmt.Sprintf("it is to run on %s, and node %s is not known yet", s.pins, id)
		}
	}
	if s.unknown > 0 {
		return "the hardware of some nodes is not known yet"
	}
	return ""
}

// Most returns how many replicas of a wish the fleet could hold, up to a limit, if
// nobody held anything and all nodes and cards were well. Like [Cluster.Fits] it says
// nothing of what is not known: a fleet without nodes holds none.
func (c *Cluster) Most(w Wish, limit int) int {
	nodes := make([]Node, 0, len(c.entries))
	for n := range c.Nodes() {
		n.State, n.Connected, n.Cordon = Ready, true, NoCordon
		n.HostFreeBytes, n.FreePorts = n.HostBytes, engines.Opt[int]{}
		n.Cards = slices.Clone(n.Cards)
		for i := range n.Cards {
			card := &n.Cards[i]
			card.Problem, card.FreeBytes, card.Foreign = "", engines.Opt[uint64]{}, nil
		}
		n.Fabrics = slices.Clone(n.Fabrics)
		for i := range n.Fabrics {
			n.Fabrics[i].Verdict = engines.Confirmed
		}
		n.Engines = maps.Clone(n.Engines)
		for name := range n.Engines {
			n.Engines[name] = ""
		}
		nodes = append(nodes, n)
	}
	empty := NewCluster(nodes, nil)
	for i := range limit {
		w.Replica = fmt.Sprintf("%s~%d", w.Model, i+1)
		d := empty.Place(w)
		if !d.Placed {
			return i
		}
		empty.Claim(w.Claim(d))
	}
	return limit
}
