package server

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"time"

	"github.com/llmgw/llmgw/auth"
	"github.com/llmgw/llmgw/auth/account"
	"github.com/llmgw/llmgw/auth/limit"
	"github.com/llmgw/llmgw/auth/limit/shared"
	"github.com/llmgw/llmgw/auth/portal"
	"github.com/llmgw/llmgw/auth/usage"
	"github.com/llmgw/llmgw/cmd/internal/config/logging"
	"github.com/llmgw/llmgw/engines/plugin"
	"github.com/llmgw/llmgw/fleet/console"
	"github.com/llmgw/llmgw/fleet/controlplane"
	"github.com/llmgw/llmgw/fleet/feed"
	"github.com/llmgw/llmgw/router/gateway"
)

// Config is server.yaml. Start from DefaultConfig.
type Config struct {
	// Listen is where clients reach the OpenAI-compatible API. Default
	// ":8080", every address of the machine; host:port, port 0 takes a free
	// one.
	Listen string `yaml:"listen"`
	// AdminListen serves operators: metrics, pprof, health. Default
	// "127.0.0.1:9090"; loopback only, because a heap profile holds keys and
	// prompts.
	AdminListen string `yaml:"admin_listen"`
	// MetricsListen serves `/metrics`, `/health` and `/ready` and nothing
	// else, for a Prometheus on another machine. Default "", no such
	// listener; host:port.
	MetricsListen string `yaml:"metrics_listen"`
	// AgentListen is where the agents of GPU machines dial in. Default ":7443";
	// host:port, port 0 takes a free one. The server is a control plane and listens
	// there where this key is written, here or in a variable, and where a model has a
	// profile when it starts, be it here or in the store; then, without agent_tls, on
	// 127.0.0.1 only. Written as "" it is none.
	AgentListen string `yaml:"agent_listen"`
	// AgentTLS is by what this server and the agents know each other. Default none:
	// agents speak in clear, which is for a network that you trust only.
	AgentTLS AgentTLS `yaml:"agent_tls"`
	// Control is how a control plane watches its agents.
	Control controlplane.Config `yaml:"control"`
	// Plugins are the adapters of engines that are programs of their own, as nodes have
	// them in their agent.yaml. A control plane asks them what a replica needs and what
	// is to be known of its engine, and starts no engine by them. Without one of an
	// engine that only nodes know, its cards are divided evenly over the ranks, and
	// routers rely on nothing in it.
	Plugins plugin.Config `yaml:"plugins"`
	// Routers is how routers of other processes prove themselves to a control plane.
	Routers Routers `yaml:"routers"`
	// Follow is where a router, `llmgw server --role router`, has its models and
	// engines from. It counts for nothing in another server.
	Follow Follow `yaml:"follow"`
	// TLS gives the client listener a certificate. Default none: plain HTTP.
	TLS TLS `yaml:"tls"`
	// HTTP bounds what clients can take from the client listener before a
	// request is read.
	HTTP HTTP `yaml:"http"`
	// Shutdown is what happens between SIGTERM and the end of the process.
	Shutdown Shutdown `yaml:"shutdown"`
	// Log is what is written to standard error.
	Log logging.Log `yaml:"log"`
	// Store is where keys, usage and budgets are kept.
	Store Store `yaml:"store"`
	// Auth is who may send requests.
	Auth auth.Config `yaml:"auth"`
	// Limits is how the limits of keys are enforced; the limits themselves are the
	// keys'. They count for nothing while auth.enabled is false.
	Limits Limits `yaml:"limits"`
	// Usage is how what requests came to is kept. Nothing is kept while auth.enabled
	// is false.
	Usage usage.Config `yaml:"usage"`
	// Accounts is how people sign up and sign in. It counts for nothing while
	// auth.enabled is false.
	Accounts account.Config `yaml:"accounts"`
	// Portal is the pages on the client listener where people sign in.
	Portal Portal `yaml:"portal"`
	// Landing is the page at / of the client listener, which needs no key.
	Landing portal.Config `yaml:"landing"`
	// Console is the operators' pages, at /admin/ for those whom `llmgw users admin`
	// names, and at /console/ of the admin listener.
	Console console.Config `yaml:"console"`
	// Gateway is the data plane; its keys stand at the top of the file.
	Gateway gateway.Config `yaml:",inline"`

	// Agents: agent_listen was written.
	Agents bool `yaml:"-"`
	// Router: the server is a router that follows control planes, and none itself.
	Router bool `yaml:"-"`
	// StoredProfiles: a model in the store has a profile.
	StoredProfiles bool `yaml:"-"`
}

// TLS is a certificate on disk. It is read again when it changes, so that a
// renewed one needs no restart.
type TLS struct {
	// CertFile is a PEM file with the certificate and its chain. Default "";
	// set both files or none.
	CertFile string `yaml:"cert_file"`
	// KeyFile is the PEM file with its private key. Default "".
	KeyFile string `yaml:"key_file"`
}

// HTTP is the limits of the client listener.
type HTTP struct {
	// ReadHeaderTimeout is how long a connection may take to send the head of
	// a request. Default 10s; must be positive. Too low cuts clients on bad
	// links, too high lets idle attackers hold connections.
	ReadHeaderTimeout time.Duration `yaml:"read_header_timeout"`
	// IdleTimeout is how long a connection may wait for its next request.
	// Default 2m; must be positive. Keep it above that of a load balancer in
	// front, so that the balancer closes first.
	IdleTimeout time.Duration `yaml:"idle_timeout"`
	// MaxHeaderBytes bounds the head of a request; a larger one is answered
	// 431. Default 65536 bytes; 4096 to 1048576.
	MaxHeaderBytes int `yaml:"max_header_bytes"`
	// MaxConnections is how many client connections may be open at once; more
	// are closed as they come, and counted. Default 20000; 0 sets no bound;
	// must not be negative. Each takes a file descriptor and about 10 KiB.
	MaxConnections int `yaml:"max_connections"`
	// MaxConcurrentStreams is how many requests one HTTP/2 connection may
	// have open at once (HTTP/2 needs tls). Default 250; 1 to 100000.
	MaxConcurrentStreams int `yaml:"max_concurrent_streams"`
}

// Shutdown is the order and the patience of an end: readiness fails, new
// requests are still served for Grace, what runs may finish within Drain.
type Shutdown struct {
	// Grace is how long new requests are served after readiness fails, so that
	// load balancers look elsewhere first. Default 5s; 0 stops at once; must
	// not be negative.
	Grace time.Duration `yaml:"grace"`
	// Drain is how long running requests may take after that; then they are
	// cut. Default 60s; 0 cuts at once; must not be negative. A supervisor's
	// patience (systemd TimeoutStopSec, Kubernetes
	// terminationGracePeriodSeconds) must exceed grace and drain together.
	Drain time.Duration `yaml:"drain"`
}

// DefaultConfig returns the defaults: what an empty file means.
func DefaultConfig() Config {
	return Config{
		Listen:      ":8080",
		AdminListen: "127.0.0.1:9090",
		AgentListen: ":7443",
		Control:     controlplane.DefaultConfig(),
		Plugins:     plugin.DefaultConfig(),
		Follow:      Follow{Servers: []string{}, File: "llmgw.feed", Reconnect: feed.DefaultConfig().Reconnect},
		HTTP: HTTP{
			ReadHeaderTimeout:    10 * time.Second,
			IdleTimeout:          2 * time.Minute,
			MaxHeaderBytes:       64 << 10,
			MaxConnections:       20000,
			MaxConcurrentStreams: 250,
		},
		Shutdown: Shutdown{Grace: 5 * time.Second, Drain: time.Minute},
		Log:      logging.Default(),
		Store:    Store{DSN: defaultDSN},
		Auth:     auth.DefaultConfig(),
		Limits:   Limits{Memory: limit.DefaultConfig(), Shared: shared.DefaultConfig(), AssumedOutputTokens: 1000},
		Usage:    usage.DefaultConfig(),
		Accounts: account.DefaultConfig(),
		Portal:   DefaultPortal(),
		Landing:  portal.DefaultConfig(),
		Console:  console.DefaultConfig(),
		Gateway:  gateway.DefaultConfig(),
	}
}

// Validate returns every fault, joined, each beginning with its key.
func (c Config) Validate() error {
	return errors.Join(
		c.validateListeners(),
		c.TLS.validate(),
		c.AgentTLS.files().validate(),
		under("control.", c.Control.Validate()),
		under("plugins.", c.Plugins.Validate()),
		c.Routers.validate(c.AgentTLS),
		c.Follow.validate(),
		c.HTTP.validate(),
		c.Shutdown.validate(),
		c.Log.Validate(),
		under("store.dsn: ", c.Store.DSN.Validate()),
		under("auth.", c.Auth.Validate()),
		c.Limits.validate(),
		under("usage.", c.Usage.Validate()),
		under("accounts.", c.Accounts.Validate()),
		under("portal.", c.Portal.Pages.Validate()),
		under("landing.", c.Landing.Validate()),
		under("console.", c.Console.Validate()),
		c.Gateway.Validate(),
	)
}

func (c Config) validateListeners() error {
	var errs []error
	taken := make(map[string]string, 3) // address → key
	check := func(key, address, example string, loopback bool) {
		host, port, err := splitAddress(address)
		switch {
		case isPort(address):
			if loopback {
				address = "127.0.0.1:" + address
			} else {
				address = ":" + address
			}
			errs = append(errs, fmt.Errorf("%s: a port alone is no address; want %q", key, address))
			return
		case err != nil:
			errs = append(errs, fmt.Errorf("%s: %q is no address: %w; want e.g. %q", key, address, err, example))
			return
		case loopback && !isLoopback(host):
			errs = append(errs, fmt.Errorf("%s: %q is open to other machines; want a loopback address, e.g. %q, because profiles hold keys and prompts (metrics_listen serves other machines)", key, address, example))
			return
		case port == "0":
			return
		}
		if other, twice := taken[address]; twice {
			errs = append(errs, fmt.Errorf("%s: %q is %s already; want another port", key, address, other))
			return
		}
		taken[address] = key
	}
	check("listen", c.Listen, ":8080", false)
	check("admin_listen", c.AdminListen, "127.0.0.1:9090", true)
	if c.MetricsListen != "" {
		check("metrics_listen", c.MetricsListen, ":9091", false)
	}
	if c.AgentListen != "" {
		check("agent_listen", c.AgentListen, ":7443", false)
	}
	return errors.Join(errs...)
}

func splitAddress(address string) (host, port string, err error) {
	host, port, err = net.SplitHostPort(address)
	if err != nil {
		if detail, ok := errors.AsType[*net.AddrError](err); ok {
			return "", "", errors.New(detail.Err)
		}
		return "", "", err
	}
	if !isPort(port) {
		return "", "", fmt.Errorf("port %q is not a number from 0 to 65535", port)
	}
	return host, port, nil
}

func isPort(text string) bool {
	n, err := strconv.ParseUint(text, 10, 16)
	return err == nil && strconv.FormatUint(n, 10) == text
}

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

func (t TLS) validate() error {
	switch {
	case t.CertFile != "" && t.KeyFile == "":
		return fmt.Errorf("tls.key_file: %q is empty, but tls.cert_file is set; set both or none", t.KeyFile)
	case t.CertFile == "" && t.KeyFile != "":
		return fmt.Errorf("tls.cert_file: %q is empty, but tls.key_file is set; set both or none", t.CertFile)
	}
	return nil
}

func (h HTTP) validate() error {
	var errs []error
	if h.ReadHeaderTimeout <= 0 {
		errs = append(errs, fmt.Errorf("http.read_header_timeout: %v is not positive; want e.g. 10s", h.ReadHeaderTimeout))
	}
	if h.IdleTimeout <= 0 {
		errs = append(errs, fmt.Errorf("http.idle_timeout: %v is not positive; want e.g. 2m", h.IdleTimeout))
	}
	if h.MaxHeaderBytes < 4<<10 || h.MaxHeaderBytes > 1<<20 {
		errs = append(errs, fmt.Errorf("http.max_header_bytes: %d is out of range; want 4096 to 1048576", h.MaxHeaderBytes))
	}
	if h.MaxConnections < 0 {
		errs = append(errs, fmt.Errorf("http.max_connections: %d is negative; want 0 (no bound) or more", h.MaxConnections))
	}
	if h.MaxConcurrentStreams < 1 || h.MaxConcurrentStreams > 100000 {
		errs = append(errs, fmt.Errorf("http.max_concurrent_streams: %d is out of range; want 1 to 100000", h.MaxConcurrentStreams))
	}
	return errors.Join(errs...)
}

func (s Shutdown) validate() error {
	var errs []error
	if s.Grace < 0 {
		errs = append(errs, fmt.Errorf("shutdown.grace: %v is negative; want 0 or more, e.g. 5s", s.Grace))
	}
	if s.Drain < 0 {
		errs = append(errs, fmt.Errorf("shutdown.drain: %v is negative; want 0 or more, e.g. 60s", s.Drain))
	}
	return errors.Join(errs...)
}
