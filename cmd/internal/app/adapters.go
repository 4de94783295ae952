package app

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/infinity"
	"github.com/llmgw/llmgw/engines/llamacpp"
	"github.com/llmgw/llmgw/engines/ollama"
	"github.com/llmgw/llmgw/engines/sglang"
	"github.com/llmgw/llmgw/engines/sim"
	"github.com/llmgw/llmgw/engines/tei"
	"github.com/llmgw/llmgw/engines/tgi"
	"github.com/llmgw/llmgw/engines/vllm"
)

// Adapters returns the engine adapters that the binary is built with: the one
// place that lists them.
func Adapters() []engines.Adapter {
	return []engines.Adapter{
		infinity.Adapter{},
		llamacpp.Adapter{},
		ollama.Adapter{},
		sglang.Adapter{},
		sim.Adapter{Executable: self()},
		tei.Adapter{},
		tgi.Adapter{},
		vllm.Adapter{},
	}
}

// self is the path of this binary if it is llmgw or llmgw-agent, which have the
// simulated engine in them: a node needs no second file, and none in PATH.
func self() string {
	path, err := os.Executable()
	if err != nil || !slices.Contains([]string{"llmgw", "llmgw-agent"}, filepath.Base(path)) {
		return ""
	}
	return path
}

// Adapter returns the adapter of a name, or an error that lists those that there
// are.
func Adapter(ctx context.Context, adapters []engines.Adapter, name engines.Name) (engines.Adapter, engines.Description, error) {
	var names []string
	for _, a := range adapters {
		d, err := a.Describe(ctx)
		if err != nil {
			return nil, engines.Description{}, err
		}
		if d.Engine == name {
			return a, d, nil
		}
		names = append(names, string(d.Engine))
	}
	slices.Sort(names)
	return nil, engines.Description{}, fmt.Errorf("no adapter is called %q; there are %q", name, names)
}
