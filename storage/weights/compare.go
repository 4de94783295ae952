package weights

import (
	"fmt"

	"github.com/llmgw/llmgw/engines"
)

// Peak is the most memory that a card of a replica was seen to use.
type Peak struct {
	Bytes uint64 `json:"bytes"`
	// CardBytes is the size of that card.
	CardBytes uint64 `json:"card_bytes"`
}

// Comparison is an estimate beside what was measured.
type Comparison struct {
	// EstimateBytes is what the estimate says a card must have free, PeakBytes what
	// was measured.
	EstimateBytes engines.Opt[uint64] `json:"estimate_bytes"`
	PeakBytes     engines.Opt[uint64] `json:"peak_bytes"`
	// Bytes is what to plan with. Not known: nothing is, and the whole card is to
	// be planned.
	Bytes engines.Opt[uint64] `json:"bytes"`
	// OffRatio is how far the estimate is off, relative to the peak: 0.1 is 10 %
	// too much. Known if both are.
	OffRatio engines.Opt[float64] `json:"off_ratio"`
	// Why says in one sentence which was taken, and why.
	Why string `json:"why"`
}

// sameCard is how far the sizes of two cards of one kind are apart at most: drivers
// report the same card with some MiB more or less.
const sameCard = 0.02

// Compare returns what to plan with. What was measured wins over what was estimated,
// but for an engine that takes a part of its card: its peak on a card of another
// size says nothing, since it takes whatever there is.
func Compare(m Memory, peak engines.Opt[Peak]) Comparison {
	c := Comparison{EstimateBytes: m.ClaimBytes, Bytes: m.ClaimBytes, Why: "estimated: nothing was measured yet"}
	estimate, estimated := m.ClaimBytes.Get()
	if !estimated {
		c.Why = "neither measured nor estimated"
	}
	p, measured := peak.Get()
	if !measured || p.Bytes == 0 { // no card of a running engine is empty
		return c
	}
	c.PeakBytes = engines.Known(p.Bytes)
	if estimated {
		c.OffRatio = engines.Known(float64(estimate)/float64(p.Bytes) - 1)
	}
	if m.Shares {
		card, ok := m.CardBytes.Get()
		if !ok || !within(float64(card), float64(p.CardBytes), sameCard) {
			c.OffRatio = engines.Opt[float64]{}
			c.Why = fmt.Sprintf("estimated: the peak is from a card of %s, and %s takes a part of its card", size(p.CardBytes), m.Engine)
			return c
		}
	}
	c.Bytes = c.PeakBytes
	c.Why = "measured: the most that a card was seen to use"
	return c
}

func within(a, b, ratio float64) bool { return a >= b*(1-ratio) && a <= b*(1+ratio) }
