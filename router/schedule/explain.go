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
	Profile    string                 `json:"profile"`
	Model      string                 `json:"model"`
	Tenant     string                 `json:"tenant,omitempty"`
	Band       string                 `json:"band,omitempty"`
	Session    bool                   `json:"session"`
	Pin        string                 `json:"pin,omitempty"`
	At         time.Time              `json:"at"`
	Picker     string                 `json:"picker"`
	Draw       uint64                 `json:"draw"`
	Attempts   int                    `json:"attempts"`
	Picked     string                 `json:"picked,omitempty"`
	Candidates []CandidateExplanation `json:"candidates"`
	Dropped    []DropExplanation      `json:"dropped,omitempty"`
}

// CandidateExplanation is one candidate's signals, votes and score.
type CandidateExplanation struct {
	Endpoint       string            `json:"endpoint"`
	Picked         bool              `json:"picked"`
	Score          float64           `json:"score"`
	Weight         float64           `json:"weight"`
	InFlight       int64             `json:"in_flight"`
	Stale          bool              `json:"stale"`
	LoadAgeSeconds *float64          `json:"load_age_seconds,omitempty"`
	Running        *float64          `json:"running,omitempty"`
	Waiting        *float64          `json:"waiting,omitempty"`
	KVUsedRatio    *float64          `json:"kv_used_ratio,omitempty"`
	Votes          []VoteExplanation `json:"votes"`
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
	State    string `json:"state"`
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
	for i := range x.Candidates {
		c := &x.Candidates[i]
		fmt.Fprintf(&b, "; %s %.3f", c.Endpoint, c.Score)
		sep := " = "
		for _, v := range c.Votes {
			fmt.Fprintf(&b, "%s%s %.2f*%g", sep, v.Scorer, v.Vote, v.Weight)
			sep = " + "
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
		Candidates: make([]CandidateExplanation, 0, len(d.Candidates)),
	}
	if d.profile != nil {
		x.Picker = d.profile.Picker.Name()
	}
	for i := range d.Candidates {
		x.Candidates = append(x.Candidates, d.explain(i))
		if i == d.Picked {
			x.Picked = d.Candidates[i].Endpoint.ID()
		}
	}
	for _, drop := range d.Dropped {
		x.Dropped = append(x.Dropped, DropExplanation{
			Endpoint: drop.Endpoint.ID(),
			Filter:   drop.Filter,
			State:    drop.Endpoint.State(d.At).String(),
		})
	}
	return x
}

func (d *Decision) explain(i int) CandidateExplanation {
	c := &d.Candidates[i]
	x := CandidateExplanation{
		Endpoint: c.Endpoint.ID(),
		Picked:   i == d.Picked,
		Weight:   c.Weight,
		InFlight: c.InFlight,
		Stale:    c.Stale,
		Votes:    make([]VoteExplanation, 0, len(d.Scorers())),
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
