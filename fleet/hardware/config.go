package hardware

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/hardware/faults"
)

// Config is a Reader's tunable data. Start from DefaultConfig.
type Config struct {
	// Root is the directory that holds proc and sys. Default /, which is the
	// machine. With any other, tools are taken from its directory commands and
	// nothing is asked of the machine itself.
	Root string `yaml:"root"`
	// Simulated is a file of YAML or JSON that says which cards the node claims
	// to have, in place of those of the machine. Default none. It is read again at
	// each reading.
	Simulated string `yaml:"simulated"`
	// InfiniBand is a directory of the shape of /sys/class/infiniband. Default "",
	// that of Root.
	InfiniBand string `yaml:"infiniband"`
	// Fabrics are the labels of the node, which stand at the top of an agent's
	// file. None: no replica that spans nodes is placed on it.
	Fabrics []engines.Fabric `yaml:"-"`
	// CommandTimeout bounds one reading of a vendor's cards, however many times
	// its tool is run for it. Default 10s; must be positive.
	CommandTimeout time.Duration `yaml:"command_timeout"`
	// ReadTimeout bounds one reading of files below Root, which can hang with
	// the device they speak of. Default 5s; must be positive.
	ReadTimeout time.Duration `yaml:"read_timeout"`
	// Faults says what faults of cards mean.
	Faults faults.Policy `yaml:"faults"`
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		Root:           "/",
		CommandTimeout: 10 * time.Second,
		ReadTimeout:    5 * time.Second,
		Faults:         faults.DefaultPolicy(),
	}
}

// Validate reports everything that is wrong with c, joined.
func (c Config) Validate() error {
	var errs []error
	if c.Root == "" {
		errs = append(errs, errors.New("root: must not be empty; / is the machine itself"))
	}
	if c.CommandTimeout <= 0 {
		errs = append(errs, fmt.Errorf("command_timeout: %v must be positive", c.CommandTimeout))
	}
	if c.ReadTimeout <= 0 {
		errs = append(errs, fmt.Errorf("read_timeout: %v must be positive", c.ReadTimeout))
	}
	for i, f := range c.Fabrics {
		errs = append(errs, validateFabric(c.Fabrics, i, f)...)
	}
	if err := c.Faults.Validate(); err != nil {
		errs = append(errs, fmt.Errorf("faults: %w", err))
	}
	return errors.Join(errs...)
}

func validateFabric(all []engines.Fabric, i int, f engines.Fabric) []error {
	var errs []error
	if f.Name == "" {
		errs = append(errs, fmt.Errorf("fabrics[%d].name: must not be empty: nodes with the same name are joined by one network", i))
	} else if first := slices.IndexFunc(all, func(o engines.Fabric) bool { return o.Name == f.Name }); first < i {
		errs = append(errs, fmt.Errorf("fabrics[%d].name: %q is that of fabrics[%d] too", i, f.Name, first))
	}
	if f.RateGbps < 0 || math.IsNaN(f.RateGbps) || math.IsInf(f.RateGbps, 0) {
		errs = append(errs, fmt.Errorf("fabrics[%d].rate_gbps: %v must be the rate of one port in Gbit/s, or 0 for none stated", i, f.RateGbps))
	}
	if f.LinkLayer != "" && f.LinkLayer != engines.InfiniBand && f.LinkLayer != engines.Ethernet {
		errs = append(errs, fmt.Errorf("fabrics[%d].link_layer: %q; write %s or %s", i, f.LinkLayer, engines.InfiniBand, engines.Ethernet))
	}
	for j, d := range f.Devices {
		for k, o := range all[:i+1] {
			if at := slices.Index(o.Devices, d); at >= 0 && (k < i || at < j) {
				errs = append(errs, fmt.Errorf("fabrics[%d].devices[%d]: %q is in fabrics[%d] already", i, j, d, k))
				break
			}
		}
	}
	return errs
}

// Deps are a Reader's collaborators.
type Deps struct {
	// Runner runs vendors' tools. Nil: they are programs of the machine where
	// Root is /, and else what stands in its directory commands.
	Runner Runner
	// Network knows the addresses of the machine. Nil: as with Runner.
	Network Network
	// Known reports whether the agent started a process. It is called with
	// numbers of processes that use a card and of their forebears, maybe
	// concurrently. Nil: it started none.
	Known func(pid int) bool
	// Logger; nil discards.
	Logger *slog.Logger
}
