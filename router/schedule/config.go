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
	// PrefixWeight is how much it counts in the profiles chat, long-context and
	// debug that an endpoint holds the beginning of a prompt; queue and requests
	// in flight count 2 each in chat. Default 3; at least 0, and 0 leaves it out
	// of account. Too low computes prompts again that an engine remembers, too
	// high lets popular ones queue beside idle engines.
	PrefixWeight float64 `yaml:"prefix_weight"`
	// PrefixWeightBatch is the same in the profile batch, where nobody waits for
	// a first token. Default 1; at least 0.
	PrefixWeightBatch float64 `yaml:"prefix_weight_batch"`
	// TargetPrefixBytes is how many bytes of a prompt an endpoint must hold for
	// them to count half of what their share of the prompt says. Default 1024;
	// must be positive. Too low gathers short prompts where nothing is to be
	// saved, too high overlooks what medium ones save.
	TargetPrefixBytes float64 `yaml:"target_prefix_bytes"`
	// PrefixMaxGap is how many more requests than the least busy endpoint one of
	// weight 1 may have and still be preferred for what it holds; it yields when
	// it exceeds both this and prefix_max_ratio. Default 16; at least 0. Too low
	// gives up caches for chance differences, too high lets queues grow.
	PrefixMaxGap float64 `yaml:"prefix_max_gap"`
	// PrefixMaxRatio is how many times as many requests it may have. Default
	// 1.5; at least 1. Too low yields on busy pools where nobody is idle, too
	// high never does.
	PrefixMaxRatio float64 `yaml:"prefix_max_ratio"`
	// SampleAbove is the size of a pool from which on a decision looks at a
	// sample of it. Default 128 endpoints; at least 1. Too low spreads small
	// bursts less evenly, too high makes decisions in large pools slow.
	SampleAbove int `yaml:"sample_above"`
	// SampleSize is how many endpoints such a sample has, those aside that hold
	// the prompt's beginning or the session. Default 40; 2 to 1024. Too low
	// misses the idle ones.
	SampleSize int `yaml:"sample_size"`
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
		PrefixWeight:      3,
		PrefixWeightBatch: 1,
		TargetPrefixBytes: 1024,
		PrefixMaxGap:      16,
		PrefixMaxRatio:    1.5,
		SampleAbove:       128,
		SampleSize:        40,
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
	least := func(key string, v, bound float64, example string) {
		if !(v >= bound) || math.IsInf(v, 0) {
			errs = append(errs, fmt.Errorf("%s: %v is too small; want %v or more, e.g. %s", key, v, bound, example))
		}
	}
	least("prefix_weight", c.PrefixWeight, 0, "3")
	least("prefix_weight_batch", c.PrefixWeightBatch, 0, "1")
	positive("target_prefix_bytes", c.TargetPrefixBytes, "1024")
	least("prefix_max_gap", c.PrefixMaxGap, 0, "16")
	least("prefix_max_ratio", c.PrefixMaxRatio, 1, "1.5")
	if c.SampleAbove < 1 {
		errs = append(errs, fmt.Errorf("sample_above: %d is too small; want 1 or more, e.g. 128", c.SampleAbove))
	}
	if c.SampleSize < 2 || c.SampleSize > 1024 {
		errs = append(errs, fmt.Errorf("sample_size: %d is out of range; want 2 to 1024, e.g. 40", c.SampleSize))
	}
	if c.StaleAfter <= 0 {
		errs = append(errs, fmt.Errorf("stale_after: %v is not positive; want e.g. 10s", c.StaleAfter))
	}
	return errors.Join(errs...)
}
