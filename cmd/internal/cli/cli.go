// Package cli is the command line of llmgw: one struct per command, each with
// its flags and a Run method.
//
// Exit codes: 0 done, 1 failed, 80 wrong usage; a command may define more. What
// is asked for goes to standard output, everything else to standard error.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"

	"github.com/alecthomas/kong"

	"github.com/llmgw/llmgw/cmd/internal/app"
	"github.com/llmgw/llmgw/cmd/internal/config"
)

// Exit codes.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 80 // kong's own
)

// Streams are where a command reads and writes.
type Streams struct {
	In       io.Reader // nil: there is nothing to read
	Out, Err io.Writer
}

// root is the commands of the binary.
type root struct {
	Server   serverCmd   `cmd:"" help:"Serve an OpenAI-compatible API over the engines that a file names."`
	Demo     demoCmd     `cmd:"" help:"Serve a router and three simulated engines from this process; nothing to configure."`
	Sim      simCmd      `cmd:"" help:"Serve one simulated engine that behaves like vLLM."`
	Bench    benchCmd    `cmd:"" help:"Send load to any OpenAI endpoint and say what came of it."`
	Simulate simulateCmd `cmd:"" help:"Run a trace on simulated engines in virtual time and compare routing policies."`
	Replay   replayCmd   `cmd:"" help:"Make the decisions of a flight recorder's log again, or ask other policies about them."`
	Keys     keysCmd     `cmd:"" help:"Make, show, replace and end the keys of clients."`
	Usage    usageCmd    `cmd:"" help:"Say what was used, by day, key and model, or export a row a request."`
	Store    storeCmd    `cmd:"" help:"Back up, restore, check and migrate the store of keys and usage."`
	Ctl      ctlCmd      `cmd:"" help:"Ask a running server."`
	Config   configCmd   `cmd:"" help:"Check or print the configuration of the server."`
	Version  versionCmd  `cmd:"" help:"Print what this binary was built from."`

	EnginePlugin enginePluginCmd `cmd:"" hidden:"" help:"Run a built-in engine adapter for the host that starts it."`

	VersionFlag kong.VersionFlag `name:"version" help:"The same as the command version."`
}

// exitRequest carries the code with which kong wants to end, after --help, to
// Main, which alone returns one.
type exitRequest int

// Main runs the command that args name and returns the exit code. ctx ends it
// in good order, as SIGTERM does.
func Main(ctx context.Context, args []string, streams Streams) (code int) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case exitRequest:
			code = int(r)
		default:
			panic(r)
		}
	}()
	var commands root
	parser, err := kong.New(&commands,
		kong.Name("llmgw"),
		kong.Description("One OpenAI-compatible service over a pile of inference engines."),
		kong.Writers(streams.Out, streams.Err),
		kong.Exit(func(code int) { panic(exitRequest(code)) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.Help(printHelp),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Vars{"version": app.ReadVersion().String()},
		kong.Bind(streams, slog.New(slog.NewTextHandler(streams.Err, nil))),
	)
	if err != nil {
		panic(err) // the structs above are wrong
	}
	if len(args) > 0 && args[0] == "help" {
		args = append(slices.Clone(args[1:]), "--help")
	}
	command, err := parser.Parse(args)
	if err != nil {
		fmt.Fprintf(streams.Err, "llmgw: %v\nSee %s --help.\n", err, meant(err))
		return exitUsage
	}
	if err := command.Run(); err != nil {
		report(streams.Err, err)
		if c, ok := errors.AsType[coded](err); ok {
			return c.code
		}
		return exitFailed
	}
	return exitDone
}

// meant is the command that an error of the parser is about, as it is called.
func meant(err error) string {
	if e, ok := errors.AsType[*kong.ParseError](err); ok && e.Context != nil {
		if node := e.Context.Selected(); node != nil {
			return node.FullPath()
		}
	}
	return "llmgw"
}

// printHelp shows a command that has a default one, such as sim, with the flags
// of that, since it takes them: kong itself keeps quiet about them.
func printHelp(options kong.HelpOptions, ctx *kong.Context) error {
	if node := ctx.Selected(); node != nil && node.DefaultCmd != nil {
		node.Flags = append(slices.Clone(node.Flags), node.DefaultCmd.Flags...)
	}
	return kong.DefaultHelpPrinter(options, ctx)
}

// coded is an error with an exit code that its command defines.
type coded struct {
	error
	code int
}

// Unwrap returns the error without its code.
func (c coded) Unwrap() error { return c.error }

// errReported ends a command that has said itself what failed.
var errReported = errors.New("cli: failed")

// report says what failed: faults of a configuration one a line, so that an
// editor finds them.
func report(w io.Writer, err error) {
	if errors.Is(err, errReported) {
		return
	}
	if faults, ok := errors.AsType[config.Faults](err); ok {
		fmt.Fprintf(w, "%v\nllmgw: %s in the configuration; nothing was started\n", faults, count(len(faults), "fault"))
		return
	}
	fmt.Fprintf(w, "llmgw: %v\n", err)
}

func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// environ is the variables of the process; tests set them as a shell would.
func environ() []string { return os.Environ() }
