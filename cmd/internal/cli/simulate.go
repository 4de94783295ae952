package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"sort"
	"syscall"
	"time"

	"github.com/llmgw/llmgw/engines/sim/workload"
	"github.com/llmgw/llmgw/fleet/twin"
	"github.com/llmgw/llmgw/placement/catalog/strictyaml"
)

//go:generate go test -run TestSimulateReference . -update

// simulateCmd compares what the router does, or what the control plane does.
type simulateCmd struct {
	Routing simulateRoutingCmd `cmd:"" default:"withargs" help:"Compare routing policies; what simulate does unless it is told otherwise."`
	Scale   simulateScaleCmd   `cmd:"" help:"Compare ways of scaling: models on too few cards, for a day."`
}

type simulateRoutingCmd struct {
	Config   string          `short:"c" placeholder:"FILE" help:"YAML file with fleet, policies, bands and workload; without it 8 engines of an 8B model, each on one H100-class card." group:"Fleet"`
	Engines  *int            `placeholder:"N" help:"Number of engines; overrides that of the file's only group." group:"Fleet"`
	Policy   []twin.Policy   `placeholder:"NAME" help:"Policy to run; may be repeated. random, round-robin, least-loaded, prefix, prefix-exact, batch or long-context. Default: those of the file, else the first four." group:"Fleet"`
	Seed     *uint64         `placeholder:"N" help:"Where all chance comes from: the same seed gives the same figures. Default: that of the file, else 1." group:"Fleet"`
	Trace    string          `placeholder:"FILE" help:"Trace to replay: Mooncake, Qwen or AIBrix JSON lines, Azure or BurstGPT CSV, gzipped or not. Without it the file's workload." group:"Workload"`
	Format   workload.Format `placeholder:"NAME" help:"Format of the trace, if its content must not tell: mooncake, qwen, azure, burstgpt, aibrix." group:"Workload"`
	Requests *int            `short:"n" placeholder:"N" help:"Only the first N requests; more than the trace has: play it again, with other prompts. Default: the trace once." group:"Workload"`
	Duration *time.Duration  `short:"d" placeholder:"TIME" help:"Only what arrives within TIME of virtual time; more than the trace has: play it again, with other prompts." group:"Workload"`
	Speedup  float64         `default:"1" placeholder:"X" help:"Divide the times of arrival by X. Default ${default}." group:"Workload"`
	Find     *time.Duration  `name:"find-ttft-p90" placeholder:"TIME" help:"Find the highest speed-up at which 90 % of the requests have their first token within TIME, and report that one." group:"Verdict"`
	SVG      string          `name:"svg" placeholder:"FILE" help:"Draw the figures into FILE." group:"Verdict"`
	Record   string          `placeholder:"DIR" help:"Write every decision into a flight recorder's log in DIR, for llmgw replay; one policy only." group:"Verdict"`
	JSON     bool            `name:"json" help:"Print one JSON object per policy, a line each." group:"Verdict"`
}

// simulateFile is what simulate -c reads.
type simulateFile struct {
	twin.Config `yaml:",inline"`
	// Policies are run one after the other. Default: random, round-robin,
	// least-loaded, prefix. At least one.
	Policies []twin.Policy `yaml:"policies"`
	// Workload is drawn where no trace is given; it needs arrivals.
	Workload workload.Synthetic `yaml:"workload"`
}

func defaultSimulateFile() simulateFile {
	return simulateFile{
		Config:   twin.DefaultConfig(),
		Policies: []twin.Policy{twin.Random, twin.RoundRobin, twin.LeastLoaded, twin.Prefix},
		Workload: workload.DefaultSynthetic(),
	}
}

// Validate reports every fault, joined.
func (f simulateFile) Validate() error {
	errs := []error{f.Config.Validate()}
	if len(f.Policies) == 0 {
		errs = append(errs, errors.New("policies: is empty; want e.g. [random, prefix]"))
	}
	for i, p := range f.Policies {
		if err := p.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("policies[%d]: %w", i, err))
		}
	}
	return errors.Join(errs...)
}

// Validate makes what the flags say a matter of usage.
func (c *simulateRoutingCmd) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Trace == "" && c.Config == "" {
		bad("say what to simulate: --trace FILE, or -c FILE with a workload")
	}
	if c.Engines != nil && (*c.Engines < 1 || *c.Engines > twin.MaxEngines) {
		bad("--engines: %d is out of range; want 1 to %d", *c.Engines, twin.MaxEngines)
	}
	for _, p := range c.Policy {
		if err := p.Validate(); err != nil {
			bad("--policy: %w", err)
		}
	}
	if n := c.Requests; n != nil && (*n < 1 || *n > workload.MaxRequests) {
		bad("--requests: %d is out of range; want 1 to %d", *n, workload.MaxRequests)
	}
	if d := c.Duration; d != nil && *d <= 0 {
		bad("--duration: %v is not positive; want e.g. 1h", *d)
	}
	if !(c.Speedup > 0) || math.IsInf(c.Speedup, 0) {
		bad("--speedup: %v is out of range; want more than 0", c.Speedup)
	}
	if c.Record != "" && (len(c.Policy) > 1 || c.Find != nil) {
		bad("--record: a log is of one run; name one --policy, and not --find-ttft-p90")
	}
	if d := c.Find; d != nil && *d <= 0 {
		bad("--find-ttft-p90: %v is not positive; want e.g. 3s", *d)
	}
	if c.Find != nil && c.Speedup != 1 {
		bad("--find-ttft-p90 and --speedup: the one finds what the other says; keep one")
	}
	if c.SVG != "" { // now, and not when the last policy has been run
		if dir, err := os.Stat(filepath.Dir(c.SVG)); err != nil || !dir.IsDir() {
			bad("--svg: there is no directory %s; make it, or name another file", filepath.Dir(c.SVG))
		}
	}
	return errors.Join(errs...)
}

// Run simulates the policies and prints what came of each.
func (c *simulateRoutingCmd) Run(ctx context.Context, streams Streams) error {
	file, err := c.file()
	if err != nil {
		return err
	}
	if c.Record != "" && len(file.Policies) > 1 {
		return errors.New("simulate: --record: a log is of one run; name one --policy")
	}
	trace, err := c.trace(file)
	if err != nil {
		return fmt.Errorf("simulate: %w", err)
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process
	var reports []*twin.Report
	for _, p := range file.Policies {
		r, err := c.run(ctx, file.Config, p, trace)
		if err != nil {
			return fmt.Errorf("simulate: policy %s: %w", p, err)
		}
		reports = append(reports, r)
		if !c.JSON {
			continue
		}
		if err := json.NewEncoder(streams.Out).Encode(r); err != nil {
			return err
		}
	}
	if !c.JSON {
		if err := twin.WriteText(streams.Out, reports); err != nil {
			return err
		}
	}
	return c.draw(reports)
}

// run simulates one policy.
func (c *simulateRoutingCmd) run(ctx context.Context, cfg twin.Config, p twin.Policy, trace *workload.Trace) (r *twin.Report, err error) {
	start := time.Now()
	if c.Find != nil {
		_, r, err = twin.MaxSpeedup(ctx, cfg, p, trace, *c.Find)
	} else {
		var t *twin.Twin
		if t, err = twin.New(cfg, p, trace); err != nil {
			return nil, err
		}
		if c.Record != "" {
			r, err = recordRun(ctx, t, c.Record)
		} else {
			r, err = t.Run(ctx)
		}
	}
	if err != nil {
		return nil, err
	}
	if c.Find == nil {
		r.Speedup = c.Speedup
	}
	r.WallS = time.Since(start).Seconds()
	return r, nil
}

// file is the configuration, the flags over it.
func (c *simulateRoutingCmd) file() (simulateFile, error) {
	f := defaultSimulateFile()
	if c.Config != "" {
		data, err := os.ReadFile(c.Config)
		if err != nil {
			return f, err
		}
		text := `"%s", a text: it may name a distribution, too`
		if _, err := strictyaml.Load(&f, strictyaml.Source{
			File: c.Config, Data: data, Numbers: map[string]string{"workload.prompt": text, "workload.output": text},
		}); err != nil {
			return f, err
		}
	}
	if c.Engines != nil {
		if len(f.Groups) != 1 {
			return f, fmt.Errorf("simulate: --engines: %s has %d groups of engines; change their numbers there", c.Config, len(f.Groups))
		}
		f.Groups[0].Engines = *c.Engines
	}
	if len(c.Policy) > 0 {
		f.Policies = c.Policy
	}
	if c.Seed != nil {
		f.Seed = *c.Seed
		f.Workload.Seed = *c.Seed
	}
	return f, nil
}

// trace is the workload.
func (c *simulateRoutingCmd) trace(f simulateFile) (*workload.Trace, error) {
	var t *workload.Trace
	var err error
	switch {
	case c.Trace != "":
		t, err = workload.Open(c.Trace, c.Format)
	case f.Workload.Arrivals.Process == "":
		return nil, fmt.Errorf("%s: workload.arrivals: is not set; want such as poisson:8, or give a --trace", c.Config)
	default:
		t, err = workload.Synthesize(f.Workload)
	}
	if err != nil {
		return nil, err
	}
	if t, err = t.Repeat(c.passes(t)); err != nil {
		return nil, err
	}
	if c.Requests != nil {
		if t, err = t.First(*c.Requests); err != nil {
			return nil, err
		}
	}
	if c.Speedup != 1 {
		if t, err = t.Speedup(c.Speedup); err != nil {
			return nil, err
		}
	}
	if c.Duration == nil {
		return t, nil
	}
	return t.First(sort.Search(len(t.Requests), func(i int) bool { return t.Requests[i].At >= *c.Duration }))
}

// passes is how often the trace has to be played for what the flags ask of it.
func (c *simulateRoutingCmd) passes(t *workload.Trace) int {
	n := len(t.Requests)
	if c.Requests != nil {
		return (*c.Requests + n - 1) / n
	}
	passes := 1
	if span := t.Requests[n-1].At; c.Duration != nil && span > 0 {
		passes = max(passes, int(min(math.Ceil(float64(*c.Duration)*c.Speedup/float64(span)), workload.MaxRequests)))
	}
	return passes
}

// draw writes the picture.
func (c *simulateRoutingCmd) draw(reports []*twin.Report) error {
	if c.SVG == "" {
		return nil
	}
	f, err := os.Create(c.SVG)
	if err != nil {
		return err
	}
	return errors.Join(twin.WriteSVG(f, reports), f.Close())
}
