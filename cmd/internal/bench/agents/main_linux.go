// Agents holds one "llmgw server" against a fleet of simulated agents, each with
// its own connection, certificate, eight cards and eight shards, and says what
// that costs the server and what becomes of the agents when it is killed, when it
// is restarted, and when others misbehave. It exits with 1 when an agent does not
// come back in time, when a shard was started anew, or beyond a bound.
//
//	go run ./cmd/internal/bench/agents                                  # all, some five minutes
//	go run ./cmd/internal/bench/agents -steady 0 -disturb 0             # the restarts alone
//	go run ./cmd/internal/bench/agents -restart 0 -disturb 0 -profile . # where the CPU goes
//
// CPU time and memory are read of the server's process alone; the agents are in
// this one. It needs Linux and the go command, stays on the loopback interface and
// ends by itself.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/llmgw/llmgw/cmd/internal/bench/peer"
)

// options are the flags.
type options struct {
	restart, steady, disturb int // agents
	back                     time.Duration
	window                   time.Duration
	rounds                   int
	cores                    float64
	memoryMiB                int64
	binary                   string
	profile                  string
	journal                  time.Duration
	backoff                  time.Duration
}

func parseFlags(args []string) (options, error) {
	var o options
	fs := flag.NewFlagSet("agents", flag.ContinueOnError)
	fs.IntVar(&o.restart, "restart", 500, "`agents` of a server that is killed, and then restarted in good order; 0 leaves it out")
	fs.IntVar(&o.steady, "steady", 2000, "`agents` that do nothing but live; 0 leaves it out")
	fs.IntVar(&o.disturb, "disturb", 500, "`agents` that live beside others that misbehave; 0 leaves it out")
	fs.DurationVar(&o.back, "back", 30*time.Second, "`time` in which all must be back")
	fs.DurationVar(&o.window, "d", 20*time.Second, "`length` of one measurement")
	fs.IntVar(&o.rounds, "rounds", 3, "measurements, of which the median counts")
	fs.Float64Var(&o.cores, "cores", .10, "cores that -steady may cost the server; 0: no bound")
	fs.Int64Var(&o.memoryMiB, "rss", 333, "`MiB` that the server may have resident under -steady (350 MB); 0: no bound")
	fs.StringVar(&o.binary, "llmgw", "", "`path` of the llmgw binary (default: one built from this tree)")
	fs.StringVar(&o.profile, "profile", "", "`folder` for profiles of the server under -steady")
	fs.DurationVar(&o.journal, "journal", 5*time.Second, "the server's control.journal_interval")
	fs.DurationVar(&o.backoff, "backoff", 10*time.Second, "the longest pause of an agent before it dials again")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if fs.NArg() > 0 || min(o.restart, o.steady, o.disturb) < 0 || o.window < time.Second || o.rounds < 1 || min(o.back, o.journal, o.backoff) <= 0 {
		return o, errors.New("agents: arguments beside flags, or a flag out of its range; see -h")
	}
	return o, nil
}

func main() { peer.Main(run) }

func run(ctx context.Context, args []string) error {
	opts, err := parseFlags(args)
	if err != nil {
		return err
	}
	most := max(opts.restart, opts.steady, opts.disturb+misbehaving)
	if err := peer.RaiseFileLimit(20_000, uint64(2*most+1000)); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "agents-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if opts.binary == "" {
		if opts.binary, err = peer.BuildGateway(ctx, dir); err != nil {
			return err
		}
	}
	b := &bench{opts: opts, dir: dir, out: os.Stdout, log: slog.New(slog.NewTextHandler(os.Stderr, nil))}
	for _, part := range []struct {
		agents int
		run    func(context.Context) error
	}{{opts.restart, func(ctx context.Context) error { return b.restarts(ctx, killed(), inGoodOrder()) }}, {opts.steady, b.steady}, {opts.disturb, b.disturbed}} {
		if part.agents == 0 {
			continue
		}
		if err := part.run(ctx); err != nil {
			return err
		}
	}
	if len(b.problems) > 0 {
		return fmt.Errorf("agents: %d problems:\n  %s", len(b.problems), strings.Join(b.problems, "\n  "))
	}
	return nil
}

// bench is what all parts have.
type bench struct {
	opts     options
	dir      string
	out      io.Writer
	log      *slog.Logger
	problems []string
}

func (b *bench) problem(format string, args ...any) {
	b.problems = append(b.problems, fmt.Sprintf(format, args...))
}

// pause reports whether d has passed before ctx was done.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// until waits until something is so, and says for how long it was not. It is an
// error when it is not so within the limit.
func until(ctx context.Context, limit time.Duration, what string, so func() bool) (time.Duration, error) {
	begun := time.Now()
	for !so() {
		if time.Since(begun) > limit {
			return limit, fmt.Errorf("agents: after %v it is not so: %s", limit, what)
		}
		if !pause(ctx, 10*time.Millisecond) {
			return time.Since(begun), context.Cause(ctx)
		}
	}
	return time.Since(begun), nil
}
