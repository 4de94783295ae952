package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/llmgw/llmgw/cmd/internal/app"
	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/flagcheck"
	"github.com/llmgw/llmgw/engines/flagcheck/ask"
	"github.com/llmgw/llmgw/engines/plugin"
)

// exitUnchecked is the code of engine-check where it found no missing flag and
// could not check everything.
const exitUnchecked = 2

// mostHelp bounds a file with a help text.
const mostHelp = 16 << 20

type engineCheckCmd struct {
	Adapter       string        `arg:"" help:"Engine whose adapter is checked, such as vllm or llamacpp."`
	Exe           []string      `name:"exe" sep:"none" placeholder:"PATH" help:"Executable of an installed engine; may be repeated, to compare versions. Without it the adapter's own name in PATH."`
	HelpFile      []string      `name:"help-file" sep:"none" placeholder:"FILE" help:"File with the engine's help text, in place of an executable; may be repeated."`
	AdapterDir    string        `name:"adapter-dir" placeholder:"DIR" help:"Folder with adapters that llmgw is not built with, programs named llmgw-adapter-NAME. One there goes before one built in."`
	EngineVersion string        `name:"engine-version" placeholder:"VERSION" help:"Version of the engine that the files are of, since they do not say."`
	Check         string        `placeholder:"NAME" help:"Only the check of this name, of an adapter that has several. Files are of the first one without it."`
	Timeout       time.Duration `help:"Bound of one run of an executable. Default: the adapter's own, which allows for engines that load GPU libraries."`
	JSON          bool          `name:"json" help:"Print one JSON object."`
}

// Validate makes what cannot be a matter of usage.
func (c *engineCheckCmd) Validate() error {
	if c.Timeout < 0 {
		return fmt.Errorf("--timeout: %v is less than 0", c.Timeout)
	}
	// A variable of the shell that is not set.
	if slices.Contains(c.Exe, "") {
		return errors.New("--exe: is empty; give the path of the installed engine")
	}
	if slices.Contains(c.HelpFile, "") {
		return errors.New("--help-file: is empty; give a file with what the engine prints as its help")
	}
	if c.EngineVersion != "" && len(c.HelpFile) == 0 {
		return errors.New("--engine-version: an executable is asked for its version; this is for --help-file")
	}
	return nil
}

// Run holds the widest command of an adapter against the help of engines.
func (c *engineCheckCmd) Run(ctx context.Context, streams Streams) error {
	if c.AdapterDir == "" {
		return c.run(ctx, streams, app.Adapters())
	}
	cfg := plugin.DefaultConfig()
	var err error
	if cfg.Dir, err = filepath.Abs(c.AdapterDir); err != nil {
		return err
	}
	host, err := plugin.New(cfg, plugin.Deps{})
	if err != nil {
		return err
	}
	adapter, err := host.Adapter(engines.Name(c.Adapter))
	if errors.Is(err, plugin.ErrUnknown) {
		builtin, _, missing := app.Adapter(ctx, app.Adapters(), engines.Name(c.Adapter))
		if missing == nil {
			return c.run(ctx, streams, []engines.Adapter{builtin})
		}
		err = fmt.Errorf("%w; nor is it built in: %w", err, missing)
	}
	if err != nil {
		return coded(fmt.Errorf("ctl engine-check: %w", err), exitUnchecked)
	}
	hosted, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { _ = host.Run(hosted) }) // nil
	defer running.Wait()
	defer stop()
	return c.run(ctx, streams, []engines.Adapter{adapter})
}

func (c *engineCheckCmd) run(ctx context.Context, streams Streams, adapters []engines.Adapter) error {
	adapter, d, err := app.Adapter(ctx, adapters, engines.Name(c.Adapter))
	if err != nil {
		if c.AdapterDir == "" {
			err = fmt.Errorf("%w; --adapter-dir names the folder of those that are not built in", err)
		}
		return coded(fmt.Errorf("ctl engine-check: %w", err), exitUnchecked)
	}
	checks, err := c.checks(ctx, adapter)
	if err != nil {
		return coded(fmt.Errorf("ctl engine-check: %w", err), exitUnchecked)
	}
	out := engineCheck{Adapter: d.Engine, Tested: d.Tested}
	for _, name := range c.HelpFile {
		out.Results = append(out.Results, c.file(name, checks[0]))
	}
	for _, check := range checks {
		for _, exe := range c.executables(check, checks[0]) {
			out.Results = append(out.Results, c.executable(ctx, exe, check))
		}
	}
	if err := out.write(streams.Out, c.JSON); err != nil {
		return err
	}
	return out.verdict()
}

// checks are those that are asked for, at least one.
func (c *engineCheckCmd) checks(ctx context.Context, adapter engines.Adapter) ([]engines.Check, error) {
	all, err := adapter.Checks(ctx)
	if err != nil {
		return nil, err
	}
	checks, names := []engines.Check{}, []string{}
	for _, check := range all {
		names = append(names, check.Name)
		if c.Check == "" || c.Check == check.Name {
			checks = append(checks, check)
		}
	}
	if len(checks) == 0 {
		return nil, fmt.Errorf("the adapter has no check %q; there are %q", c.Check, names)
	}
	return checks, nil
}

// executables are what a check is held against. Those that were named are the
// engine's, the executable of the first check; others, such as Ray beside vLLM,
// are looked for in the same folder first.
func (c *engineCheckCmd) executables(check, first engines.Check) []string {
	own := check.Command.Executable
	if len(c.Exe) == 0 {
		if len(c.HelpFile) > 0 {
			return nil
		}
		return []string{own}
	}
	if own == first.Command.Executable {
		return c.Exe
	}
	var out []string
	for _, exe := range c.Exe {
		beside := filepath.Join(filepath.Dir(exe), own)
		if _, err := os.Stat(beside); err != nil {
			beside = own
		}
		if !slices.Contains(out, beside) {
			out = append(out, beside)
		}
	}
	return out
}

func (c *engineCheckCmd) file(name string, check engines.Check) engineCheckResult {
	r := engineCheckResult{From: name}
	r.Check = check.Name
	text, err := readHelp(name)
	if err != nil {
		r.Error = fmt.Sprintf("%v; give a file with what the engine prints with %s", err, strings.Join(check.HelpArgs, " "))
		return r
	}
	help := flagcheck.Parse(text)
	if len(help.Flags()) == 0 && len(check.Variables) == 0 {
		r.Error = fmt.Sprintf("%s: it has no flag; save what the engine prints with %s", name, strings.Join(check.HelpArgs, " "))
		return r
	}
	r.Report = hold(check, help, c.EngineVersion)
	return r
}

func readHelp(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, mostHelp))
	return string(data), err
}

func (c *engineCheckCmd) executable(ctx context.Context, exe string, check engines.Check) engineCheckResult {
	r := engineCheckResult{From: exe}
	r.Check = check.Name
	answer, err := ask.Check(ctx, check, exe, ask.Config{Timeout: c.Timeout, Environ: environ()})
	if err != nil {
		r.Error = err.Error()
		return r
	}
	r.From = answer.Executable
	r.Report = hold(check, answer.Help, answer.Version)
	return r
}

// hold is flagcheck.Check, and doubts a text in which nothing is known, which is more likely another
// program's than one of a version that has renamed everything.
func hold(check engines.Check, help flagcheck.Help, version string) flagcheck.Report {
	r := flagcheck.Check(check, help, version)
	if r.Known == 0 && !r.OK() {
		r.Warnings = append(r.Warnings, fmt.Sprintf("the help knows nothing of what the adapter uses: is it that of %s?", check.Command.Executable))
	}
	return r
}

// engineCheck is what the command prints.
type engineCheck struct {
	Adapter engines.Name        `json:"adapter"`
	Tested  []string            `json:"tested,omitempty"`
	Results []engineCheckResult `json:"results"`
}

// engineCheckResult is one check against one executable or file.
type engineCheckResult struct {
	// From is the executable or the file.
	From string `json:"from"`
	flagcheck.Report
	// Error says why it could not be checked.
	Error string `json:"error,omitempty"`
}

func (e engineCheck) write(w io.Writer, asJSON bool) error {
	if asJSON {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(e)
	}
	for i, r := range e.Results {
		if i > 0 {
			fmt.Fprintln(w)
		}
		e.writeResult(printable{w}, r)
	}
	return nil
}

func (e engineCheck) writeResult(w io.Writer, r engineCheckResult) {
	if r.Error != "" {
		fmt.Fprintf(w, "%s %s: %s\n  not checked  %s\n", e.Adapter, r.Check, r.From, strings.ReplaceAll(r.Error, "\n", "\n  "))
		return
	}
	version := "version not known"
	if r.Version != "" {
		version = "version " + r.Version
	}
	fmt.Fprintf(w, "%s %s: %s, %s, %s of help\n", e.Adapter, r.Check, r.From, version, count(r.HelpLines, "line"))
	for _, m := range r.Missing {
		fmt.Fprintf(w, "  missing  %s\n", m.String())
	}
	for _, s := range r.Skipped {
		fmt.Fprintf(w, "  skipped  %s, which is there since %s\n", s.Name, s.Since)
	}
	for _, warning := range r.Warnings {
		fmt.Fprintf(w, "  warning  %s\n", warning)
	}
	if r.OK() {
		fmt.Fprintf(w, "  the engine knows all %d flags and variables that the adapter may use\n", r.Known)
	}
}

// verdict is the command's end: missing flags before what could not be checked.
func (e engineCheck) verdict() error {
	missing, unchecked := 0, 0
	for _, r := range e.Results {
		missing += len(r.Missing)
		if r.Error != "" {
			unchecked++
		}
	}
	switch {
	case missing > 0:
		other := "another version of the engine"
		if len(e.Tested) > 0 {
			other = "a version that the adapter was tested with (" + strings.Join(e.Tested, ", ") + ")"
		}
		return coded(fmt.Errorf("ctl engine-check: the engine does not know %s: it would not start with them. Use %s, or mend the adapter", count(missing, "flag"), other), exitFailed)
	case unchecked > 0:
		return coded(fmt.Errorf("ctl engine-check: %d of %s could not be made", unchecked, count(len(e.Results), "check")), exitUnchecked)
	}
	return nil
}
