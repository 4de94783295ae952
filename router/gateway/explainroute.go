package gateway

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/llmgw/llmgw/admission"
	"github.com/llmgw/llmgw/router"
	"github.com/llmgw/llmgw/router/schedule"
)

// Explanation is what would become of a request, and why.
type Explanation struct {
	*router.Outlook
	// Admissions are what admission would do with each of Turns; nil where it is
	// off or an embedder's own, and in a turn that is skipped.
	Admissions []*admission.Outlook
	// Conditions are when each of Turns comes.
	Conditions []Condition
	// Verdict is how it would end, as far as that is known now.
	Verdict Verdict
	// Summary says it in words, a sentence each.
	Summary []string
}

// Verdict is how a request would fare.
type Verdict uint8

// The verdicts.
const (
	VerdictUnset Verdict = iota
	// VerdictRuns: it would be sent to an endpoint at once.
	VerdictRuns
	// VerdictWaits: it would wait for its turn.
	VerdictWaits
	// VerdictRefused: admission would refuse it, 503.
	VerdictRefused
	// VerdictNoEndpoint: no endpoint would take it, 503.
	VerdictNoEndpoint
)

// String returns the verdict in lower case.
func (v Verdict) String() string {
	switch v {
	case VerdictRuns:
		return "runs"
	case VerdictWaits:
		return "waits"
	case VerdictRefused:
		return "refused"
	case VerdictNoEndpoint:
		return "no endpoint"
	case VerdictUnset:
	}
	return "unset"
}

// Condition is when a model is tried.
type Condition uint8

// The conditions.
const (
	ConditionUnset Condition = iota
	// ConditionNow: for this request, now.
	ConditionNow
	// ConditionAfterFailures: once those before have failed before the first byte
	// of an answer.
	ConditionAfterFailures
	// ConditionNever: not for this request.
	ConditionNever
)

// Explain says what would become of a request that came now, and does none of it:
// it takes no place, probe or retry, learns and counts nothing. The hooks of an
// embedder's own are not asked. Errors are those of [router.Router.Outlook] or, for
// a band that there is not, wrap [admission.ErrUnknownBand].
func (g *Gateway) Explain(q *router.Question) (*Explanation, error) {
	o, err := g.router.Outlook(q)
	if err != nil {
		return nil, err
	}
	x := &Explanation{Outlook: o, Admissions: make([]*admission.Outlook, len(o.Turns))}
	for i := range o.Turns {
		ask := o.Turns[i].Admission
		if ask == nil || g.admitter == nil {
			continue
		}
		if x.Admissions[i], err = g.admitter.outlook(ask); err != nil {
			return nil, err
		}
	}
	x.judge(g.admitter == nil)
	return x, nil
}

// outlook is what Admit would do.
func (a *admitter) outlook(r *router.Admission) (*admission.Outlook, error) {
	req, asked := a.request(r)
	o, err := a.ctl.Outlook(req)
	if errors.Is(err, admission.ErrUnknownBand) && asked {
		return nil, fmt.Errorf("%w; there are %s", err, strings.Join(a.bands, ", "))
	}
	if err != nil {
		return nil, err
	}
	return &o, nil
}

// judge follows the turns as a request would, until one ends it.
func (x *Explanation) judge(off bool) {
	say := func(format string, args ...any) { x.Summary = append(x.Summary, fmt.Sprintf(format, args...)) }
	if x.Model != x.Asked {
		say("%s is %s.", x.Asked, x.Model)
	}
	if x.Pin != "" {
		say("The request goes on from what endpoint %s keeps, so no other may be asked.", x.Pin)
	}
	x.Conditions = make([]Condition, len(x.Turns))
	for i := range x.Turns {
		t, a := &x.Turns[i], x.Admissions[i]
		switch {
		case t.Skipped != router.SkipUnset || x.Verdict == VerdictRefused:
			x.Conditions[i] = ConditionNever
			continue
		case x.Verdict != VerdictUnset:
			x.Conditions[i] = ConditionAfterFailures
			continue
		}
		x.Conditions[i] = ConditionNow
		fate := VerdictRuns
		switch {
		case a != nil:
			var words string
			fate, words = admitted(a)
			say("Admission: %s", words)
		case i == 0 && off && t.Admission != nil:
			say("A hook decides whether it may run now; it was not asked.")
		}
		switch {
		case fate == VerdictRefused && i > 0: // the next fallback may have room
		case fate == VerdictRefused:
			x.Verdict = fate
		default:
			say("%s", placed(t))
			if t.Err == nil {
				x.Verdict = fate
				x.rest(i, say)
			}
		}
	}
	if x.Verdict == VerdictUnset {
		x.Verdict = VerdictNoEndpoint
	}
	if x.Verdict == VerdictNoEndpoint || x.Verdict == VerdictRefused {
		say("The client gets 503.")
	}
}

// Why says in words when the i-th of Turns comes.
func (x *Explanation) Why(i int) string {
	switch t := &x.Turns[i]; {
	case t.Skipped == router.SkipUnknown:
		return "there is no such model"
	case t.Skipped == router.SkipForbidden:
		return "the caller may not use it"
	case t.Skipped == router.SkipPinned:
		return "what the request goes on from is at one endpoint only"
	case x.Conditions[i] == ConditionNever:
		return "admission refuses the request before"
	case i == 0:
		return "asked for"
	case x.Conditions[i] == ConditionNow:
		return "no endpoint before it"
	case x.RetriesLeft == 0:
		return "if those before fail, and a retry is left by then"
	}
	return "if those before fail before the first byte of an answer"
}

// rest says what follows should the engines of turn i fail.
func (x *Explanation) rest(i int, say func(string, ...any)) {
	var names []string
	for _, t := range x.Turns[i+1:] {
		if t.Skipped == router.SkipUnset {
			names = append(names, t.Model)
		}
	}
	further := min(x.Retries, len(x.Turns[i].Decision.Candidates)-1)
	var then []string
	if further > 0 {
		then = append(then, fmt.Sprintf("up to %s of its pool", plural(further, "further endpoint")))
	}
	if len(names) > 0 {
		then = append(then, strings.Join(names, ", "))
	}
	switch {
	case len(then) == 0:
		say("If that fails before its first byte, there is nobody else to try.")
	case x.RetriesLeft == 0:
		say("If that fails before its first byte, nothing else is tried: the retries of these ten seconds are used up.")
	default:
		say("If that fails before its first byte: %s.", strings.Join(then, ", then "))
	}
}

// admitted says what admission would do.
func admitted(a *admission.Outlook) (Verdict, string) {
	sat := "unknown"
	if a.HasSaturation && !math.IsNaN(a.Saturation.Value) {
		sat = fmt.Sprintf("%.2f", a.Saturation.Value)
	}
	band := fmt.Sprintf("band %s (priority %d, ceiling %.2f)", a.Band.Name, a.Band.Priority, a.Band.SaturationCeiling)
	switch a.Fate {
	case admission.FatePasses:
		if a.Band.SaturationCeiling > 1 {
			return VerdictRuns, band + " never waits."
		}
		return VerdictRuns, fmt.Sprintf("%s may run at once, the saturation is %s.", band, sat)
	case admission.FateHeld:
		return VerdictWaits, fmt.Sprintf("%s waits, at most %v: the saturation is %s, above its ceiling; %d wait ahead.",
			band, a.QueueTTL, sat, a.Ahead)
	case admission.FateQueued:
		return VerdictWaits, fmt.Sprintf("%s waits, at most %v: the saturation is %s and would let it run, but %d wait whose turn is before.",
			band, a.QueueTTL, sat, a.Ahead)
	case admission.FateFull:
		return VerdictRefused, fmt.Sprintf("%s is refused: %d of its requests wait already, as many as may; the saturation is %s.",
			band, a.BandWaiting, sat)
	case admission.FateClosed, admission.FateUnset:
	}
	return VerdictRefused, "refused, the server is shutting down."
}

// placed says where the scheduler would send it.
func placed(t *router.Turn) string {
	if none, ok := errors.AsType[*schedule.NoEndpointError](t.Err); ok {
		text := fmt.Sprintf("%s has no endpoint: ", t.Model)
		if none.Pool == 0 {
			return text + "nothing serves it."
		}
		var drops []string
		for _, d := range none.Drops {
			drops = append(drops, fmt.Sprintf("%d dropped by %s", d.Count, d.Filter))
		}
		text += fmt.Sprintf("of %d, %s", none.Pool, strings.Join(drops, ", "))
		if none.RetryAfter > 0 {
			text += fmt.Sprintf("; the first breaker lets one through in %v", none.RetryAfter.Round(time.Second/10))
		}
		return text + "."
	}
	if t.Err != nil {
		return fmt.Sprintf("%s: no decision can be made: %v.", t.Model, t.Err)
	}
	d := t.Decision
	likely, equal := 0, true
	best := d.Best()
	for i := range d.Candidates {
		if c := d.Candidates[i].Chance; c != nil && *c > 0 {
			likely++
			equal = equal && *c == *best.Chance
		}
	}
	switch c := best.Chance; {
	case c == nil || likely == 1:
		return fmt.Sprintf("%s goes to %s, by the profile %s.%s", t.Model, best.Endpoint, t.Profile, lead(d, best))
	case d.Sample > 0:
		return fmt.Sprintf("%s goes to one of %s, by the profile %s: most likely to %s (%.0f %%). Each decision looks at a sample of %d of %d.",
			t.Model, plural(likely, "endpoint"), t.Profile, best.Endpoint, 100**c, d.Sample, d.Pool)
	case equal:
		return fmt.Sprintf("%s goes to one of %s that are equally likely, by the profile %s.", t.Model, plural(likely, "endpoint"), t.Profile)
	default:
		return fmt.Sprintf("%s goes to one of %s, by the profile %s: chance decides, %.0f %% are for %s.",
			t.Model, plural(likely, "endpoint"), t.Profile, 100**c, best.Endpoint)
	}
}

// lead says by how much the best is ahead of the next, and what speaks for it most.
func lead(d *schedule.Explanation, best *schedule.CandidateExplanation) string {
	var next *schedule.CandidateExplanation
	for i := range d.Candidates {
		if c := &d.Candidates[i]; c != best && (next == nil || c.Score > next.Score) {
			next = c
		}
	}
	if next == nil {
		return " No other would take it."
	}
	if best.Score <= next.Score || len(next.Votes) != len(best.Votes) { // a picker that goes by something else
		return ""
	}
	most, at := 0.0, -1
	for i, v := range best.Votes {
		if gain := v.Weight * (v.Vote - next.Votes[i].Vote); gain > most {
			most, at = gain, i
		}
	}
	if at < 0 {
		return ""
	}
	return fmt.Sprintf(" It is %.3f ahead of %s, most of all by the vote of %s: %.2f against %.2f, weight %g.",
		best.Score-next.Score, next.Endpoint, best.Votes[at].Scorer, best.Votes[at].Vote, next.Votes[at].Vote, best.Votes[at].Weight)
}

func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
