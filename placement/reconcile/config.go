package reconcile

import (
	"errors"
	"fmt"
	"time"

	"github.com/llmgw/llmgw/placement/scale"
)

// Config is what an operator may set. Start from DefaultConfig.
type Config struct {
	// Interval is how often what runs is held against what is wanted, besides at
	// each change. Default 5s; must be positive.
	Interval time.Duration `yaml:"interval"`
	// BaseBackoff is the pause before a model that failed, or that could not be
	// placed, is tried again; it doubles each time. Default 10s; must be positive.
	BaseBackoff time.Duration `yaml:"base_backoff"`
	// MaxBackoff is the longest such pause. Default 10m; at least BaseBackoff.
	MaxBackoff time.Duration `yaml:"max_backoff"`
	// StartTimeout is how long the shards of a replica may take until all of them
	// have been begun by their nodes. Default 2m; must be positive.
	StartTimeout time.Duration `yaml:"start_timeout"`
	// LoadTimeout is how long a replica may take from its first start to ready
	// where its profile states no load_timeout. With one, the profile's counts, and
	// StartTimeout is added to it. Default 1h; must be positive.
	LoadTimeout time.Duration `yaml:"load_timeout"`
	// MoveGrace is how long a replica that has to leave its node, or whose profile
	// was changed, waits for another one to serve in its place where none can be
	// placed. Default 10m; at least 0.
	MoveGrace time.Duration `yaml:"move_grace"`
	// DrainGrace is how long an engine may take to finish what it has once it gets
	// no more requests. Default 10m; at least 0.
	DrainGrace time.Duration `yaml:"drain_grace"`
	// OrderRetry is after which time an order whose outcome does not show is given
	// again. Default 30s; must be positive.
	OrderRetry time.Duration `yaml:"order_retry"`
	// AbsentAfter is how long a node that is heard must report without a shard
	// that it had begun until the shard counts as gone. Default 10s; must be
	// positive.
	AbsentAfter time.Duration `yaml:"absent_after"`
	// Scale is when replicas are started and ended by use and load, between a model's
	// min and max; its keys stand beside these.
	Scale scale.Config `yaml:",inline"`
	// Residence is how long a replica that was loaded on demand serves at least before
	// it has to make room for another model, from when it was ready: it bounds how
	// often two models that need the same cards can end one another. Default 2m; at
	// least 0.
	Residence time.Duration `yaml:"residence"`
	// Settle is how long nothing is placed after a node registered that had not before,
	// so that of nodes that come together the first does not get what the others are
	// better for; at most five times as long while they come one after the other.
	// Default 2s; 0 places at once what the nodes that are there allow; at least 0.
	Settle time.Duration `yaml:"settle"`
	// LostAfter is how long nothing may show that a replica works until the silence
	// of a node takes it down. It is what the control plane calls lost. Set by who
	// embeds the package. Must be positive.
	LostAfter time.Duration `yaml:"-"`
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		Interval:     5 * time.Second,
		BaseBackoff:  10 * time.Second,
		MaxBackoff:   10 * time.Minute,
		StartTimeout: 2 * time.Minute,
		LoadTimeout:  time.Hour,
		MoveGrace:    10 * time.Minute,
		DrainGrace:   10 * time.Minute,
		OrderRetry:   30 * time.Second,
		AbsentAfter:  10 * time.Second,
		Scale:        scale.DefaultConfig(),
		Residence:    2 * time.Minute,
		Settle:       2 * time.Second,
		LostAfter:    time.Minute,
	}
}

// Validate returns every problem of c, joined, each with the key, the value and
// what would be accepted.
func (c Config) Validate() error {
	var errs []error
	check := func(key string, d time.Duration, least time.Duration, want string) {
		if d < least {
			errs = append(errs, fmt.Errorf("%s: %v; want %s", key, d, want))
		}
	}
	check("interval", c.Interval, 1, "more than 0")
	check("base_backoff", c.BaseBackoff, 1, "more than 0")
	check("max_backoff", c.MaxBackoff, max(c.BaseBackoff, 1), "at least base_backoff")
	check("start_timeout", c.StartTimeout, 1, "more than 0")
	check("load_timeout", c.LoadTimeout, 1, "more than 0")
	check("move_grace", c.MoveGrace, 0, "at least 0")
	check("drain_grace", c.DrainGrace, 0, "at least 0")
	check("order_retry", c.OrderRetry, 1, "more than 0")
	check("absent_after", c.AbsentAfter, 1, "more than 0")
	check("residence", c.Residence, 0, "at least 0")
	check("settle", c.Settle, 0, "at least 0")
	check("lost_after", c.LostAfter, 1, "more than 0")
	return errors.Join(append(errs, c.Scale.Validate())...)
}
