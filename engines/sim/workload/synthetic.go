package workload

import (
	"errors"
	"fmt"
	"math/rand/v2"
)

// Synthetic describes a workload to draw. Start from [DefaultSynthetic].
type Synthetic struct {
	// Requests is how many to draw. Default 1000; 1 to MaxRequests.
	Requests int `yaml:"requests"`
	// Seed makes the draw reproducible. Default 1; any.
	Seed uint64 `yaml:"seed"`
	// Arrivals says when they come. Default: all at 0, for a client that
	// paces itself, such as a closed loop.
	Arrivals Arrivals `yaml:"arrivals"`
	// Prompt is the length of what a request shares with no other; the
	// prompt is PrefixTokens longer. Default 512.
	Prompt Lengths `yaml:"prompt"`
	// Output is the length of answers. Default lognormal:120:0.8:2048.
	Output Lengths `yaml:"output"`
	// PrefixTokens begin every prompt and are the same for all users of a
	// group. Default 0: nothing is shared; up to MaxTokens ÷ 2. Together
	// with Prompt they are cut at MaxTokens.
	PrefixTokens int `yaml:"prefix_tokens"`
	// Groups is the number of different prefixes. Default 1; 1 or more.
	Groups int `yaml:"groups"`
	// UsersPerGroup is the number of users, each a session, that share a
	// prefix. Default 1; 1 or more, and at most 1<<20 in all groups. Each
	// round of Groups × UsersPerGroup requests has one of every user, in an
	// order drawn anew. With a single user no session is named.
	UsersPerGroup int `yaml:"users_per_group"`
}

const maxUsers = 1 << 20

// DefaultSynthetic is 1000 requests of 512 tokens that share nothing.
func DefaultSynthetic() Synthetic {
	return Synthetic{
		Requests:      1000,
		Seed:          1,
		Prompt:        Lengths{kind: lengthsFixed, lo: 512, hi: 512},
		Output:        Lengths{kind: lengthsLogNormal, lo: 120, hi: 2048, sigma: 0.8},
		Groups:        1,
		UsersPerGroup: 1,
	}
}

// Validate returns every problem, joined; each wraps [ErrInvalid].
func (s Synthetic) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...))
		}
	}
	check(s.Requests >= 1 && s.Requests <= MaxRequests, "requests: %d; want 1 to %d", s.Requests, MaxRequests)
	check(!s.Prompt.IsZero(), "prompt: unset; want a distribution of lengths")
	check(!s.Output.IsZero(), "output: unset; want a distribution of lengths")
	check(s.PrefixTokens >= 0 && s.PrefixTokens <= MaxTokens/2, "prefix_tokens: %d; want 0 to %d", s.PrefixTokens, MaxTokens/2)
	check(s.Groups >= 1 && s.Groups <= maxUsers, "groups: %d; want 1 to %d", s.Groups, maxUsers)
	check(s.UsersPerGroup >= 1 && s.UsersPerGroup <= maxUsers/max(s.Groups, 1),
		"users_per_group: %d; want 1 or more, and at most %d in all groups", s.UsersPerGroup, maxUsers)
	if err := s.Arrivals.Validate(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Each thing that is drawn has a stream of random numbers of its own, so that
// another rate, say, leaves the lengths as they were.
const (
	streamArrivals = iota + 1
	streamLengths
	streamUsers
)

// Synthesize draws a workload. The same Synthetic gives the same trace.
// Errors are those of Validate, or say that the arrivals take too long.
func Synthesize(cfg Synthetic) (*Trace, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	t := &Trace{
		Name:        cfg.name(),
		Format:      Synthesized,
		BlockTokens: cfg.PrefixTokens, // a prefix is one block
		Requests:    make([]Request, cfg.Requests),
	}
	lengths := rand.New(rand.NewPCG(cfg.Seed, streamLengths))
	users := newRounds(cfg.Groups*cfg.UsersPerGroup, rand.New(rand.NewPCG(cfg.Seed, streamUsers)))
	prefix := make([]uint64, cfg.Groups)
	for i := range prefix {
		prefix[i] = uint64(i)
	}
	for i := range t.Requests {
		user := users.next()
		group := user / cfg.UsersPerGroup
		r := &t.Requests[i]
		r.Seq = uint64(i)
		r.PromptTokens = min(cfg.PrefixTokens+cfg.Prompt.Draw(lengths), MaxTokens)
		r.OutputTokens = cfg.Output.Draw(lengths)
		if cfg.PrefixTokens > 0 {
			r.Blocks = prefix[group : group+1 : group+1]
		}
		if users.size() > 1 {
			r.Session = fmt.Sprintf("g%d-u%d", group, user%cfg.UsersPerGroup)
		}
	}
	if err := cfg.Arrivals.assign(t.Requests, rand.New(rand.NewPCG(cfg.Seed, streamArrivals))); err != nil {
		return nil, err
	}
	return t, nil
}

// name says what was drawn.
func (s Synthetic) name() string {
	name := fmt.Sprintf("prompt %v, output %v", s.Prompt, s.Output)
	if s.PrefixTokens > 0 {
		name += fmt.Sprintf(", after %d tokens shared by %d in each of %d groups", s.PrefixTokens, s.UsersPerGroup, s.Groups)
	}
	return name
}

// rounds deals the numbers below its size again and again, each round in
// another order.
type rounds struct {
	order []int
	left  int
	rng   *rand.Rand
}

func newRounds(size int, rng *rand.Rand) *rounds {
	r := &rounds{order: make([]int, size), rng: rng}
	for i := range r.order {
		r.order[i] = i
	}
	return r
}

func (r *rounds) size() int { return len(r.order) }

// next takes one of those left at random: a Fisher-Yates shuffle, a step each.
func (r *rounds) next() int {
	if r.left == 0 {
		r.left = len(r.order)
	}
	i := r.rng.IntN(r.left)
	r.left--
	r.order[i], r.order[r.left] = r.order[r.left], r.order[i]
	return r.order[r.left]
}
