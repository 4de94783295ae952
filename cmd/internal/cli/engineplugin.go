package cli

import (
	"context"

	"github.com/llmgw/llmgw/cmd/internal/app"
	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/plugin"
)

// enginePluginCmd is app.EnginePlugin, with which the binary starts itself as an
// engine adapter; nobody types it.
type enginePluginCmd struct {
	Name engines.Name `arg:"" help:"Engine whose adapter is to be run."`
}

// Run serves the adapter until its host is gone.
func (c *enginePluginCmd) Run(ctx context.Context) error {
	adapter, _, err := app.Adapter(ctx, app.Adapters(), c.Name)
	if err != nil {
		return err
	}
	plugin.Serve(adapter)
	return nil
}
