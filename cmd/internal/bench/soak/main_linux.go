// Soak keeps a thousand streams running through "llmgw server" for a while and
// checks afterwards that nothing was cut, altered, lost or left behind: every
// answer is compared byte by byte, some callers hang up in the middle of theirs,
// and when all is over the gateway must have nothing in flight, no more
// goroutines and open files than at the start, and its heap no larger than a
// bound. It exits with 1 when anything is off.
//
//	go run ./cmd/internal/bench/soak             # 10 minutes
//	go run ./cmd/internal/bench/soak -d 60s      # as CI does
//	go run ./cmd/internal/bench/soak -target reverseproxy -d 60s
//
// It needs Linux and the go command, stays on the loopback interface and ends by
// itself.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"time"

	"github.com/llmgw/llmgw/cmd/internal/bench/engine"
	"github.com/llmgw/llmgw/cmd/internal/bench/peer"
)

// options are the flags.
type options struct {
	duration  time.Duration
	streams   int
	gap       time.Duration
	hangUps   float64
	target    string
	binary    string
	inFlight  string
	settle    time.Duration
	slack     int
	heapSlack int64 // bytes
	json      bool
}

func parseFlags(args []string) (options, error) {
	var o options
	fs := flag.NewFlagSet("soak", flag.ContinueOnError)
	fs.DurationVar(&o.duration, "d", 10*time.Minute, "how long new streams are started")
	fs.IntVar(&o.streams, "streams", 1000, "streams at a time")
	fs.DurationVar(&o.gap, "gap", 50*time.Millisecond, "time between two events of a stream")
	fs.Float64Var(&o.hangUps, "hang-ups", .02, "share of the streams that their caller leaves in the middle")
	fs.StringVar(&o.target, "target", "llmgw", "what to soak: llmgw, reverseproxy, nginx or haproxy; of the others only streams and open files are checked")
	fs.StringVar(&o.binary, "llmgw", "", "`path` of the llmgw binary (default: one built from this tree)")
	fs.StringVar(&o.inFlight, "in-flight", `^llmgw_.*in_?flight`, "`regexp` of the metrics that must exist and be 0 in the end")
	fs.DurationVar(&o.settle, "settle", 30*time.Second, "time in which everything must have come to rest")
	fs.IntVar(&o.slack, "slack", 24, "goroutines, and open files, that may be more than at the start")
	heapMiB := fs.Int64("heap-slack", 64, "`MiB` that the live heap may be larger than at the start")
	fs.BoolVar(&o.json, "json", false, "print the outcome as one JSON object in place of a line")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	o.heapSlack = *heapMiB << 20
	if fs.NArg() > 0 || o.streams < 1 || o.duration < time.Millisecond || o.gap < 0 || o.hangUps < 0 || o.hangUps > 1 {
		return o, errors.New("soak: arguments beside flags, or a flag out of its range; see -h")
	}
	if _, err := regexp.Compile(o.inFlight); err != nil {
		return o, fmt.Errorf("soak: -in-flight: %w", err)
	}
	return o, nil
}

func main() { peer.Main(run) }

func run(ctx context.Context, args []string) error {
	opts, err := parseFlags(args)
	if err != nil {
		return err
	}
	out, err := runSoak(ctx, opts)
	if err != nil {
		return err
	}
	if opts.json {
		if err := json.NewEncoder(os.Stdout).Encode(out); err != nil {
			return err
		}
	} else {
		fmt.Println(out)
	}
	if len(out.Problems) > 0 {
		return fmt.Errorf("soak: %d problems; the end of %s's log:\n%s", len(out.Problems), out.Target, out.log)
	}
	return nil
}

// runSoak starts engines and target, soaks, and ends both.
func runSoak(ctx context.Context, opts options) (*outcome, error) {
	// Here end both sides of the engines' and one of the callers' connections.
	if err := peer.RaiseFileLimit(20_000, uint64(3*opts.streams+200)); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "soak-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	// vLLM closes connections that rest for 5 s; who keeps them longer finds some
	// of them closed under a request.
	engines, err := engine.Listen(ctx, 3, engine.Options{Idle: 5 * time.Second})
	if err != nil {
		return nil, err
	}
	var addrs []string
	for _, e := range engines {
		defer e.Close()
		addrs = append(addrs, e.Addr())
	}
	p, err := startTarget(ctx, opts, dir, addrs)
	if err != nil {
		return nil, err
	}
	defer p.Process.Stop()
	s := &soak{opts: opts, engines: engines, peer: p, logger: slog.New(slog.NewTextHandler(os.Stderr, nil))}
	return s.run(ctx)
}

func startTarget(ctx context.Context, opts options, dir string, engines []string) (*peer.Peer, error) {
	switch opts.target {
	case "reverseproxy":
		return peer.ReverseProxy(ctx, dir, engines)
	case "nginx":
		return peer.Nginx(ctx, dir, engines)
	case "haproxy":
		return peer.HAProxy(ctx, dir, engines)
	case "llmgw":
		path := opts.binary
		if path == "" {
			var err error
			if path, err = peer.BuildGateway(ctx, dir); err != nil {
				return nil, err
			}
		}
		return peer.Gateway(ctx, "llmgw", path, dir, "", engines)
	}
	return nil, fmt.Errorf("soak: no target %q", opts.target)
}
