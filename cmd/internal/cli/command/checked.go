package command

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/llmgw/llmgw/placement/catalog/strictyaml"
)

// checked is the outcome of a check of a configuration.
type checked struct {
	File     string             `json:"file"`
	OK       bool               `json:"ok"`
	Faults   []strictyaml.Fault `json:"faults"`
	Warnings []string           `json:"warnings"`
}

// CheckedFile prints what came of reading a configuration, as a JSON object or for
// people and editors. Its error ends the command where there are faults, or the
// file could not be read.
func CheckedFile(streams Streams, file string, asJSON bool, err error, warnings []string) error {
	out := checked{File: file, OK: true, Faults: []strictyaml.Fault{}, Warnings: append([]string{}, warnings...)}
	if faults, ok := errors.AsType[strictyaml.Faults](err); ok {
		out.OK, out.Faults = false, faults
	} else if err != nil {
		return err
	}
	if asJSON {
		if err := json.NewEncoder(streams.Out).Encode(out); err != nil {
			return err
		}
	} else {
		out.print(streams)
	}
	if !out.OK {
		return ErrReported
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
	fmt.Fprintf(streams.Err, "llmgw: %s in %s\n", Count(len(c.Faults), "fault"), c.File)
}
