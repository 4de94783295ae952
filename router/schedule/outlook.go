package schedule

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/llmgw/llmgw/router/endpoint"
)

// Odds is what a [Picker] may have, too: how likely each of its picks is.
type Odds interface {
	// Odds writes into out, which has the length of scores and unknown content,
	// how likely Pick is to choose each; together they are 1. It must not block
	// and may run concurrently. Where Pick would fail, out means nothing.
	Odds(scores, out []float64)
}

// outlookDraw seeds the one pick that an Outlook shows, so that the same
// candidates give the same one.
const outlookDraw = 1

// outlookDraws is how many decisions are made to estimate chances: a chance of
// one half is then told within 6 points in 19 of 20 cases.
const outlookDraws = 256

// Outlook is what Decide would do with a request, worked out without doing it.
type Outlook struct {
	// Decision is made on the whole pool, however large. Where chance has a part
	// in the pick, its pick is that of one fixed draw: see Chances.
	Decision Decision
	// Chances are how likely Decide is to pick each candidate; together they are
	// 1 or, where a sample is taken and may miss them all, about that. Nil
	// without a candidate.
	Chances []float64
	// Draws is from how many decisions Chances are estimated; 0: they are exact.
	Draws int
	// Sample is how many endpoints Decide would look at of a pool of this size,
	// beside those that hold the prompt's beginning or the session; 0: all.
	Sample int
}

// Outlook works out what Decide would do with req now. It takes no place in
// flight and no probe, counts nothing, and tells the index of no pick; the index
// sees Request.Trial. Errors are those of Decide; with a *NoEndpointError the
// Outlook says who was dropped. It allocates, and for a pool that is sampled
// costs some 256 decisions.
func (s *Scheduler) Outlook(profile string, req *Request, pool []*endpoint.Endpoint) (*Outlook, error) {
	if profile == "" {
		profile = Chat
	}
	p, ok := s.profiles[profile]
	if !ok {
		return nil, fmt.Errorf("%w: %q; there are %v", ErrUnknownProfile, profile, s.Profiles())
	}
	trial := *req
	trial.Trial = true
	if trial.Pin != "" {
		pool = only(pool, trial.Pin)
	}
	o := &Outlook{}
	if len(pool) > s.sampleAbove && !p.Full {
		o.Sample = min(s.sampleSize, len(pool))
	}
	whole := *p
	whole.Full = true
	picked, err := s.trial(&whole, &trial, pool, outlookDraw, &o.Decision)
	if err != nil {
		if errors.Is(err, ErrNoEndpoint) {
			return o, err
		}
		return nil, err
	}
	o.Decision.Picked = picked
	o.Chances = make([]float64, len(o.Decision.Candidates))
	odds, known := p.Picker.(Odds)
	switch {
	case o.Sample > 0:
		err = s.estimate(p, &trial, pool, o)
	case known:
		odds.Odds(o.Decision.Scores, o.Chances)
	default:
		err = o.draw(p.Picker)
	}
	return o, err
}

// trial is one decision that takes nothing.
func (s *Scheduler) trial(p *compiled, req *Request, pool []*endpoint.Endpoint, draw uint64, rec *Decision) (int, error) {
	rec.reset(p, req, draw)
	if s.prefixes != nil && req.Prompt != nil {
		rec.Prompt = true
		rec.holders.look(s.prefixes, req)
	}
	rec.Attempts = 1
	return s.choose(p, req, pool, rec)
}

// estimate finds the chances by sampled decisions.
func (s *Scheduler) estimate(p *compiled, req *Request, pool []*endpoint.Endpoint, o *Outlook) error {
	o.Draws = outlookDraws
	place := make(map[*endpoint.Endpoint]int, len(o.Decision.Candidates))
	for i := range o.Decision.Candidates {
		place[o.Decision.Candidates[i].Endpoint] = i
	}
	var rec Decision
	draws := splitMix(outlookDraw)
	for range outlookDraws {
		picked, err := s.trial(p, req, pool, draws.next(), &rec)
		if err != nil {
			return err
		}
		if i, ok := place[rec.Candidates[picked].Endpoint]; ok {
			o.Chances[i] += 1.0 / outlookDraws
		}
	}
	return nil
}

// draw finds the chances by asking a picker again and again.
func (o *Outlook) draw(p Picker) error {
	o.Draws = outlookDraws
	for n := range outlookDraws {
		i, err := p.Pick(rand.New(rand.NewPCG(outlookDraw, uint64(n))), o.Decision.Scores)
		if err != nil {
			return fmt.Errorf("picker %s: %w", p.Name(), err)
		}
		if i < 0 || i >= len(o.Chances) {
			return fmt.Errorf("%w: picker %s chose %d of %d", ErrBadScore, p.Name(), i, len(o.Chances))
		}
		o.Chances[i] += 1.0 / outlookDraws
	}
	return nil
}

// Explain renders the outlook as the explanation of its decision, with the
// chances.
func (o *Outlook) Explain() *Explanation {
	x := o.Decision.Explain()
	x.Sample, x.ChanceDraws = o.Sample, o.Draws
	for i := range x.Candidates {
		if i < len(o.Chances) {
			x.Candidates[i].Chance = new(o.Chances[i])
		}
	}
	return x
}

// Best returns the candidate most likely to be picked, of equals the one that the
// shown draw picks or else the first; nil if there is none. Without chances it is
// the pick.
func (x *Explanation) Best() *CandidateExplanation {
	chance := func(c *CandidateExplanation) float64 {
		if c.Chance == nil {
			return 0
		}
		return *c.Chance
	}
	var best *CandidateExplanation
	for i := range x.Candidates {
		c := &x.Candidates[i]
		if best == nil || chance(c) > chance(best) || chance(c) == chance(best) && c.Picked {
			best = c
		}
	}
	return best
}

// Odds says that those with the highest score share the pick.
func (MaxScore) Odds(scores, out []float64) {
	most := slices.Max(scores)
	ties := 0
	for _, s := range scores {
		if s == most {
			ties++
		}
	}
	for i, s := range scores {
		out[i] = 0
		if s == most {
			out[i] = 1 / float64(ties)
		}
	}
}

// Odds says how likely each is to be the better of two: of n·(n-1) pairs, in
// which order counts, one wins as the first of the pair against all that are not
// better, and as the second against all that are worse.
func (PowerOfTwo) Odds(scores, out []float64) {
	n := len(scores)
	if n == 1 {
		out[0] = 1
		return
	}
	sorted := slices.Sorted(slices.Values(scores))
	for i, s := range scores {
		worse, _ := slices.BinarySearch(sorted, s)
		above, _ := slices.BinarySearchFunc(sorted, s, func(e, target float64) int {
			if e <= target {
				return -1
			}
			return 1
		})
		out[i] = float64(worse+above-1) / float64(n*(n-1))
	}
}

// Odds are the scores' shares, and equal if all scores are 0.
func (WeightedRandom) Odds(scores, out []float64) {
	var sum float64
	for _, s := range scores {
		sum += s
	}
	for i, s := range scores {
		if out[i] = s / sum; !(sum > 0) {
			out[i] = 1 / float64(len(scores))
		}
	}
}
