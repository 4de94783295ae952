// Package cli is the command line of llmgw: one struct per command, each with
// its flags and a Run method. Package command says how it is parsed and ends.
package cli

import (
	"context"
	"os"

	"github.com/alecthomas/kong"

	agentcli "github.com/llmgw/llmgw/cmd/internal/cli/agent"
	"github.com/llmgw/llmgw/cmd/internal/cli/command"
)

// Exit codes that commands of several files use.
const exitFailed = command.ExitFailed

// Streams are where a command reads and writes.
type Streams = command.Streams

// coded gives an error the exit code that its command defines.
func coded(err error, code int) error { return command.Coded{Err: err, Code: code} }

// errReported ends a command that has said itself what failed.
var errReported = command.ErrReported

// root is the commands of the binary.
type root struct {
	Agent    agentcli.Command `cmd:"" help:"Run the agent of this node: start engines as a control plane orders."`
	Server   serverCmd        `cmd:"" help:"Serve an OpenAI-compatible API over the engines that a file names."`
	Demo     demoCmd          `cmd:"" help:"Serve a router and three simulated engines, or a fleet of simulated machines; nothing to configure."`
	Sim      simCmd           `cmd:"" help:"Serve one simulated engine that behaves like vLLM."`
	Bench    benchCmd         `cmd:"" help:"Send load to any OpenAI endpoint and say what came of it."`
	Simulate simulateCmd      `cmd:"" help:"Run a trace on simulated engines in virtual time and compare routing policies."`
	Replay   replayCmd        `cmd:"" help:"Make the decisions of a flight recorder's log again, or ask other policies about them."`
	Keys     keysCmd          `cmd:"" help:"Make, show, replace and end the keys of clients."`
	Users    usersCmd         `cmd:"" help:"Show those who sign in on the pages, let them in and keep them out."`
	Usage    usageCmd         `cmd:"" help:"Say what was used, by day, key and model, or export a row a request."`
	Audit    auditCmd         `cmd:"" help:"Say who changed which keys and users, and what operators wanted of which nodes."`
	Store    storeCmd         `cmd:"" help:"Back up, restore, check and migrate the store of keys and usage."`
	Ctl      ctlCmd           `cmd:"" help:"Ask a running server; make and check certificates; check engines."`
	Config   configCmd        `cmd:"" help:"Check or print the configuration of the server or the agent."`
	Version  versionCmd       `cmd:"" help:"Print what this binary was built from."`

	DemoMachines demoMachinesCmd        `cmd:"" hidden:"" help:"Keep the machines of a demo's fleet until standard input ends."`
	EnginePlugin agentcli.PluginCommand `cmd:"" hidden:"" help:"Run a built-in engine adapter for the host that starts it."`

	VersionFlag kong.VersionFlag `name:"version" help:"The same as the command version."`
}

// Main runs the command that args name and returns the exit code. ctx ends it
// in good order, as SIGTERM does.
func Main(ctx context.Context, args []string, streams Streams) (code int) {
	return command.Program{
		Name:        "llmgw",
		Description: "One OpenAI-compatible service over a pile of inference engines.",
		Commands:    new(root),
	}.Main(ctx, args, streams)
}

func count(n int, thing string) string { return command.Count(n, thing) }

// environ is the variables of the process; tests set them as a shell would.
func environ() []string { return os.Environ() }
