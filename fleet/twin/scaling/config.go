package scaling

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/llmgw/llmgw/admission"
	"github.com/llmgw/llmgw/engines/sim"
	"github.com/llmgw/llmgw/engines/sim/workload"
	"github.com/llmgw/llmgw/placement/reconcile"
	"github.com/llmgw/llmgw/router/schedule"
)

// Bounds of what is simulated.
const (
	MaxNodes        = 1000
	MaxCardsPerNode = 64
	MaxModels       = 500
	maxRetries      = 100
)

// Config describes a fleet, its models and who asks for them. Start from
// [DefaultConfig], which has no models.
type Config struct {
	// Nodes is how many machines there are. Default 2; 1 to 1000.
	Nodes int `yaml:"nodes"`
	// CardsPerNode is how many cards each has. Default 8; 1 to 64.
	CardsPerNode int `yaml:"cards_per_node"`
	// Engine is what every engine is, but for what its model's size says. Default:
	// an 8B model on one H100-class card.
	Engine sim.Config `yaml:"engine"`
	// Sizes are what models are made of. At least one.
	Sizes []Size `yaml:"sizes"`
	// Models are what is asked for. At least one.
	Models []Model `yaml:"models"`
	// Prompt is how long prompts are, in tokens. Default lognormal:1033:0.6:4096, about
	// as in the Azure conversation trace of 2023.
	Prompt workload.Lengths `yaml:"prompt"`
	// Output is how long answers are, in tokens. Default lognormal:136:0.97:1000, likewise.
	Output workload.Lengths `yaml:"output"`
	// Scale multiplies the rates. Default 1; more than 0.
	Scale float64 `yaml:"scale"`
	// KeepBursts leaves gaps between requests as uneven as they are at the full rates.
	// Default false: with a Scale below 1 bursts are as much smaller, as of a part of the
	// same clients' requests.
	KeepBursts bool `yaml:"keep_bursts"`
	// From is where in the rates the run begins. Default 0; not negative.
	From time.Duration `yaml:"from"`
	// Duration is how long requests arrive. Default 24h; more than 0.
	Duration time.Duration `yaml:"duration"`
	// Warmup is how long the fleet stands before the first request, so that what has
	// to run runs. It is counted nowhere. Default 10m; not negative.
	Warmup time.Duration `yaml:"warmup"`
	// TTFT is within which time of a request's first try its first token counts as
	// good. Default 2s; more than 0.
	TTFT time.Duration `yaml:"ttft"`
	// Wait is how long a request waits for its model to have an endpoint. Default 10s;
	// 0: not at all.
	Wait time.Duration `yaml:"wait"`
	// MaxWaiting is how many requests may wait for one model. Default 256; 0: none.
	MaxWaiting int `yaml:"max_waiting"`
	// Retries is how often a client that was refused comes again, after as long as it
	// was told. Default 2, as the SDKs of OpenAI; not negative.
	Retries int `yaml:"retries"`
	// Control is how the control plane decides, as under `control` in server.yaml.
	Control reconcile.Config `yaml:"control"`
	// Admission is bands and queues, as in server.yaml, but that loads are measured once a
	// second.
	Admission admission.Config `yaml:"admission"`
	// Scoring is what endpoints' loads are measured against, as in server.yaml.
	Scoring schedule.Config `yaml:"scoring"`
	// Seed is where all chance comes from. Default 1; any.
	Seed uint64 `yaml:"seed"`
}

// Size is what a replica of a model takes.
type Size struct {
	// Name is what models call it. Required; unique.
	Name string `yaml:"name"`
	// Cards is how many cards a replica takes. Default 1; 1 or more.
	Cards int `yaml:"cards" default:"1"`
	// LoadTime is how long one takes from its start until it serves. Default 60s; not
	// negative.
	LoadTime time.Duration `yaml:"load_time" default:"60s"`
	// Speed is how many times faster than the engine's timing it computes. Default 1;
	// more than 0.
	Speed float64 `yaml:"speed" default:"1"`
	// NumGPUBlocks is its KV cache, in blocks. Default 0: the engine's.
	NumGPUBlocks int `yaml:"num_gpu_blocks"`
	// MaxNumSeqs bounds the sequences that run at once on one. Default 0: the
	// engine's.
	MaxNumSeqs int `yaml:"max_num_seqs"`
}

// Model is one that clients ask for.
type Model struct {
	// Name is the model's. Required; unique.
	Name string `yaml:"name"`
	// Client is whose rates its requests come at: trace/number. Required.
	Client string `yaml:"client"`
	// Size is one of the sizes. Required.
	Size string `yaml:"size"`
	// Static is how many replicas the static policy runs, all the time. Default 1; 0 or
	// more.
	Static int `yaml:"static" default:"1"`
	// Max is how many the autoscaled policy runs at most. Default 1; 1 or more.
	Max int `yaml:"max" default:"1"`
}

// DefaultConfig returns the defaults: a fleet of 16 cards without models.
func DefaultConfig() Config {
	must := func(l workload.Lengths, err error) workload.Lengths {
		if err != nil {
			panic(err) // constants
		}
		return l
	}
	return Config{
		Nodes: 2, CardsPerNode: 8,
		Engine: sim.DefaultConfig(),
		Prompt: must(workload.LogNormal(1033, 0.6, 4096)),
		Output: must(workload.LogNormal(136, 0.97, 1000)),
		Scale:  1, Duration: 24 * time.Hour, Warmup: 10 * time.Minute,
		TTFT: 2 * time.Second, Wait: 10 * time.Second, MaxWaiting: 256, Retries: 2,
		Control: reconcile.DefaultConfig(), Admission: admission.DefaultConfig(), Scoring: schedule.DefaultConfig(),
		Seed: 1,
	}
}

// Policy names a way of scaling.
type Policy string

// The policies.
const (
	// Static runs Model.Static replicas of each model all the time.
	Static Policy = "static"
	// OnDemand runs one replica of a model while it is used.
	OnDemand Policy = "on-demand"
	// Autoscaled runs none to Model.Max replicas of a model, by use and load.
	Autoscaled Policy = "autoscaled"
)

// ErrUnknownPolicy says that a policy has no such name.
var ErrUnknownPolicy = errors.New("scaling: unknown policy")

// Policies lists the policies. The caller owns the slice.
func Policies() []Policy { return []Policy{Static, OnDemand, Autoscaled} }

// Validate returns an error that wraps [ErrUnknownPolicy] if p is none.
func (p Policy) Validate() error {
	if slices.Contains(Policies(), p) {
		return nil
	}
	return fmt.Errorf("%w %q: want static, on-demand or autoscaled", ErrUnknownPolicy, string(p))
}

// bounds are between which numbers replicas of m run.
func (p Policy) bounds(m *Model) (least, most int) {
	switch p {
	case Static:
		return m.Static, m.Static
	case OnDemand:
		return 0, 1
	default:
		return 0, m.Max
	}
}

// Validate reports every fault of the configuration, joined, each with its key.
func (c Config) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	within := func(key string, v, least, most int) {
		if v < least || v > most {
			bad("%s: %d is out of range; want %d to %d", key, v, least, most)
		}
	}
	within("nodes", c.Nodes, 1, MaxNodes)
	within("cards_per_node", c.CardsPerNode, 1, MaxCardsPerNode)
	errs = append(errs, under("engine", c.Engine.Validate()))
	errs = append(errs, c.checkSizes()...)
	errs = append(errs, c.checkModels()...)
	if c.Prompt.IsZero() {
		bad("prompt: is not set; want e.g. lognormal:1033:0.6:4096")
	}
	if c.Output.IsZero() {
		bad("output: is not set; want e.g. lognormal:136:0.97:1000")
	}
	if most := c.Prompt.Max() + c.Output.Max(); most > c.Engine.MaxModelLen {
		bad("prompt, output: up to %d tokens together; the engine's max_model_len is %d", most, c.Engine.MaxModelLen)
	}
	if !(c.Scale > 0) || math.IsInf(c.Scale, 0) {
		bad("scale: %v is out of range; want more than 0", c.Scale)
	}
	for _, d := range []struct {
		key      string
		v, least time.Duration
	}{{"from", c.From, 0}, {"duration", c.Duration, 1}, {"warmup", c.Warmup, 0}, {"ttft", c.TTFT, 1}, {"wait", c.Wait, 0}} {
		if d.v < d.least {
			bad("%s: %v is too short; want %v or more", d.key, d.v, d.least)
		}
	}
	within("max_waiting", c.MaxWaiting, 0, math.MaxInt32)
	within("retries", c.Retries, 0, maxRetries)
	errs = append(errs, under("control", c.Control.Validate()), under("admission", c.Admission.Validate()), under("scoring", c.Scoring.Validate()))
	return errors.Join(errs...)
}

func (c Config) checkSizes() []error {
	var errs []error
	if len(c.Sizes) == 0 {
		errs = append(errs, errors.New("sizes: is empty; want at least one"))
	}
	seen := map[string]bool{}
	for i, s := range c.Sizes {
		key := fmt.Sprintf("sizes[%d]", i)
		if s.Name == "" || seen[s.Name] {
			errs = append(errs, fmt.Errorf("%s.name: %q is empty or there twice; want names of their own", key, s.Name))
		}
		seen[s.Name] = true
		if s.Cards < 1 || s.Cards > c.CardsPerNode {
			errs = append(errs, fmt.Errorf("%s.cards: %d is out of range; want 1 to cards_per_node, %d", key, s.Cards, c.CardsPerNode))
		}
		if s.LoadTime < 0 {
			errs = append(errs, fmt.Errorf("%s.load_time: %v is negative; want 0 or more", key, s.LoadTime))
		}
		// What Engine itself has wrong is told once, under its own key.
		if err := c.engine(&c.Sizes[i]).Validate(); err != nil && c.Engine.Validate() == nil {
			errs = append(errs, under(key, err))
		}
	}
	return errs
}

func (c Config) checkModels() []error {
	var errs []error
	if n := len(c.Models); n == 0 || n > MaxModels {
		errs = append(errs, fmt.Errorf("models: %d of them; want 1 to %d", n, MaxModels))
	}
	static := 0
	seen := map[string]bool{}
	for i := range c.Models {
		m, key := &c.Models[i], fmt.Sprintf("models[%d]", i)
		if m.Name == "" || strings.ContainsAny(m.Name, " /:?#%@") || seen[m.Name] {
			errs = append(errs, fmt.Errorf("%s.name: %q is no name, or there twice; want names such as chat-8b", key, m.Name))
		}
		seen[m.Name] = true
		if m.Client == "" {
			errs = append(errs, fmt.Errorf("%s.client: is empty; want whose rates it is asked for at, e.g. m-small/5", key))
		}
		size := c.size(m)
		if size == nil {
			errs = append(errs, fmt.Errorf("%s.size: %q is none of sizes", key, m.Size))
		} else {
			static += m.Static * size.Cards
		}
		if m.Static < 0 {
			errs = append(errs, fmt.Errorf("%s.static: %d is negative; want 0 or more", key, m.Static))
		}
		if m.Max < 1 {
			errs = append(errs, fmt.Errorf("%s.max: %d is too few; want 1 or more", key, m.Max))
		}
	}
	if cards := c.Nodes * c.CardsPerNode; static > cards {
		errs = append(errs, fmt.Errorf("models: the static policy takes %d cards; there are %d", static, cards))
	}
	return errs
}

// size is what a model is made of; nil: there is no such size.
func (c *Config) size(m *Model) *Size {
	for i := range c.Sizes {
		if c.Sizes[i].Name == m.Size {
			return &c.Sizes[i]
		}
	}
	return nil
}

// engine is the configuration of a size's engines.
func (c *Config) engine(s *Size) sim.Config {
	e := c.Engine
	e.Speed *= s.Speed
	if s.NumGPUBlocks != 0 {
		e.NumGPUBlocks = s.NumGPUBlocks
	}
	if s.MaxNumSeqs != 0 {
		e.MaxNumSeqs = s.MaxNumSeqs
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
