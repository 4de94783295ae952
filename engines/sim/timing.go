package sim

import (
	"math"
	"math/rand/v2"
	"time"
)

// load is what one batch iteration computes.
type load struct {
	prefillTokens  int   // prompt tokens, recomputed ones included
	attentionPairs int64 // their pairs with every token before
	decoding       int   // sequences that get one more token
	kvRead         int64 // tokens in the cache of those sequences
}

// costs is Timing with the divisions done.
type costs struct {
	step, perSequence, request                 time.Duration
	perPrefillToken, perAttentionPair, perRead float64 // nanoseconds
}

func newCosts(t Timing, speed float64) costs {
	scale := func(d time.Duration) time.Duration {
		return time.Duration(min(float64(d)/speed, float64(longestIteration)))
	}
	each := func(perSecond float64) float64 {
		if perSecond == 0 {
			return 0
		}
		return float64(time.Second) / perSecond / speed
	}
	return costs{
		step:             scale(t.Step),
		perSequence:      scale(t.PerSequence),
		request:          scale(t.Request),
		perPrefillToken:  each(t.PrefillTokensPerSecond),
		perAttentionPair: each(t.AttentionPairsPerSecond),
		perRead:          each(t.KVReadTokensPerSecond),
	}
}

// longestIteration bounds what absurd costs amount to: the times of millions of such
// iterations can still be told.
const longestIteration = time.Hour

// duration is how long an iteration with load l takes.
func (c *costs) duration(l *load) time.Duration {
	computing := float64(l.prefillTokens)*c.perPrefillToken + float64(l.attentionPairs)*c.perAttentionPair + float64(l.kvRead)*c.perRead
	if float64(c.step)+float64(l.decoding)*float64(c.perSequence)+computing >= float64(longestIteration) {
		return longestIteration
	}
	return c.step + time.Duration(l.decoding)*c.perSequence + time.Duration(computing)
}

// sample is the natural length of the answer with this key, in tokens. Equal
// keys have equal answers whatever came before, as at temperature 0.
func (o Output) sample(seed, key uint64) int {
	if o.Sigma == 0 {
		return o.MedianTokens
	}
	rng := rand.New(rand.NewPCG(seed, key))
	n := float64(o.MedianTokens) * math.Exp(o.Sigma*rng.NormFloat64())
	return int(min(max(n, 1), float64(o.MaxTokens)))
}
