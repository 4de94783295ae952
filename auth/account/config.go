package account

import (
	"errors"
	"fmt"
	"time"

	"github.com/llmgw/llmgw/storage"
)

// Config is the accounts' tunable data. Start from DefaultConfig.
type Config struct {
	// SignUp says that people may sign up by themselves. They can do nothing until an
	// operator approves them. Default true.
	SignUp bool `yaml:"sign_up"`
	// MaxPending bounds the accounts that wait to be approved; beyond it nobody can
	// sign up. Default 1000; from 1 to 100000.
	MaxPending int `yaml:"max_pending"`
	// KeepPending is how long an account waits to be approved before it is forgotten.
	// Default 720h; from 1h to 8760h.
	KeepPending time.Duration `yaml:"keep_pending"`
	// SessionIdle is how long a session lasts without being used. Default 30m; from
	// 5m to 24h, and at most session_life.
	SessionIdle time.Duration `yaml:"session_idle"`
	// SessionLife is how long a session lasts, used or not. Default 8h; from 5m to
	// 720h.
	SessionLife time.Duration `yaml:"session_life"`
	// MaxSessions bounds the sessions of one account; a new one ends the oldest beyond
	// it. Default 20; from 1 to 1000.
	MaxSessions int `yaml:"max_sessions"`
	// LinkLife is how long a one-time link can be opened, unless it is said when the
	// link is made. Default 72h; from 10m to 720h.
	LinkLife time.Duration `yaml:"link_life"`
	// MaxHashes is how many passwords are hashed at once, which takes 19 MiB and a
	// core for each. Default 0, which is a quarter of the cores and at least one; from
	// 0 to 64.
	MaxHashes int `yaml:"max_hashes"`
	// MaxWaiting is how many wait for that; who comes then is told to come again.
	// Default 64; from 0 to 10000. 0 lets nobody wait.
	MaxWaiting int `yaml:"max_waiting"`
	// MaxKeys is how many keys that are good for something an account may have, unless
	// its approval says otherwise. Default 10; from 0 to 10000. 0 is none.
	MaxKeys int `yaml:"max_keys"`
	// Throttle is how attempts to sign in that fail slow down those that follow.
	Throttle Throttle `yaml:"throttle"`
}

// Throttle is how attempts to sign in with one address that fail slow down those that
// follow. It never locks anybody out for good.
type Throttle struct {
	// Free is how many attempts in a row have no wait between them. Default 5; from 1
	// to 100.
	Free int `yaml:"free"`
	// First is the wait after the next one; each further one doubles it. Default 1s;
	// from 100ms to 1m.
	First time.Duration `yaml:"first"`
	// Most is the longest wait. Default 15m; from first to 24h.
	Most time.Duration `yaml:"most"`
	// Forget is after how long without an attempt nothing is remembered. Default 24h;
	// from most to 720h.
	Forget time.Duration `yaml:"forget"`
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		SignUp:      true,
		MaxPending:  1000,
		KeepPending: 30 * 24 * time.Hour,
		SessionIdle: 30 * time.Minute,
		SessionLife: 8 * time.Hour,
		MaxSessions: 20,
		LinkLife:    72 * time.Hour,
		MaxWaiting:  64,
		MaxKeys:     10,
		Throttle:    Throttle{Free: 5, First: time.Second, Most: 15 * time.Minute, Forget: 24 * time.Hour},
	}
}

// Bounds of how long a link may be good.
const (
	LeastLinkLife = 10 * time.Minute
	MostLinkLife  = 30 * 24 * time.Hour
)

// Validate reports every fault of the configuration, joined.
func (c Config) Validate() error {
	var errs []error
	for _, d := range []struct {
		key            string
		v, least, most time.Duration
		example        string
	}{
		{"keep_pending", c.KeepPending, time.Hour, 365 * 24 * time.Hour, "720h"},
		{"session_idle", c.SessionIdle, 5 * time.Minute, 24 * time.Hour, "30m"},
		{"session_life", c.SessionLife, 5 * time.Minute, 30 * 24 * time.Hour, "8h"},
		{"link_life", c.LinkLife, LeastLinkLife, MostLinkLife, "72h"},
		{"throttle.first", c.Throttle.First, 100 * time.Millisecond, time.Minute, "1s"},
		{"throttle.most", c.Throttle.Most, c.Throttle.First, 24 * time.Hour, "15m"},
		{"throttle.forget", c.Throttle.Forget, c.Throttle.Most, 30 * 24 * time.Hour, "24h"},
	} {
		if d.v < d.least || d.v > d.most {
			errs = append(errs, fmt.Errorf("%s: %v is out of range; want %v to %v, e.g. %s", d.key, d.v, d.least, d.most, d.example))
		}
	}
	if c.SessionIdle > c.SessionLife {
		errs = append(errs, fmt.Errorf("session_idle: %v is more than session_life, %v; want at most that", c.SessionIdle, c.SessionLife))
	}
	for _, n := range []struct {
		key            string
		v, least, most int
		example        int
	}{
		{"max_pending", c.MaxPending, 1, 100_000, 1000},
		{"max_sessions", c.MaxSessions, 1, 1000, 20},
		{"max_hashes", c.MaxHashes, 0, 64, 0},
		{"max_waiting", c.MaxWaiting, 0, 10_000, 64},
		{"max_keys", c.MaxKeys, 0, 10_000, 10},
		{"throttle.free", c.Throttle.Free, 1, 100, 5},
	} {
		if n.v < n.least || n.v > n.most {
			errs = append(errs, fmt.Errorf("%s: %d is out of range; want %d to %d, e.g. %d", n.key, n.v, n.least, n.most, n.example))
		}
	}
	return errors.Join(errs...)
}

// storage is the throttle as stores apply it.
func (t Throttle) storage() storage.Throttle {
	return storage.Throttle{Free: t.Free, First: t.First, Most: t.Most, Forget: t.Forget}
}
