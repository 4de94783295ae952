package usage

import (
	"math"
	"math/bits"
	"time"

	"github.com/llmgw/llmgw/storage"
)

// Price is what a million tokens cost, in 10^-9 of the currency unit. None is
// negative.
type Price struct {
	Input int64
	// CachedInput is for the part of the input that an engine held already.
	CachedInput int64
	Output      int64
}

// Pricer knows the prices of models.
type Pricer interface {
	// Price returns what the canonical model cost at that time, false if it has no
	// price. It must not block.
	Price(model string, at time.Time) (Price, bool)
}

// Cost is what the tokens cost, in 10^-9 of the currency unit, rounded up. What
// is not known costs nothing; more cached tokens than input are taken to be all
// of it. Nothing costs more than [math.MaxInt64].
func (p Price) Cost(t storage.Tokens) int64 {
	input, cached, output := count(t.Input), count(t.CachedInput), count(t.Output)
	cached = min(cached, input)
	var hi, lo uint64
	add := func(tokens, price int64) {
		h, l := bits.Mul64(uint64(tokens), uint64(max(price, 0)))
		var carry uint64
		lo, carry = bits.Add64(lo, l, 0)
		hi += h + carry // three products of 63 bits each do not fill 128
	}
	add(input-cached, p.Input)
	add(cached, p.CachedInput)
	add(output, p.Output)
	const million = 1_000_000
	if hi >= million {
		return math.MaxInt64
	}
	q, r := bits.Div64(hi, lo, million)
	if q >= math.MaxInt64 {
		return math.MaxInt64
	}
	if r > 0 {
		q++
	}
	return int64(q)
}

// WorstCost is what a request may cost at most: its whole prompt computed, and
// the longest answer.
func (p Price) WorstCost(inputTokens, outputTokens int64) int64 {
	dear := p
	dear.Input = max(p.Input, p.CachedInput) // whichever way the prompt is counted
	return dear.Cost(storage.Tokens{Input: &inputTokens, Output: &outputTokens})
}

func count(n *int64) int64 {
	if n == nil {
		return 0
	}
	return max(*n, 0)
}
