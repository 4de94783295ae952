package scale

import (
	"errors"
	"fmt"
	"time"
)

// Config is how decisions are made. Start from [DefaultConfig].
type Config struct {
	// IdleTimeout is how long nobody may use what runs above the floor until it is
	// stopped. It counts from the last byte, the last request and the moment of being
	// ready, whichever is the latest, and anew from each moment at which somebody who
	// might know was not heard. Default 15m; must be positive.
	IdleTimeout time.Duration `yaml:"idle_timeout"`
	// TargetLoad is how full replicas may be, of what their engines run at once, until
	// another one is started. Default 0.7; more than 0, at most 1. Admission has requests
	// wait from 0.85 on, and a start takes a while.
	TargetLoad float64 `yaml:"target_load"`
	// SpareLoad is how full the others would be at most, relative to TargetLoad, once
	// a replica that is ended had gone. Default 0.75; more than 0, less than 1: what lies
	// between keeps a load that swings from starting and ending replicas in turn.
	SpareLoad float64 `yaml:"spare_load"`
	// UpWindow is for how long replicas have to be full until another one is started,
	// and the least time between two such starts. Default 15s; must be positive.
	UpWindow time.Duration `yaml:"up_window"`
	// DownWindow is for how long a replica must have been to spare until it is ended,
	// and the least time between any decision and such an end. Default 5m; at least
	// UpWindow.
	DownWindow time.Duration `yaml:"down_window"`
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{IdleTimeout: 15 * time.Minute, TargetLoad: 0.7, SpareLoad: 0.75, UpWindow: 15 * time.Second, DownWindow: 5 * time.Minute}
}

// Validate returns every problem of c, joined, each with the key, the value and what
// would be accepted.
func (c Config) Validate() error {
	var errs []error
	fault := func(key string, value any, want string) {
		errs = append(errs, fmt.Errorf("%s: %v; want %s", key, value, want))
	}
	if c.IdleTimeout <= 0 {
		fault("idle_timeout", c.IdleTimeout, "more than 0")
	}
	if !(c.TargetLoad > 0 && c.TargetLoad <= 1) {
		fault("target_load", c.TargetLoad, "more than 0 and at most 1")
	}
	if !(c.SpareLoad > 0 && c.SpareLoad < 1) {
		fault("spare_load", c.SpareLoad, "more than 0 and less than 1")
	}
	if c.UpWindow <= 0 {
		fault("up_window", c.UpWindow, "more than 0")
	}
	if c.DownWindow < c.UpWindow {
		fault("down_window", c.DownWindow, fmt.Sprintf("at least up_window, %v", c.UpWindow))
	}
	return errors.Join(errs...)
}
