package cli

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	simapp "github.com/llmgw/llmgw/cmd/internal/app/sim"
	"github.com/llmgw/llmgw/cmd/internal/config"
	"github.com/llmgw/llmgw/engines/sim"
)

// faultsHelp is what --faults=help prints, made from the comments of sim.Faults.
//
//go:generate go test -run TestSimReference . -update
//go:embed faults.txt
var faultsHelp string

type simCmd struct {
	Serve     simServeCmd  `cmd:"" default:"withargs" help:"Serve one simulated engine that behaves like vLLM (the default)."`
	Calibrate calibrateCmd `cmd:"" help:"Measure a real engine and print the file with which llmgw sim -c behaves like it."`
}

type simServeCmd struct {
	Listen       string  `help:"Address to serve; port 0 takes a free one." default:"127.0.0.1:8000"`
	Config       string  `short:"c" help:"YAML file with the engine's configuration; without it an 8B model on one H100-class card."`
	Model        string  `help:"Name of the model; overrides the file."`
	Speed        float64 `help:"How many times faster than the hardware it simulates; overrides the file."`
	Faults       string  `help:"Faults from the start, as in split_bytes=1;crlf=true; help lists them all."`
	FaultControl bool    `help:"Let clients cause faults by the header X-Sim-Faults and PUT /sim/faults."`
	KVEvents     string  `name:"kv-events" help:"Tell of the prefix cache at this endpoint, as in tcp://127.0.0.1:5557; the rest stands in the file."`
	JSON         bool    `name:"json" help:"Print one JSON line with base_url and models when it serves."`
}

// Run serves one engine until a signal.
func (c *simServeCmd) Run(ctx context.Context, streams Streams, log *slog.Logger) error {
	if c.Faults == "help" {
		_, err := io.WriteString(streams.Out, faultsHelp)
		return err
	}
	cfg := sim.DefaultConfig()
	source := config.Source{File: c.Config}
	if c.Config != "" {
		data, err := os.ReadFile(c.Config)
		if err != nil {
			return err
		}
		source.Data = data
	}
	if _, err := config.Load(&cfg, source); err != nil {
		return err
	}
	if c.Model != "" {
		cfg.Model = c.Model
	}
	if c.Speed != 0 {
		cfg.Speed = c.Speed
	}
	var err error
	if cfg.Faults, err = sim.ParseFaults(cfg.Faults, c.Faults); err != nil {
		return fmt.Errorf("--faults: %w; --faults=help explains them", err)
	}
	if c.KVEvents != "" {
		cfg.KVEvents.Enabled, cfg.KVEvents.Endpoint = true, c.KVEvents
	}
	cfg.FaultControl = cfg.FaultControl || c.FaultControl
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	return simapp.Run(ctx, simapp.Options{
		Listen: c.Listen, Config: cfg, Logger: log,
		Ready: func(addr string) {
			at := served{BaseURL: "http://" + addr, Models: append([]string{cfg.Model}, cfg.Aliases...)}
			if c.JSON {
				at.writeJSON(streams.Out)
				return
			}
			fmt.Fprintf(streams.Out, "A simulated engine serves %s at %s\n", cfg.Model, at.BaseURL)
		},
	})
}
