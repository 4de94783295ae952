package app_test

import (
	"slices"
	"testing"

	"github.com/llmgw/llmgw/cmd/internal/app"
	"github.com/llmgw/llmgw/engines/plugin"
)

// A host takes all adapters that are built in, and each is found by the name with
// which it is started.
func TestPrograms(t *testing.T) {
	adapters := app.Adapters()
	programs, err := app.Programs(t.Context(), adapters)
	if err != nil || len(programs) != len(adapters) {
		t.Fatalf("%d programs of %d adapters: %v", len(programs), len(adapters), err)
	}
	if _, err := plugin.New(plugin.DefaultConfig(), plugin.Deps{Builtin: programs}); err != nil {
		t.Error(err)
	}
	for i, p := range programs {
		if d, err := adapters[i].Describe(t.Context()); err != nil || !slices.Equal(p.Args, []string{app.EnginePlugin, string(d.Engine)}) {
			t.Errorf("%s is started with %v: %v", d.Engine, p.Args, err)
		}
	}
}
