package shared

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/llmgw/llmgw/auth/limit"
)

// Config is the tunable data. Start from DefaultConfig.
type Config struct {
	// RedisURL is the Redis or Valkey in which routers share rates:
	// redis://user:password@host:6379/0, or rediss:// with TLS. A cluster is told
	// by ?addr=host2:6379&addr=host3:6379, Sentinel by ?master_name=mymaster.
	// Default empty: each router allows its part of every rate, the limit divided
	// by the routers that live.
	RedisURL string `yaml:"redis_url"`
	// RedisTimeout is how long a request waits for Redis before it is decided
	// without. Default 50ms; positive.
	RedisTimeout time.Duration `yaml:"redis_timeout"`
	// RedisPrefix begins the names of all keys in Redis. Default "llmgw:".
	RedisPrefix string `yaml:"redis_prefix"`
	// RouterTTL is for how long a router counts as living after it last said so;
	// it says so three times as often. Default 30s; at least 3s.
	RouterTTL time.Duration `yaml:"router_ttl"`
	// Memory is what windows and budgets in memory do, as it is without other
	// routers.
	Memory limit.Config `yaml:"-"`
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{RedisTimeout: 50 * time.Millisecond, RedisPrefix: "llmgw:", RouterTTL: 30 * time.Second, Memory: limit.DefaultConfig()}
}

// Validate returns every problem.
func (c Config) Validate() error {
	var faults []error
	if c.RedisURL != "" {
		if _, err := c.client(nil); err != nil {
			faults = append(faults, err)
		}
	}
	if c.RedisTimeout <= 0 {
		faults = append(faults, fmt.Errorf("redis_timeout: %v; want a positive duration", c.RedisTimeout))
	}
	if c.RouterTTL < 3*time.Second {
		faults = append(faults, fmt.Errorf("router_ttl: %v; want at least 3s", c.RouterTTL))
	}
	return errors.Join(append(faults, c.Memory.Validate())...)
}

// Routers knows which routers live. A storage.Store does.
type Routers interface {
	RenewRouter(ctx context.Context, id string, ttl time.Duration) (live int, err error)
	RemoveRouter(ctx context.Context, id string) error
}

// Deps are the collaborators.
type Deps struct {
	// RouterID names this process among the routers; no other has it, nor has one
	// had it before. Required.
	RouterID string
	// Source keeps the budgets, as [Slices] does. nil: they begin with nothing
	// spent.
	Source limit.Source
	// Routers knows how many routers live; nil: this one is alone.
	Routers    Routers
	Logger     *slog.Logger          // nil discards
	Registerer prometheus.Registerer // nil leaves metrics unregistered
}

// client returns what makes a client of the URL, which dials when it is used, and
// calls greet on each connection before any other.
func (c *Config) client(greet func(context.Context, *redis.Conn) error) (func() redis.UniversalClient, error) {
	// A URL has a password in it and stands in no error, nor does what is made
	// of it.
	bad := errors.New("redis_url: cannot be read; want redis://user:password@host:6379/0, or rediss:// for TLS")
	u, err := url.Parse(c.RedisURL)
	if err != nil {
		return nil, bad
	}
	// No call is repeated: whether it was done is not known, and done twice would
	// be wrong. Nothing is announced to the server, nor asked of it but scripts and for how
	// long it has run.
	off := &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	switch q := u.Query(); {
	case q.Has("master_name"):
		o, err := redis.ParseFailoverURL(c.RedisURL)
		if err != nil {
			return nil, bad
		}
		o.MaxRetries, o.DialerRetries, o.ContextTimeoutEnabled, o.DisableIdentity, o.OnConnect = -1, 1, true, true, greet
		o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = dialTimeout, c.RedisTimeout, c.RedisTimeout, c.RedisTimeout
		return func() redis.UniversalClient { return redis.NewFailoverClient(o) }, nil
	case q.Has("addr"):
		o, err := redis.ParseClusterURL(c.RedisURL)
		if err != nil {
			return nil, bad
		}
		o.MaxRetries, o.ContextTimeoutEnabled, o.DisableIdentity, o.MaintNotificationsConfig, o.OnConnect = -1, true, true, off, greet
		o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = dialTimeout, c.RedisTimeout, c.RedisTimeout, c.RedisTimeout
		return func() redis.UniversalClient { return redis.NewClusterClient(o) }, nil
	default:
		o, err := redis.ParseURL(c.RedisURL)
		if err != nil {
			return nil, bad
		}
		o.MaxRetries, o.DialerRetries, o.ContextTimeoutEnabled, o.DisableIdentity, o.MaintNotificationsConfig, o.OnConnect = -1, 1, true, true, off, greet
		o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = dialTimeout, c.RedisTimeout, c.RedisTimeout, c.RedisTimeout
		return func() redis.UniversalClient { return redis.NewClient(o) }, nil
	}
}

// dialTimeout is longer than a request waits: a connection that takes a while
// serves the next one.
const dialTimeout = time.Second
