// Command llmgw-agent is the agent of a node alone: what `llmgw agent` does, without
// the rest of llmgw.
package main

import (
	"context"
	"os"

	"github.com/llmgw/llmgw/cmd/internal/cli/agent"
	"github.com/llmgw/llmgw/cmd/internal/cli/command"
)

func main() {
	os.Exit(agent.Main(context.Background(), os.Args[1:], command.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}))
}
