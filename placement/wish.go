package placement

import (
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/llmgw/llmgw/engines"
)

// Wish is one replica that is to be placed.
type Wish struct {
	// Model is the model's name, Replica the id that the replica is to have.
	Model, Replica string
	Need           Need
	// WeightsKey is the key of the model's weights in [Node.Weights]. Empty:
	// weights are not asked for.
	WeightsKey string
	// Nodes are the only nodes that may be used. Empty: any.
	Nodes []string
	// Labels are those that a node must have.
	Labels map[string]string
	// Spread is the label that names a node's failure domain: of two places the
	// one with fewer replicas of the model in its domain is taken. Empty: each
	// node is a domain of its own, as is a node without the label.
	Spread string
	// Apart are models of which no replica may share a node with this one. The
	// model's own name keeps its replicas apart from one another.
	Apart []string
}

// Need is what one replica takes.
type Need struct {
	// Engine is what runs. Empty: no node is refused for its engines.
	Engine engines.Name
	// Ranks are the shards of the replica; rank 0 leads. Each is on a node of
	// its own, and two or more are all in one fabric. At least one.
	Ranks []RankNeed
	// CardBytes is the memory that each card must have free. Not known: the whole
	// card is assumed, see [WholeCardRatio].
	CardBytes engines.Opt[uint64]
	// ByClass has the classes of cards, by their whole names, on which it is another
	// need. Nil: none.
	ByClass map[string]ClassNeed
	// Classes are the accepted classes of cards: see [ClassMatches]. Empty: any.
	// The cards of one replica are always all of one class.
	Classes []string
	// CPUFeatures are what the processor must have, by the names of
	// [engines.CPUFeatures].
	CPUFeatures []string
}

// ClassNeed is what one replica needs of cards of one class.
type ClassNeed struct {
	// CardBytes is as in [Need].
	CardBytes engines.Opt[uint64]
	// Never is why no card of the class can hold it, however free, in a sentence that
	// begins with a small letter. Empty: one can.
	Never string
}

// RankNeed is what one rank takes of its node.
type RankNeed struct {
	// Cards is how many cards; 0: none.
	Cards int
	// Ports is how many ports of the node's range.
	Ports int
	// HostBytes is how much of the machine's own memory. 0: what it takes is not
	// worth planning, or not known.
	HostBytes uint64
}

// NeedOf returns what a replica of that profile and shape takes, as far as they
// say it: engine, cards and ports.
func NeedOf(p engines.Profile, s engines.Shape) Need {
	n := Need{Engine: p.Engine, Ranks: make([]RankNeed, len(s.Ranks))}
	for i, r := range s.Ranks {
		n.Ranks[i].Cards = r.Cards
		for _, p := range r.Ports {
			n.Ranks[i].Ports += p.Count
		}
	}
	return n
}

// On returns what cards of a class must have free, and why none of them can ever do.
func (n *Need) On(class string) ClassNeed {
	if of, other := n.ByClass[class]; other {
		return of
	}
	return ClassNeed{CardBytes: n.CardBytes}
}

// Cards returns how many cards the replica takes over all ranks.
func (n Need) Cards() int {
	total := 0
	for _, r := range n.Ranks {
		total += r.Cards
	}
	return total
}

// WholeCardRatio is how much of its memory a card must have free to be taken as
// a whole, where how much a replica needs is not known: what vLLM asks for by
// default (--gpu-memory-utilization), and the most that engines commonly do.
const WholeCardRatio = 0.9

// ErrWish is the class of errors about wishes that say nothing that could be
// placed.
var ErrWish = errors.New("placement: not a wish")

// Validate reports everything that is wrong with the wish in itself, whatever
// the fleet. Each error wraps [ErrWish].
func (w Wish) Validate() error {
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("%w: "+format, append([]any{ErrWish}, args...)...))
	}
	if len(w.Need.Ranks) == 0 {
		fault("need.ranks is empty; a replica has at least one rank")
	}
	for i, r := range w.Need.Ranks {
		if r.Cards < 0 || r.Ports < 0 {
			fault("need.ranks[%d] takes %d cards and %d ports; neither can be negative", i, r.Cards, r.Ports)
		}
	}
	return errors.Join(faults...)
}

// ClassMatches reports whether a card's class is the one that accepted means:
// the words of accepted stand in it, one after the other, whole, in any case.
// "h100" is "NVIDIA H100 80GB HBM3", and "A10" is not "NVIDIA A100-SXM4-80GB".
// Words are made of letters and digits.
func ClassMatches(accepted, class string) bool {
	want, have := classWords(accepted), classWords(class)
	for at := 0; at+len(want) <= len(have); at++ {
		same := true
		for i := range want {
			same = same && have[at+i] == want[i]
		}
		if same {
			return len(want) > 0
		}
	}
	return false
}

func classWords(s string) []string {
	return strings.FieldsFunc(strings.ToLower(s), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}

// Claim is what one replica holds.
type Claim struct {
	// Replica is its id, and Model its model's name. Without a model it is something
	// of no replica that is known, and Replica says in words what.
	Replica, Model string
	// Fabric is the one between its nodes. Empty: it needs none.
	Fabric string
	// Shards are its ranks, in order.
	Shards []ShardPlace
	// Apart are as in [Wish]: models of which no replica may be placed beside it.
	Apart []string
}

// ShardPlace is where one rank is, and what it takes there.
type ShardPlace struct {
	Node string
	// Cards are the IDs of its cards, in order.
	Cards []string
	// Ports and HostBytes are what it takes of [Node.FreePorts] and
	// [Node.HostFreeBytes] beyond what these show already. Of a shard that runs,
	// and is seen in the node's readings, both are 0.
	Ports     int
	HostBytes uint64
}

// Claim returns what the replica of the wish holds once d is done.
func (w Wish) Claim(d Decision) Claim {
	return Claim{Replica: w.Replica, Model: w.Model, Fabric: d.Fabric, Shards: d.Shards, Apart: w.Apart}
}
