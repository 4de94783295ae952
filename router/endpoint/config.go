package endpoint

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// MaxCooldown bounds the time an engine can ask for with Retry-After, so that
// a wrong header cannot take an endpoint out for good.
const MaxCooldown = time.Hour

// Config is the breaker's tunable data. Start from DefaultConfig.
type Config struct {
	// FailureThreshold is how many failures in a row open the breaker.
	// Default 3; must be at least 1, which means that each failure alone
	// starts a cooldown.
	FailureThreshold int `yaml:"failure_threshold"`
	// Cooldown is how long an endpoint stays out of the pool after its breaker
	// opened or after a 429 without Retry-After, how long a probe may take
	// before another one is let through, and the time in which an old failure
	// loses half its weight. Default 15s; must be positive and at most 1h.
	Cooldown time.Duration `yaml:"cooldown"`
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{FailureThreshold: 3, Cooldown: 15 * time.Second}
}

// Validate reports every fault of the configuration, joined.
func (c Config) Validate() error {
	var errs []error
	if c.FailureThreshold < 1 {
		errs = append(errs, fmt.Errorf("failure_threshold: %d is too small; want 1 or more, e.g. 3", c.FailureThreshold))
	}
	if c.Cooldown <= 0 || c.Cooldown > MaxCooldown {
		errs = append(errs, fmt.Errorf("cooldown: %v is out of range; want more than 0 and at most %v, e.g. 15s", c.Cooldown, MaxCooldown))
	}
	return errors.Join(errs...)
}

// Deps are the set's collaborators.
type Deps struct {
	// Attach makes what the embedder hangs on a new instance, such as its
	// connection pool; nil attaches nothing. If the value has a Close method
	// of io.Closer, it is called once the instance has left the set, while its
	// requests may still be running. Attach is called by Replace and must not
	// call it.
	Attach func(*Endpoint) any
	// Logger gets the breakers' state changes; nil discards.
	Logger *slog.Logger
	// Registerer gets a collector that reads the set when it is scraped; nil
	// leaves it unregistered.
	Registerer prometheus.Registerer
	// Now tells the collector, and nothing else, the time; nil is the
	// system's clock.
	Now func() time.Time
}
