package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/llmgw/llmgw/cmd/internal/app/demo"
	serverapp "github.com/llmgw/llmgw/cmd/internal/app/server"
	"github.com/llmgw/llmgw/cmd/internal/cli/command"
	server "github.com/llmgw/llmgw/cmd/internal/config/server"
)

type demoCmd struct {
	Listen      string `help:"Address for clients; port 0 takes a free one. Default ${default}." default:"127.0.0.1:8080" placeholder:"ADDR"`
	AdminListen string `help:"Address for metrics and pprof, loopback only; port 0 takes a free one. Default ${default}." default:"127.0.0.1:9090" placeholder:"ADDR"`
	Auth        bool   `default:"true" negatable:"" help:"Ask for a key, and make one, which goes with the demo. --no-auth asks nobody."`
	Fleet       bool   `help:"Serve four models from four simulated machines of eight cards on two fabrics, each with an agent of its own; this process is their control plane and router. Linux only."`
	JSON        bool   `name:"json" help:"Print one JSON line with base_url, admin_url, models and api_key when it is ready."`
}

// Run serves the demo until a signal.
func (c *demoCmd) Run(ctx context.Context, streams Streams) error {
	// What the demo has to say is on standard output; the log only warns.
	level := new(slog.LevelVar)
	level.Set(slog.LevelWarn)
	log := slog.New(slog.NewTextHandler(streams.Err, &slog.HandlerOptions{Level: level}))
	ready := func(at serverapp.Addresses, models []string, key string, greet func(io.Writer, command.Served)) {
		s := command.Served{BaseURL: "http://" + dialable(at.Client), AdminURL: "http://" + dialable(at.Admin), Models: models, APIKey: key}
		if c.JSON {
			s.WriteJSON(streams.Out)
			return
		}
		greet(streams.Out, s)
	}
	opts := demo.Options{Listen: c.Listen, AdminListen: c.AdminListen, Auth: c.Auth, Logger: log}
	if c.Fleet {
		level.Set(slog.LevelError) // that nothing has a place before there are machines is no news
		return demo.RunFleet(ctx, opts, func(f demo.Fleet) {
			level.Set(slog.LevelWarn)
			ready(f.At, f.Models, f.Key, func(w io.Writer, s command.Served) { greetFleet(w, s, f.Nodes, f.Asleep) })
		})
	}
	opts.Ready = func(at serverapp.Addresses, models []string, key string) { ready(at, models, key, greet) }
	return demo.Run(ctx, opts)
}

// demoMachinesCmd is what a demo starts itself as.
type demoMachinesCmd struct {
	Dir    string `arg:""`
	Server string `arg:""`
}

// Run keeps the machines until standard input ends.
func (c *demoMachinesCmd) Run(ctx context.Context, streams Streams) error {
	return demo.Keep(ctx, demo.KeepOptions{Dir: c.Dir, Server: c.Server, In: streams.In, Out: streams.Out, Err: streams.Err})
}

// greet shows what to do next.
func greet(w io.Writer, s command.Served) {
	auth, more := "", ""
	if s.APIKey != "" {
		auth = " -H 'Authorization: Bearer " + s.APIKey + "'"
		more = fmt.Sprintf("\nkey: %s\n\nIt is a key for everything. Another one: llmgw keys create --admin %s --rpm 5\n", s.APIKey, s.AdminURL)
	}
	fmt.Fprintf(w, `A router and three simulated engines serve %[3]s at %[1]s. Try it:

curl -N %[1]s/v1/chat/completions%[4]s -H 'Content-Type: application/json' -d '{"model": "%[3]s", "stream": true, "max_tokens": 50, "messages": [{"role": "user", "content": "Hello"}]}'
%[5]s
In a browser: %[1]s/ is what people see, %[2]s/ the console of who runs it.
Metrics are at %[2]s/metrics. Ctrl-C ends it.
`, s.BaseURL, s.AdminURL, s.Models[0], auth, more)
}

// greetFleet shows what runs where, and what to do next.
func greetFleet(w io.Writer, s command.Served, nodes []demo.Node, asleep []string) {
	fmt.Fprintf(w, "A control plane and its router serve %s at %s, from four simulated machines of eight cards:\n\n", strings.Join(s.Models, ", "), s.BaseURL)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NODE\tFABRIC\tRUNS\tAGENT")
	for _, n := range nodes {
		runs := strings.Join(n.Shards, ", ")
		if runs == "" {
			runs = "-"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", n.ID, n.Fabric, runs, n.Agent)
	}
	_ = t.Flush() // fails only if nobody reads
	auth := ""
	if s.APIKey != "" {
		auth = " -H 'Authorization: Bearer " + s.APIKey + "'"
	}
	fmt.Fprintf(w, "\nAsk each model:\n\n")
	for _, model := range s.Models {
		fmt.Fprintf(w, "curl -N %s/v1/chat/completions%s -H 'Content-Type: application/json' -d '{\"model\": \"%s\", \"stream\": true, \"max_tokens\": 20, \"messages\": [{\"role\": \"user\", \"content\": \"Hello\"}]}'\n", s.BaseURL, auth, model)
	}
	if len(asleep) > 0 {
		fmt.Fprintf(w, "\n%s is asleep and begins when it is asked for; llmgw ctl models --watch --admin %s shows it come and, two minutes after its last use, go.\n", strings.Join(asleep, ", "), s.AdminURL)
	}
	first := nodes[slices.IndexFunc(nodes, func(n demo.Node) bool { return len(n.Shards) > 0 })] // there are models
	fmt.Fprintf(w, `
See the machines, empty one, and take it back:

llmgw ctl nodes --admin %[1]s
llmgw ctl drain %[2]s --admin %[1]s
llmgw ctl uncordon %[2]s --admin %[1]s

Kill an agent: its engines go on, and its node is unreachable after 4 s. The next agent takes them up:

kill -9 %[3]s
llmgw agent -c %[4]s

In a browser: %[5]s/ is what people see, %[1]s/ the console of who runs it.

Ctrl-C ends all of it, but for an agent that you started.
`, s.AdminURL, first.ID, first.Agent, first.Config, s.BaseURL)
}

// dialable is an address that a client on this machine can dial.
func dialable(address string) string { return server.Dialable(address) }
