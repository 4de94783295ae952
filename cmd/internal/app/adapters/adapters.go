// Package adapters is the list of the engine adapters that are built in, and the
// role of the binary that runs one of them as a program of its own.
package adapters

import (
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/plugin"
)

// Command is the hidden command that runs a built-in adapter.
const Command = "engine-plugin"

// Builtin returns the adapters by their engines' names.
func Builtin() map[engines.Name]engines.Adapter {
	return map[engines.Name]engines.Adapter{}
}

// Programs returns how a host starts the built-in adapters: this executable again,
// as it is even after another was installed in its place.
func Programs() ([]plugin.Program, error) {
	self := "/proc/self/exe"
	if runtime.GOOS != "linux" {
		var err error
		if self, err = os.Executable(); err != nil {
			return nil, fmt.Errorf("adapters: %w", err)
		}
	}
	var programs []plugin.Program
	for _, name := range slices.Sorted(maps.Keys(Builtin())) {
		programs = append(programs, plugin.Program{Name: string(name), Path: self, Args: []string{Command, string(name)}})
	}
	return programs, nil
}

// Serve runs one built-in adapter until its host ends it.
func Serve(name engines.Name) error {
	adapter, ok := Builtin()[name]
	if !ok {
		return fmt.Errorf("no adapter %q is built in; there are %v", name, slices.Sorted(maps.Keys(Builtin())))
	}
	plugin.Serve(adapter)
	return nil
}
