package placement

import (
	"cmp"
	"maps"
	"slices"

	"github.com/llmgw/llmgw/engines"
)

// search is one look at all nodes for one wish.
type search struct {
	cluster *Cluster
	wish    *Wish
	// empty: nodes are taken as if they were well and nobody held anything.
	empty bool
	// ganged: there are several ranks, for which a fabric is needed.
	ganged bool
	// types are the ranks by what they take, the least demanding first.
	types []rankType

	pinned   map[string]bool // nil: any node
	pins     string          // the same, in words
	labels   []label         // the wish's, by key
	domains  map[string]int  // replicas of the model, by the value of the label
	accepted []classVerdict  // classes of cards that were met
	places   []int           // scratch
	arena    []Reason        // of which the nodes' are parts

	options []option
	reasons [][]Reason // by node; none: it fits
	unknown int        // nodes of which nobody knows whether they fit
	gangs   []*gang
	others  map[*entry]bool // the nodes of gangs that could be
}

// label is one that a node must have; text is "key=value".
type label struct{ key, value, text string }

// rankType is ranks that take the same.
type rankType struct {
	need  RankNeed
	ranks []int
}

// option is a node that would do for ranks of a type, with cards of one class.
type option struct {
	entry *entry
	at    int // its place among all nodes, which are in the order of their IDs
	class string
	typ   int
	score Score // without what depends on the fabric
}

type classVerdict struct {
	class string
	ok    bool
}

func newSearch(c *Cluster, w *Wish, empty bool) *search {
	s := &search{cluster: c, wish: w, empty: empty, ganged: len(w.Need.Ranks) > 1}
	for rank, need := range w.Need.Ranks {
		at := slices.IndexFunc(s.types, func(t rankType) bool { return t.need == need })
		if at < 0 {
			at = len(s.types)
			s.types = append(s.types, rankType{need: need})
		}
		s.types[at].ranks = append(s.types[at].ranks, rank)
	}
	slices.SortStableFunc(s.types, func(a, b rankType) int {
		return cmp.Or(a.need.Cards-b.need.Cards, a.need.Ports-b.need.Ports, cmp.Compare(a.need.HostBytes, b.need.HostBytes))
	})
	if len(w.Nodes) > 0 {
		s.pinned = make(map[string]bool, len(w.Nodes))
		for _, id := range w.Nodes {
			s.pinned[id] = true
		}
		s.pins = someText(slices.Sorted(maps.Keys(s.pinned)), 8)
	}
	for _, key := range slices.Sorted(maps.Keys(w.Labels)) {
		s.labels = append(s.labels, label{key: key, value: w.Labels[key], text: key + "=" + w.Labels[key]})
	}
	s.countDomains()
	return s
}

// countDomains counts the model's replicas in each failure domain that has a
// label: each once, however many nodes of the domain it is on.
func (s *search) countDomains() {
	if s.wish.Spread == "" || s.empty {
		return
	}
	type in struct{ domain, replica string }
	seen := make(map[in]bool)
	s.domains = make(map[string]int)
	for _, e := range s.cluster.entries {
		if len(e.holds) == 0 {
			continue
		}
		domain, ok := e.node.Labels[s.wish.Spread]
		if !ok {
			continue
		}
		for _, h := range e.holds {
			if at := (in{domain, h.claim.Replica}); h.claim.Model == s.wish.Model && !seen[at] {
				seen[at] = true
				s.domains[domain]++
			}
		}
	}
}

// look finds the options, and the reasons of the nodes that are none.
func (s *search) look() {
	s.reasons = make([][]Reason, len(s.cluster.entries))
	if !s.empty {
		s.options = make([]option, 0, len(s.cluster.entries))
		s.arena = make([]Reason, 0, len(s.cluster.entries))
	}
	for i, e := range s.cluster.entries {
		from := len(s.arena)
		s.refuse(e)
		before := len(s.options)
		if len(s.arena) == from {
			for typ := range s.types {
				s.offer(i, typ)
			}
		}
		if len(s.options) > before {
			continue
		}
		// The ranks that take least say why not even they can be there.
		s.refuseRank(e, s.types[0].need)
		s.reasons[i] = s.arena[from:len(s.arena):len(s.arena)]
	}
}

// offer adds the options that the node at a place has for ranks of a type.
func (s *search) offer(at, typ int) {
	e, need := s.cluster.entries[at], s.types[typ].need
	if e.node.CardsUnknown && (need.Cards > 0 || (s.ganged && s.empty)) {
		s.unknown++
		return
	}
	if s.portsShort(e, need) {
		return
	}
	if need.Cards == 0 {
		if s.lacks(e, need.HostBytes) {
			return
		}
		o := option{entry: e, at: at, typ: typ}
		s.rate(&o, nil)
		s.options = append(s.options, o)
		return
	}
	before := len(s.options)
	for i := range e.classes {
		class := &e.classes[i]
		if !s.accepts(class.name) || s.lacks(e, hostNeed(e.node.Unified, need, s.wish.Need.On(class.name).CardBytes)) {
			continue
		}
		places := s.suitable(e, class)
		if len(places) < need.Cards {
			continue
		}
		o := option{entry: e, at: at, class: class.name, typ: typ}
		s.rate(&o, places)
		// Alone, a node has one class that is best. In a gang all nodes agree on
		// one, and it need not be that.
		if !s.ganged && len(s.options) > before {
			if last := &s.options[before]; o.score.Compare(&last.score) < 0 {
				*last = o
			}
			continue
		}
		s.options = append(s.options, o)
	}
}

// rate sets an option's score, but for what depends on the fabric of a gang.
func (s *search) rate(o *option, places []int) {
	if s.empty {
		return
	}
	e, cards := o.entry, s.types[o.typ].need.Cards
	o.score[SameModelInDomain] = int32(s.inDomain(e))
	if s.wish.WeightsKey != "" && !e.sees(s.wish.WeightsKey) {
		o.score[WeightsMissing], o.score[WeightsUnseen] = 1, 1
	}
	o.score[CardsLeft] = int32(e.freeCards - cards)
	if cards == 0 {
		return
	}
	if e.whole {
		o.score[WholeNodesBroken] = 1
		for i := range e.node.Fabrics {
			if !s.joins(e, i) {
				continue
			}
			o.score[WholeNodesInFabric] = max(o.score[WholeNodesInFabric], int32(s.cluster.whole[e.node.Fabrics[i].Name]))
		}
	}
	if cards > 1 {
		o.score[CardDistance] = int32(e.topology.closest(places, cards).distance)
	}
}

// inDomain returns how many replicas of the model are in the node's failure
// domain.
func (s *search) inDomain(e *entry) int {
	if s.wish.Spread != "" {
		if domain, ok := e.node.Labels[s.wish.Spread]; ok {
			return s.domains[domain]
		}
	}
	n := 0
	for i, h := range e.holds {
		// The shards of one replica stand together.
		if h.claim.Model == s.wish.Model && (i == 0 || e.holds[i-1].claim != h.claim) {
			n++
		}
	}
	return n
}

// suitable returns the places of the node's cards of a class that the wish can
// have. The next call may overwrite the answer.
func (s *search) suitable(e *entry, class *classCards) []int {
	of := s.wish.Need.On(class.name)
	if of.Never != "" {
		return nil
	}
	need := of.CardBytes
	if !s.empty {
		want, known := need.Get()
		if (known && want <= class.least) || (!known && class.whole) {
			return class.free
		}
	}
	s.places = s.places[:0]
	if !s.empty {
		for _, at := range class.free {
			if e.rooms[at].holds(need) {
				s.places = append(s.places, at)
			}
		}
		return s.places
	}
	for at := range e.rooms {
		if e.node.Cards[at].Class == class.name && e.rooms[at].everHolds(need) {
			s.places = append(s.places, at)
		}
	}
	return s.places
}

// accepts reports whether the wish takes cards of a class.
func (s *search) accepts(class string) bool {
	if len(s.wish.Need.Classes) == 0 {
		return true
	}
	for i := range s.accepted {
		if s.accepted[i].class == class {
			return s.accepted[i].ok
		}
	}
	ok := slices.ContainsFunc(s.wish.Need.Classes, func(accepted string) bool { return ClassMatches(accepted, class) })
	s.accepted = append(s.accepted, classVerdict{class, ok})
	return ok
}

// joins reports whether a node can be in a gang of its fabric at i.
func (s *search) joins(e *entry, i int) bool {
	return e.first(i) && (s.empty || e.node.Fabrics[i].Verdict != engines.Contradicted)
}
