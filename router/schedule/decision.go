package schedule

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/llmgw/llmgw/router/endpoint"
)

// Drop is one endpoint that a filter took out.
type Drop struct {
	Endpoint *endpoint.Endpoint // nil in a record that was read back
	Filter   string

	hash uint64 // stands for Endpoint in a record that was read back
}

// Hash is the endpoint's Hash, by which a record names it.
func (d *Drop) Hash() uint64 {
	if d.Endpoint == nil {
		return d.hash
	}
	return d.Endpoint.Hash()
}

// Decision is the record of one decision: everything it was made on and the
// pick. The zero value is ready to be given to Decide, which overwrites it and
// reuses its memory, so a caller that keeps one allocates nothing for it; what
// it holds is valid until the next use. It belongs to one goroutine at a time.
type Decision struct {
	// Profile and Model are what was asked for, Tenant and Band by whom; Session
	// whether there was one.
	Profile string
	Model   string
	Tenant  string
	Band    string
	Session bool
	// Pin is the only endpoint that was allowed, by ID; empty: any.
	Pin string
	// At is the decision's time.
	At time.Time
	// Prompt reports that the prompt's prefix was looked up; SessionHash is what
	// the session was found by, 0 without one; PromptBytes, MaxTokens and Stream
	// are those of the request.
	Prompt                 bool
	SessionHash            uint64
	PromptBytes, MaxTokens int
	Stream                 bool
	// Pool is how many endpoints there were to choose from, and PoolVersion the
	// request's. Sampled: only some of them were looked at, which are those of
	// Candidates and Dropped.
	Pool        int
	PoolVersion uint64
	Sampled     bool
	// Candidates are the endpoints that the filters kept, with their signals: in
	// the pool's order, unless they were sampled.
	Candidates []Candidate
	// Dropped are those they did not keep.
	Dropped []Drop
	// Scores are the weighted means of the votes, by candidate.
	Scores []float64
	// Picked is the index of the chosen candidate, or -1.
	Picked int
	// Draw seeds all chance in the decision: the picker's in the n-th attempt is
	// NewPCG(Draw, n-1).
	Draw uint64
	// Attempts counts how often the candidates were looked at: more than once
	// when another decision took the pick in the meantime.
	Attempts int

	votes    []float64 // by scorer, then by candidate
	drops    []int     // by what is to blame
	refused  []*endpoint.Endpoint
	favoured []*endpoint.Endpoint // looked at whatever the sample
	holders  holders
	profile  *compiled

	source *rand.PCG
	rng    *rand.Rand // draws from source
}

// Scorers returns the scorers whose votes the record holds, with their weights.
// The caller must not change the slice.
func (d *Decision) Scorers() []Weighted {
	if d.profile == nil {
		return nil
	}
	return d.profile.Scorers
}

// Vote returns the vote of one of Scorers on one of Candidates, by index.
func (d *Decision) Vote(scorer, candidate int) float64 {
	return d.votesOf(scorer)[candidate]
}

func (d *Decision) votesOf(scorer int) []float64 {
	n := len(d.Candidates)
	return d.votes[scorer*n : (scorer+1)*n : (scorer+1)*n]
}

// reset makes the record ready for a decision.
func (d *Decision) reset(p *compiled, req *Request, draw uint64) {
	d.Profile, d.Model, d.Pin, d.At = p.Name, req.Model, req.Pin, req.Now
	d.Tenant, d.Band = req.Tenant, req.Band
	d.SessionHash, d.Session = req.sessionHash()
	d.Prompt, d.PromptBytes, d.MaxTokens, d.Stream = false, req.PromptBytes, req.MaxTokens, req.Stream
	d.Pool, d.PoolVersion, d.Sampled = 0, req.PoolVersion, false
	d.holders.reset()
	d.Candidates, d.Dropped, d.Scores, d.votes = d.Candidates[:0], d.Dropped[:0], d.Scores[:0], d.votes[:0]
	d.Picked, d.Draw, d.Attempts = -1, draw, 0
	d.drops, d.refused = slices.Grow(d.drops[:0], len(p.blames))[:len(p.blames)], d.refused[:0]
	d.profile = p
}

// start makes the record ready for a look at so many endpoints or fewer.
func (d *Decision) start(endpoints int) {
	d.Candidates, d.Dropped = slices.Grow(d.Candidates[:0], endpoints), d.Dropped[:0]
	clear(d.drops)
}

// seed begins the chance of the attempt.
func (d *Decision) seed() {
	stream := uint64(max(d.Attempts, 1) - 1)
	if d.rng == nil {
		d.source = rand.NewPCG(d.Draw, stream)
		d.rng = rand.New(d.source)
		return
	}
	d.source.Seed(d.Draw, stream)
}

// Considered is how many endpoints were looked at, those that a filter dropped
// included.
func (d *Decision) Considered() int { return len(d.Candidates) + len(d.Dropped) }

// Yields reports whether a candidate that holds some of the prompt was passed over
// by PrefixAffinity because it is too busy, and false if the profile has no such
// scorer.
func (d *Decision) Yields(candidate int) bool {
	least, _ := leastLoad(d.Candidates)
	return d.yields(&d.Candidates[candidate], least)
}

func (d *Decision) yields(c *Candidate, least float64) bool {
	if d.profile == nil || d.profile.prefix == nil || c.Prefix.Bytes <= 0 {
		return false
	}
	return d.profile.prefix.Yields(c.load(), least)
}

func nameOf(e *endpoint.Endpoint, hash uint64) string {
	if e == nil {
		return fmt.Sprintf("#%016x", hash)
	}
	return e.ID()
}

// grow returns s with length n, its content unknown.
func grow(s []float64, n int) []float64 {
	if cap(s) < n {
		return make([]float64, n, n+n/4)
	}
	return s[:n]
}
