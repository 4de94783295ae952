package console

import (
	"errors"
	"fmt"
	"time"
)

// Config is the console's tunable data. Start from DefaultConfig.
type Config struct {
	// Sample is how often traffic is read for the rates. Default 5s; 1s to 1m.
	Sample time.Duration `yaml:"sample"`
	// History is how far the charts of rates reach back. Default 10m; at least ten
	// times Sample, and at most 1000 times.
	History time.Duration `yaml:"history"`
	// Rows is how many rows a table has on a page. Default 50; 10 to 50, so that
	// no page is long.
	Rows int `yaml:"rows"`
	// ServiceTimeout bounds what a page waits for one service. Default 5s; 100ms to 1m.
	ServiceTimeout time.Duration `yaml:"service_timeout"`
	// UsageFresh is for how long sums of usage are shown before they are added up
	// again; where adding up takes long, for twenty times as long as that. Default 30s;
	// at least 1s.
	UsageFresh time.Duration `yaml:"usage_fresh"`
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{Sample: 5 * time.Second, History: 10 * time.Minute, Rows: 50, ServiceTimeout: 5 * time.Second, UsageFresh: 30 * time.Second}
}

// Validate returns all that is wrong with the configuration.
func (c Config) Validate() error {
	var errs []error
	if c.Sample < time.Second || c.Sample > time.Minute {
		errs = append(errs, fmt.Errorf("sample: %v; want 1s to 1m", c.Sample))
	} else if c.History < 10*c.Sample || c.History > 1000*c.Sample {
		errs = append(errs, fmt.Errorf("history: %v; want %v to %v, which is 10 to 1000 times sample", c.History, 10*c.Sample, 1000*c.Sample))
	}
	if c.Rows < 10 || c.Rows > 50 {
		errs = append(errs, fmt.Errorf("rows: %d; want 10 to 50", c.Rows))
	}
	if c.ServiceTimeout < 100*time.Millisecond || c.ServiceTimeout > time.Minute {
		errs = append(errs, fmt.Errorf("service_timeout: %v; want 100ms to 1m", c.ServiceTimeout))
	}
	if c.UsageFresh < time.Second {
		errs = append(errs, fmt.Errorf("usage_fresh: %v; want at least 1s", c.UsageFresh))
	}
	return errors.Join(errs...)
}
