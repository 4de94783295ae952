package discover

import (
	"errors"
	"fmt"
	"net/netip"
	"time"
)

// Config is what an operator may set of an [Agent]. Start from [DefaultConfig].
type Config struct {
	// Interval is how often the lease of each engine is renewed. Default 30s; must be
	// positive and less than TTL.
	Interval time.Duration `yaml:"interval"`
	// TTL is how long a lease lasts that is not renewed. Default 90s; whole seconds,
	// 1s to 24h.
	TTL time.Duration `yaml:"ttl"`
	// Discover is how often candidates are looked at. A scan that takes longer is
	// followed by the next at once. Default 60s; must be positive.
	Discover time.Duration `yaml:"discover"`
	// ListTimeout is how long one source may take to list its candidates. Default 30s;
	// must be positive.
	ListTimeout time.Duration `yaml:"list_timeout"`
	// RegisterTimeout is how long one registration may take. Default 10s; must be
	// positive and less than TTL.
	RegisterTimeout time.Duration `yaml:"register_timeout"`
	// RegisterAtOnce bounds the registrations under way. Default 16; must be positive.
	RegisterAtOnce int `yaml:"register_at_once"`
	// MaxCandidates bounds what one scan looks at; what sources list beyond it is left
	// out, with a warning. Default 4096; must be positive.
	MaxCandidates int `yaml:"max_candidates"`
	// Engine is what the engines are, e.g. vllm, sent as it is. Default "": not said,
	// which is no harm.
	Engine string `yaml:"engine"`
	// Name is the name of the engine, when just one is found; with several it is
	// ignored, with a warning. Default "": named by host, model and port.
	Name string `yaml:"name"`
	// Allow are networks whose addresses may be registered though they are of the
	// loopback, link-local or of a bridge of containers. Default none.
	Allow []netip.Prefix `yaml:"allow"`
	// Probe is how candidates are asked.
	Probe ProbeConfig `yaml:"probe"`
}

// ProbeConfig is how candidates are asked what they serve. Start from
// [DefaultConfig].
type ProbeConfig struct {
	// Timeout is how long one candidate may take, from dialling to the last byte.
	// Default 5s; must be positive.
	Timeout time.Duration `yaml:"timeout"`
	// DialTimeout is how much of that a connection may take: what drops packets, as
	// firewalls do, is told from what is slow, and a network that loses one packet has
	// it sent again after a second. Default 2s; must be positive, and Timeout at the
	// most.
	DialTimeout time.Duration `yaml:"dial_timeout"`
	// AtOnce bounds the candidates that are asked at once. Default 32; 1 to 1024.
	AtOnce int `yaml:"at_once"`
	// MaxAnswerBytes bounds an answer; a longer one is no engine's. Default 1 MiB;
	// must be positive.
	MaxAnswerBytes int64 `yaml:"max_answer_bytes"`
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		Interval:        30 * time.Second,
		TTL:             90 * time.Second,
		Discover:        time.Minute,
		ListTimeout:     30 * time.Second,
		RegisterTimeout: 10 * time.Second,
		RegisterAtOnce:  16,
		MaxCandidates:   4096,
		Probe:           ProbeConfig{Timeout: 5 * time.Second, DialTimeout: 2 * time.Second, AtOnce: 32, MaxAnswerBytes: 1 << 20},
	}
}

// maxName is what a registry takes at the most, of names and of engines.
const maxName = 256

// Validate returns every problem of c, joined, each beginning with its key.
func (c Config) Validate() error {
	var errs []error
	fault := func(key string, value any, want string) {
		errs = append(errs, fmt.Errorf("%s: %v; want %s", key, value, want))
	}
	positive := func(key string, d time.Duration) {
		if d <= 0 {
			fault(key, d, "more than 0s")
		}
	}
	positive("interval", c.Interval)
	if c.TTL < time.Second || c.TTL > 24*time.Hour || c.TTL%time.Second != 0 {
		fault("ttl", c.TTL, "whole seconds, 1s to 24h")
	}
	if c.Interval > 0 && c.Interval >= c.TTL {
		fault("interval", c.Interval, fmt.Sprintf("less than ttl, %v, or every lease lapses before it is renewed", c.TTL))
	}
	positive("discover", c.Discover)
	positive("list_timeout", c.ListTimeout)
	positive("register_timeout", c.RegisterTimeout)
	if c.RegisterTimeout > 0 && c.RegisterTimeout >= c.TTL {
		fault("register_timeout", c.RegisterTimeout, fmt.Sprintf("less than ttl, %v", c.TTL))
	}
	if c.RegisterAtOnce <= 0 {
		fault("register_at_once", c.RegisterAtOnce, "1 or more")
	}
	if c.MaxCandidates <= 0 {
		fault("max_candidates", c.MaxCandidates, "1 or more")
	}
	if len(c.Engine) > maxName || part(c.Engine) != c.Engine {
		fault("engine", fmt.Sprintf("%.80q", c.Engine), "up to 256 of a to z, 0 to 9, dots and single dashes between them")
	}
	if len(c.Name) > maxName || part(c.Name) != c.Name {
		fault("name", fmt.Sprintf("%.80q", c.Name), "up to 256 of a to z, 0 to 9, dots and single dashes between them")
	}
	for i, p := range c.Allow {
		if !p.IsValid() {
			fault(fmt.Sprintf("allow[%d]", i), p, "a network, e.g. 127.0.0.0/8")
		}
	}
	if err := c.Probe.Validate(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Validate returns every problem of c, joined, each beginning with its key.
func (c ProbeConfig) Validate() error {
	var errs []error
	if c.Timeout <= 0 {
		errs = append(errs, fmt.Errorf("probe.timeout: %v; want more than 0s", c.Timeout))
	}
	if c.DialTimeout <= 0 || c.DialTimeout > c.Timeout {
		errs = append(errs, fmt.Errorf("probe.dial_timeout: %v; want more than 0s, and timeout, %v, at the most", c.DialTimeout, c.Timeout))
	}
	if c.AtOnce < 1 || c.AtOnce > 1024 {
		errs = append(errs, fmt.Errorf("probe.at_once: %d; want 1 to 1024", c.AtOnce))
	}
	if c.MaxAnswerBytes <= 0 {
		errs = append(errs, fmt.Errorf("probe.max_answer_bytes: %d; want 1 or more", c.MaxAnswerBytes))
	}
	return errors.Join(errs...)
}
