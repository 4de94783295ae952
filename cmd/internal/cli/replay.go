package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/llmgw/llmgw/fleet/twin"
	"github.com/llmgw/llmgw/placement/catalog/strictyaml"
	"github.com/llmgw/llmgw/router/gateway/flight"
	"github.com/llmgw/llmgw/storage/record"
)

type replayCmd struct {
	Log string `arg:"" name:"log" help:"Directory of a flight recorder's log (recorder.dir), or one of its files."`

	At    string        `placeholder:"TIME" help:"Only from TIME on: RFC 3339, such as 2026-03-01T12:00:00Z, or how long ago, such as 90m." group:"What"`
	For   time.Duration `placeholder:"TIME" help:"Only for TIME after --at, such as 1h; without --at the last TIME of the log." group:"What"`
	Model string        `placeholder:"NAME" help:"Only decisions about this model. With --policy the one with most requests if the log has several." group:"What"`

	Policy  []twin.Policy `placeholder:"NAME" help:"Ask another policy, too; may be repeated. random, round-robin, least-loaded, prefix, prefix-exact, batch or long-context." group:"Policies"`
	Config  string        `short:"c" placeholder:"FILE" help:"YAML file with the fleet that the policies run the recorded requests on, as of llmgw simulate; without it as many engines of an 8B model on one H100-class card as served the model." group:"Policies"`
	Engines *int          `placeholder:"N" help:"Number of engines; overrides that of the only group." group:"Policies"`
	Seed    *uint64       `placeholder:"N" help:"Where all chance of the simulation comes from. Default: that of the file, else 1." group:"Policies"`
	JSON    bool          `name:"json" help:"Print one JSON object."`
}

// Validate makes what the flags say a matter of usage.
func (c *replayCmd) Validate() error {
	var errs []error
	if _, err := c.from(time.Now()); err != nil {
		errs = append(errs, err)
	}
	if c.For < 0 {
		errs = append(errs, fmt.Errorf("--for: %v is negative; want e.g. 1h", c.For))
	}
	for _, p := range c.Policy {
		if err := p.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("--policy: %w", err))
		}
	}
	if c.Engines != nil && (*c.Engines < 1 || *c.Engines > twin.MaxEngines) {
		errs = append(errs, fmt.Errorf("--engines: %d is out of range; want 1 to %d", *c.Engines, twin.MaxEngines))
	}
	if len(c.Policy) == 0 && (c.Config != "" || c.Engines != nil || c.Seed != nil) {
		errs = append(errs, errors.New("--config, --engines and --seed are of the simulation, which is run for a --policy; name one"))
	}
	return errors.Join(errs...)
}

// from is the time that --at means; zero without one.
func (c *replayCmd) from(now time.Time) (time.Time, error) {
	if c.At == "" {
		return time.Time{}, nil
	}
	if at, err := time.Parse(time.RFC3339, c.At); err == nil {
		return at, nil
	}
	if ago, err := time.ParseDuration(c.At); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	return time.Time{}, fmt.Errorf("--at: %q is no time; want e.g. 2026-03-01T12:00:00Z, or 90m for that long ago", c.At)
}

// replayReport is what the command prints.
type replayReport struct {
	*flight.Report
	// Simulated is each policy's run of the recorded requests; absent without
	// policies, or where no request can be run again.
	Simulated *simulated `json:"simulated,omitempty"`
}

// simulated is recorded requests run on simulated engines.
type simulated struct {
	Model    string         `json:"model"`
	Requests int            `json:"requests"`
	LeftOut  map[string]int `json:"left_out,omitempty"`
	// The recorded figures, to be seen beside the simulated ones.
	TTFTP50  *float64       `json:"recorded_ttft_p50_ms"`
	TTFTP90  *float64       `json:"recorded_ttft_p90_ms"`
	HitShare *float64       `json:"recorded_hit_share"`
	Policies []*twin.Report `json:"policies"`
	// Why says why there is none.
	Why string `json:"why,omitempty"`
}

// Run replays the log.
func (c *replayCmd) Run(ctx context.Context, streams Streams) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	log, err := openLog(c.Log)
	if err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	defer log.Close() //nolint:errcheck // only read
	opts, err := c.options(log)
	if err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	outcomes := make(map[string][]*flight.Outcome)
	if len(c.Policy) > 0 {
		opts.Outcome = func(o *flight.Outcome) { outcomes[o.Model] = append(outcomes[o.Model], o) }
	}
	report, err := flight.Replay(ctx, log, opts)
	if err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	out := replayReport{Report: report}
	if len(c.Policy) > 0 {
		if out.Simulated, err = c.simulate(ctx, report, outcomes); err != nil {
			return fmt.Errorf("replay: %w", err)
		}
	}
	if c.JSON {
		enc := json.NewEncoder(streams.Out)
		enc.SetIndent("", "  ")
		err = enc.Encode(out)
	} else {
		err = out.write(printable{streams.Out})
	}
	switch {
	case err != nil:
		return err
	case report.Routes.Differ+report.Admission.Differ+report.Scaling.Differ > 0:
		return errors.New("replay: decisions came out otherwise than they were recorded")
	case len(report.Faults) > 0:
		return fmt.Errorf("replay: a part of the log cannot be read: %s", report.Faults[0])
	case report.Routes.Recorded+report.Scaling.Recorded == 0 && (c.Model != "" || report.Admission.Recorded == 0):
		return fmt.Errorf("replay: %w", c.nothing(log))
	}
	return nil
}

// nothing says why there was nothing to replay, and what there is.
func (c *replayCmd) nothing(log *record.Reader) error {
	first, last := span(log)
	switch {
	case first.IsZero():
		return fmt.Errorf("%s has no decision: is it recorder.dir of the server, and has that served a request since?", c.Log)
	case c.Model != "":
		return fmt.Errorf("the log has no decision of that time about the model %q; it goes from %s to %s, and --model wants a model's own name, not an alias",
			c.Model, first.Format(time.RFC3339), last.Format(time.RFC3339))
	}
	return fmt.Errorf("the log has no decision of that time; it goes from %s to %s", first.Format(time.RFC3339), last.Format(time.RFC3339))
}

// span is when the first and the last entry about a request were written; zero
// where the log has none.
func span(log *record.Reader) (first, last time.Time) {
	for e, err := range log.Entries(time.Time{}, time.Time{}) {
		if err != nil || e.Type > flight.TypeOutcome {
			continue
		}
		if first.IsZero() || e.Time.Before(first) {
			first = e.Time
		}
		if e.Time.After(last) {
			last = e.Time
		}
	}
	return first, last
}

// openLog opens a directory or one file.
func openLog(path string) (*record.Reader, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return record.Open(path)
	}
	return record.OpenFile(path)
}

func (c *replayCmd) options(log *record.Reader) (flight.Options, error) {
	opts := flight.Options{Model: c.Model, Profiles: twin.OwnProfiles}
	for _, p := range c.Policy {
		opts.Policies = append(opts.Policies, flight.Policy{Name: string(p), Profile: p.Profile})
	}
	var err error
	if opts.From, err = c.from(time.Now()); err != nil {
		return opts, err
	}
	if c.For == 0 {
		return opts, nil
	}
	if opts.From.IsZero() {
		_, last := span(log)
		opts.From = last.Add(-c.For)
		return opts, nil
	}
	opts.To = opts.From.Add(c.For)
	return opts, nil
}

// simulate runs the recorded requests by each policy.
func (c *replayCmd) simulate(ctx context.Context, report *flight.Report, outcomes map[string][]*flight.Outcome) (*simulated, error) {
	s := &simulated{Model: c.Model}
	for _, model := range slices.Sorted(maps.Keys(outcomes)) {
		if c.Model == "" && (s.Model == "" || len(outcomes[model]) > len(outcomes[s.Model])) {
			s.Model = model
		}
	}
	rec, err := twin.FromRecord(c.Log, outcomes[s.Model])
	if errors.Is(err, twin.ErrNothingRecorded) {
		s.Why = "no recorded request was answered in full with its usage told"
		return s, nil
	}
	if err != nil {
		return nil, err
	}
	s.Requests, s.LeftOut = len(rec.Trace.Requests), rec.LeftOut
	s.TTFTP50, s.TTFTP90, s.HitShare = rec.TTFTP50, rec.TTFTP90, rec.HitShare
	cfg, err := c.fleet(report, s.Model)
	if err != nil {
		return nil, err
	}
	cfg.Sessions = cfg.Sessions || rec.Sessions
	for _, p := range c.Policy {
		start := time.Now()
		t, err := twin.New(cfg, p, rec.Trace)
		if err != nil {
			return nil, err
		}
		r, err := t.Run(ctx)
		if err != nil {
			return nil, fmt.Errorf("policy %s: %w", p, err)
		}
		r.WallS = time.Since(start).Seconds()
		s.Policies = append(s.Policies, r)
	}
	return s, nil
}

// fleet is what the policies run on.
func (c *replayCmd) fleet(report *flight.Report, model string) (twin.Config, error) {
	f := defaultSimulateFile()
	if c.Config != "" {
		data, err := os.ReadFile(c.Config)
		if err != nil {
			return f.Config, err
		}
		if _, err := strictyaml.Load(&f, strictyaml.Source{File: c.Config, Data: data}); err != nil {
			return f.Config, err
		}
	} else {
		if report.Setup != nil {
			f.Scoring = report.Setup.Scoring
		}
		if groups := twin.PoolGroups(report.Pool, model); len(groups) > 0 {
			f.Groups = groups
		}
	}
	if c.Engines != nil {
		if len(f.Groups) != 1 {
			return f.Config, fmt.Errorf("--engines: there are %d groups of engines; give their numbers in a file (--config)", len(f.Groups))
		}
		f.Groups[0].Engines = *c.Engines
	}
	if c.Seed != nil {
		f.Seed = *c.Seed
	}
	return f.Config, nil
}

// write prints the report for people. Errors are those of w.
func (r *replayReport) write(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if !r.From.IsZero() {
		fmt.Fprintf(w, "%s to %s, written by %s\n\n", r.From.Format(time.RFC3339Nano), r.To.Format(time.RFC3339Nano), listed(r.Writers))
	}
	fmt.Fprintln(t, "kind\trecorded\treplayed\tdiffer")
	for _, k := range []struct {
		name string
		c    *flight.Comparison
	}{{"routes", &r.Routes}, {"admission", &r.Admission}, {"scaling", &r.Scaling}} {
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\n", k.name, k.c.Recorded, k.c.Replayed, k.c.Differ)
	}
	fmt.Fprintf(t, "outcomes\t%d\t-\t-\n", r.Outcomes)
	if err := t.Flush(); err != nil {
		return err
	}
	if r.Dropped > 0 {
		fmt.Fprintf(w, "\n%s missing: they came faster than they could be written\n", count(int(r.Dropped), "record"))
	}
	for _, k := range []struct {
		name string
		c    *flight.Comparison
	}{{"routes", &r.Routes}, {"admission", &r.Admission}, {"scaling", &r.Scaling}} {
		for _, why := range slices.Sorted(maps.Keys(k.c.Skipped)) {
			fmt.Fprintf(w, "\nnot replayed: %d of %s: %s\n", k.c.Skipped[why], k.name, why)
		}
		if d := k.c.First; d != nil {
			fmt.Fprintf(w, "\nthe first of %s that differs, at %s: %s\n  recorded %s\n  replayed %s\n", k.name, d.At.Format(time.RFC3339Nano), d.What, d.Recorded, d.Replayed)
		}
	}
	for _, n := range r.Notes {
		fmt.Fprintf(w, "\nnote: %s\n", n)
	}
	for _, f := range r.Faults {
		fmt.Fprintf(w, "\nfault: %s\n", f)
	}
	if err := r.writePolicies(w, t); err != nil {
		return err
	}
	return r.Simulated.write(w)
}

func listed(names []string) string {
	slices.Sort(names)
	switch names = slices.Compact(names); {
	case len(names) == 0 || len(names) == 1 && names[0] == "":
		return "a program that gives no name"
	case len(names) == 1:
		return names[0]
	}
	return fmt.Sprintf("%s and %s", names[0], count(len(names)-1, "other"))
}

// writePolicies prints what other policies would have picked.
func (r *replayReport) writePolicies(w io.Writer, t *tabwriter.Writer) error {
	if len(r.Policies) == 0 {
		return nil
	}
	fmt.Fprint(w, "\nEach decision by itself, on the loads and caches that were recorded:\n\n")
	fmt.Fprintln(t, "policy\tdecisions\tother pick\tpredicted hits\tload above least\tbusiest's share\tendpoints used")
	for _, p := range r.Policies {
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%s\t%s\t%d\n", p.Policy, p.Decisions, percent(p.ChangedShare), percent(p.HitShare),
			figure(p.ExtraLoad, "%.2f"), figure(p.Spread, "%.2fx"), p.Used)
	}
	return t.Flush()
}

// write prints what the simulation says; nothing for nil.
func (s *simulated) write(w io.Writer) error {
	switch {
	case s == nil:
		return nil
	case s.Why != "":
		_, err := fmt.Fprintf(w, "\nnot simulated: %s\n", s.Why)
		return err
	}
	fmt.Fprintf(w, "\nThe recorded requests for %s, run on simulated engines by each policy\n", s.Model)
	for _, why := range slices.Sorted(maps.Keys(s.LeftOut)) {
		fmt.Fprintf(w, "left out: %s: %s\n", count(s.LeftOut[why], "request"), why)
	}
	fmt.Fprintf(w, "recorded: TTFT p50 %s, p90 %s, hits %s\n\n", figure(s.TTFTP50, "%.1fms"), figure(s.TTFTP90, "%.1fms"), percent(s.HitShare))
	return twin.WriteText(w, s.Policies)
}

func percent(v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%.1f%%", *v*100)
}

func figure(v *float64, format string) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf(format, *v)
}
