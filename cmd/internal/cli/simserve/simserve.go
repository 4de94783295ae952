// Package simserve is the command `sim serve`, which both binaries have: one
// process of a simulated engine.
package simserve

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	simapp "github.com/llmgw/llmgw/cmd/internal/app/sim"
	"github.com/llmgw/llmgw/cmd/internal/cli/command"
	"github.com/llmgw/llmgw/engines/sim"
	"github.com/llmgw/llmgw/engines/sim/gang"
	"github.com/llmgw/llmgw/placement/catalog/strictyaml"
)

// faultsHelp is what --faults=help prints, made from the comments of sim.Faults.
//
//go:generate go test -run TestSimReference .. -update
//go:embed faults.txt
var faultsHelp string

// Command serves one simulated engine.
type Command struct {
	Listen       string   `help:"Address to serve; port 0 takes a free one." default:"127.0.0.1:8000"`
	Config       string   `short:"c" help:"YAML file with the engine's configuration; without it an 8B model on one H100-class card."`
	Model        string   `help:"Name of the model; overrides the file."`
	Weights      string   `placeholder:"NAME" help:"What the log and the model cards say was loaded; nothing is read. Overrides the file."`
	Alias        []string `sep:"none" placeholder:"NAME" help:"A further name of the model; more than once for more. Overrides the file."`
	MaxModelLen  int      `help:"Most tokens of prompt and answer together; overrides the file."`
	MaxNumSeqs   int      `help:"Most sequences that run at once; overrides the file."`
	Policy       string   `name:"scheduling-policy" placeholder:"NAME" help:"Who runs next, fcfs or priority; overrides the file."`
	Speed        float64  `help:"How many times faster than the hardware it simulates; overrides the file."`
	Faults       string   `help:"Faults from the start, as in split_bytes=1;crlf=true; help lists them all."`
	FaultControl bool     `help:"Let clients cause faults by the header X-Sim-Faults and PUT /sim/faults."`
	KVEvents     string   `name:"kv-events" help:"Tell of the prefix cache at this endpoint, as in tcp://127.0.0.1:5557; the rest stands in the file."`
	JSON         bool     `name:"json" help:"Print one JSON line with base_url and models when it serves."`

	LoadTime        time.Duration `placeholder:"DURATION" help:"How long it takes until it serves; overrides the file."`
	SleepMode       bool          `name:"enable-sleep-mode" help:"Let it be put to sleep and woken by POST /sleep and /wake_up."`
	WakeTime        time.Duration `placeholder:"DURATION" help:"How long it takes to wake; overrides the file."`
	ShutdownTimeout time.Duration `placeholder:"DURATION" help:"How long answers may go on after SIGTERM; overrides the file."`

	Ranks      int           `help:"Processes of the engine, which answer as one: rank 0 serves when all others have joined." default:"1" group:"Several processes"`
	Rank       int           `help:"Number of this process, from 0. Others than 0 serve nothing." group:"Several processes"`
	Rendezvous string        `placeholder:"HOST:PORT" help:"Where the ranks meet: rank 0 listens there, the others dial it." group:"Several processes"`
	Replica    string        `help:"Name that the ranks must have in common." group:"Several processes"`
	Generation uint64        `help:"Number that the ranks must have in common." group:"Several processes"`
	Gathering  time.Duration `name:"rendezvous-timeout" help:"How long a rank waits for the others." default:"10m" group:"Several processes"`
}

// Help is what stands below the flags.
func (*Command) Help() string {
	return "The variable " + apiKeyVariable + " holds the key that is asked for under /v1, if it is set; it overrides the file."
}

// apiKeyVariable is a variable and no flag, since every user of a machine sees flags.
const apiKeyVariable = "LLMGW_SIM_API_KEY"

// Run serves one engine until a signal.
func (c *Command) Run(ctx context.Context, streams command.Streams, log *slog.Logger) error {
	if c.Faults == "help" {
		_, err := io.WriteString(streams.Out, faultsHelp)
		return err
	}
	cfg, err := c.engine()
	if err != nil {
		return err
	}
	member, err := c.member()
	if err != nil {
		return err
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	defer signal.Stop(signals)
	return simapp.Run(ctx, simapp.Options{
		Listen: c.Listen, Config: cfg, Gang: member, Signals: signals, Logger: log,
		Ready: func(addr string) { c.ready(streams.Out, cfg, addr) },
	})
}

// engine is the configuration: the file, and the flags over it.
func (c *Command) engine() (cfg sim.Config, err error) {
	cfg = sim.DefaultConfig()
	source := strictyaml.Source{File: c.Config}
	if c.Config != "" {
		if source.Data, err = os.ReadFile(c.Config); err != nil {
			return cfg, err
		}
	}
	if _, err := strictyaml.Load(&cfg, source); err != nil {
		return cfg, err
	}
	override(&cfg.Model, c.Model)
	override(&cfg.Weights, c.Weights)
	override(&cfg.MaxModelLen, c.MaxModelLen)
	override(&cfg.MaxNumSeqs, c.MaxNumSeqs)
	override(&cfg.SchedulingPolicy, c.Policy)
	override(&cfg.Speed, c.Speed)
	override(&cfg.LoadTime, c.LoadTime)
	override(&cfg.SleepMode, c.SleepMode)
	override(&cfg.WakeTime, c.WakeTime)
	override(&cfg.ShutdownTimeout, c.ShutdownTimeout)
	override(&cfg.APIKey, os.Getenv(apiKeyVariable))
	if len(c.Alias) > 0 {
		cfg.Aliases = c.Alias
	}
	if cfg.Faults, err = sim.ParseFaults(cfg.Faults, c.Faults); err != nil {
		return cfg, fmt.Errorf("--faults: %w; --faults=help explains them", err)
	}
	if c.KVEvents != "" {
		cfg.KVEvents.Enabled, cfg.KVEvents.Endpoint = true, c.KVEvents
	}
	cfg.FaultControl = cfg.FaultControl || c.FaultControl
	return cfg, nil
}

// override sets what is configured to a flag's value, if it has one.
func override[T comparable](configured *T, flag T) {
	var none T
	if flag != none {
		*configured = flag
	}
}

// member is which rank of which gang this process is.
func (c *Command) member() (g simapp.Gang, err error) {
	g = simapp.Gang{
		Member:     gang.Member{Replica: c.Replica, Generation: c.Generation, Ranks: c.Ranks, Rank: c.Rank},
		Rendezvous: c.Rendezvous, Timeout: c.Gathering,
	}
	switch {
	case c.Ranks < 1:
		return g, fmt.Errorf("--ranks: %d is too small; want 1 or more", c.Ranks)
	case c.Ranks == 1 && (c.Rank != 0 || c.Rendezvous != ""):
		return g, errors.New("--rank and --rendezvous are for more than one rank; say how many with --ranks")
	case c.Ranks == 1:
		return g, nil
	case c.Rendezvous == "":
		return g, errors.New("--ranks needs --rendezvous HOST:PORT, where they meet")
	case c.Gathering <= 0:
		return g, fmt.Errorf("--rendezvous-timeout: %v is not positive; want e.g. 10m", c.Gathering)
	}
	return g, g.Validate()
}

// ready says where the engine serves, or that this rank does its part.
func (c *Command) ready(out io.Writer, cfg sim.Config, addr string) {
	if addr == "" {
		if !c.JSON {
			fmt.Fprintf(out, "Rank %d of a simulated engine has joined and loaded; it serves nothing\n", c.Rank)
		}
		return
	}
	at := command.Served{BaseURL: "http://" + addr, Models: append([]string{cfg.Model}, cfg.Aliases...)}
	if c.JSON {
		at.WriteJSON(out)
		return
	}
	fmt.Fprintf(out, "A simulated engine serves %s at %s\n", cfg.Model, at.BaseURL)
}
