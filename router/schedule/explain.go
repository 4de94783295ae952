package schedule

import (
	"fmt"
	"strings"
	"time"
)

// Explanation is a decision in a form to show and to encode. It names
// endpoints and the tenant, and never a session key or a secret. What is
// unknown is absent.
type Explanation struct {
	Profile  string    `json:"profile"`
	Model    string    `json:"model"`
	Tenant   string    `json:"tenant,omitempty"`
	Band     string    `json:"band,omitempty"`
	Session  bool      `json:"session"`
	Pin      string    `json:"pin,omitempty"`
	At       time.Time `json:"at"`
	Picker   string    `json:"picker"`
	Draw     uint64    `json:"draw"`
	Attempts int       `json:"attempts"`
	// Pool is how many endpoints there were, Considered how many were looked at:
	// fewer if the pool was sampled.
	Pool       int  `json:"pool"`
	Considered int  `json:"considered"`
	Sampled    bool `json:"sampled"`
	// Sample is, in an outlook on a pool so large that decisions look at a part of
	// it only, how large that part is; the outlook has looked at all. ChanceDraws
	// is from how many decisions Chance was estimated; absent: it is exact.
	Sample      int `json:"sample,omitempty"`
	ChanceDraws int `json:"chance_draws,omitempty"`
	// PromptBytes is the length of the prompt as the prefix index counts it;
	// absent if no candidate holds any of it.
	PromptBytes int                    `json:"prompt_bytes,omitempty"`
	Picked      string                 `json:"picked,omitempty"`
	Candidates  []CandidateExplanation `json:"candidates"`
	Dropped     []DropExplanation      `json:"dropped,omitempty"`
}

// CandidateExplanation is one candidate's signals, votes and score.
type CandidateExplanation struct {
	Endpoint       string   `json:"endpoint"`
	Picked         bool     `json:"picked"`
	Score          float64  `json:"score"`
	Chance         *float64 `json:"chance,omitempty"` // of being picked, in [0,1]; in an outlook only
	Weight         float64  `json:"weight"`
	InFlight       int64    `json:"in_flight"`
	Stale          bool     `json:"stale"`
	LoadAgeSeconds *float64 `json:"load_age_seconds,omitempty"`
	Running        *float64 `json:"running,omitempty"`
	Waiting        *float64 `json:"waiting,omitempty"`
	KVUsedRatio    *float64 `json:"kv_used_ratio,omitempty"`
	// Failures is the weight of recent ones.
	Failures float64 `json:"failures,omitempty"`
	// PrefixBytes is how much of the prompt the endpoint holds, by the word of
	// its engine if PrefixExact, seen there PrefixSeen times; PrefixDoubt is the
	// share of such beliefs that proved wrong lately. PrefixYields: it was passed
	// over as too busy.
	PrefixBytes  int               `json:"prefix_bytes,omitempty"`
	PrefixExact  bool              `json:"prefix_exact,omitempty"`
	PrefixSeen   int               `json:"prefix_seen,omitempty"`
	PrefixDoubt  float64           `json:"prefix_doubt,omitempty"`
	PrefixYields bool              `json:"prefix_yields,omitempty"`
	Votes        []VoteExplanation `json:"votes"`
}

// VoteExplanation is one scorer's vote on one candidate.
type VoteExplanation struct {
	Scorer string  `json:"scorer"`
	Weight float64 `json:"weight"`
	Vote   float64 `json:"vote"`
}

// DropExplanation is one endpoint that a filter took out, and the state of its
// breaker at the time of the decision.
type DropExplanation struct {
	Endpoint string `json:"endpoint"`
	Filter   string `json:"filter"`
	State    string `json:"state,omitempty"`
	// AdmitsInSeconds is when the breaker lets a request through if nothing
	// happens meanwhile; absent: it would at once.
	AdmitsInSeconds float64 `json:"admits_in_seconds,omitempty"`
}

// String is the explanation in one line, as for a log: the pick, for whom if
// that is known, then each candidate with its score and the votes that make it,
// each beside its weight, then what was dropped and why.
func (x *Explanation) String() string {
	var b strings.Builder
	pick := "nobody"
	if x.Picked != "" {
		pick = x.Picked
	}
	fmt.Fprintf(&b, "%s picks %s", x.Profile, pick)
	if x.Tenant != "" {
		fmt.Fprintf(&b, " for tenant %s", x.Tenant)
	}
	if x.Band != "" {
		fmt.Fprintf(&b, " in band %s", x.Band)
	}
	if x.Sampled {
		fmt.Fprintf(&b, " from %d of %d", x.Considered, x.Pool)
	}
	for i := range x.Candidates {
		c := &x.Candidates[i]
		fmt.Fprintf(&b, "; %s %.3f", c.Endpoint, c.Score)
		sep := " = "
		for _, v := range c.Votes {
			fmt.Fprintf(&b, "%s%s %.2f*%g", sep, v.Scorer, v.Vote, v.Weight)
			sep = " + "
		}
		if c.PrefixBytes > 0 {
			fmt.Fprintf(&b, ", holds %d of %d B", c.PrefixBytes, x.PromptBytes)
		}
		if c.PrefixYields {
			b.WriteString(" but is too busy")
		}
	}
	for _, d := range x.Dropped {
		fmt.Fprintf(&b, "; %s dropped by %s (%s)", d.Endpoint, d.Filter, d.State)
	}
	return b.String()
}

// Explain renders the record. The result shares nothing with it.
func (d *Decision) Explain() *Explanation {
	x := &Explanation{
		Profile:    d.Profile,
		Model:      d.Model,
		Tenant:     d.Tenant,
		Band:       d.Band,
		Session:    d.Session,
		Pin:        d.Pin,
		At:         d.At,
		Draw:       d.Draw,
		Attempts:   d.Attempts,
		Pool:       d.Pool,
		Considered: d.Considered(),
		Sampled:    d.Sampled,
		Candidates: make([]CandidateExplanation, 0, len(d.Candidates)),
	}
	if d.profile != nil {
		x.Picker = d.profile.Picker.Name()
	}
	least, _ := leastLoad(d.Candidates)
	for i := range d.Candidates {
		x.Candidates = append(x.Candidates, d.explain(i, least))
		x.PromptBytes = max(x.PromptBytes, d.Candidates[i].Prefix.PromptBytes)
		if i == d.Picked {
			x.Picked = d.Candidates[i].name()
		}
	}
	for _, drop := range d.Dropped {
		gone := DropExplanation{Endpoint: nameOf(drop.Endpoint, drop.Hash()), Filter: drop.Filter}
		if drop.Endpoint != nil {
			gone.State = drop.Endpoint.State(d.At).String()
			gone.AdmitsInSeconds = drop.Endpoint.AdmitsIn(d.At).Seconds()
		}
		x.Dropped = append(x.Dropped, gone)
	}
	return x
}

func (d *Decision) explain(i int, least float64) CandidateExplanation {
	c := &d.Candidates[i]
	x := CandidateExplanation{
		Endpoint: c.name(),
		Picked:   i == d.Picked,
		Weight:   c.Weight,
		InFlight: c.InFlight,
		Stale:    c.Stale,
		Failures: c.Failures,

		PrefixBytes:  c.Prefix.Bytes,
		PrefixExact:  c.Prefix.Exact,
		PrefixSeen:   c.Prefix.Seen,
		PrefixDoubt:  c.Prefix.Doubt,
		PrefixYields: d.yields(c, least),

		Votes: make([]VoteExplanation, 0, len(d.Scorers())),
	}
	if i < len(d.Scores) {
		x.Score = d.Scores[i]
		for s, w := range d.Scorers() {
			x.Votes = append(x.Votes, VoteExplanation{Scorer: w.Scorer.Name(), Weight: w.Weight, Vote: d.Vote(s, i)})
		}
	}
	if c.Load != nil {
		x.LoadAgeSeconds = new(c.Age.Seconds())
		x.Running = known(c.Load.Running)
		x.Waiting = known(c.Load.Waiting)
		x.KVUsedRatio = known(c.Load.KVUsedRatio)
	}
	return x
}

func known(r interface{ Get() (float64, bool) }) *float64 {
	if v, ok := r.Get(); ok {
		return new(v)
	}
	return nil
}
