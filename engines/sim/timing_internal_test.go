package sim

import (
	"math"
	"testing"
	"time"
)

// Costs that make no sense do not make time run backwards.
func TestDurationIsBounded(t *testing.T) {
	full := load{prefillTokens: 1 << 20, attentionPairs: math.MaxInt64, decoding: 4096, kvRead: math.MaxInt64}
	for name, timing := range map[string]Timing{
		"a long step":       {Step: math.MaxInt64},
		"long sequences":    {PerSequence: math.MaxInt64},
		"a slow prefill":    {PrefillTokensPerSecond: math.SmallestNonzeroFloat64},
		"slow attention":    {AttentionPairsPerSecond: 1e-300},
		"slow memory":       {KVReadTokensPerSecond: 1e-9},
		"all of it at once": {Step: math.MaxInt64, PerSequence: math.MaxInt64, Request: math.MaxInt64, KVReadTokensPerSecond: 1e-300},
	} {
		costs := newCosts(timing, 1e-6)
		if d := costs.duration(&full); d != time.Hour {
			t.Errorf("%s: an iteration takes %v; want an hour", name, d)
		}
		if costs.request < 0 || costs.request > time.Hour {
			t.Errorf("%s: a request costs %v", name, costs.request)
		}
	}
}
