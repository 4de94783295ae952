// Command llmgw is a router, and in time the rest of a fleet, in one binary.
// Run `llmgw demo` for one that needs no configuration and no GPU.
package main

import (
	"context"
	"os"
	_ "time/tzdata" // the zones of budgets, wherever the binary runs

	"github.com/llmgw/llmgw/cmd/internal/cli"
)

func main() {
	os.Exit(cli.Main(context.Background(), os.Args[1:], cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}))
}
