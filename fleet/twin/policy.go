package twin

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/llmgw/llmgw/router/schedule"
)

// Policy names a way of choosing engines.
type Policy string

// The policies.
const (
	// Random chooses by weight alone.
	Random Policy = "random"
	// RoundRobin takes turns, by weight.
	RoundRobin Policy = "round-robin"
	// LeastLoaded is the profile chat without any affinity.
	LeastLoaded Policy = "least-loaded"
	// Prefix is the profile chat with the approximate index of prompts.
	Prefix Policy = "prefix"
	// PrefixExact is the profile chat with an index of the blocks that engines
	// have computed, told by them without delay or loss, and of the prompts that
	// are still on their way.
	PrefixExact Policy = "prefix-exact"
	// Batch is the profile batch with the approximate index.
	Batch Policy = "batch"
	// LongContext is the profile long-context with the approximate index.
	LongContext Policy = "long-context"
)

// ErrUnknownPolicy says that a policy has no such name.
var ErrUnknownPolicy = errors.New("twin: unknown policy")

// Policies lists the policies. The caller owns the slice.
func Policies() []Policy {
	return []Policy{Random, RoundRobin, LeastLoaded, Prefix, PrefixExact, Batch, LongContext}
}

// Validate returns an error that wraps [ErrUnknownPolicy] if p is none.
func (p Policy) Validate() error {
	if slices.Contains(Policies(), p) {
		return nil
	}
	names := make([]string, 0, len(Policies()))
	for _, known := range Policies() {
		names = append(names, string(known))
	}
	return fmt.Errorf("%w %q: want one of %s", ErrUnknownPolicy, string(p), strings.Join(names, ", "))
}

// profile is the scheduler's profile of p.
func (p Policy) profile() string {
	switch p {
	case LeastLoaded, Prefix, PrefixExact:
		return schedule.Chat
	default: // Random and RoundRobin are profiles of ours, the rest of schedule's
		return string(p)
	}
}

// affine reports whether p looks at what an engine knows of a request.
func (p Policy) affine() bool { return p.indexed() || p == PrefixExact }

// indexed reports whether p has the approximate index.
func (p Policy) indexed() bool { return p == Prefix || p == Batch || p == LongContext }

// blind are the profiles that look at no load.
func blind() []schedule.Profile {
	byWeight := []schedule.Weighted{{Scorer: schedule.LargerFirst{}, Weight: 1}}
	return []schedule.Profile{
		{Name: string(Random), Scorers: byWeight, Picker: schedule.WeightedRandom{}, Full: true},
		{Name: string(RoundRobin), Scorers: byWeight, Picker: &turns{}, Full: true},
	}
}

// turns picks in turn: each gets as many as its score is of the sum of all, and
// they are spread evenly. A pool that changes begins anew. It belongs to one
// twin, whose decisions come one at a time.
type turns struct{ credit []float64 }

// Name returns "turns".
func (*turns) Name() string { return "turns" }

// Pick returns the index of who has waited longest for its share.
func (p *turns) Pick(_ *rand.Rand, scores []float64) (int, error) {
	if len(scores) == 0 {
		return 0, fmt.Errorf("%w: none to pick from", schedule.ErrBadScore)
	}
	if len(p.credit) != len(scores) {
		p.credit = make([]float64, len(scores))
	}
	best, sum := 0, 0.0
	for i, s := range scores {
		p.credit[i] += s
		sum += s
		// Sums of fractions differ in their last bits; a turn must not.
		if p.credit[i] > p.credit[best]+1e-9 {
			best = i
		}
	}
	p.credit[best] -= sum
	return best, nil
}
