package flight

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/llmgw/llmgw/admission"
	"github.com/llmgw/llmgw/router/schedule"
	"github.com/llmgw/llmgw/storage/record"
)

// Options say what of a log is replayed, and what else is wanted of it.
type Options struct {
	// From and To bound the time; zero is no bound.
	From, To time.Time
	// Model is the only one whose decisions and outcomes are looked at; empty: all.
	// Admission is replayed for all models, of which it decides together.
	Model string
	// Profiles are routing profiles beside the built-in ones, for decisions that
	// they made. Called once for each process whose records are in the log.
	Profiles func(schedule.Config) []schedule.Profile
	// Policies are asked what they would have picked of the same candidates.
	Policies []Policy
	// Outcome, if not nil, is given each outcome, which is its own to keep.
	Outcome func(*Outcome)
}

// Policy is another way to choose of what a decision looked at.
type Policy struct {
	Name string
	// Profile makes it from a recorded configuration. Its filters are not asked.
	Profile func(schedule.Config) schedule.Profile
}

// Report is what came of a replay.
type Report struct {
	// From and To are the times of the first and the last record that was looked
	// at; zero if there was none.
	From time.Time `json:"from,omitzero"`
	To   time.Time `json:"to,omitzero"`
	// Runs are the processes that wrote, Writers their names.
	Runs    int      `json:"runs"`
	Writers []string `json:"writers"`
	// Dropped are the records that are missing, since they came faster than they
	// could be written.
	Dropped uint64 `json:"dropped"`
	// Notes say what could not be read although the log was in order: its end, or
	// what a process had not written when it died. Faults say what is damaged, or
	// of another version.
	Notes  []string `json:"notes,omitempty"`
	Faults []string `json:"faults,omitempty"`

	Routes    Comparison `json:"routes"`
	Admission Comparison `json:"admission"`
	Scaling   Comparison `json:"scaling"`
	Outcomes  int        `json:"outcomes"`
	// Policies have what was picked first, then what Options.Policies would have.
	Policies []*PolicyResult `json:"policies,omitempty"`
	// Pool are the endpoints as they were named last, Setup what was decided by
	// last; nil if neither was read.
	Pool  []Endpoint `json:"-"`
	Setup *Setup     `json:"-"`
}

// Comparison is how many decisions of one kind came out as they were recorded.
type Comparison struct {
	Recorded int `json:"recorded"`
	Replayed int `json:"replayed"`
	Differ   int `json:"differ"`
	// Skipped counts those that could not be replayed, by the reason.
	Skipped map[string]int `json:"skipped,omitempty"`
	// First is the first that differs; nil if none does.
	First *Difference `json:"first_difference,omitempty"`
}

func (c *Comparison) skip(reason string) {
	if c.Skipped == nil {
		c.Skipped = make(map[string]int)
	}
	c.Skipped[reason]++
}

func (c *Comparison) compare(recorded, replayed []byte, at func() *Difference) {
	c.Replayed++
	if bytes.Equal(recorded, replayed) {
		return
	}
	c.Differ++
	if c.First == nil {
		d := at()
		d.Recorded, d.Replayed = fmt.Sprintf("%x", recorded), fmt.Sprintf("%x", replayed)
		c.First = d
	}
}

// Difference is a decision that came out otherwise than it was recorded.
type Difference struct {
	At   time.Time `json:"at"`
	What string    `json:"what"`
	// Recorded and Replayed are the two records, in hexadecimal.
	Recorded string `json:"recorded"`
	Replayed string `json:"replayed"`
}

// OK reports whether all that was asked for could be replayed to the same bytes.
func (r *Report) OK() bool {
	return r.Routes.Differ == 0 && r.Admission.Differ == 0 && r.Scaling.Differ == 0 && len(r.Faults) == 0
}

// run is what one process wrote.
type run struct {
	setup     *Setup
	scheduler *schedule.Scheduler // of the setup
	policies  []*compiledPolicy
	core      *admission.Core
	again     *admission.Replay
	steps     steps
	lost      string // why admission cannot be replayed from here on
}

// replayer is one Replay under way.
type replayer struct {
	opts   Options
	report *Report
	runs   map[uint64]*run
	names  map[uint64]string
	after  []byte
	record schedule.Decision
}

// Replay makes the decisions of a log again with the recorded draws, and compares
// them byte for byte. What differs, cannot be read or cannot be replayed is told in
// the report; the error is that of ctx or the configuration's.
func Replay(ctx context.Context, log *record.Reader, opts Options) (*Report, error) {
	p := &replayer{
		opts: opts, report: &Report{Writers: []string{}},
		runs: make(map[uint64]*run), names: make(map[uint64]string),
	}
	if err := p.learn(ctx, log); err != nil {
		return nil, err
	}
	for i := range opts.Policies {
		if i == 0 {
			p.report.Policies = append(p.report.Policies, newPolicyResult("recorded"))
		}
		p.report.Policies = append(p.report.Policies, newPolicyResult(opts.Policies[i].Name))
	}
	// Admission's state comes from its first record, however early that was.
	n := 0
	for e, err := range log.Entries(time.Time{}, opts.To) {
		if n++; n%4096 == 0 && ctx.Err() != nil {
			return nil, fmt.Errorf("flight: %w", context.Cause(ctx))
		}
		if err != nil {
			p.unread(err)
			continue
		}
		p.entry(e)
	}
	for _, r := range p.report.Policies {
		r.finish()
	}
	return p.report, nil
}

// learn reads what the rest is to be understood by: setups, and endpoints' names.
func (p *replayer) learn(ctx context.Context, log *record.Reader) error {
	n := 0
	for e, err := range log.Entries(time.Time{}, p.opts.To) {
		if n++; n%4096 == 0 && ctx.Err() != nil {
			return fmt.Errorf("flight: %w", context.Cause(ctx))
		}
		if err != nil {
			continue // told in the second reading
		}
		switch e.Type {
		case TypeSetup:
			r := p.run(e)
			if r.setup != nil {
				continue
			}
			setup, err := parseSetup(e.Payload)
			if err != nil {
				continue
			}
			if err := p.build(r, setup); err != nil {
				return err
			}
		case TypePool:
			pool, err := parsePool(e.Payload)
			if err != nil {
				continue
			}
			if pool.First == 0 {
				p.report.Pool = p.report.Pool[:0]
			}
			for _, ep := range pool.Endpoints {
				p.names[ep.Hash] = ep.ID
				p.report.Pool = append(p.report.Pool, ep)
			}
		}
	}
	return nil
}

func (p *replayer) run(e record.Entry) *run {
	r := p.runs[e.Segment.Run]
	if r == nil {
		r = new(run)
		p.runs[e.Segment.Run] = r
		p.report.Runs++
		p.report.Writers = append(p.report.Writers, e.Segment.Writer)
	}
	return r
}

// build makes the deciding parts of a setup.
func (p *replayer) build(r *run, setup *Setup) error {
	var own []schedule.Profile
	if p.opts.Profiles != nil {
		own = p.opts.Profiles(setup.Scoring)
	}
	for _, policy := range p.opts.Policies {
		c, err := policy.compile(setup.Scoring)
		if err != nil {
			return err
		}
		r.policies = append(r.policies, c)
	}
	var err error
	if r.scheduler, err = schedule.New(setup.Scoring, schedule.Deps{Profiles: own}); err != nil {
		return fmt.Errorf("flight: the recorded configuration: %w", err)
	}
	if setup.Admission != nil {
		if r.core, err = admission.NewCore(*setup.Admission, nil); err != nil {
			return fmt.Errorf("flight: the recorded configuration: %w", err)
		}
		r.again = admission.NewReplay(r.core)
	}
	r.setup, p.report.Setup = setup, setup
	return nil
}

// unread tells of what cannot be read.
func (p *replayer) unread(err error) {
	if damage, ok := errors.AsType[*record.DamageError](err); ok && errors.Is(err, record.ErrTorn) {
		if damage.Newest && damage.Bytes == 0 {
			return // what is being written just now
		}
		p.report.Notes = append(p.report.Notes, err.Error())
	} else if errors.Is(err, record.ErrExpired) {
		p.report.Notes = append(p.report.Notes, err.Error())
	} else {
		p.report.Faults = append(p.report.Faults, err.Error())
	}
}

func (r *run) lose(why string) {
	if r.lost == "" {
		r.lost = why
	}
}

// maxFaults bounds the faults of records that are told one by one.
const maxFaults = 20

func (p *replayer) fault(e record.Entry, err error) {
	if len(p.report.Faults) < maxFaults {
		p.report.Faults = append(p.report.Faults, fmt.Sprintf("%s at byte %d: %v", e.Segment.File, e.Offset, err))
	}
}

// shows reports whether the time is one that was asked for.
func (p *replayer) shows(at time.Time) bool { return p.opts.From.IsZero() || !at.Before(p.opts.From) }

// entry takes one record.
func (p *replayer) entry(e record.Entry) {
	r := p.run(e)
	if gap, ok := record.ParseGap(e); ok {
		if p.shows(gap.Last) {
			p.report.Dropped += gap.Dropped
		}
		return
	}
	shown := p.shows(e.Time)
	if shown && e.Type >= TypeSetup && e.Type <= TypeScale {
		if p.report.From.IsZero() {
			p.report.From = e.Time
		}
		p.report.To = e.Time
	}
	var err error
	switch e.Type {
	case TypeRoute:
		if shown {
			err = p.route(r, e)
		}
	case TypeAdmission:
		err = p.step(r, e, shown)
	case TypeOutcome:
		if shown {
			err = p.outcome(e)
		}
	case TypeScale:
		if shown {
			err = p.scale(e)
		}
	case TypeSetup:
		if shown {
			_, err = parseSetup(e.Payload)
		}
	case TypePool:
		if shown {
			_, err = parsePool(e.Payload)
		}
	}
	if err != nil {
		p.fault(e, err)
	}
}

// route makes one choice of an endpoint again.
func (p *replayer) route(r *run, e record.Entry) error {
	t, err := parseRoute(e.Payload)
	if err != nil {
		return err
	}
	if p.opts.Model != "" && t.Model != p.opts.Model {
		return nil
	}
	c := &p.report.Routes
	c.Recorded++
	d := &p.record
	if err := t.decode(d); err != nil {
		return err
	}
	if r.setup == nil {
		c.skip("the log has no configuration of the process that made it")
		return nil
	}
	picked, profile := d.Picked, d.Profile
	_, err = r.scheduler.Replay("", d)
	switch {
	case errors.Is(err, schedule.ErrUnknownProfile):
		c.skip(fmt.Sprintf("the routing profile %q is not built in", profile))
		d.Picked = picked
	case err != nil && !errors.Is(err, schedule.ErrNoEndpoint):
		return err
	default:
		p.after, _ = d.AppendBinary(p.after[:0]) // always nil
		again := d.Picked
		c.compare(t.Decision, p.after, func() *Difference {
			return &Difference{At: d.At, What: fmt.Sprintf("the request %016x for %s went to %s; replayed it goes to %s",
				t.Request, t.Model, p.candidate(d, picked), p.candidate(d, again))}
		})
	}
	if len(p.report.Policies) > 0 {
		return p.policies(r, &t, picked)
	}
	return nil
}

func (p *replayer) candidate(d *schedule.Decision, i int) string {
	if i < 0 || i >= len(d.Candidates) {
		return "nobody"
	}
	return nameOf(p.names, d.Candidates[i].Hash)
}

// step makes one step of admission again.
func (p *replayer) step(r *run, e record.Entry, shown bool) error {
	c := &p.report.Admission
	if shown {
		c.Recorded++
	}
	if r.core == nil {
		r.lose("the log has no configuration of the process that made it")
	}
	var rec admission.Record
	var answer []byte
	var err error
	if r.lost == "" {
		rec, answer, err = r.steps.parse(e.Time, e.Payload)
		switch {
		case errors.Is(err, errStepsMissing) && r.steps.next == 0:
			r.lose("the log does not reach back to the start of the process")
			err = nil
		case errors.Is(err, errStepsMissing):
			r.lose("steps before it are missing in the log")
			err = nil
		case err != nil:
			r.lose("a step before it could not be read")
		}
	}
	if r.lost != "" {
		if shown {
			c.skip(r.lost)
		}
		return err
	}
	again := r.again.Apply(&rec)
	if !shown {
		return nil
	}
	p.after = appendAnswer(p.after[:0], &again)
	c.compare(answer, p.after, func() *Difference {
		return &Difference{At: e.Time, What: fmt.Sprintf("admission's %v of request %d", rec.Op, rec.ID)}
	})
	return nil
}

func (p *replayer) outcome(e record.Entry) error {
	o, err := parseOutcome(e.Payload)
	if err != nil {
		return err
	}
	if p.opts.Model != "" && o.Model != p.opts.Model {
		return nil
	}
	p.report.Outcomes++
	if p.opts.Outcome != nil {
		p.opts.Outcome(o)
	}
	return nil
}
