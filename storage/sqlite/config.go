package sqlite

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmgw/llmgw/storage"
)

// Config is the store's tunable data. Start from DefaultConfig and set Path.
type Config struct {
	// Path is the database's file. It is made, readable by its owner alone, if it
	// is not there, and so is its directory. Beside it stand the same name with
	// -wal and -shm. It must be on a disk of this machine: a network file system is
	// refused. Required.
	Path string `yaml:"path"`
	// BusyTimeout is how long a call waits for another process that writes.
	// Default 5s; at least 1ms and at most 1h.
	BusyTimeout time.Duration `yaml:"busy_timeout"`
	// Readers is how many calls may read at once. Default 4; from 1 to 64.
	Readers int `yaml:"readers"`
	// CacheBytes is how much of the database each connection holds in memory at
	// most. There is one for each reader and one that writes. Default 16 MiB; from
	// 64 KiB to 4 GiB.
	CacheBytes int64 `yaml:"cache_bytes"`
}

// DefaultConfig returns the defaults. They lack Path.
func DefaultConfig() Config {
	return Config{BusyTimeout: 5 * time.Second, Readers: 4, CacheBytes: 16 << 20}
}

// Validate reports every fault of the configuration, joined. Each wraps
// [storage.ErrInvalid].
func (c Config) Validate() error {
	var errs []error
	fault := func(key string, value any, want string) {
		errs = append(errs, fmt.Errorf("%w: %s: %v; want %s", storage.ErrInvalid, key, value, want))
	}
	if c.Path == "" || strings.Contains(c.Path, "\x00") {
		fault("path", fmt.Sprintf("%q", c.Path), "a file, e.g. /var/lib/llmgw/llmgw.db")
	} else if strings.HasPrefix(c.Path, ":memory:") || strings.HasPrefix(c.Path, "file:") {
		fault("path", c.Path, "the name of a file, not SQLite's URI: what is kept is on disk")
	}
	if c.BusyTimeout < time.Millisecond || c.BusyTimeout > time.Hour {
		fault("busy_timeout", c.BusyTimeout, "1ms to 1h, e.g. 5s")
	}
	if c.Readers < 1 || c.Readers > 64 {
		fault("readers", c.Readers, "1 to 64")
	}
	if c.CacheBytes < 64<<10 || c.CacheBytes > 4<<30 {
		fault("cache_bytes", c.CacheBytes, fmt.Sprintf("64 KiB to 4 GiB (%d to %d)", 64<<10, int64(4<<30)))
	}
	return errors.Join(errs...)
}

// Deps are the store's collaborators.
type Deps struct {
	// Logger gets changes of state: opened, and why not. Nil discards.
	Logger *slog.Logger
	// Registerer gets the store's metrics. Nil leaves them unregistered.
	Registerer prometheus.Registerer
}
