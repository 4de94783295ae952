package schedule

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"unicode/utf8"
)

// Filter drops endpoints that a request must not use.
type Filter interface {
	// Name is the filter's name in metrics and explanations. It is constant.
	Name() string
	// Keep reports whether the candidate stays. It runs once for every
	// endpoint of every decision: it must not block or allocate, keeps no
	// argument, and may run concurrently.
	Keep(req *Request, c *Candidate) bool
}

// Scorer votes on the candidates.
type Scorer interface {
	// Name is the scorer's name in metrics and explanations. It is constant.
	Name() string
	// Score writes one vote in [0,1] for each candidate into out, which has
	// their length and unknown content. It must not block or allocate, keeps
	// and changes no other argument, and may run concurrently.
	Score(req *Request, cs []Candidate, out []float64)
}

// Picker chooses by score.
type Picker interface {
	// Name is the picker's name in metrics and explanations. It is constant.
	Name() string
	// Pick returns the index of the chosen score. Scores are in [0,1]; none,
	// or a NaN, is an error wrapping ErrBadScore. It must not block or
	// allocate, keeps and changes no argument, and may run concurrently with
	// distinct generators.
	Pick(rng *rand.Rand, scores []float64) (int, error)
}

// Weighted is a scorer and how much its vote counts beside the others.
type Weighted struct {
	Scorer Scorer
	Weight float64 // positive
}

// Profile is a way of choosing endpoints. It must not change once a scheduler
// has it.
type Profile struct {
	Name string
	// Filters run in order; the first that drops an endpoint is the one that
	// is blamed.
	Filters []Filter
	// Scorers vote; an endpoint's score is the weighted mean of its votes.
	// There may be none, and then all score alike.
	Scorers []Weighted
	// Picker chooses. Required.
	Picker Picker
	// Full: the whole pool is looked at, however large it is. Without, a large
	// pool is sampled (Config.SampleAbove): beside the sample only endpoints that
	// hold the prompt's beginning and, if SessionAffinity is among the scorers,
	// those of the session are sure to be seen.
	Full bool
}

// validate reports every fault of the profile, joined.
func (p Profile) validate() error {
	var errs []error
	add := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("schedule: profile %q: "+format, append([]any{p.Name}, args...)...))
	}
	if p.Name == "" || !utf8.ValidString(p.Name) {
		add("is no name")
	}
	if p.Picker == nil {
		add("has no picker")
	}
	names := make(map[string]bool)
	unique := func(kind, name string) {
		if name == "" || !utf8.ValidString(name) {
			add("a %s has %q for a name", kind, name)
		} else if names[kind+name] {
			add("%s %q is there twice", kind, name)
		}
		names[kind+name] = true
	}
	for i, f := range p.Filters {
		if f == nil {
			add("filter %d is nil", i)
			continue
		}
		unique("filter", f.Name())
	}
	for i, s := range p.Scorers {
		if s.Scorer == nil {
			add("scorer %d is nil", i)
			continue
		}
		unique("scorer", s.Scorer.Name())
		if !(s.Weight > 0) || math.IsInf(s.Weight, 0) {
			add("scorer %q: weight %v is not positive", s.Scorer.Name(), s.Weight)
		}
	}
	return errors.Join(errs...)
}
