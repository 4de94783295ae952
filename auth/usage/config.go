package usage

import (
	"errors"
	"fmt"
	"time"
)

// Config is how usage is kept. Start from DefaultConfig.
type Config struct {
	// BufferRows is how many requests may wait for the store; later ones are
	// dropped and counted. One takes some 600 bytes. Default 8000; 1 to 1000000.
	BufferRows int `yaml:"buffer_rows"`
	// BatchRows is how many go to the store at once at most. Default 2000; 1 to
	// buffer_rows.
	BatchRows int `yaml:"batch_rows"`
	// FlushInterval is how long a row waits for others. Default 1s; 10ms to 1m.
	FlushInterval time.Duration `yaml:"flush_interval"`
	// WriteTimeout is how long the store may take for a batch, which is then sent
	// again. Default 10s; 100ms to 5m.
	WriteTimeout time.Duration `yaml:"write_timeout"`
	// DrainTimeout is how long the end of the process waits for what is still in
	// the buffer. Default 10s; 0 drops it.
	DrainTimeout time.Duration `yaml:"drain_timeout"`
	// Retention is how long is kept what.
	Retention Retention `yaml:"retention"`
}

// Retention is how long the store keeps usage. What a page or a budget adds up
// comes from roll-ups, which may be kept longer than the rows.
type Retention struct {
	// Rows is how long a request's own row is kept. Default 2160h (90 days);
	// at least 24h; 0 keeps all.
	Rows time.Duration `yaml:"rows"`
	// Hours is how long the sums by hour are kept. Default 9600h (400 days);
	// at least 24h; 0 keeps all.
	Hours time.Duration `yaml:"hours"`
	// Days is how long the sums by day are kept. Default 0, which keeps all; at
	// least 24h otherwise.
	Days time.Duration `yaml:"days"`
}

const day = 24 * time.Hour

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		BufferRows: 8000, BatchRows: 2000, FlushInterval: time.Second, WriteTimeout: 10 * time.Second, DrainTimeout: 10 * time.Second,
		Retention: Retention{Rows: 90 * day, Hours: 400 * day},
	}
}

// Validate returns every problem of c, joined, each with the field's key.
func (c Config) Validate() error {
	var errs []error
	between := func(key string, v, least, most time.Duration) {
		if v < least || v > most {
			errs = append(errs, fmt.Errorf("%s: %v is out of range; want %v to %v", key, v, least, most))
		}
	}
	if c.BufferRows < 1 || c.BufferRows > 1_000_000 {
		errs = append(errs, fmt.Errorf("buffer_rows: %d is out of range; want 1 to 1000000", c.BufferRows))
	} else if c.BatchRows < 1 || c.BatchRows > c.BufferRows {
		errs = append(errs, fmt.Errorf("batch_rows: %d is out of range; want 1 to buffer_rows, which is %d", c.BatchRows, c.BufferRows))
	}
	between("flush_interval", c.FlushInterval, 10*time.Millisecond, time.Minute)
	between("write_timeout", c.WriteTimeout, 100*time.Millisecond, 5*time.Minute)
	between("drain_timeout", c.DrainTimeout, 0, time.Hour)
	for _, r := range []struct {
		key string
		v   time.Duration
	}{{"rows", c.Retention.Rows}, {"hours", c.Retention.Hours}, {"days", c.Retention.Days}} {
		if r.v != 0 && r.v < day {
			errs = append(errs, fmt.Errorf("retention.%s: %v is too short; want at least 24h, or 0 to keep all", r.key, r.v))
		}
	}
	return errors.Join(errs...)
}
