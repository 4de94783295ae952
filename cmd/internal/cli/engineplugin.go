package cli

import (
	"github.com/llmgw/llmgw/cmd/internal/app/adapters"
	"github.com/llmgw/llmgw/engines"
)

// enginePluginCmd is how the binary starts itself as an engine adapter; nobody
// types it, and its name is that of adapters.Command.
type enginePluginCmd struct {
	Name engines.Name `arg:"" help:"Engine whose adapter is to be run."`
}

// Run serves the adapter until its host is gone.
func (c *enginePluginCmd) Run() error { return adapters.Serve(c.Name) }
