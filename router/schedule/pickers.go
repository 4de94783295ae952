package schedule

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// MaxScore picks the highest score, and one at random of several equal ones.
type MaxScore struct{}

// Name returns "max-score".
func (MaxScore) Name() string { return "max-score" }

// Pick returns the index of the highest score.
func (MaxScore) Pick(rng *rand.Rand, scores []float64) (int, error) {
	best, ties := -1, 0
	for i, s := range scores {
		switch {
		case math.IsNaN(s):
			return 0, badScore(i, s)
		case best < 0 || s > scores[best]:
			best, ties = i, 1
		case s == scores[best]:
			ties++
		}
	}
	if best < 0 {
		return 0, fmt.Errorf("%w: none to pick from", ErrBadScore)
	}
	if ties == 1 {
		return best, nil
	}
	nth := rng.IntN(ties)
	for i := best; ; i++ {
		if scores[i] != scores[best] {
			continue
		}
		if nth == 0 {
			return i, nil
		}
		nth--
	}
}

// PowerOfTwo samples two distinct candidates and picks the one with the higher
// score; equal scores keep the first sampled. Routers that decide on the same
// measurements do not all run to the same endpoint, but a pool of very unequal
// weights is not filled in proportion, since an endpoint is seen by 2/n of the
// decisions only. Source: Mitzenmacher, The Power of Two Choices in Randomized
// Load Balancing, IEEE TPDS 12(10), 2001.
type PowerOfTwo struct{}

// Name returns "power-of-two".
func (PowerOfTwo) Name() string { return "power-of-two" }

// Pick returns the index of the better of two.
func (PowerOfTwo) Pick(rng *rand.Rand, scores []float64) (int, error) {
	if err := checkScores(scores); err != nil {
		return 0, err
	}
	n := len(scores)
	if n == 1 {
		return 0, nil
	}
	first := rng.IntN(n)
	second := rng.IntN(n - 1)
	if second >= first {
		second++
	}
	if scores[second] > scores[first] {
		return second, nil
	}
	return first, nil
}

// WeightedRandom picks each with a chance in proportion to its score, and any
// if all scores are 0.
type WeightedRandom struct{}

// Name returns "weighted-random".
func (WeightedRandom) Name() string { return "weighted-random" }

// Pick returns an index drawn by score.
func (WeightedRandom) Pick(rng *rand.Rand, scores []float64) (int, error) {
	if err := checkScores(scores); err != nil {
		return 0, err
	}
	var sum float64
	for _, s := range scores {
		sum += s
	}
	if !(sum > 0) {
		return rng.IntN(len(scores)), nil
	}
	at, last := rng.Float64()*sum, 0
	for i, s := range scores {
		if s <= 0 {
			continue
		}
		last = i
		if at -= s; at < 0 {
			break
		}
	}
	return last, nil // the last positive one also takes what rounding left over
}

func checkScores(scores []float64) error {
	if len(scores) == 0 {
		return fmt.Errorf("%w: none to pick from", ErrBadScore)
	}
	for i, s := range scores {
		if math.IsNaN(s) {
			return badScore(i, s)
		}
	}
	return nil
}

func badScore(i int, s float64) error {
	return fmt.Errorf("%w: score %d is %v", ErrBadScore, i, s)
}
