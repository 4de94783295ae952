package auth

import (
	"errors"
	"fmt"
	"time"
)

// Config is the authenticator's tunable data. Start from DefaultConfig.
type Config struct {
	// Enabled says that requests need a key. Default true. With false, which has to
	// be written, every caller may use every model, nobody has limits, and no usage
	// is kept.
	Enabled bool `yaml:"enabled"`
	// CacheTTL is how long a key is served on the store's last word, and so how
	// long a revocation takes at most in processes that are not told of it: one
	// by `llmgw keys revoke` counts at once in the process that did it. While
	// the store does not answer, keys that are known are served beyond that,
	// until they expire. Default 30s; from 1s to 1h.
	CacheTTL time.Duration `yaml:"cache_ttl"`
	// MaxKnownKeys bounds the keys that are held in memory, 1 KiB each; beyond
	// it those go that nobody used lately. Default 20000; from 1 to 1000000. It
	// should be more than there are keys, since what is not held cannot be
	// served while the store is away.
	MaxKnownKeys int `yaml:"max_known_keys"`
	// MaxRefusedKeys bounds the keys of which it is held that they open nothing,
	// 200 bytes each, so that they cost no read of the store for cache_ttl. The
	// oldest go first. Default 20000; from 1 to 1000000.
	MaxRefusedKeys int `yaml:"max_refused_keys"`
	// LookupTimeout is how long a request with a key that is not known waits for
	// the store before it gets a 503. Default 2s; from 10ms to 1m.
	LookupTimeout time.Duration `yaml:"lookup_timeout"`
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		Enabled:        true,
		CacheTTL:       30 * time.Second,
		MaxKnownKeys:   20_000,
		MaxRefusedKeys: 20_000,
		LookupTimeout:  2 * time.Second,
	}
}

// Validate reports every fault of the configuration, joined.
func (c Config) Validate() error {
	var errs []error
	for _, d := range []struct {
		key            string
		v, least, most time.Duration
		example        string
	}{
		{"cache_ttl", c.CacheTTL, time.Second, time.Hour, "30s"},
		{"lookup_timeout", c.LookupTimeout, 10 * time.Millisecond, time.Minute, "2s"},
	} {
		if d.v < d.least || d.v > d.most {
			errs = append(errs, fmt.Errorf("%s: %v is out of range; want %v to %v, e.g. %s", d.key, d.v, d.least, d.most, d.example))
		}
	}
	for _, n := range []struct {
		key string
		v   int
	}{{"max_known_keys", c.MaxKnownKeys}, {"max_refused_keys", c.MaxRefusedKeys}} {
		if n.v < 1 || n.v > 1_000_000 {
			errs = append(errs, fmt.Errorf("%s: %d is out of range; want 1 to 1000000, e.g. 20000", n.key, n.v))
		}
	}
	return errors.Join(errs...)
}
