package cli

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sort"
	"time"

	"github.com/llmgw/llmgw/engines/sim/workload"
)

// benchWorkload is what is sent, and in an open loop when.
type benchWorkload struct {
	Trace       string           `placeholder:"FILE" help:"Replay a trace: Mooncake, Qwen or AIBrix JSON lines, Azure or BurstGPT CSV, gzipped or not." group:"Workload"`
	Format      workload.Format  `placeholder:"NAME" help:"Format of the trace, if its content must not tell: mooncake, qwen, azure, burstgpt, aibrix." group:"Workload"`
	PromptScale float64          `default:"1" placeholder:"X" help:"Multiply the trace's prompt lengths. Default ${default}." group:"Workload"`
	OutputScale float64          `default:"1" placeholder:"X" help:"Multiply the trace's answer lengths. Default ${default}." group:"Workload"`
	Prompt      workload.Lengths `placeholder:"TOKENS" help:"Without a trace: lengths of prompts, as 512, 100-2000, lognormal:120:0.8 (median, sigma) or lognormal:120:0.8:2048. Default 512." group:"Workload"`
	Output      workload.Lengths `placeholder:"TOKENS" help:"Without a trace: lengths of answers, in the same form. Default 128." group:"Workload"`
	Prefix      int              `placeholder:"TOKENS" help:"Without a trace: tokens before each prompt that its group shares." group:"Workload"`
	Groups      int              `default:"1" placeholder:"N" help:"Without a trace: number of different prefixes. Default ${default}." group:"Workload"`
	Users       int              `default:"1" placeholder:"N" help:"Without a trace: users, each a session, per prefix. Default ${default}." group:"Workload"`
	Requests    int              `short:"n" placeholder:"N" help:"Send N requests; more than a trace has: play it again, with other prompts. Default: the trace once, else 1000 or what --duration allows." group:"Workload"`
	Duration    time.Duration    `short:"d" placeholder:"TIME" help:"Send for so long, then wait for the answers under way." group:"Workload"`
	Rate        float64          `short:"r" placeholder:"N" help:"Open loop: N requests per second in place of the trace's times." group:"Workload"`
	Arrivals    workload.Process `default:"" enum:"poisson,uniform," placeholder:"HOW" help:"With --rate: poisson or uniform. Default poisson." group:"Workload"`
	Speedup     float64          `default:"1" placeholder:"X" help:"Open loop: divide the trace's times by X. Default ${default}." group:"Workload"`
	Seed        *uint64          `placeholder:"N" help:"Send what an earlier run sent that named this seed: the same lengths, times and prompts, which its target may have in a cache. Default: drawn, so that prompts are new." group:"Workload"`
}

const (
	defaultRequests     = 1000
	defaultPromptTokens = 512
	defaultOutputTokens = 128
	// closedRequests is how many are drawn for a closed loop that ends by time:
	// more than a caller gets answered in any run that makes sense.
	closedRequests = 200_000
)

// check finds what the flags cannot mean together.
func (w *benchWorkload) check(concurrency int) error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if w.Requests < 0 || w.Requests > workload.MaxRequests {
		bad("--requests: %d is out of range; want 1 to %d", w.Requests, workload.MaxRequests)
	}
	switch {
	case !(w.Rate >= 0 && w.Rate <= workload.MaxRate):
		bad("--rate: %v is out of range; want at most %v requests per second", w.Rate, workload.MaxRate)
	case w.Requests == 0 && w.drawn() > workload.MaxRequests:
		bad("--rate and --duration: %.0f requests are too many; want at most %d", w.Rate*w.Duration.Seconds(), workload.MaxRequests)
	}
	for _, f := range []struct {
		name string
		v    float64
	}{{"--speedup", w.Speedup}, {"--prompt-scale", w.PromptScale}, {"--output-scale", w.OutputScale}} {
		if !(f.v > 0) || math.IsInf(f.v, 0) {
			bad("%s: %v is out of range; want more than 0", f.name, f.v)
		}
	}
	if w.Arrivals != "" && w.Rate == 0 {
		bad("--arrivals: it says how requests come at a --rate; give one")
	}
	if concurrency > 0 && w.Rate > 0 {
		bad("--concurrency and --rate: a loop is either closed or open; keep one")
	}
	if (concurrency > 0 || w.Rate > 0) && w.Speedup != 1 {
		bad("--speedup: it is for a trace's own times, which --concurrency and --rate replace")
	}
	if w.Trace == "" {
		if concurrency == 0 && w.Rate == 0 {
			bad("say what to send: --trace FILE, or prompts of a length at --rate N or --concurrency N")
		}
		if w.Format != "" || w.PromptScale != 1 || w.OutputScale != 1 || w.Speedup != 1 {
			bad("--format, --prompt-scale, --output-scale and --speedup are for a --trace")
		}
	} else {
		if !w.Prompt.IsZero() || !w.Output.IsZero() {
			bad("--prompt and --output are for prompts without a --trace, which has lengths of its own; --prompt-scale and --output-scale multiply them")
		}
		if w.Prefix != 0 || w.Groups != 1 || w.Users != 1 {
			bad("--prefix, --groups and --users are for prompts without a --trace")
		}
	}
	return errors.Join(errs...)
}

// drawSeed makes sure that there is a seed. One that is drawn is short enough
// for JSON, whose readers may round greater numbers, and for a person.
func (w *benchWorkload) drawSeed() {
	if w.Seed == nil {
		w.Seed = new(uint64(rand.Uint32()))
	}
}

// seed is the seed; before drawSeed it may be 0.
func (w *benchWorkload) seed() uint64 {
	if w.Seed == nil {
		return 0
	}
	return *w.Seed
}

// trace is the workload that the flags describe.
func (w *benchWorkload) trace(closed bool) (*workload.Trace, error) {
	if w.Trace == "" {
		return w.synthetic(closed)
	}
	t, err := workload.Open(w.Trace, w.Format)
	if err != nil {
		return nil, err
	}
	if w.PromptScale != 1 || w.OutputScale != 1 {
		if t, err = t.Scale(w.PromptScale, w.OutputScale); err != nil {
			return nil, err
		}
	}
	n := w.Requests
	if n == 0 && w.Duration > 0 && w.Rate > 0 {
		n = w.drawn()
	}
	if passes := (n + len(t.Requests) - 1) / len(t.Requests); passes > 1 {
		if t, err = t.Repeat(passes); err != nil {
			return nil, err
		}
	}
	if n > 0 {
		if t, err = t.First(n); err != nil {
			return nil, err
		}
	}
	switch {
	case w.Rate > 0:
		if t, err = t.WithArrivals(w.arrivals(), w.seed()); err != nil {
			return nil, err
		}
	case w.Speedup != 1:
		if t, err = t.Speedup(w.Speedup); err != nil {
			return nil, err
		}
	}
	return w.within(t, closed)
}

func (w *benchWorkload) synthetic(closed bool) (*workload.Trace, error) {
	cfg := workload.DefaultSynthetic()
	var err error
	if cfg.Prompt, err = orFixed(w.Prompt, defaultPromptTokens); err != nil {
		return nil, err
	}
	if cfg.Output, err = orFixed(w.Output, defaultOutputTokens); err != nil {
		return nil, err
	}
	cfg.Seed = w.seed()
	cfg.PrefixTokens, cfg.Groups, cfg.UsersPerGroup = w.Prefix, w.Groups, w.Users
	switch cfg.Requests = w.Requests; {
	case cfg.Requests > 0:
	case w.Duration == 0:
		cfg.Requests = defaultRequests
	case closed:
		cfg.Requests = closedRequests
	default:
		cfg.Requests = w.drawn()
	}
	if !closed {
		cfg.Arrivals = w.arrivals()
	}
	t, err := workload.Synthesize(cfg)
	if err != nil {
		return nil, err
	}
	return w.within(t, closed)
}

// orFixed is l, or n tokens if l is unset.
func orFixed(l workload.Lengths, n int) (workload.Lengths, error) {
	if l.IsZero() {
		return workload.Fixed(n)
	}
	return l, nil
}

func (w *benchWorkload) arrivals() workload.Arrivals {
	return workload.Arrivals{Process: cmp.Or(w.Arrivals, workload.Poisson), Rate: w.Rate}
}

// drawn is more requests than arrive at the rate within the duration, but for
// one case in millions.
func (w *benchWorkload) drawn() int {
	mean := w.Rate * w.Duration.Seconds()
	return int(mean + 6*math.Sqrt(mean) + 10)
}

// within leaves out of an open loop what is due after its duration.
func (w *benchWorkload) within(t *workload.Trace, closed bool) (*workload.Trace, error) {
	if closed || w.Duration == 0 {
		return t, nil
	}
	n := sort.Search(len(t.Requests), func(i int) bool { return t.Requests[i].At >= w.Duration })
	if n == len(t.Requests) {
		return t, nil
	}
	return t.First(n)
}
