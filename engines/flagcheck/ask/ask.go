// Package ask runs an engine's executable for its help text and its version,
// which needs no model, and a GPU only where an engine does not print its help
// without one: what [flagcheck] then judges. Such a run is bounded in time and
// output and starts with a wide terminal without colours, for narrow ones cut
// names off. It leaves no process behind, on Linux not even a daemon, unless that
// has cleared its environment as well.
package ask

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/flagcheck"
)

// The classes of an [*Error].
var (
	// ErrMissing: there is no such executable, or it cannot be started.
	ErrMissing = errors.New("ask: no such executable")
	// ErrTimeout: it did not end in time, and was killed with all it started.
	ErrTimeout = errors.New("ask: executable did not end in time")
	// ErrNoHelp: it ended, and what it printed is no help text.
	ErrNoHelp = errors.New("ask: executable printed no help")
)

// Error says why an executable could not be asked. It unwraps to its class.
type Error struct {
	Class error
	// Command is what was run.
	Command []string
	// Problem says what happened, Advice what to do.
	Problem, Advice string
	// Output are the last lines that it printed, at most ten.
	Output []string
}

// Error returns what was run, what happened and what to do, and below it the
// last lines of output.
func (e *Error) Error() string {
	text := fmt.Sprintf("%s: %s; %s", strings.Join(e.Command, " "), e.Problem, e.Advice)
	return strings.Join(append([]string{text}, e.Output...), "\n    | ")
}

// Unwrap returns the class.
func (e *Error) Unwrap() error { return e.Class }

// Config says how executables are run.
type Config struct {
	// Timeout bounds one run; 0: the check's own.
	Timeout time.Duration
	// Environ are the variables of a run, as "NAME=value". Those that the check's
	// command unsets are left out, and those that make the terminal wide are set.
	Environ []string
}

// Answer is what an executable said.
type Answer struct {
	// Executable is its absolute path.
	Executable string
	Help       flagcheck.Help
	// Version is empty if it did not say.
	Version string
}

const (
	mostOutput  = 1 << 20 // bytes of one stream; a help text has some 100 KiB
	mostLines   = 10      // of an error
	longestLine = 300     // bytes of one of them
	leaving     = 2 * time.Second
)

// Check asks an executable, a path or a name in PATH, for what a check needs. An
// executable that tells its help and no version is no error. Every error is an
// [*Error], or ctx's.
func Check(ctx context.Context, c engines.Check, executable string, cfg Config) (Answer, error) {
	path, err := find(executable)
	if err != nil {
		return Answer{}, err
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = c.Timeout
	}
	a := Answer{Executable: path}
	help, err := run(ctx, c, append([]string{path}, c.HelpArgs...), cfg)
	if err != nil {
		return a, err
	}
	if help.failed != "" {
		return a, help.error(ErrNoHelp, help.failed, "run it by hand, and mend the installation, or ask on a machine that has the cards which it is built for: an engine that cannot print its help does not start either")
	}
	a.Help = flagcheck.Parse(help.out)
	if a.Help.Lines == 0 || len(a.Help.Flags()) == 0 && len(c.Variables) == 0 {
		a.Help = flagcheck.Parse(help.err)
	}
	if a.Help.Lines == 0 || len(a.Help.Flags()) == 0 && len(c.Variables) == 0 {
		return a, help.error(ErrNoHelp, "it printed no flag", "make sure that this is the engine's executable")
	}
	if len(c.VersionArgs) == 0 {
		return a, nil
	}
	version, err := run(ctx, c, append([]string{path}, c.VersionArgs...), cfg)
	if err != nil {
		return a, err
	}
	a.Version = flagcheck.Version(version.out, version.err)
	return a, nil
}

// find returns the absolute path of an executable.
func find(executable string) (string, error) {
	path, err := exec.LookPath(executable)
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err == nil {
		return path, nil
	}
	e := &Error{Class: ErrMissing, Command: []string{executable}, Problem: err.Error(), Advice: "give the path of the installed engine, which the user who asks can start"}
	if lookup, ok := errors.AsType[*exec.Error](err); ok {
		e.Problem = lookup.Err.Error()
	}
	if about, ok := errors.AsType[*fs.PathError](err); ok {
		e.Problem = about.Err.Error() // the path is the command
	}
	if errors.Is(err, fs.ErrPermission) {
		e.Advice = "make the file executable for the user who asks"
	}
	return "", e
}

// output is what one run printed, and how it failed, if it did.
type output struct {
	command  []string
	out, err string
	failed   string
}

func (o output) error(class error, problem, advice string) error {
	text := o.err
	if strings.TrimSpace(text) == "" {
		text = o.out
	}
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if lines[0] == "" {
		lines = nil
	}
	lines = lines[max(0, len(lines)-mostLines):]
	for i, line := range lines {
		lines[i] = printable(line)
	}
	return &Error{Class: class, Command: o.command, Problem: problem, Advice: advice, Output: lines}
}

// printable is a line without what a terminal would obey, and the beginning of one
// that is long.
func printable(line string) string {
	line = strings.ToValidUTF8(line[:min(len(line), longestLine)], "\uFFFD")
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return ' '
		case unicode.IsControl(r):
			return -1
		}
		return r
	}, line)
}

// run starts a command and waits for its end.
func run(ctx context.Context, c engines.Check, command []string, cfg Config) (output, error) {
	bounded, cancel := context.WithTimeout(ctx, cfg.Timeout)
	defer cancel()
	cmd := exec.CommandContext(bounded, command[0], command[1:]...)
	var out, errs limited
	cmd.Stdout, cmd.Stderr = &out, &errs
	mark := "LLMGW_ASK=" + rand.Text()
	cmd.Env = append(environ(cfg.Environ, c.Command.Unset), mark)
	// Python looks for modules where it is started: not among those of whoever
	// asks.
	cmd.Dir = "/"
	cmd.WaitDelay = leaving
	ownGroup(cmd)
	err := cmd.Run()
	if errors.Is(err, exec.ErrWaitDelay) {
		endGroup(cmd)
	}
	endMarked(mark)
	o := output{command: command, out: out.String(), err: errs.String()}
	switch {
	case ctx.Err() != nil:
		return o, fmt.Errorf("%s: %w", strings.Join(command, " "), context.Cause(ctx))
	case bounded.Err() != nil:
		return o, o.error(ErrTimeout, fmt.Sprintf("it did not end within %v", cfg.Timeout), "give it more time: engines that load GPU libraries take tens of seconds the first time")
	case cmd.ProcessState == nil && err != nil:
		return o, o.error(ErrMissing, err.Error(), "make sure that it is a program for this machine")
	case err != nil && !errors.Is(err, exec.ErrWaitDelay):
		o.failed = "it failed: " + err.Error()
	}
	return o, nil
}

// wide are the variables by which programs know their terminal.
func wide() []string {
	return []string{"COLUMNS=200", "TERMINAL_WIDTH=200", "LINES=1000", "TERM=dumb", "NO_COLOR=1", "PAGER=cat"}
}

func environ(env, unset []string) []string {
	out := slices.DeleteFunc(slices.Clone(env), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains(unset, name)
	})
	return append(out, wide()...)
}

// limited keeps the first bytes of what is written, and takes all of it.
type limited struct{ bytes.Buffer }

func (l *limited) Write(p []byte) (int, error) {
	if room := mostOutput - l.Len(); room > 0 {
		l.Buffer.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}
