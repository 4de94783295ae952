package cli

import (
	"context"

	agentcli "github.com/llmgw/llmgw/cmd/internal/cli/agent"
	"github.com/llmgw/llmgw/cmd/internal/cli/command"
	agentconfig "github.com/llmgw/llmgw/cmd/internal/config/agent"
	server "github.com/llmgw/llmgw/cmd/internal/config/server"
	"github.com/llmgw/llmgw/placement/catalog/strictyaml"
)

type configCmd struct {
	Check checkCmd `cmd:"" help:"Name every fault of a configuration, each with its line; exit code 1 if there is one."`
	Print printCmd `cmd:"" help:"Print the configuration in force: defaults, file and variables together, secrets replaced."`
}

// Whose configuration a file is.
const (
	ofAgent  = "agent"
	ofRouter = "router"
)

type checkCmd struct {
	For    string `enum:"server,router,agent" default:"server" help:"Whose configuration it is: server, router (a server with --role router) or agent."`
	Config string `short:"c" required:"" placeholder:"FILE" help:"Configuration to check, together with the LLMGW_ variables of this shell."`
	JSON   bool   `name:"json" help:"Print one JSON object."`
}

// Run checks a file.
func (c *checkCmd) Run(ctx context.Context, streams Streams) error {
	if c.For == ofAgent {
		return (&agentcli.CheckCommand{Config: c.Config, JSON: c.JSON}).Run(ctx, streams)
	}
	loaded, err := server.Load(c.Config, environ())
	if err == nil && c.For == ofRouter {
		err = loaded.UseAsRouter()
	}
	var warnings []string
	if err == nil {
		warnings = loaded.Warnings()
	}
	return command.CheckedFile(streams, c.Config, c.JSON, err, warnings)
}

type printCmd struct {
	For    string `enum:"server,agent" default:"server" help:"Whose configuration it is: server or agent."`
	Config string `short:"c" placeholder:"FILE" help:"Configuration; without it the defaults and the variables of this shell."`
}

// Run prints the configuration in force, or its faults.
func (c *printCmd) Run(streams Streams) error {
	if c.For == ofAgent {
		loaded, err := agentconfig.Load(c.Config, environ())
		if err != nil {
			return err
		}
		return strictyaml.Print(streams.Out, loaded.Config)
	}
	loaded, err := server.Load(c.Config, environ())
	if err != nil {
		return err
	}
	// To write agent_listen has an effect: what is printed is in force.
	return strictyaml.Print(streams.Out, loaded.WithControlPlane(loaded.AgentAddress()))
}
