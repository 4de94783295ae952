package record

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Config is the log's tunable data. Start from DefaultConfig and set Dir.
type Config struct {
	// Dir is the directory of the log, made if it is not there. Nothing else
	// should be in it. Required.
	Dir string `yaml:"dir"`
	// MaxBytes bounds the segments in Dir, those of earlier runs and other
	// versions included; the oldest go first. Default 512 MiB; at least 1 MiB
	// and four times buffer_bytes.
	MaxBytes int64 `yaml:"max_bytes"`
	// MaxAge is how long an entry is kept at most, by the system's clock;
	// entries go by the segment, so that some go up to an eighth earlier.
	// Default 72h; must be at least 1m.
	MaxAge time.Duration `yaml:"max_age"`
	// BufferBytes is how many bytes of entries wait in memory to be written;
	// what comes while it is full is dropped and counted. Twice as much
	// memory is used. Default 8 MiB; at least 64 KiB and twice
	// max_entry_bytes.
	BufferBytes int64 `yaml:"buffer_bytes"`
	// MaxEntryBytes is the longest payload that is taken. Default 1 MiB; from 1
	// to 16 MiB.
	MaxEntryBytes int64 `yaml:"max_entry_bytes"`
	// FlushInterval is how long an entry waits in memory before it is written
	// to its file, if the buffer is not half full before. Default 1s; must be
	// at least 10ms.
	FlushInterval time.Duration `yaml:"flush_interval"`
	// SyncInterval is how often what was written is made to survive a crash of
	// the machine (fsync). Default 30s; 0 leaves that to the system until a
	// segment is complete, and negative is an error.
	SyncInterval time.Duration `yaml:"sync_interval"`
}

// DefaultConfig returns the defaults. They lack Dir.
func DefaultConfig() Config {
	return Config{
		MaxBytes:      512 << 20,
		MaxAge:        72 * time.Hour,
		BufferBytes:   8 << 20,
		MaxEntryBytes: 1 << 20,
		FlushInterval: time.Second,
		SyncInterval:  30 * time.Second,
	}
}

// Validate reports every fault of the configuration, joined. Each wraps
// ErrInvalid.
func (c Config) Validate() error {
	var errs []error
	fault := func(key string, value any, want string) {
		errs = append(errs, fmt.Errorf("%w: %s: %v; want %s", ErrInvalid, key, value, want))
	}
	if c.Dir == "" {
		fault("dir", `""`, "a directory, e.g. /var/lib/llmgw/record")
	}
	if c.MaxBytes < 1<<20 || c.MaxBytes/4 < c.BufferBytes {
		fault("max_bytes", c.MaxBytes, fmt.Sprintf("at least 1 MiB (%d) and four times buffer_bytes (%d)", 1<<20, c.BufferBytes))
	}
	if c.MaxAge < time.Minute {
		fault("max_age", c.MaxAge, "1m or more, e.g. 72h")
	}
	if c.BufferBytes < 64<<10 || c.BufferBytes/2 < c.MaxEntryBytes {
		fault("buffer_bytes", c.BufferBytes, fmt.Sprintf("at least 64 KiB (%d) and twice max_entry_bytes (%d)", 64<<10, c.MaxEntryBytes))
	}
	if c.MaxEntryBytes < 1 || c.MaxEntryBytes > MaxPayloadBytes {
		fault("max_entry_bytes", c.MaxEntryBytes, fmt.Sprintf("1 to %d", MaxPayloadBytes))
	}
	if c.FlushInterval < 10*time.Millisecond {
		fault("flush_interval", c.FlushInterval, "10ms or more, e.g. 1s")
	}
	if c.SyncInterval < 0 {
		fault("sync_interval", c.SyncInterval, "0 or more, e.g. 30s")
	}
	return errors.Join(errs...)
}

// Deps are the log's collaborators.
type Deps struct {
	// Key is the one that fingerprints in the records are made with; its ID is
	// written to every segment. Required.
	Key Key
	// Writer is the program and its version, for those who read the log. At
	// most 64 bytes are kept.
	Writer string
	// Logger gets changes of state: records are dropped, the disk refuses.
	// Nil discards.
	Logger *slog.Logger
	// Registerer gets the log's metrics; nil leaves them unregistered.
	Registerer prometheus.Registerer
}
