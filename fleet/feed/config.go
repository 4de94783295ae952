package feed

import (
	"errors"
	"fmt"
	"time"

	"github.com/llmgw/llmgw/engines"
)

// The protocol's version, and the times that both ends count on.
const (
	protocol = 1

	// Ping is how often a frame comes at least.
	Ping = 5 * time.Second
	// Lease is how long a router that says nothing counts as one that lives.
	Lease = 30 * time.Second
	// reportEvery is how often a report is wanted at the least while nothing happens.
	reportEvery = 5 * time.Second
	// leastReport is how often one may be wanted at the most.
	leastReport = time.Second
	// fresh is how old a router's word may be to count as said: three reports.
	fresh = 3 * reportEvery
)

// PublisherConfig is what an operator may set of the publishing end. Start from
// [DefaultPublisherConfig].
type PublisherConfig struct {
	// Gather is the least time between two versions: what changes meanwhile goes
	// together. Default 50ms; 0 to 1s. The first change is published at once.
	Gather time.Duration `yaml:"gather"`
	// MaxRouters bounds the routers; a further one is refused. Default 1000; must be
	// positive.
	MaxRouters int `yaml:"max_routers"`
	// MaxQueue bounds the versions that wait for a router that reads slowly; beyond
	// it they are dropped, and it gets a snapshot of what is newest. Default 64; must
	// be positive.
	MaxQueue int `yaml:"max_queue"`
	// WriteTimeout is how long one frame may take to be written to a router; the
	// stream of one that does not read is ended. Default 10s; must be positive.
	WriteTimeout time.Duration `yaml:"write_timeout"`
	// KeepRevoked is how long a revocation stays in the feed: longer than any router
	// remembers a key without asking. Default 24h; at least 1h.
	KeepRevoked time.Duration `yaml:"keep_revoked"`
	// Report is how often routers are to say what they do while nothing changes: well
	// within the time after which a replica that nobody saw work counts as lost. Set
	// by who embeds the package. Default 5s; 1s to 5s.
	Report time.Duration `yaml:"-"`
}

// DefaultPublisherConfig returns the defaults.
func DefaultPublisherConfig() PublisherConfig {
	return PublisherConfig{Gather: 50 * time.Millisecond, MaxRouters: 1000, MaxQueue: 64, WriteTimeout: 10 * time.Second, KeepRevoked: 24 * time.Hour, Report: reportEvery}
}

// Validate returns every problem of c, joined, each beginning with its key.
func (c PublisherConfig) Validate() error {
	var errs []error
	fault := func(key string, value any, want string) {
		errs = append(errs, fmt.Errorf("%s: %v; want %s", key, value, want))
	}
	if c.Gather < 0 || c.Gather > time.Second {
		fault("gather", c.Gather, "0s to 1s")
	}
	if c.MaxRouters <= 0 {
		fault("max_routers", c.MaxRouters, "1 or more")
	}
	if c.MaxQueue <= 0 {
		fault("max_queue", c.MaxQueue, "1 or more")
	}
	if c.WriteTimeout <= 0 {
		fault("write_timeout", c.WriteTimeout, "more than 0s")
	}
	if c.KeepRevoked < time.Hour {
		fault("keep_revoked", c.KeepRevoked, "1h or more")
	}
	if c.Report < leastReport || c.Report > reportEvery {
		fault("report", c.Report, fmt.Sprintf("%v to %v", leastReport, reportEvery))
	}
	return errors.Join(errs...)
}

// Config is what an operator may set of a router's end. Start from
// [DefaultConfig].
type Config struct {
	// Router is this router's name, which its certificate has to prove where there
	// is one. Required. 1 to 63 letters, digits, dots, dashes and underscores.
	Router string `yaml:"router"`
	// Cluster is the one that is followed, and no other. Default "": the one of the
	// copy on the disk, and without a copy the first that is heard of.
	Cluster string `yaml:"cluster"`
	// File is where the router keeps a copy of what it knows, which it serves from
	// after a start without a control plane. It has the secrets of all engines in it
	// and is readable by its owner alone. Default "": no copy is kept.
	File string `yaml:"file"`
	// SaveInterval is the least time between two savings of the copy. Default 1s;
	// must be positive.
	SaveInterval time.Duration `yaml:"save_interval"`
	// Silence is after how long without a frame the next address is tried. Default
	// 10s; at least 6s: a frame comes every 5s.
	Silence time.Duration `yaml:"silence"`
	// Reconnect is how often a control plane that is away, or refuses, is tried.
	Reconnect Reconnect `yaml:"reconnect"`
}

// Reconnect is how often a control plane is tried. Each pause is drawn between 0
// and a bound that doubles, so that routers do not come back all at once; after a
// refusal, between half of it and all of it.
type Reconnect struct {
	// Delay is the first bound. Default 500ms; must be positive.
	Delay time.Duration `yaml:"delay"`
	// MaxDelay is the last bound. Default 10s; from delay to 10s, for a control plane
	// counts on it.
	MaxDelay time.Duration `yaml:"max_delay"`
	// RefusedMaxDelay is the last bound while the control plane answers and refuses
	// the router. Default 60s; from max_delay to 60s.
	RefusedMaxDelay time.Duration `yaml:"refused_max_delay"`
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		SaveInterval: time.Second, Silence: 10 * time.Second,
		Reconnect: Reconnect{Delay: 500 * time.Millisecond, MaxDelay: 10 * time.Second, RefusedMaxDelay: time.Minute},
	}
}

// Validate returns every problem of c, joined, each beginning with its key.
func (c Config) Validate() error {
	var errs []error
	fault := func(key string, value any, want string) {
		errs = append(errs, fmt.Errorf("%s: %v; want %s", key, value, want))
	}
	if err := engines.ValidID(c.Router); err != nil {
		errs = append(errs, fmt.Errorf("router: %w", err))
	}
	if c.Cluster != "" {
		if err := engines.ValidID(c.Cluster); err != nil {
			errs = append(errs, fmt.Errorf("cluster: %w", err))
		}
	}
	if c.SaveInterval <= 0 {
		fault("save_interval", c.SaveInterval, "more than 0s")
	}
	if c.Silence < Ping+time.Second {
		fault("silence", c.Silence, fmt.Sprintf("at least %v, for a frame comes every %v", Ping+time.Second, Ping))
	}
	if err := c.Reconnect.Validate(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Validate returns every problem of r, joined, each beginning with its key below
// that of the whole configuration.
func (r Reconnect) Validate() error {
	var errs []error
	fault := func(key string, value time.Duration, want string) {
		errs = append(errs, fmt.Errorf("reconnect.%s: %v; want %s", key, value, want))
	}
	if r.Delay <= 0 {
		fault("delay", r.Delay, "more than 0s")
	}
	if r.MaxDelay < r.Delay || r.MaxDelay > 10*time.Second {
		fault("max_delay", r.MaxDelay, "delay to 10s")
	}
	if r.RefusedMaxDelay < r.MaxDelay || r.RefusedMaxDelay > time.Minute {
		fault("refused_max_delay", r.RefusedMaxDelay, "max_delay to 60s")
	}
	return errors.Join(errs...)
}
