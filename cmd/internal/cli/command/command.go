// Package command is what the binaries' command lines have in common: how they
// are parsed, what they write where, and how they end.
//
// Exit codes: 0 done, 1 failed, 80 wrong usage; a command may define more. What
// is asked for goes to standard output, everything else to standard error.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"

	"github.com/alecthomas/kong"

	"github.com/llmgw/llmgw/cmd/internal/app"
	"github.com/llmgw/llmgw/placement/catalog/strictyaml"
)

// Exit codes.
const (
	ExitDone   = 0
	ExitFailed = 1
	ExitUsage  = 80 // kong's own
)

// Streams are where a command reads and writes.
type Streams struct {
	In       io.Reader // nil: there is nothing to read
	Out, Err io.Writer
}

// Program is a binary's command line.
type Program struct {
	Name        string
	Description string
	// Commands is a pointer to the struct of its commands, each with its flags and a
	// Run method.
	Commands any
}

// exitRequest carries the code with which kong wants to end, after --help, to
// Main, which alone returns one.
type exitRequest int

// Main runs the command that args name and returns the exit code. ctx ends it
// in good order, as SIGTERM does.
func (p Program) Main(ctx context.Context, args []string, streams Streams) (code int) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case exitRequest:
			code = int(r)
		default:
			panic(r)
		}
	}()
	parser, err := kong.New(p.Commands,
		kong.Name(p.Name),
		kong.Description(p.Description),
		kong.Writers(streams.Out, streams.Err),
		kong.Exit(func(code int) { panic(exitRequest(code)) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.Help(printHelp),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Vars{"version": app.ReadVersion().String()},
		kong.Bind(streams, slog.New(slog.NewTextHandler(streams.Err, nil))),
	)
	if err != nil {
		panic(err) // the structs are wrong
	}
	if len(args) > 0 && args[0] == "help" {
		args = append(slices.Clone(args[1:]), "--help")
	}
	command, err := parser.Parse(args)
	if err != nil {
		fmt.Fprintf(streams.Err, "%s: %v\nSee %s --help.\n", p.Name, err, p.meant(err))
		return ExitUsage
	}
	if err := command.Run(); err != nil {
		p.report(streams.Err, err)
		if c, ok := errors.AsType[Coded](err); ok {
			return c.Code
		}
		return ExitFailed
	}
	return ExitDone
}

// meant is the command that an error of the parser is about, as it is called.
func (p Program) meant(err error) string {
	if e, ok := errors.AsType[*kong.ParseError](err); ok && e.Context != nil {
		if node := e.Context.Selected(); node != nil {
			return node.FullPath()
		}
	}
	return p.Name
}

// printHelp shows a command that has a default one, such as sim, with the flags
// of that, since it takes them: kong itself keeps quiet about them.
func printHelp(options kong.HelpOptions, ctx *kong.Context) error {
	if node := ctx.Selected(); node != nil && node.DefaultCmd != nil {
		node.Flags = append(slices.Clone(node.Flags), node.DefaultCmd.Flags...)
	}
	return kong.DefaultHelpPrinter(options, ctx)
}

// Coded is an error with an exit code that its command defines.
type Coded struct {
	Err  error
	Code int
}

// Error is that of Err.
func (c Coded) Error() string { return c.Err.Error() }

// Unwrap returns the error without its code.
func (c Coded) Unwrap() error { return c.Err }

// ErrReported ends a command that has said itself what failed.
var ErrReported = errors.New("cli: failed")

// report says what failed: faults of a configuration one a line, so that an
// editor finds them.
func (p Program) report(w io.Writer, err error) {
	if errors.Is(err, ErrReported) {
		return
	}
	if faults, ok := errors.AsType[strictyaml.Faults](err); ok {
		fmt.Fprintf(w, "%v\n%s: %s in the configuration; nothing was started\n", faults, p.Name, Count(len(faults), "fault"))
		return
	}
	fmt.Fprintf(w, "%s: %v\n", p.Name, err)
}

// Count is a number of things, for people.
func Count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
