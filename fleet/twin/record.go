package twin

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/llmgw/llmgw/admission"
	"github.com/llmgw/llmgw/engines/sim"
	"github.com/llmgw/llmgw/engines/sim/workload"
	"github.com/llmgw/llmgw/router/gateway/flight"
	"github.com/llmgw/llmgw/router/schedule"
	"github.com/llmgw/llmgw/storage/record"
)

// Record makes the twin write what it decides, as a gateway does, from here on.
// Call it before the first Step. log must take every record: virtual hours pass
// faster than a disk writes.
func (t *Twin) Record(log flight.Appender, key record.Key) error {
	setup := flight.Setup{Scoring: t.cfg.Scoring}
	for _, p := range OwnProfiles(t.cfg.Scoring) {
		setup.Profiles = append(setup.Profiles, p.Name)
	}
	if t.gate != nil {
		setup.Admission = &t.gate.cfg
	}
	var err error
	if t.recorder, err = flight.NewRecorder(setup, flight.Deps{Log: log, Key: key, Pool: t.set.Snapshot}); err != nil {
		return fmt.Errorf("twin: %w", err)
	}
	if t.gate != nil {
		t.gate.recorder = t.recorder.Admission()
	}
	return nil
}

// OwnProfiles are the scheduler's profiles of the policies that a gateway does not
// have built in, for who replays their decisions.
func OwnProfiles(schedule.Config) []schedule.Profile { return blind() }

// Profile is the scheduler's profile of the policy, as for decisions that are made
// again on what was recorded; see [flight.Policy]. There LeastLoaded has no
// affinity among its scorers, since the record has what another policy knew.
func (p Policy) Profile(cfg schedule.Config) schedule.Profile {
	name := p.profile()
	for _, known := range slices.Concat(schedule.Profiles(cfg), OwnProfiles(cfg)) {
		if known.Name != name {
			continue
		}
		if p == LeastLoaded {
			known.Name = string(p)
			known.Scorers = slices.DeleteFunc(slices.Clone(known.Scorers), func(w schedule.Weighted) bool {
				switch w.Scorer.(type) {
				case schedule.PrefixAffinity, schedule.SessionAffinity:
					return true
				}
				return false
			})
		}
		return known
	}
	panic("twin: the policy " + string(p) + " has no profile") // Validate knows all
}

// writeEnd writes down what came of r.
func (t *Twin) writeEnd(r *request, s *sim.Sequence, o outcome) {
	arrived := t.epoch.Add(r.arrived)
	tenant, band := "", ""
	if len(t.cfg.Tenants) > 0 {
		tenant, band = t.cfg.Tenants[r.tenant].Name, t.cfg.Tenants[r.tenant].Band
	}
	out := flight.Outcome{
		Model: model, Served: model, Band: band, Endpoint: t.pool[r.engine].Hash(),
		Start: arrived, FirstContent: arrived.Add(o.ttft), End: arrived.Add(o.e2e),
		Status: 200, Result: "ok", Stream: true, Attempts: 1, PromptBytes: r.trace.PromptTokens * tokenBytes,
		PromptTokens: flight.CountTokens(int64(r.trace.PromptTokens)), CachedTokens: flight.CountTokens(int64(s.CachedTokens())),
		OutputTokens: flight.CountTokens(int64(r.trace.OutputTokens)),
		Blocks:       r.trace.Blocks, BlockBytes: t.trace.BlockTokens * tokenBytes,
	}
	t.recorder.Ended(requestID(r), r.trace.Session, tenant, &out)
}

func requestID(r *request) string { return fmt.Sprintf("req_%d", r.trace.Seq) }

// step is the core's Step, written down.
func (g *gate) step(now time.Time, loads ...admission.PoolLoad) []admission.Decision {
	decisions := g.core.Step(now, loads...)
	if g.recorder != nil {
		g.recorder.Record(&admission.Record{Op: admission.OpStep, At: now, Loads: loads, Decisions: decisions})
	}
	return decisions
}

// offer is the core's Offer, written down.
func (g *gate) offer(now time.Time, r admission.Request) (admission.Ticket, bool, error) {
	t, granted, err := g.core.Offer(now, r)
	if g.recorder != nil {
		rec := admission.Record{Op: admission.OpOffer, At: now, ID: t.ID(), Request: r, Granted: granted, Err: err}
		rec.Saturation, rec.HasSaturation = g.core.Saturation(r.Pool)
		g.recorder.Record(&rec)
	}
	return t, granted, err
}

// release is the core's Release, written down.
func (g *gate) release(now time.Time, t admission.Ticket) {
	id := t.ID()
	if g.core.Release(now, t) && g.recorder != nil {
		g.recorder.Record(&admission.Record{Op: admission.OpRelease, At: now, ID: id})
	}
}

// Recorded is recorded requests as a workload, and what became of them.
type Recorded struct {
	Trace *workload.Trace
	// LeftOut counts the requests that are not in the trace, by the reason.
	LeftOut map[string]int
	// Sessions: some requests belong to one.
	Sessions bool
	// TTFTP50 and TTFTP90 are the recorded times to the first token, HitShare the
	// recorded cached ÷ all prompt tokens of the requests whose engine said both;
	// nil where nothing is known.
	TTFTP50, TTFTP90 *float64
	HitShare         *float64
}

// ErrNothingRecorded says that no recorded request can be played again.
var ErrNothingRecorded = errors.New("twin: no recorded request can be played again")

// FromRecord makes a workload of recorded outcomes, whose order does not matter:
// times of arrival, lengths, and what prompts have in common. Only what an engine
// answered in full is in it, since of nothing else the output's length is known:
// a load that was partly refused is lighter in the trace than it was. Outcomes
// must be of one model. The error wraps [ErrNothingRecorded].
func FromRecord(name string, outcomes []*flight.Outcome) (*Recorded, error) {
	rec := &Recorded{Trace: &workload.Trace{Name: name}, LeftOut: make(map[string]int)}
	var kept []*flight.Outcome
	var ttft []time.Duration
	var tokens, bytes, cached, prompts int64
	blockBytes := 0
	for _, o := range outcomes {
		prompt, known := o.PromptTokens.Get()
		output, answered := o.OutputTokens.Get()
		switch {
		case o.Result != "ok":
			rec.LeftOut["not answered in full ("+o.Result+")"]++
			continue
		case !known || !answered || output < 1 || prompt < 1:
			rec.LeftOut["its engine told no usage"]++
			continue
		case prompt > workload.MaxTokens || output > workload.MaxTokens:
			rec.LeftOut["too long"]++
			continue
		}
		if len(o.Blocks) > 0 && blockBytes == 0 {
			blockBytes = o.BlockBytes
		}
		if o.PromptBytes > 0 {
			tokens, bytes = tokens+prompt, bytes+int64(o.PromptBytes)
		}
		if n, ok := o.CachedTokens.Get(); ok {
			cached, prompts = cached+n, prompts+prompt
		}
		if d, ok := o.TTFT(); ok {
			ttft = append(ttft, d)
		}
		kept = append(kept, o)
	}
	if len(kept) == 0 {
		return nil, ErrNothingRecorded
	}
	slices.Sort(ttft)
	rec.TTFTP50, rec.TTFTP90, rec.HitShare = millis(ttft, 0.5), millis(ttft, 0.9), ratio(float64(cached), float64(prompts))
	// Blocks are of bytes; a trace's are of tokens, of which these prompts have so
	// many in a byte.
	if blockBytes > 0 && bytes > 0 {
		rec.Trace.BlockTokens = max(1, int(math.Round(float64(blockBytes)*float64(tokens)/float64(bytes))))
	}
	// Of those that came at one moment the first to end is first, as the log has
	// them: fingerprints would make it another order with each key.
	slices.SortStableFunc(kept, func(a, b *flight.Outcome) int { return a.Start.Compare(b.Start) })
	for i, o := range kept {
		prompt, _ := o.PromptTokens.Get()
		output, _ := o.OutputTokens.Get()
		r := workload.Request{
			At: o.Start.Sub(kept[0].Start), PromptTokens: int(prompt), OutputTokens: int(output), Seq: uint64(i),
		}
		if o.Session != 0 {
			r.Session, rec.Sessions = fmt.Sprintf("%016x", o.Session), true
		}
		if size := rec.Trace.BlockTokens; size > 0 && o.BlockBytes == blockBytes {
			r.Blocks = o.Blocks[:min(len(o.Blocks), (r.PromptTokens+size-1)/size)]
		}
		rec.Trace.Requests = append(rec.Trace.Requests, r)
	}
	if err := rec.Trace.Validate(); err != nil {
		return nil, fmt.Errorf("twin: %w", err)
	}
	return rec, nil
}

// PoolGroups are groups of a Config that are like the recorded endpoints which
// serve the model; none if no endpoint does.
func PoolGroups(pool []flight.Endpoint, model string) []Group {
	var groups []Group
	for _, e := range pool {
		if !slices.Contains(e.Models, model) {
			continue
		}
		i := slices.IndexFunc(groups, func(g Group) bool { return g.Weight == e.Weight })
		if i < 0 {
			i = len(groups)
			name := "engine"
			if i > 0 {
				name = fmt.Sprintf("engine-%c", 'a'+i%26)
			}
			if i >= 26 {
				name = fmt.Sprintf("engine-%d", i)
			}
			groups = append(groups, Group{Name: name, Weight: e.Weight})
		}
		groups[i].Engines++
	}
	return groups
}
