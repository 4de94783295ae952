package schedule

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Config is what the built-in scorers measure against. Start from
// DefaultConfig. The targets depend on model and hardware: measure them.
type Config struct {
	// TargetWaiting is how many requests an engine of weight 1 may hold back
	// before its queue is worth avoiding: there the queue votes 1/2. Default
	// 4; must be positive. Too low starves the GPU between two batches, too
	// high brings back queueing delay.
	TargetWaiting float64 `yaml:"target_waiting"`
	// TargetInflight is how many requests an engine of weight 1 may have
	// before it is worth avoiding: there their number votes 1/2. Default 8;
	// must be positive. Too low spreads sessions for no gain, too high lets
	// one engine decode slowly beside an idle one.
	TargetInflight float64 `yaml:"target_inflight"`
	// KVCeiling is the share of used KV cache at which an engine votes 1/2;
	// beyond it engines preempt. Default 0.9; in (0,1].
	KVCeiling float64 `yaml:"kv_ceiling"`
	// SessionLoadFactor is how much busier than the mean of its pool an
	// endpoint may be and still draw its sessions. Default 1.25; at least 1.
	SessionLoadFactor float64 `yaml:"session_load_factor"`
	// StaleAfter is the age from which a measurement is no longer believed.
	// Default 10s; must be positive. It is configured beside the scraping
	// that it depends on.
	StaleAfter time.Duration `yaml:"-"`
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		TargetWaiting:     4,
		TargetInflight:    8,
		KVCeiling:         0.9,
		SessionLoadFactor: 1.25,
		StaleAfter:        10 * time.Second,
	}
}

// Validate reports every fault of the configuration, joined.
func (c Config) Validate() error {
	var errs []error
	positive := func(key string, v float64, example string) {
		if !(v > 0) || math.IsInf(v, 0) {
			errs = append(errs, fmt.Errorf("%s: %v is not positive; want e.g. %s", key, v, example))
		}
	}
	positive("target_waiting", c.TargetWaiting, "4")
	positive("target_inflight", c.TargetInflight, "8")
	if !(c.KVCeiling > 0 && c.KVCeiling <= 1) {
		errs = append(errs, fmt.Errorf("kv_ceiling: %v is out of range; want more than 0 and at most 1, e.g. 0.9", c.KVCeiling))
	}
	if !(c.SessionLoadFactor >= 1) || math.IsInf(c.SessionLoadFactor, 0) {
		errs = append(errs, fmt.Errorf("session_load_factor: %v is too small; want 1 or more, e.g. 1.25", c.SessionLoadFactor))
	}
	if c.StaleAfter <= 0 {
		errs = append(errs, fmt.Errorf("stale_after: %v is not positive; want e.g. 10s", c.StaleAfter))
	}
	return errors.Join(errs...)
}
