package cli

import "github.com/llmgw/llmgw/cmd/internal/cli/simserve"

type simCmd struct {
	Serve     simserve.Command `cmd:"" default:"withargs" help:"Serve one simulated engine that behaves like vLLM (the default)."`
	Calibrate calibrateCmd     `cmd:"" help:"Measure a real engine and print the file with which llmgw sim -c behaves like it."`
}
