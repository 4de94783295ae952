// Package agent is the commands of a node: `llmgw agent`, and the whole command
// line of llmgw-agent, which links no other command.
package agent

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"

	"github.com/alecthomas/kong"

	"github.com/llmgw/llmgw/cmd/internal/app"
	agentapp "github.com/llmgw/llmgw/cmd/internal/app/agent"
	"github.com/llmgw/llmgw/cmd/internal/cli/command"
	"github.com/llmgw/llmgw/cmd/internal/cli/simserve"
	agentconfig "github.com/llmgw/llmgw/cmd/internal/config/agent"
	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/plugin"
)

// Command runs the agent of a node.
type Command struct {
	Config string `short:"c" placeholder:"FILE" help:"Configuration, YAML; without it every key has its default, and the variables of this shell must say where the control plane is."`
}

// Run runs the agent until a signal.
func (c *Command) Run(ctx context.Context, streams command.Streams) error {
	loaded, err := agentconfig.Load(c.Config, os.Environ())
	if err != nil {
		return err
	}
	var level slog.LevelVar
	log := loaded.Log.Logger(streams.Err, &level)
	adapters := app.Adapters()
	for _, w := range append(loaded.Warnings, unheardOf(ctx, loaded.Config, adapters)...) {
		log.Warn("configuration", "warning", w)
	}
	return agentapp.Run(ctx, agentapp.Options{Config: loaded.Config, Adapters: adapters, Logger: log})
}

// unheardOf warns of engines that no adapter is for. With a directory of adapters
// nobody knows: one may be put there at any time.
func unheardOf(ctx context.Context, cfg agentconfig.Config, adapters []engines.Adapter) []string {
	if cfg.Plugins.Dir != "" {
		return nil
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(cfg.Agent.Engines)) {
		if _, _, err := app.Adapter(ctx, adapters, name); err != nil {
			out = append(out, fmt.Sprintf("engines.%s: %v, and plugins.dir names no directory of others; it cannot be started here", name, err))
		}
	}
	return out
}

// CheckCommand names the faults of an agent's configuration.
type CheckCommand struct {
	Config string `short:"c" required:"" placeholder:"FILE" help:"Configuration to check, together with the LLMGW_ variables of this shell."`
	JSON   bool   `name:"json" help:"Print one JSON object."`
}

// Run checks a file.
func (c *CheckCommand) Run(ctx context.Context, streams command.Streams) error {
	loaded, err := agentconfig.Load(c.Config, os.Environ())
	var warnings []string
	if err == nil {
		warnings = append(loaded.Warnings, unheardOf(ctx, loaded.Config, app.Adapters())...)
	}
	return command.CheckedFile(streams, c.Config, c.JSON, err, warnings)
}

// PluginCommand is how the binary starts itself as an engine adapter; nobody types
// it.
type PluginCommand struct {
	Name engines.Name `arg:"" help:"Engine whose adapter is to be run."`
}

// Run serves the adapter until its host is gone.
func (c *PluginCommand) Run(ctx context.Context) error {
	adapter, _, err := app.Adapter(ctx, app.Adapters(), c.Name)
	if err != nil {
		return err
	}
	plugin.Serve(adapter)
	return nil
}

// root is the commands of llmgw-agent.
type root struct {
	Run     Command      `cmd:"" default:"withargs" help:"Run the agent of this node (the default)."`
	Check   CheckCommand `cmd:"" help:"Name every fault of a configuration, each with its line; exit code 1 if there is one."`
	Version versionCmd   `cmd:"" help:"Print what this binary was built from."`

	// What the agent starts of itself: adapters, and simulated engines.
	EnginePlugin PluginCommand `cmd:"" hidden:"" help:"Run a built-in engine adapter for the host that starts it."`
	Sim          struct {
		Serve simserve.Command `cmd:"" default:"withargs" help:"Serve one simulated engine that behaves like vLLM."`
	} `cmd:"" hidden:"" help:"Serve one simulated engine."`

	VersionFlag kong.VersionFlag `name:"version" help:"The same as the command version."`
}

type versionCmd struct{}

// Run prints the version.
func (versionCmd) Run(streams command.Streams) error {
	_, err := fmt.Fprintln(streams.Out, app.ReadVersion())
	return err
}

// Main is the command line of llmgw-agent.
func Main(ctx context.Context, args []string, streams command.Streams) int {
	return command.Program{
		Name:        "llmgw-agent",
		Description: "The agent of a node: starts inference engines as a control plane orders.",
		Commands:    new(root),
	}.Main(ctx, args, streams)
}
