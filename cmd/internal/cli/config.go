package cli

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/llmgw/llmgw/cmd/internal/config"
	server "github.com/llmgw/llmgw/cmd/internal/config/server"
)

type configCmd struct {
	Check checkCmd `cmd:"" help:"Name every fault of a configuration, each with its line; exit code 1 if there is one."`
	Print printCmd `cmd:"" help:"Print the configuration in force: defaults, file and variables together, secrets replaced."`
}

type checkCmd struct {
	Config string `short:"c" required:"" placeholder:"FILE" help:"Configuration to check, together with the LLMGW_ variables of this shell."`
	JSON   bool   `name:"json" help:"Print one JSON object."`
}

// checked is the outcome of a check.
type checked struct {
	File     string         `json:"file"`
	OK       bool           `json:"ok"`
	Faults   []config.Fault `json:"faults"`
	Warnings []string       `json:"warnings"`
}

// Run checks a file.
func (c *checkCmd) Run(streams Streams) error {
	out := checked{File: c.Config, OK: true, Faults: []config.Fault{}, Warnings: []string{}}
	loaded, err := server.Load(c.Config, environ())
	if faults, ok := errors.AsType[config.Faults](err); ok {
		out.OK, out.Faults = false, faults
	} else if err != nil {
		return err
	} else {
		out.Warnings = append(out.Warnings, loaded.Warnings()...)
	}
	if c.JSON {
		if err := json.NewEncoder(streams.Out).Encode(out); err != nil {
			return err
		}
	} else {
		out.print(streams)
	}
	if !out.OK {
		return errReported
	}
	return nil
}

func (c checked) print(streams Streams) {
	for _, w := range c.Warnings {
		fmt.Fprintf(streams.Err, "warning: %s\n", w)
	}
	if c.OK {
		fmt.Fprintf(streams.Out, "%s: ok\n", c.File)
		return
	}
	for _, f := range c.Faults {
		fmt.Fprintln(streams.Err, f)
	}
	fmt.Fprintf(streams.Err, "llmgw: %s in %s\n", count(len(c.Faults), "fault"), c.File)
}

type printCmd struct {
	Config string `short:"c" placeholder:"FILE" help:"Configuration; without it the defaults and the variables of this shell."`
}

// Run prints the configuration in force, or its faults.
func (c *printCmd) Run(streams Streams) error {
	loaded, err := server.Load(c.Config, environ())
	if err != nil {
		return err
	}
	return config.Print(streams.Out, loaded.Config)
}
