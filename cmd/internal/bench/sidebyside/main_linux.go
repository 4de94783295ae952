// Sidebyside measures what llmgw costs beside other proxies: nginx, HAProxy (if
// they are installed) and Go's httputil.ReverseProxy, each in front of the same
// three fake engines, under the same loads, in interleaved rounds. It prints
// Markdown tables with the bounds that llmgw is to keep, and writes every sample
// as JSON on request. It needs Linux, the go command and nothing configured:
//
//	go run ./cmd/internal/bench/sidebyside
//	go run ./cmd/internal/bench/sidebyside -scenarios a,h -rounds 3 -d 2s
//	go run ./cmd/internal/bench/sidebyside -llmgw old=/tmp/old -llmgw new=/tmp/new
//
// docs/reference/performance.md says how to read the tables. Everything stays on
// the loopback interface and ends by itself.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/llmgw/llmgw/cmd/internal/bench/peer"
)

// options are the flags.
type options struct {
	scenarios  string
	rounds     int
	window     time.Duration
	openRounds int
	openWindow time.Duration
	warmup     time.Duration
	peers      string
	gateways   gateways
	key        string
	scrape     time.Duration
	noise      float64
	quiet      time.Duration
	retakes    int
	profile    string
	out        string
	in         string
	strict     bool
}

// gateways are llmgw binaries to measure.
type gateways []struct{ name, path string }

func (g *gateways) String() string { return "" }

func (g *gateways) Set(s string) error {
	name, path, ok := strings.Cut(s, "=")
	if !ok || name == "" || path == "" {
		return errors.New("want NAME=PATH")
	}
	*g = append(*g, struct{ name, path string }{name, path})
	return nil
}

func parseFlags(args []string) (options, error) {
	var o options
	fs := flag.NewFlagSet("sidebyside", flag.ContinueOnError)
	fs.StringVar(&o.scenarios, "scenarios", "a,b,c,h,d,e,f", "scenarios to run, in this order")
	fs.IntVar(&o.rounds, "rounds", 7, "rounds of each closed-loop scenario")
	fs.DurationVar(&o.window, "d", 4*time.Second, "measured window of a closed loop")
	fs.IntVar(&o.openRounds, "open-rounds", 9, "rounds of the open-loop scenario f")
	fs.DurationVar(&o.openWindow, "open-d", 10*time.Second, "measured window of the open loop")
	fs.DurationVar(&o.warmup, "warmup", time.Second, "load before each window")
	fs.StringVar(&o.peers, "peers", "reverseproxy,nginx,haproxy,llmgw", "what to measure beside the engines themselves")
	fs.Var(&o.gateways, "llmgw", "measure this llmgw binary, as `NAME=PATH`; repeatable (default: one built from this tree)")
	keyFile := fs.String("key-file", "", "call llmgw with the key in this `file`")
	fs.DurationVar(&o.scrape, "scrape", time.Second, "read llmgw's metrics this often while it works; 0 for never")
	fs.Float64Var(&o.noise, "noise", .25, "`cores` that the rest of the machine may use beside a sample")
	fs.DurationVar(&o.quiet, "quiet", 30*time.Second, "wait at most this long, before each sample, for the machine to be idle")
	fs.IntVar(&o.retakes, "retakes", 2, "take a sample again at most so often when the rest of the machine was busy")
	fs.StringVar(&o.profile, "profile", "", "write a CPU profile of llmgw under each scenario to this `folder`, from one more run each")
	fs.StringVar(&o.out, "out", "", "write all samples to this `file` as JSON")
	fs.StringVar(&o.in, "in", "", "print the tables of such a `file` and run nothing")
	fs.BoolVar(&o.strict, "strict", false, "exit with 1 when a goal is missed or not measured")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if *keyFile != "" {
		key, err := os.ReadFile(*keyFile)
		if err != nil {
			return o, err
		}
		o.key = strings.TrimSpace(string(key))
	}
	if fs.NArg() > 0 || o.rounds < 1 || o.openRounds < 1 || o.window < time.Millisecond || o.openWindow < time.Millisecond || o.warmup < 0 || o.retakes < 0 {
		return o, errors.New("sidebyside: arguments beside flags, or a flag out of its range; see -h")
	}
	return o, nil
}

func main() { peer.Main(run) }

func run(ctx context.Context, args []string) error {
	opts, err := parseFlags(args)
	if err != nil {
		return err
	}
	var rep report
	if opts.in != "" {
		in, err := os.ReadFile(opts.in)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(in, &rep); err != nil {
			return fmt.Errorf("%s: %w", opts.in, err)
		}
	} else if err := take(ctx, opts, &rep); err != nil {
		return err
	}
	rep.Verdicts = judge(rep.Samples, rep.Gateways)
	fmt.Print(rep.markdown())
	if opts.out != "" {
		out, err := json.MarshalIndent(rep, "", " ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(opts.out, append(out, '\n'), 0o644); err != nil {
			return err
		}
	}
	for _, v := range rep.Verdicts {
		if opts.strict && !v.Met {
			return errors.New("a goal was missed or not measured")
		}
	}
	return nil
}

// take starts the peers, takes all samples and ends the peers.
func take(ctx context.Context, opts options, rep *report) error {
	list, err := choose(opts.scenarios)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	// A thousand streams are two thousand connections in a proxy.
	if err := peer.RaiseFileLimit(20_000, 5000); err != nil {
		return err
	}
	if opts.profile != "" {
		if err := os.MkdirAll(opts.profile, 0o755); err != nil {
			return err
		}
	}
	dir, err := os.MkdirTemp("", "sidebyside-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b := &bench{opts: opts, log: log}
	defer func() {
		for _, p := range b.peers {
			p.Process.Stop()
		}
	}()
	if b.engines, err = peer.Engines(ctx, dir, 3); err != nil {
		return err
	}
	b.peers = append(b.peers, b.engines)
	if rep.Gateways, err = b.startPeers(ctx, dir); err != nil {
		return err
	}
	var names []string
	for _, p := range b.peers {
		names = append(names, p.Name)
	}
	rep.Machine, rep.Command = readMachine(names), "go run ./cmd/internal/bench/sidebyside "+strings.Join(os.Args[1:], " ")
	log.Info("peers are up", "expected", b.expected(list).Round(time.Second))
	rep.Samples, err = b.run(ctx, list)
	for _, p := range b.peers {
		if p.Process.Exited() {
			err = errors.Join(err, fmt.Errorf("%s ended during the run:\n%s", p.Name, p.Process.Log()))
		}
	}
	return err
}

// expected is how long all samples take when none is taken again.
func (b *bench) expected(list []scenario) time.Duration {
	var d time.Duration
	for _, s := range list {
		rounds, window := b.opts.rounds, b.opts.window
		if s.open() {
			rounds, window = b.opts.openRounds, b.opts.openWindow
		}
		d += time.Duration(rounds*len(b.peers)) * (b.opts.warmup + window + time.Second)
	}
	return d
}

// startPeers starts what the flags name, in front of the engines, and returns
// the names of those that are llmgw.
func (b *bench) startPeers(ctx context.Context, dir string) (gateways []string, err error) {
	for name := range strings.SplitSeq(b.opts.peers, ",") {
		var p *peer.Peer
		switch name {
		case reverseProxy:
			p, err = peer.ReverseProxy(ctx, dir, b.engines.Addrs)
		case nginx:
			p, err = peer.Nginx(ctx, dir, b.engines.Addrs)
		case haproxy:
			p, err = peer.HAProxy(ctx, dir, b.engines.Addrs)
		case "llmgw":
			continue // below
		default:
			return nil, fmt.Errorf("no peer %q", name)
		}
		if errors.Is(err, peer.ErrNotInstalled) {
			b.log.Warn("left out", "peer", name, "err", err)
			continue
		}
		if err != nil {
			return nil, err
		}
		b.peers = append(b.peers, p)
	}
	list := b.opts.gateways
	if len(list) == 0 && strings.Contains(","+b.opts.peers+",", ",llmgw,") {
		b.log.Info("building llmgw")
		path, err := peer.BuildGateway(ctx, dir)
		if err != nil {
			return nil, err
		}
		list = append(list, struct{ name, path string }{"llmgw", path})
	}
	for _, g := range list {
		p, err := peer.Gateway(ctx, g.name, g.path, dir, b.opts.key, b.engines.Addrs)
		if err != nil {
			return nil, err
		}
		b.peers = append(b.peers, p)
		gateways = append(gateways, g.name)
	}
	return gateways, nil
}
