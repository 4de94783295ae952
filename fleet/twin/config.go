package twin

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/llmgw/llmgw/admission"
	"github.com/llmgw/llmgw/engines/sim"
	"github.com/llmgw/llmgw/router/prefix"
	"github.com/llmgw/llmgw/router/schedule"
)

// MaxEngines bounds the engines of a fleet.
const MaxEngines = 4096

// Config describes a fleet, how it is watched, and who uses it. Start from
// DefaultConfig.
type Config struct {
	// Engine is what every engine is, but for what its group says. What does
	// not concern computation (names, faults, keys) is not looked at. Default:
	// an 8B model on one H100-class card.
	Engine sim.Config `yaml:"engine"`
	// Groups are the engines. Default: one group of 8. At least one engine and
	// at most 4096 in all.
	Groups []Group `yaml:"groups"`
	// ScrapeInterval is how often each engine's load is measured; engines take
	// turns within it. Default 2s; at least 10ms.
	ScrapeInterval time.Duration `yaml:"scrape_interval"`
	// Scoring is what endpoints' loads are measured against, by admission too,
	// as in server.yaml.
	Scoring schedule.Config `yaml:"scoring"`
	// Prefix is the approximate index. Defaults as in server.yaml: capacities
	// are not told, but learned.
	Prefix prefix.Config `yaml:"prefix"`
	// Admission is bands and queues. Default as in server.yaml, but switched
	// off, so that policies are compared by what they do alone.
	Admission admission.Config `yaml:"admission"`
	// Tenants are who sends the trace's requests, drawn by share; all requests
	// of a session are of one tenant. Default: one tenant of the default band.
	Tenants []Tenant `yaml:"tenants"`
	// Sessions tells the policies that know affinity the trace's sessions, as
	// clients that send a session key do. Default false.
	Sessions bool `yaml:"sessions"`
	// SLO is what goodput asks of a request. Default: first token within 3s,
	// 100ms a token after it.
	SLO SLO `yaml:"slo"`
	// Seed is where all chance comes from. Default 1; any.
	Seed uint64 `yaml:"seed"`
}

// Group is engines that are alike; what "the engine's" is stands in
// Config.Engine.
type Group struct {
	// Name begins its engines' IDs: name-1, name-2. Default "engine"; unique.
	Name string `yaml:"name" default:"engine"`
	// Engines is how many there are. Default 1; 1 or more.
	Engines int `yaml:"engines" default:"1"`
	// Weight is the share of load that each takes beside others, as an
	// endpoint's weight. Default 1; more than 0 and at most 1e6.
	Weight float64 `yaml:"weight" default:"1"`
	// Speed is how many times faster than the timing says they compute. Default:
	// the engine's; more than 0.
	Speed *float64 `yaml:"speed"`
	// NumGPUBlocks is their KV cache, in blocks. Default: the engine's.
	NumGPUBlocks *int `yaml:"num_gpu_blocks"`
	// MaxNumSeqs bounds the sequences that run at once on one. Default: the
	// engine's.
	MaxNumSeqs *int `yaml:"max_num_seqs"`
}

// Tenant is a caller.
type Tenant struct {
	// Name is the tenant's. Not empty, unique.
	Name string `yaml:"name"`
	// Band is one of the admission's bands. Default: its default band.
	Band string `yaml:"band"`
	// Share is how much of the requests beside other tenants are its own.
	// Default 1; more than 0.
	Share float64 `yaml:"share" default:"1"`
}

// SLO is what a good request keeps. A bound of 0 is none.
type SLO struct {
	// TTFT bounds the time from arrival to the first token. Default 3s; not
	// negative.
	TTFT time.Duration `yaml:"ttft"`
	// TPOT bounds the mean time per token after the first; an answer of one
	// token keeps it. Default 100ms; not negative.
	TPOT time.Duration `yaml:"tpot"`
	// E2E bounds the time from arrival to the last token. Default 0; not
	// negative.
	E2E time.Duration `yaml:"e2e"`
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	off := admission.DefaultConfig()
	off.Enabled = false
	return Config{
		Engine:         sim.DefaultConfig(),
		Groups:         []Group{{Name: "engine", Engines: 8, Weight: 1}},
		ScrapeInterval: 2 * time.Second,
		Scoring:        schedule.DefaultConfig(),
		Prefix:         prefix.DefaultConfig(),
		Admission:      off,
		SLO:            SLO{TTFT: 3 * time.Second, TPOT: 100 * time.Millisecond},
		Seed:           1,
	}
}

// Engines is how many engines the groups have together, as far as that can be
// counted.
func (c Config) Engines() int {
	n := 0
	for _, g := range c.Groups {
		n += min(g.Engines, math.MaxInt-max(n, 0))
	}
	return n
}

// Validate reports every fault of the configuration, joined, each with its key.
func (c Config) Validate() error {
	errs := []error{under("engine", c.Engine.Validate())}
	errs = append(errs, c.checkGroups()...)
	if c.ScrapeInterval < 10*time.Millisecond {
		errs = append(errs, fmt.Errorf("scrape_interval: %v is too short; want 10ms or more, e.g. 2s", c.ScrapeInterval))
	}
	errs = append(errs,
		under("scoring", c.Scoring.Validate()),
		under("prefix", c.Prefix.Validate()),
		under("admission", c.Admission.Validate()))
	errs = append(errs, c.checkTenants()...)
	for _, b := range []struct {
		key string
		v   time.Duration
	}{{"ttft", c.SLO.TTFT}, {"tpot", c.SLO.TPOT}, {"e2e", c.SLO.E2E}} {
		if b.v < 0 {
			errs = append(errs, fmt.Errorf("slo.%s: %v is negative; want 0 (no bound) or more, e.g. 3s", b.key, b.v))
		}
	}
	return errors.Join(errs...)
}

func (c Config) checkGroups() []error {
	var errs []error
	if n := c.Engines(); len(c.Groups) == 0 || n > MaxEngines {
		errs = append(errs, fmt.Errorf("groups: %d engines in all; want 1 to %d", n, MaxEngines))
	}
	seen := make(map[string]bool)
	for i, g := range c.Groups {
		key := fmt.Sprintf("groups[%d]", i)
		switch {
		case g.Name == "" || strings.ContainsAny(g.Name, " /:?#%@"):
			errs = append(errs, fmt.Errorf("%s.name: %q is no name; want e.g. h100", key, g.Name))
		case seen[g.Name]:
			errs = append(errs, fmt.Errorf("%s.name: %q is there twice; want each once", key, g.Name))
		}
		seen[g.Name] = true
		if g.Engines < 1 {
			errs = append(errs, fmt.Errorf("%s.engines: %d is too few; want 1 or more", key, g.Engines))
		}
		if !(g.Weight > 0 && g.Weight <= 1e6) {
			errs = append(errs, fmt.Errorf("%s.weight: %v is out of range; want more than 0 and at most 1e6, e.g. 1", key, g.Weight))
		}
		// What Engine itself has wrong is told once, under its own key.
		if err := c.engine(g).Validate(); err != nil && c.Engine.Validate() == nil {
			errs = append(errs, under(key, err))
		}
	}
	return errs
}

func (c Config) checkTenants() []error {
	var errs []error
	bands := make(map[string]bool)
	for _, b := range c.Admission.Bands {
		bands[b.Name] = true
	}
	seen := make(map[string]bool)
	for i, t := range c.Tenants {
		key := fmt.Sprintf("tenants[%d]", i)
		switch {
		case t.Name == "":
			errs = append(errs, fmt.Errorf("%s.name: is empty; want a name such as blue", key))
		case seen[t.Name]:
			errs = append(errs, fmt.Errorf("%s.name: %q is there twice; want each once", key, t.Name))
		}
		seen[t.Name] = true
		if t.Band != "" && !bands[t.Band] {
			errs = append(errs, fmt.Errorf("%s.band: %q is none of admission.bands; want the name of one", key, t.Band))
		}
		if !(t.Share > 0) || math.IsInf(t.Share, 0) {
			errs = append(errs, fmt.Errorf("%s.share: %v is not positive; want e.g. 1", key, t.Share))
		}
	}
	return errs
}

// engine is the configuration of a group's engines.
func (c Config) engine(g Group) sim.Config {
	e := c.Engine
	if g.Speed != nil {
		e.Speed = *g.Speed
	}
	if g.NumGPUBlocks != nil {
		e.NumGPUBlocks = *g.NumGPUBlocks
	}
	if g.MaxNumSeqs != nil {
		e.MaxNumSeqs = *g.MaxNumSeqs
	}
	return e
}

// under puts key before each of the joined faults, which begin with keys of
// their own.
func under(key string, err error) error {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok { //nolint:errorlint // what Join made, not what it wraps
		var errs []error
		for _, e := range joined.Unwrap() {
			errs = append(errs, under(key, e))
		}
		return errors.Join(errs...)
	}
	return fmt.Errorf("%s.%w", key, err)
}
