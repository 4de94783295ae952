package app

import (
	"context"
	"fmt"
	"os"
	"runtime"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/plugin"
)

// EnginePlugin is the hidden command with which the binary starts itself as an
// adapter; the adapter's name follows.
const EnginePlugin = "engine-plugin"

// Programs returns how a host of plugins starts adapters that are built in: this
// executable again, as it is even after another was installed in its place.
func Programs(ctx context.Context, adapters []engines.Adapter) ([]plugin.Program, error) {
	self := "/proc/self/exe"
	if runtime.GOOS != "linux" {
		var err error
		if self, err = os.Executable(); err != nil {
			return nil, err
		}
	}
	programs := make([]plugin.Program, len(adapters))
	for i, a := range adapters {
		d, err := a.Describe(ctx)
		if err != nil {
			return nil, fmt.Errorf("a built-in adapter: %w", err)
		}
		programs[i] = plugin.Program{Name: string(d.Engine), Path: self, Args: []string{EnginePlugin, string(d.Engine)}}
	}
	return programs, nil
}
