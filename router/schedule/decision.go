package schedule

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/llmgw/llmgw/router/endpoint"
)

// Drop is one endpoint that a filter took out.
type Drop struct {
	Endpoint *endpoint.Endpoint
	Filter   string
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
	// Candidates are the endpoints that the filters kept, in the pool's order,
	// with their signals.
	Candidates []Candidate
	// Dropped are those they did not keep.
	Dropped []Drop
	// Scores are the weighted means of the votes, by candidate.
	Scores []float64
	// Picked is the index of the chosen candidate, or -1.
	Picked int
	// Draw seeds all chance in the decision: NewPCG(Draw, 0).
	Draw uint64
	// Attempts counts how often the candidates were looked at: more than once
	// when another decision took the pick in the meantime.
	Attempts int

	votes   []float64 // by scorer, then by candidate
	drops   []int     // by what is to blame
	refused []*endpoint.Endpoint
	profile *compiled

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
	d.Profile, d.Model, d.Session, d.Pin, d.At = p.Name, req.Model, req.Session != "", req.Pin, req.Now
	d.Tenant, d.Band = req.Tenant, req.Band
	d.Candidates, d.Dropped, d.Scores, d.votes = d.Candidates[:0], d.Dropped[:0], d.Scores[:0], d.votes[:0]
	d.Picked, d.Draw, d.Attempts = -1, draw, 0
	d.drops, d.refused = slices.Grow(d.drops[:0], len(p.blames))[:len(p.blames)], d.refused[:0]
	d.profile = p
	if d.rng == nil {
		d.source = rand.NewPCG(draw, 0)
		d.rng = rand.New(d.source)
		return
	}
	d.source.Seed(draw, 0)
}

// grow returns s with length n, its content unknown.
func grow(s []float64, n int) []float64 {
	if cap(s) < n {
		return make([]float64, n, n+n/4)
	}
	return s[:n]
}
