package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/llmgw/llmgw/fleet/twin/scaling"
	"github.com/llmgw/llmgw/placement/catalog/strictyaml"
)

type simulateScaleCmd struct {
	Config   string           `short:"c" required:"" placeholder:"FILE" help:"YAML file with machines, models and how the control plane decides."`
	Rates    string           `required:"" placeholder:"FILE" help:"CSV with the rates of clients, ten minutes by ten minutes, gzipped or not."`
	Policy   []scaling.Policy `placeholder:"NAME" help:"Policy to run; may be repeated. static, on-demand or autoscaled. Default: all three."`
	From     *time.Duration   `placeholder:"TIME" help:"Where in the rates to begin. Default: that of the file, else 0."`
	Duration *time.Duration   `short:"d" placeholder:"TIME" help:"For how long requests arrive. Default: that of the file, else 24h."`
	Seed     *uint64          `placeholder:"N" help:"Where all chance comes from: the same seed gives the same figures. Default: that of the file, else 1."`
	Decided  bool             `name:"decisions" help:"Print every number of replicas that was decided, with why, before the figures."`
	JSON     bool             `name:"json" help:"Print one JSON object per policy, a line each."`
}

// scaleFile is what simulate scale -c reads.
type scaleFile struct {
	scaling.Config `yaml:",inline"`
}

// Validate reports every fault, joined.
func (f scaleFile) Validate() error { return f.Config.Validate() }

// Validate makes what the flags say a matter of usage.
func (c *simulateScaleCmd) Validate() error {
	var errs []error
	for _, p := range c.Policy {
		if err := p.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("--policy: %w", err))
		}
	}
	if d := c.From; d != nil && *d < 0 {
		errs = append(errs, fmt.Errorf("--from: %v is negative; want e.g. 24h", *d))
	}
	if d := c.Duration; d != nil && *d <= 0 {
		errs = append(errs, fmt.Errorf("--duration: %v is not positive; want e.g. 24h", *d))
	}
	return errors.Join(errs...)
}

// Run simulates the policies and prints what came of each.
func (c *simulateScaleCmd) Run(ctx context.Context, streams Streams) error {
	file, err := c.file()
	if err != nil {
		return err
	}
	rates, err := scaling.OpenRates(c.Rates)
	if err != nil {
		return fmt.Errorf("simulate scale: --rates: %w", err)
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process
	policies := c.Policy
	if len(policies) == 0 {
		policies = scaling.Policies()
	}
	var reports []*scaling.Report
	for _, p := range policies {
		start := time.Now()
		t, err := scaling.New(file.Config, p, rates)
		if err != nil {
			return fmt.Errorf("simulate scale: %w", err)
		}
		r, err := t.Run(ctx)
		if err != nil {
			return fmt.Errorf("simulate scale: policy %s: %w", p, err)
		}
		r.WallS = time.Since(start).Seconds()
		reports = append(reports, r)
		if err := c.print(streams, t, r); err != nil {
			return err
		}
	}
	if c.JSON {
		return nil
	}
	return scaling.WriteText(streams.Out, reports)
}

// print prints what is printed of one policy alone.
func (c *simulateScaleCmd) print(streams Streams, t *scaling.Twin, r *scaling.Report) error {
	if c.Decided {
		for _, d := range t.Decisions() {
			line := struct {
				Policy scaling.Policy `json:"policy"`
				AtS    float64        `json:"at_s"`
				Model  string         `json:"model"`
				From   int            `json:"from"`
				To     int            `json:"to"`
				Why    string         `json:"why"`
			}{r.Policy, d.At.Seconds(), d.Model, d.From, d.To, d.Why}
			var err error
			if c.JSON {
				err = json.NewEncoder(streams.Out).Encode(line)
			} else {
				_, err = fmt.Fprintf(streams.Out, "%s %v %s: %d -> %d: %s\n", r.Policy, d.At.Round(time.Second), d.Model, d.From, d.To, d.Why)
			}
			if err != nil {
				return err
			}
		}
	}
	if !c.JSON {
		return nil
	}
	return json.NewEncoder(streams.Out).Encode(r)
}

// file is the configuration, the flags over it.
func (c *simulateScaleCmd) file() (scaleFile, error) {
	f := scaleFile{Config: scaling.DefaultConfig()}
	data, err := os.ReadFile(c.Config)
	if err != nil {
		return f, err
	}
	text := `"%s", a text: it may name a distribution, too`
	if _, err := strictyaml.Load(&f, strictyaml.Source{
		File: c.Config, Data: data, Numbers: map[string]string{"prompt": text, "output": text},
	}); err != nil {
		return f, err
	}
	if c.From != nil {
		f.From = *c.From
	}
	if c.Duration != nil {
		f.Duration = *c.Duration
	}
	if c.Seed != nil {
		f.Seed = *c.Seed
	}
	return f, nil
}
