package agent

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/process"
)

// Config is an agent's tunable data. Start from [DefaultConfig].
type Config struct {
	// Node is the node's id, which its certificate has to prove where there is
	// one. Default empty: the machine's host name. 1 to 63 letters, digits, dots,
	// dashes and underscores.
	Node string `yaml:"node"`
	// Servers are where control planes listen for agents, as https://host:7443,
	// or http:// where the network itself is trusted. They are tried in turn; one
	// that is not the leader says so. Default empty; one at least is needed.
	Servers []string `yaml:"servers"`
	// StateDir keeps what must outlive the agent: what it was ordered, and a
	// directory for each shard with its record and its logs. It is made if it is
	// missing, for the agent's user alone. Default /var/lib/llmgw-agent; absolute.
	StateDir string `yaml:"state_dir"`
	// Address is where other nodes and routers reach this node's engines, which
	// bind it. Default empty: an address of mgmt_interface. An IP address.
	Address string `yaml:"address"`
	// Labels are told to the control plane, for people and for placement. Default
	// none.
	Labels map[string]string `yaml:"labels"`
	// Engines are the engines that may run here and their executables: an absolute
	// path, or a name that is looked up in PATH; empty for the adapter's own. Default
	// none: the node runs simulated engines and nothing else.
	Engines map[engines.Name]string `yaml:"engines"`
	// Ports are those that engines get. Where neither end of the range is written, the
	// control plane says which; another range holds for engines that are started from
	// then on.
	Ports Ports `yaml:"port_range"`
	// Reconnect is how a control plane that is away, or refuses, is tried again.
	Reconnect Reconnect `yaml:"reconnect"`
	// Keep is how long a shard that was stopped is remembered, with its logs: an
	// order that comes late does not start it again. Default 24h; at least 1h.
	Keep time.Duration `yaml:"keep"`
	// LoadInterval is how often an engine that is ready is asked how much it has to
	// do; one that is to finish is asked each second. Default 5s; at least 1s.
	LoadInterval time.Duration `yaml:"load_interval"`
	// MemoryTimeout bounds how long the memory of a stopped shard's cards may take
	// to come free before the shard is reported as stopped all the same, with who
	// holds it. Default 30s; 0 does not wait; not negative.
	MemoryTimeout time.Duration `yaml:"memory_timeout"`
	// StateTimeout bounds how long the disk may take to keep an order before it is
	// answered that the node cannot. Default 5s; must be positive.
	StateTimeout time.Duration `yaml:"state_timeout"`
	// Weights is where this node's storage has weights of models.
	Weights Weights `yaml:"weights"`
	// Process is how the processes of engines are run and looked after.
	Process process.Config `yaml:"process"`
}

// Weights says where weights of models may be. An agent looks for those that the
// control plane asks about, and reads their headers; it never changes, fetches or
// removes anything there.
type Weights struct {
	// Dirs are the directories that may hold weights, shared filesystems or local ones.
	// Nothing outside of them is looked at, whatever is asked about. Default none:
	// nothing is looked for or told. Absolute paths, at most 64.
	Dirs []string `yaml:"dirs"`
	// Interval is after which time it is looked again for what was looked for before.
	// Default 5m; at least 10s.
	Interval time.Duration `yaml:"interval"`
	// Timeout bounds one look. A directory that does not answer in that time, as a
	// network filesystem whose server is gone, is not looked into again until it does.
	// Default 10s; must be positive.
	Timeout time.Duration `yaml:"timeout"`
}

// mostDirs bounds the directories: each has a goroutine while it is looked into.
const mostDirs = 64

func (w Weights) validate() error {
	var errs []error
	if len(w.Dirs) > mostDirs {
		errs = append(errs, fmt.Errorf("weights.dirs: %d directories; want at most %d", len(w.Dirs), mostDirs))
	}
	for i, dir := range w.Dirs {
		switch {
		case !filepath.IsAbs(dir):
			errs = append(errs, fmt.Errorf("weights.dirs[%d]: %q is not absolute; want e.g. /models", i, dir))
		case filepath.Clean(dir) == "/":
			errs = append(errs, fmt.Errorf("weights.dirs[%d]: %q is the whole machine; want the directories that hold weights, e.g. /models", i, dir))
		case slices.ContainsFunc(w.Dirs[:i], func(other string) bool { return filepath.Clean(other) == filepath.Clean(dir) }):
			errs = append(errs, fmt.Errorf("weights.dirs[%d]: %q stands there already; list it once", i, dir))
		}
	}
	if w.Interval < 10*time.Second {
		errs = append(errs, fmt.Errorf("weights.interval: %v is too short; want 10s or more, e.g. 5m", w.Interval))
	}
	if w.Timeout <= 0 {
		errs = append(errs, fmt.Errorf("weights.timeout: %v is not positive; want e.g. 10s", w.Timeout))
	}
	return errors.Join(errs...)
}

// Reconnect is how often a control plane is tried. Each pause is drawn between 0
// and a bound that doubles, so that a fleet does not come back all at once; after
// a refusal, between half of it and all of it.
type Reconnect struct {
	// Delay is the first bound. Default 500ms; must be positive.
	Delay time.Duration `yaml:"delay"`
	// MaxDelay is the last bound. Default 10s; from delay to 10s, for a control
	// plane counts on it.
	MaxDelay time.Duration `yaml:"max_delay"`
	// RefusedMaxDelay is the last bound while the control plane answers and refuses
	// the node. Default 60s; max_delay or more.
	RefusedMaxDelay time.Duration `yaml:"refused_max_delay"`
	// Timeout bounds a try, from the dial until the control plane has welcomed the
	// node. Default 10s; must be positive.
	Timeout time.Duration `yaml:"timeout"`
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		StateDir:      "/var/lib/llmgw-agent",
		Ports:         Ports{Rest: process.DefaultPortsConfig().Rest},
		Reconnect:     Reconnect{Delay: 500 * time.Millisecond, MaxDelay: 10 * time.Second, RefusedMaxDelay: time.Minute, Timeout: 10 * time.Second},
		Keep:          24 * time.Hour,
		LoadInterval:  5 * time.Second,
		MemoryTimeout: 30 * time.Second,
		StateTimeout:  5 * time.Second,
		Weights:       Weights{Interval: 5 * time.Minute, Timeout: 10 * time.Second},
		Process:       process.DefaultConfig(),
	}
}

// Validate reports everything that is wrong with c, joined, each beginning with
// its key.
func (c Config) Validate() error {
	var errs []error
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Node != "" {
		if err := engines.ValidID(c.Node); err != nil {
			fault("node: %w", err)
		}
	}
	if len(c.Servers) == 0 {
		fault("servers: is empty; want where the control plane listens for agents, e.g. [https://control.example:7443]")
	}
	for i, s := range c.Servers {
		if err := validServer(s); err != nil {
			fault("servers[%d]: %w", i, err)
		}
	}
	if !filepath.IsAbs(c.StateDir) {
		fault("state_dir: %q is not absolute; want e.g. /var/lib/llmgw-agent", c.StateDir)
	}
	if c.Address != "" {
		if ip, err := netip.ParseAddr(c.Address); err != nil || ip.IsUnspecified() || ip.IsMulticast() || ip.Zone() != "" {
			fault("address: %q is no address at which others reach this node; want e.g. 10.0.0.5", c.Address)
		}
	}
	for name := range c.Labels {
		if err := engines.ValidID(name); err != nil {
			fault("labels: %w", err)
		}
	}
	for name, path := range c.Engines {
		if !name.Usable() {
			fault("engines: %q is no name of an engine; want lower-case letters, digits and dashes", name)
		}
		if path != "" && !filepath.IsAbs(path) && filepath.Base(path) != path {
			fault("engines.%s: %q is neither an absolute path nor a name that is looked up in PATH", name, path)
		}
	}
	if _, err := process.NewPorts(c.Ports.over(defaults{})); err != nil {
		fault("port_range: %w", err)
	}
	errs = append(errs, c.Reconnect.validate(), c.Weights.validate())
	if c.Keep < time.Hour {
		fault("keep: %v is too short; want 1h or more, e.g. 24h", c.Keep)
	}
	if c.LoadInterval < time.Second {
		fault("load_interval: %v is too short; want 1s or more, e.g. 5s", c.LoadInterval)
	}
	if c.MemoryTimeout < 0 {
		fault("memory_timeout: %v is negative; want 0 or more, e.g. 30s", c.MemoryTimeout)
	}
	if c.StateTimeout <= 0 {
		fault("state_timeout: %v is not positive; want e.g. 5s", c.StateTimeout)
	}
	for _, err := range joined(c.Process.Validate()) {
		fault("process.%w", err)
	}
	return errors.Join(errs...)
}

func (r Reconnect) validate() error {
	var errs []error
	if r.Delay <= 0 {
		errs = append(errs, fmt.Errorf("reconnect.delay: %v is not positive; want e.g. 500ms", r.Delay))
	}
	if r.MaxDelay < r.Delay || r.MaxDelay > 10*time.Second {
		errs = append(errs, fmt.Errorf("reconnect.max_delay: %v is out of range; want reconnect.delay to 10s", r.MaxDelay))
	}
	if r.RefusedMaxDelay < r.MaxDelay {
		errs = append(errs, fmt.Errorf("reconnect.refused_max_delay: %v is less than reconnect.max_delay; want e.g. 60s", r.RefusedMaxDelay))
	}
	if r.Timeout <= 0 {
		errs = append(errs, fmt.Errorf("reconnect.timeout: %v is not positive; want e.g. 10s", r.Timeout))
	}
	return errors.Join(errs...)
}

// validServer reports what is wrong with the address of a control plane.
func validServer(server string) error {
	u, err := url.Parse(server)
	switch {
	case err != nil:
		return fmt.Errorf("%q is no URL; want e.g. https://control.example:7443", server)
	case !slices.Contains([]string{"http", "https"}, u.Scheme) || u.Hostname() == "":
		return fmt.Errorf("%q has no scheme or no host; want e.g. https://control.example:7443", server)
	case u.Port() == "":
		return fmt.Errorf("%q has no port; want e.g. %s://%s", server, u.Scheme, net.JoinHostPort(u.Hostname(), "7443"))
	case u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "" || u.User != nil:
		return fmt.Errorf("%q has more than a scheme, a host and a port", server)
	}
	return nil
}

// joined takes joined errors apart.
func joined(err error) []error {
	if many, ok := err.(interface{ Unwrap() []error }); ok { //nolint:errorlint // the outermost is what is taken apart
		return many.Unwrap()
	}
	if err == nil {
		return nil
	}
	return []error{err}
}
