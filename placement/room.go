package placement

import (
	"math"
	"math/bits"

	"github.com/llmgw/llmgw/engines"
)

// room is what a card's memory has free for a replica.
type room struct {
	free, total engines.Opt[uint64]
	// hidden: a process of unknown size is on a card of which nothing else says
	// what is free, so nobody can plan with it.
	hidden bool
}

// roomOf returns what a card has free by its own readings; for a card of unified
// memory it knows nothing, and nothing is refused by it.
func roomOf(n *Node, c *Card) room {
	if n.Unified {
		return room{}
	}
	r := room{free: c.FreeBytes, total: c.MemoryBytes}
	if _, known := r.free.Get(); known || len(c.Foreign) == 0 {
		return r
	}
	total, known := r.total.Get()
	if !known {
		return room{hidden: true}
	}
	for _, p := range c.Foreign {
		held, known := p.MemoryBytes.Get()
		if !known {
			return room{total: r.total, hidden: true}
		}
		total -= min(total, held)
	}
	r.free = engines.Known(total)
	return r
}

// holds reports whether a replica that needs that much can have it.
func (r room) holds(need engines.Opt[uint64]) bool {
	want, known := need.Get()
	if !known {
		return r.whole()
	}
	return !r.hidden && r.least() >= want
}

// least returns the largest need that it can hold for sure.
func (r room) least() uint64 {
	if r.hidden {
		return 0
	}
	return r.free.Or(r.total.Or(math.MaxUint64))
}

// everHolds reports whether it could if nobody held any of it.
func (r room) everHolds(need engines.Opt[uint64]) bool {
	want, known := need.Get()
	return !known || r.total.Or(want) >= want
}

// whole reports whether the card counts as wholly free: [WholeCardRatio] of it.
func (r room) whole() bool {
	free, seen := r.free.Get()
	total, known := r.total.Get()
	return !r.hidden && (!seen || !known || free >= total-total/10)
}

// hostNeed returns what a rank takes of a node's own memory.
func hostNeed(unified bool, rank RankNeed, cardBytes engines.Opt[uint64]) uint64 {
	if !unified {
		return rank.HostBytes
	}
	high, cards := bits.Mul64(uint64(rank.Cards), cardBytes.Or(0))
	sum, carry := bits.Add64(rank.HostBytes, cards, 0)
	if high > 0 || carry > 0 {
		return math.MaxUint64
	}
	return sum
}
