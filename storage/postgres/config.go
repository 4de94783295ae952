package postgres

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmgw/llmgw/storage"
)

// Config is the store's tunable data. Start from DefaultConfig and set DSN.
type Config struct {
	// DSN says where the server is, as
	// postgres://user:password@host:5432/database?sslmode=verify-full. What it
	// leaves out comes from libpq's environment variables (PGPASSWORD, PGPASSFILE,
	// PGSSLROOTCERT and so on). It may hold a password: errors and logs never show
	// it. Required.
	DSN string `yaml:"dsn"`
	// Schema is the PostgreSQL schema that holds the tables, made if it is not
	// there. Default llmgw; 1 to 63 bytes, not beginning with pg_.
	Schema string `yaml:"schema"`
	// MaxConns bounds the connections. Default 10; from 2 to 1000.
	MaxConns int `yaml:"max_conns"`
	// ConnectTimeout is how long making a connection may take. Default 5s; from
	// 10ms to 1m.
	ConnectTimeout time.Duration `yaml:"connect_timeout"`
	// CallTimeout is how long a method may take, waiting for a connection and
	// repeated tries included; PostgreSQL is told to end its statements too. Check,
	// Export, Import and migrations are not bounded by it. Default 15s; from 100ms
	// to 10m.
	CallTimeout time.Duration `yaml:"call_timeout"`
}

// DefaultConfig returns the defaults. They lack DSN.
func DefaultConfig() Config {
	return Config{Schema: "llmgw", MaxConns: 10, ConnectTimeout: 5 * time.Second, CallTimeout: 15 * time.Second}
}

// Validate reports every fault of the configuration, joined. Each wraps
// [storage.ErrInvalid]. None shows the DSN.
func (c Config) Validate() error {
	var errs []error
	fault := func(key string, value any, want string) {
		errs = append(errs, fmt.Errorf("%w: %s: %v; want %s", storage.ErrInvalid, key, value, want))
	}
	// An error of url.Parse would show the text, and so would its cause.
	if u, err := url.Parse(c.DSN); err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" || u.Opaque != "" {
		fault("dsn", "not shown", "a URL, e.g. postgres://user:password@host:5432/database; escape special characters of the password")
	}
	if len(c.Schema) < 1 || len(c.Schema) > 63 || strings.HasPrefix(c.Schema, "pg_") || strings.ContainsAny(c.Schema, "\x00\"\\") {
		fault("schema", fmt.Sprintf("%q", c.Schema), "1 to 63 bytes without quotes and backslashes, not beginning with pg_")
	}
	if c.MaxConns < 2 || c.MaxConns > 1000 {
		fault("max_conns", c.MaxConns, "2 to 1000")
	}
	if c.ConnectTimeout < 10*time.Millisecond || c.ConnectTimeout > time.Minute {
		fault("connect_timeout", c.ConnectTimeout, "10ms to 1m, e.g. 5s")
	}
	if c.CallTimeout < 100*time.Millisecond || c.CallTimeout > 10*time.Minute {
		fault("call_timeout", c.CallTimeout, "100ms to 10m, e.g. 15s")
	}
	return errors.Join(errs...)
}

// Deps are the store's collaborators.
type Deps struct {
	// Logger gets changes of state: reached, away and why. Nil discards.
	Logger *slog.Logger
	// Registerer gets the store's metrics. Nil leaves them unregistered.
	Registerer prometheus.Registerer
}
