package measure

import (
	"math"
	"slices"
)

// Median returns the middle of v (the mean of the two middles when their number
// is even), NaN when v is empty. It leaves v as it is.
func Median(v []float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	s := slices.Sorted(slices.Values(v))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// Rounds has one figure of one target for each round that it was measured in.
type Rounds map[int]float64

// Values returns the figures, in the order of their rounds.
func (r Rounds) Values() []float64 {
	keys := make([]int, 0, len(r))
	for k := range r {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	out := make([]float64, len(keys))
	for i, k := range keys {
		out[i] = r[k]
	}
	return out
}

// Spread is the median over rounds with the least and the greatest. All are NaN
// when no round counts.
type Spread struct {
	Median, Min, Max float64
	N                int
}

// NewSpread returns the spread of v.
func NewSpread(v []float64) Spread {
	if len(v) == 0 {
		return Spread{Median: math.NaN(), Min: math.NaN(), Max: math.NaN()}
	}
	return Spread{Median: Median(v), Min: slices.Min(v), Max: slices.Max(v), N: len(v)}
}

// Ratio compares r with base round by round, a÷b, and returns the spread of the
// ratios: what disturbed a whole round falls out of it. Rounds that only one of
// them has, or in which base is 0, do not count.
func (r Rounds) Ratio(base Rounds) Spread {
	return r.paired(base, func(a, b float64) (float64, bool) { return a / b, b != 0 })
}

// Minus is as Ratio with the difference a−b.
func (r Rounds) Minus(base Rounds) Spread {
	return r.paired(base, func(a, b float64) (float64, bool) { return a - b, true })
}

func (r Rounds) paired(base Rounds, f func(a, b float64) (float64, bool)) Spread {
	var v []float64
	for k, a := range r {
		b, ok := base[k]
		if !ok {
			continue
		}
		if x, ok := f(a, b); ok {
			v = append(v, x)
		}
	}
	return NewSpread(v)
}
