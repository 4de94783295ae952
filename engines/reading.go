package engines

import (
	"math"
	"strconv"
)

// Reading is a measurement that may be missing. The zero value is "unknown",
// which is not a measurement of zero.
type Reading struct {
	value float64
	known bool
}

// Read returns the known reading v. A NaN is no measurement and gives the
// unknown reading.
func Read(v float64) Reading {
	if math.IsNaN(v) {
		return Reading{}
	}
	return Reading{value: v, known: true}
}

// Get returns the value and whether it is known. An unknown reading gives 0.
func (r Reading) Get() (float64, bool) { return r.value, r.known }

// Or returns the value, or missing where it is unknown.
func (r Reading) Or(missing float64) float64 {
	if r.known {
		return r.value
	}
	return missing
}

// String returns the value in decimal, or "unknown".
func (r Reading) String() string {
	if !r.known {
		return "unknown"
	}
	return strconv.FormatFloat(r.value, 'g', -1, 64)
}

// Load is what one engine said about its load in one answer. Each field is
// unknown where the engine does not export it.
type Load struct {
	// Running is the number of requests in the running batch.
	Running Reading
	// Waiting is the number of requests that the engine holds back.
	Waiting Reading
	// MaxRunning is the number of requests that the engine runs at once at most.
	MaxRunning Reading
	// KVUsedRatio is used KV-cache blocks over all, in [0,1].
	KVUsedRatio Reading
	// PrefixQueryTokens and PrefixHitTokens count, since the engine started,
	// the prompt tokens looked up in its prefix cache and those found there.
	PrefixQueryTokens Reading
	PrefixHitTokens   Reading
	// Preemptions counts, since the engine started, the running requests that
	// were thrown out of the batch for want of KV blocks.
	Preemptions Reading
	// KVCapacityTokens is how many tokens the KV cache has room for, that of all
	// data-parallel ranks together.
	KVCapacityTokens Reading
}

// Empty reports whether nothing at all is known.
func (l Load) Empty() bool { return l == Load{} }
