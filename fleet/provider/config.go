package provider

import (
	"errors"
	"fmt"
	"net/netip"
	"time"
)

// Config is the registry's tunable data. Start from DefaultConfig.
type Config struct {
	// TTL is how long a lease lives whose agent asks for no other, and how long every
	// dynamic provider has to renew its lease after the registry was loaded. Default
	// 90s; 10s to 24h.
	TTL time.Duration `yaml:"ttl"`
	// SweepInterval is how often each provider is asked what it serves. Default 60s; 1s
	// to 1h.
	SweepInterval time.Duration `yaml:"sweep_interval"`
	// ProbeTimeout is how long one may take to answer. Default 5s; 100ms to
	// SweepInterval.
	ProbeTimeout time.Duration `yaml:"probe_timeout"`
	// Probes is how many are asked at once. Default 32; 2 to 1024. Those that did not
	// answer in time are asked again by three quarters of them at most, so that they
	// delay nobody else.
	Probes int `yaml:"probes"`
	// AnswerBytes bounds what a provider may answer. Default 4 MiB; 1 KiB to 64 MiB.
	AnswerBytes int64 `yaml:"answer_bytes"`
	// RemoveAfter is how long after its first failure a dynamic provider is removed
	// that nobody renews. Default 30m; 1m to 720h.
	RemoveAfter time.Duration `yaml:"remove_after"`
	// ForgetModelsAfter is how long a model is shown that a provider serves no longer.
	// Default 168h; 1m to 8760h.
	ForgetModelsAfter time.Duration `yaml:"forget_models_after"`
	// MaxProviders bounds how many there may be, and twice as many changes may wait for
	// the store. Default 10000; 1 to 100000.
	MaxProviders int `yaml:"max_providers"`
	// AllowCIDRs are the addresses at which providers may be. Default the private
	// ranges of RFC 1918 and RFC 4193; empty allows none but public ones that operators
	// add. Loopback, link-local addresses and Docker's bridge, 172.17.0.0/16, are
	// allowed only by a prefix that lies within them.
	AllowCIDRs []netip.Prefix `yaml:"allow_cidrs"`
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		TTL: 90 * time.Second, SweepInterval: time.Minute, ProbeTimeout: 5 * time.Second, Probes: 32, AnswerBytes: 4 << 20,
		RemoveAfter: 30 * time.Minute, ForgetModelsAfter: 7 * 24 * time.Hour, MaxProviders: 10_000,
		AllowCIDRs: []netip.Prefix{
			netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("172.16.0.0/12"), netip.MustParsePrefix("192.168.0.0/16"),
			netip.MustParsePrefix("fc00::/7"),
		},
	}
}

// Bounds of a lease.
const (
	minTTL = 10 * time.Second
	maxTTL = 24 * time.Hour
)

// Validate reports every problem, joined.
func (c Config) Validate() error {
	var errs []error
	within := func(key string, d, least, most time.Duration) {
		if d < least || d > most {
			errs = append(errs, fmt.Errorf("%s: %v; want %v to %v", key, d, least, most))
		}
	}
	within("ttl", c.TTL, minTTL, maxTTL)
	within("sweep_interval", c.SweepInterval, time.Second, time.Hour)
	within("probe_timeout", c.ProbeTimeout, 100*time.Millisecond, max(c.SweepInterval, 100*time.Millisecond))
	within("remove_after", c.RemoveAfter, time.Minute, 720*time.Hour)
	within("forget_models_after", c.ForgetModelsAfter, time.Minute, 8760*time.Hour)
	if c.Probes < 2 || c.Probes > 1024 {
		errs = append(errs, fmt.Errorf("probes: %d; want 2 to 1024", c.Probes))
	}
	if c.AnswerBytes < 1<<10 || c.AnswerBytes > 64<<20 {
		errs = append(errs, fmt.Errorf("answer_bytes: %d; want 1024 to 67108864", c.AnswerBytes))
	}
	if c.MaxProviders < 1 || c.MaxProviders > 100_000 {
		errs = append(errs, fmt.Errorf("max_providers: %d; want 1 to 100000", c.MaxProviders))
	}
	for _, p := range c.AllowCIDRs {
		if !p.IsValid() {
			errs = append(errs, fmt.Errorf("allow_cidrs: %v; want prefixes, as 10.0.0.0/8", p))
		}
	}
	return errors.Join(errs...)
}
