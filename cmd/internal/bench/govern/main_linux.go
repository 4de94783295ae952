// Govern kills what keys, limits and usage rest on and looks whether they keep
// their promises. Three llmgw servers share a PostgreSQL and a Redis, which it
// starts itself, before an engine that misbehaves as it is asked to. While clients
// send requests that end in every way there is, routers are killed (SIGKILL) and
// replaced at random moments, then Redis is killed and comes back empty, then
// PostgreSQL is, with what it had on disk, and at last all of them, and routers come
// back before their store. Afterwards it asks everybody who knows
// something: the clients what they were told, the engine what it did, the store
// what it kept. It exits with 1 when anything is off:
//
//	go run ./cmd/internal/bench/govern                          # 2 minutes, 40 kills
//	go run -race ./cmd/internal/bench/govern -d 3s -kills 3     # as CI does
//	go run ./cmd/internal/bench/govern -store sqlite -routers 1 # one router and a file
//	go run ./cmd/internal/bench/govern -away 5m -rate 500       # one router without its store
//
// With -away it stops PostgreSQL under a steady load of keys that are known, counts
// who notices, and looks at what the router holds meanwhile.
//
// It needs Linux and the programs of PostgreSQL and of Redis or Valkey, stays on the
// loopback interface and ends by itself. docs/reference/figures.md has what came of
// it.
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
	"text/tabwriter"
	"time"

	"github.com/llmgw/llmgw/cmd/internal/bench/peer"
	"github.com/llmgw/llmgw/cmd/internal/cli"
)

// options are the flags.
type options struct {
	duration, down time.Duration
	seed           uint64
	kills, routers int
	away           time.Duration
	rate           int
	redis, bin     string
	store          string
	hang, keep     bool
}

func parseFlags(args []string) (options, error) {
	var o options
	fs := flag.NewFlagSet("govern", flag.ContinueOnError)
	fs.DurationVar(&o.duration, "d", 2*time.Minute, "how long routers are killed")
	fs.DurationVar(&o.down, "down", 5*time.Second, "how long Redis, and then PostgreSQL, twice, is away; after each the load goes on for as long")
	fs.Uint64Var(&o.seed, "seed", 1, "of the clients and of the moments of kills")
	fs.IntVar(&o.kills, "kills", 40, "routers that are killed")
	fs.IntVar(&o.routers, "routers", 3, "routers at a time")
	fs.DurationVar(&o.away, "away", 0, "not 0: stop PostgreSQL for so long under -rate, and nothing else")
	fs.IntVar(&o.rate, "rate", 500, "requests a second with -away")
	fs.StringVar(&o.store, "store", "postgres", "postgres, or sqlite: one file of all routers, which is away only while all of them are killed")
	fs.BoolVar(&o.hang, "hang", false, "with -away: PostgreSQL does not end, but answers nobody")
	fs.StringVar(&o.redis, "redis", "", "`program` of Redis or Valkey (default: the one that is installed)")
	fs.StringVar(&o.bin, "postgres", "", "`directory` of initdb and postgres (default: the newest of Debian's, or those of the PATH)")
	fs.BoolVar(&o.keep, "keep", false, "leave the logs of all processes")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if fs.NArg() > 0 || o.duration < 0 || o.down < 0 || o.kills < 0 || o.routers < 1 || o.away < 0 || o.rate < 1 ||
		(o.store != "postgres" && (o.store != "sqlite" || o.away > 0)) {
		return o, errors.New("govern: arguments beside flags, or a flag out of its range; see -h")
	}
	return o, nil
}

// A router is this program: then both have the same race detector.
func main() {
	if len(os.Args) > 1 && os.Args[1] == "server" {
		os.Exit(cli.Main(context.Background(), os.Args[1:], cli.Streams{Out: os.Stdout, Err: os.Stderr}))
	}
	peer.Main(run)
}

func run(ctx context.Context, args []string) error {
	opts, err := parseFlags(args)
	if err != nil {
		return err
	}
	if err := peer.RaiseFileLimit(20_000, 2000); err != nil {
		return err
	}
	p, err := newPlace(ctx, opts, slog.New(slog.NewTextHandler(os.Stderr, nil)))
	if err != nil {
		return err
	}
	defer p.close()
	var problems []string
	if opts.away > 0 {
		problems, err = p.outage(ctx)
	} else {
		problems, err = p.chaos(ctx)
	}
	if err == nil && len(problems) > 0 {
		const most = 20
		err = fmt.Errorf("govern: %d problems:\n  %s", len(problems), strings.Join(problems[:min(len(problems), most)], "\n  "))
	}
	return err
}

// print writes the figures.
func (v *verdict) print(out io.Writer, kills int) {
	fmt.Fprintf(out, "%d requests, %d with an answer; %d routers killed\n", v.calls, v.answered, kills)
	fmt.Fprintf(out, "without the store: %d answers of routers that knew the keys, %d of routers that were started without it (503)\n", v.dark, v.blind)
	fmt.Fprintf(out, "usage: %d rows; %d requests were answered whole and have none, the oldest ended %v before its router was killed\n\n",
		v.rows, v.lost, v.oldest.Round(time.Millisecond))
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "budget\tlimit\tgranted\trows\tno rows\tengine\tstranded\tby killed\tbound each\trefused\t")
	for _, s := range v.budgets {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\t%d\t\n", s.name, money(s.limit), money(s.granted), money(s.rows), money(s.lost), money(s.truth),
			money(s.stranded), s.killed, money(s.bound), s.refused)
	}
	fmt.Fprintln(w, "\nrate\tlimit\tbefore Redis was killed\tbefore all routers were\t")
	for _, r := range v.windows {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t\n", r.name, r.limit, r.before, r.at)
	}
	_ = w.Flush()
}

// money is an amount in thousandths.
func money(n int64) string { return fmt.Sprintf("%.2fm", float64(n)/1e6) }
