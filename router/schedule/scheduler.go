package schedule

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmgw/llmgw/router/endpoint"
)

// attempts bounds how often one decision is made again because others were
// faster. The last attempt takes its pick however busy that has become.
const attempts = 4

// Deps are the scheduler's collaborators.
type Deps struct {
	// Profiles are added to the built-in ones; one of the same name replaces
	// it.
	Profiles []Profile
	// Prefixes is asked for the holders of a request's prompt and told of the
	// picks; nil: no prefix is known.
	Prefixes PrefixIndex
	// Registerer gets a collector of the scheduler's counters; nil leaves it
	// unregistered.
	Registerer prometheus.Registerer
}

// Scheduler decides which endpoint a request goes to. Make one with New; it
// may be used concurrently.
type Scheduler struct {
	staleAfter  time.Duration
	sampleAbove int
	sampleSize  int
	prefixes    PrefixIndex
	profiles    map[string]*compiled
	tables      atomic.Pointer[map[string]*poolTable] // by model
	records     sync.Pool
}

// compiled is a profile made ready: the weights divided by their sum, and its
// counters in reach.
type compiled struct {
	Profile
	shares  []float64
	blames  []string // the filters' names, and that of the breaker
	refusal int      // the breaker's index in blames
	// sessions: a sample has to have the session's endpoint in it.
	sessions bool
	prefix   *PrefixAffinity // nil: the profile has none
	stats    *profileStats
}

// New validates cfg and the profiles and returns a Scheduler.
func New(cfg Config, deps Deps) (*Scheduler, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &Scheduler{
		staleAfter: cfg.StaleAfter, sampleAbove: cfg.SampleAbove, sampleSize: cfg.SampleSize,
		prefixes: deps.Prefixes, profiles: make(map[string]*compiled),
	}
	s.records.New = func() any { return new(Decision) }
	var errs []error
	for _, p := range slices.Concat(Profiles(cfg), deps.Profiles) {
		if err := p.validate(); err != nil {
			errs = append(errs, err)
			continue
		}
		s.profiles[p.Name] = compile(p)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if deps.Registerer != nil {
		profiles := slices.Collect(maps.Values(s.profiles))
		if err := deps.Registerer.Register(newCollector(profiles)); err != nil {
			return nil, fmt.Errorf("schedule: %w", err)
		}
	}
	return s, nil
}

func compile(p Profile) *compiled {
	c := &compiled{Profile: p}
	for _, f := range p.Filters {
		c.blames = append(c.blames, f.Name())
	}
	breaker := Admitting{}.Name()
	if c.refusal = slices.Index(c.blames, breaker); c.refusal < 0 {
		c.refusal = len(c.blames)
		c.blames = append(c.blames, breaker)
	}
	c.stats = newProfileStats(len(c.blames), len(p.Scorers))
	var sum float64
	for _, w := range p.Scorers {
		sum += w.Weight
		switch scorer := w.Scorer.(type) {
		case SessionAffinity:
			c.sessions = true
		case PrefixAffinity:
			c.prefix = &scorer
		}
	}
	for _, w := range p.Scorers {
		c.shares = append(c.shares, w.Weight/sum)
	}
	return c
}

// Profiles returns the names of the scheduler's profiles, sorted. The caller
// owns the slice.
func (s *Scheduler) Profiles() []string { return slices.Sorted(maps.Keys(s.profiles)) }

// Decide chooses the endpoint of pool that req goes to and begins the request
// there: it is in flight, and holds the probe where the endpoint's breaker owed
// one, until the reservation is released. With a Prompt, Deps.Prefixes is asked
// before and told of the pick. A large pool is sampled. The empty profile is Chat. A nil rng
// stands for the runtime's generator; otherwise it belongs to the caller. A
// non-nil rec gets the record of the decision, whatever the outcome.
//
// The error is a *NoEndpointError (which is ErrNoEndpoint) when the filters
// leave nothing, or wraps ErrUnknownProfile or ErrBadScore; then nothing is
// reserved. Decide never blocks on another decision and allocates nothing
// unless it fails.
func (s *Scheduler) Decide(profile string, req *Request, pool []*endpoint.Endpoint, rng *rand.Rand, rec *Decision) (*endpoint.Endpoint, endpoint.Reservation, error) {
	if profile == "" {
		profile = Chat
	}
	p, ok := s.profiles[profile]
	if !ok {
		return nil, endpoint.Reservation{}, fmt.Errorf("%w: %q; there are %v", ErrUnknownProfile, profile, s.Profiles())
	}
	if rec == nil {
		rec = s.records.Get().(*Decision)
		defer s.records.Put(rec)
	}
	var draw uint64
	if rng != nil {
		draw = rng.Uint64()
	} else {
		draw = rand.Uint64()
	}
	rec.reset(p, req, draw)
	if req.Pin != "" {
		pool = only(pool, req.Pin)
	}
	indexed := s.prefixes != nil && req.Prompt != nil
	if indexed {
		rec.Prompt = true
		rec.holders.look(s.prefixes, req)
	}

	for rec.Attempts = 1; ; rec.Attempts++ {
		picked, err := s.choose(p, req, pool, rec)
		if err != nil {
			outcome := OutcomeBadScore
			if errors.Is(err, ErrNoEndpoint) {
				outcome = OutcomeNoEndpoint
			}
			p.count(rec, outcome)
			return nil, endpoint.Reservation{}, err
		}
		c := &rec.Candidates[picked]
		var held endpoint.Reservation
		if rec.Attempts < attempts {
			held, err = c.Endpoint.BeginAt(req.Now, c.InFlight)
		} else {
			held, err = c.Endpoint.Begin(req.Now)
		}
		if err == nil {
			rec.Picked = picked
			p.count(rec, OutcomePicked)
			if indexed {
				s.prefixes.Picked(req, c.Endpoint)
				p.countPrefix(rec)
			}
			return c.Endpoint, held, nil
		}
		// Somebody else took the place or the probe between the look and the
		// leap. A refused endpoint is left out of the next look, so this ends.
		if errors.Is(err, endpoint.ErrNotAdmitted) {
			rec.refused = append(rec.refused, c.Endpoint)
		}
		p.stats.again.Add(1)
	}
}

// choose looks at the pool once and returns the index of its pick.
func (s *Scheduler) choose(p *compiled, req *Request, pool []*endpoint.Endpoint, rec *Decision) (int, error) {
	s.look(p, req, pool, rec)
	if len(rec.Candidates) == 0 {
		return 0, p.noEndpoint(req, len(pool), rec)
	}
	return p.judge(req, rec)
}

// judge lets the scorers vote on the record's candidates and the picker choose,
// and returns the index of its pick. Chance is that of the record's draw and
// attempt, so that the same candidates give the same pick.
func (p *compiled) judge(req *Request, rec *Decision) (int, error) {
	rec.seed()
	n := len(rec.Candidates)
	rec.Scores = grow(rec.Scores, n)
	rec.votes = grow(rec.votes, n*len(p.Scorers))
	clear(rec.Scores)
	for i, w := range p.Scorers {
		votes := rec.votesOf(i)
		w.Scorer.Score(req, rec.Candidates, votes)
		if bad := addVotes(rec.Scores, votes, p.shares[i]); bad >= 0 {
			return 0, fmt.Errorf("%w: scorer %s votes %v on %s; want [0,1]",
				ErrBadScore, w.Scorer.Name(), votes[bad], rec.Candidates[bad].name())
		}
	}
	picked, err := p.Picker.Pick(rec.rng, rec.Scores)
	if err != nil {
		return 0, fmt.Errorf("picker %s: %w", p.Picker.Name(), err)
	}
	if picked < 0 || picked >= n {
		return 0, fmt.Errorf("%w: picker %s chose %d of %d", ErrBadScore, p.Picker.Name(), picked, n)
	}
	return picked, nil
}

// only returns the part of the pool that has the ID: one endpoint, or none.
func only(pool []*endpoint.Endpoint, id string) []*endpoint.Endpoint {
	for i, e := range pool {
		if e.ID() == id {
			return pool[i : i+1]
		}
	}
	return nil
}

// addVotes adds each vote's share to the score, and returns the index of a vote
// that is not in [0,1], or -1.
func addVotes(scores, votes []float64, share float64) int {
	votes = votes[:len(scores)]
	for i := range scores {
		v := votes[i]
		if !(v >= 0 && v <= 1) {
			return i
		}
		scores[i] += share * v
	}
	return -1
}

// noEndpoint says which filters emptied the pool.
func (p *compiled) noEndpoint(req *Request, pool int, rec *Decision) error {
	err := &NoEndpointError{Model: req.Model, Pool: pool}
	for i, count := range rec.drops {
		if count > 0 {
			err.Drops = append(err.Drops, FilterDrops{Filter: p.blames[i], Count: count})
		}
	}
	for _, d := range rec.Dropped {
		if d.Filter != p.blames[p.refusal] {
			continue
		}
		if in := d.Endpoint.AdmitsIn(req.Now); err.RetryAfter == 0 || in < err.RetryAfter {
			err.RetryAfter = in
		}
	}
	return err
}

// count adds the decision to the profile's counters.
func (p *compiled) count(rec *Decision, outcome Outcome) {
	p.stats.outcomes[outcome].Add(1)
	for i, count := range rec.drops {
		if count > 0 {
			p.stats.drops[i].Add(uint64(count))
		}
	}
	if outcome != OutcomePicked {
		return
	}
	n := len(rec.Candidates)
	for i := range p.stats.votes {
		p.stats.votes[i].observe(rec.votes[i*n+rec.Picked])
	}
}

// countPrefix adds what became of the prompt's prefix to the profile's counters.
func (p *compiled) countPrefix(rec *Decision) {
	most := 0
	for i := range rec.Candidates {
		if rec.Candidates[i].Prefix.Bytes > rec.Candidates[most].Prefix.Bytes {
			most = i
		}
	}
	outcome := prefixOutvoted
	switch held := rec.Candidates[most].Prefix.Bytes; {
	case held == 0:
		outcome = prefixNone
	case held == rec.Candidates[rec.Picked].Prefix.Bytes:
		outcome = prefixFollowed
	case rec.Yields(most):
		outcome = prefixYielded
	}
	p.stats.prefixes[outcome].Add(1)
}
