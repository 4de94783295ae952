package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/llmgw/llmgw/cmd/internal/bench/generate"
)

// Exit codes of bench beside those of all commands: 1 is that requests failed.
const (
	exitNothingRun  = 2   // or run, but not measured
	exitInterrupted = 130 // as a shell has it for SIGINT
)

type benchCmd struct {
	URL        string       `name:"url" required:"" placeholder:"URL" help:"Base URL of the target, as OpenAI's SDKs take it; without a path /v1 is added." group:"Request"`
	Model      string       `help:"Model to ask for; without it the only one that the target lists." group:"Request"`
	API        generate.API `name:"api" default:"chat" enum:"chat,completions" help:"API to call: ${enum}." group:"Request"`
	Stream     bool         `default:"true" negatable:"" help:"Ask for streams." group:"Request"`
	Usage      bool         `default:"true" negatable:"" help:"Ask streams for their usage by stream_options." group:"Request"`
	IgnoreEOS  bool         `name:"ignore-eos" default:"true" negatable:"" help:"Ask by ignore_eos for answers of exactly the workload's lengths, and take others for failures. Clouds refuse the field." group:"Request"`
	MaxTokens  int          `placeholder:"N" help:"Bound the workload's answers to N tokens." group:"Request"`
	Extra      string       `placeholder:"JSON" help:"Object with further members of each request." group:"Request"`
	Header     []string     `short:"H" sep:"none" placeholder:"NAME: VALUE" help:"Further header of each request; may be repeated." group:"Request"`
	APIKeyFile string       `name:"api-key-file" placeholder:"FILE" help:"File that holds the API key; without it the variable LLMGW_API_KEY, if it is set." group:"Request"`

	benchWorkload

	Concurrency    int           `short:"c" placeholder:"N" help:"Closed loop: N callers, each waiting for its answer. Without it an open loop." group:"Load"`
	MaxOutstanding int           `default:"4096" placeholder:"N" help:"Open loop: at most N unanswered requests; what is due beyond waits. Default ${default}." group:"Load"`
	Warmup         time.Duration `placeholder:"TIME" help:"Leave the requests of the first TIME out of the figures." group:"Load"`
	Timeout        time.Duration `default:"10m" placeholder:"TIME" help:"Longest time for one request. Default ${default}." group:"Load"`
	Cancel         float64       `placeholder:"SHARE" help:"Share of streams, 0 to 1, to leave in the middle." group:"Load"`

	SLO       generate.SLO `name:"slo" placeholder:"BOUNDS" help:"What goodput asks of a request, as ttft=2s,tpot=30ms,itl=200ms,e2e=30s." group:"Verdict"`
	MaxErrors tolerance    `default:"0" placeholder:"N|N%" help:"Failed requests to tolerate before the exit code is 1. Default ${default}." group:"Verdict"`
	JSON      bool         `name:"json" help:"Print one JSON object." group:"Verdict"`
}

// Help stands below the flags in --help.
func (*benchCmd) Help() string {
	return "Exit codes: 0 all requests complete, 1 more failed than --max-errors, 2 nothing was sent or all fell in the warm-up, 80 wrong usage, 130 interrupted (what was measured is printed)."
}

// Validate makes what the flags say together a matter of usage.
func (c *benchCmd) Validate() error {
	if c.URL == "" {
		return nil // the parser says it better
	}
	cfg, err := c.config("")
	return errors.Join(err, cfg.Validate(), c.check(c.Concurrency))
}

// Run sends the load and prints what came of it.
func (c *benchCmd) Run(ctx context.Context, streams Streams) error {
	key, err := readKey(c.APIKeyFile)
	if err != nil {
		return coded(err, exitNothingRun)
	}
	c.drawSeed()
	cfg, err := c.config(key)
	if err != nil {
		return err
	}
	trace, err := c.trace(c.Concurrency > 0)
	if err != nil {
		return coded(fmt.Errorf("%w; nothing was sent", err), exitNothingRun)
	}
	g, err := generate.New(cfg, generate.Deps{Trace: trace})
	if err != nil {
		return coded(fmt.Errorf("bench: %w; nothing was sent", err), exitNothingRun)
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process
	hide := func() {}
	if !c.JSON {
		hide = showProgress(streams.Err, g.Progress)
	}
	report, err := g.Run(ctx)
	hide()
	if err != nil && ctx.Err() != nil { // while the target was asked for its model
		return coded(errors.New("bench: interrupted; nothing was sent"), exitInterrupted)
	}
	if f, ok := errors.AsType[*generate.RequestError](err); ok && f.Status == http.StatusUnauthorized && key == "" {
		err = fmt.Errorf("%w; give bench the key in LLMGW_API_KEY or --api-key-file", err)
	}
	if err != nil {
		return coded(fmt.Errorf("bench: %w; nothing was sent", err), exitNothingRun)
	}
	if c.JSON {
		err = json.NewEncoder(streams.Out).Encode(report)
	} else {
		err = report.WriteText(streams.Out)
	}
	return errors.Join(err, c.verdict(report))
}

// verdict is the error that the exit code tells.
func (c *benchCmd) verdict(r *generate.Report) error {
	if r.Interrupted {
		return coded(errors.New("bench: interrupted; the figures are of what was measured until then"), exitInterrupted)
	}
	sent := r.Requests.Measured() + r.Requests.WarmUp
	if bad := r.Requests.Bad(); !c.MaxErrors.allows(bad, sent) {
		return fmt.Errorf("bench: %d of %d requests failed; --max-errors tolerates %s", bad, sent, c.MaxErrors)
	}
	if r.NothingMeasured() {
		return coded(fmt.Errorf("bench: nothing was measured: all %d requests fell in the warm-up of %v; want a longer run or a shorter --warmup", r.Requests.WarmUp, c.Warmup), exitNothingRun)
	}
	return nil
}

// config is what the flags say.
func (c *benchCmd) config(key string) (generate.Config, error) {
	cfg := generate.DefaultConfig()
	cfg.URL, cfg.Model, cfg.API, cfg.APIKey, cfg.Extra = c.URL, c.Model, c.API, key, c.Extra
	cfg.Stream, cfg.IncludeUsage, cfg.ExactLength, cfg.MaxTokens = c.Stream, c.Usage, c.IgnoreEOS, c.MaxTokens
	cfg.Concurrency, cfg.MaxOutstanding, cfg.Duration, cfg.Warmup = c.Concurrency, c.MaxOutstanding, c.Duration, c.Warmup
	cfg.Timeout, cfg.SLO, cfg.CancelRatio, cfg.Seed = c.Timeout, c.SLO, c.Cancel, c.seed()
	cfg.Header = http.Header{}
	for _, h := range c.Header {
		name, value, ok := strings.Cut(h, ":")
		if name = strings.TrimSpace(name); !ok || name == "" {
			return cfg, fmt.Errorf(`--header: %q is no header; want e.g. "x-team: blue"`, h)
		}
		value = strings.TrimSpace(value)
		if err := generate.CheckHeader(name, value); err != nil {
			return cfg, fmt.Errorf("--%w", err) // it begins with "header: "
		}
		cfg.Header.Add(name, value)
	}
	return cfg, nil
}

// tolerance is how many failures are tolerated: a number, or a share of all.
type tolerance struct {
	text  string
	n     int64
	share float64 // 0 to 1, if isShare
	ratio bool
}

// UnmarshalText reads "3" or "0.5%".
func (t *tolerance) UnmarshalText(text []byte) error {
	s := strings.TrimSpace(string(text))
	if number, ok := strings.CutSuffix(s, "%"); ok {
		v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if err != nil || !(v >= 0 && v <= 100) {
			return fmt.Errorf("%q is no share; want 0%% to 100%%", s)
		}
		*t = tolerance{text: s, share: v / 100, ratio: true}
		return nil
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 {
		return fmt.Errorf("%q is no number of failures; want e.g. 3 or 0.5%%", s)
	}
	*t = tolerance{text: s, n: n}
	return nil
}

func (t tolerance) String() string { return t.text }

// allows reports whether failed of all requests are tolerated.
func (t tolerance) allows(failed, all int64) bool {
	if t.ratio {
		return float64(failed) <= t.share*float64(all)
	}
	return failed <= t.n
}
