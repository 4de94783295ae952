package account

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

func TestConfig(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*Config){
		"max_pending":     func(c *Config) { c.MaxPending = 0 },
		"keep_pending":    func(c *Config) { c.KeepPending = time.Minute },
		"session_idle":    func(c *Config) { c.SessionIdle = 0 },
		"session_life":    func(c *Config) { c.SessionLife = 1000 * time.Hour },
		"at most that":    func(c *Config) { c.SessionLife = 10 * time.Minute },
		"max_sessions":    func(c *Config) { c.MaxSessions = 1001 },
		"link_life":       func(c *Config) { c.LinkLife = time.Second },
		"max_hashes":      func(c *Config) { c.MaxHashes = -1 },
		"max_waiting":     func(c *Config) { c.MaxWaiting = -1 },
		"max_keys":        func(c *Config) { c.MaxKeys = 10_001 },
		"throttle.free":   func(c *Config) { c.Throttle.Free = 0 },
		"throttle.first":  func(c *Config) { c.Throttle.First = 0 },
		"throttle.most":   func(c *Config) { c.Throttle.Most = time.Millisecond },
		"throttle.forget": func(c *Config) { c.Throttle.Forget = time.Minute },
	} {
		c := DefaultConfig()
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := New(c, Deps{}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("New of %s: %v", name, err)
		}
	}
	if err := (Config{}).Validate(); err == nil {
		t.Error("the zero configuration is valid")
	}
	if _, err := New(DefaultConfig(), Deps{}); err == nil {
		t.Error("a service of nothing")
	}
	b := newBench(t, nil)
	reg := prometheus.NewRegistry()
	for want := range 2 { // the second of one registry is an error, not a panic
		deps := b.deps
		deps.Registerer = reg
		if _, err := New(DefaultConfig(), deps); (err != nil) != (want == 1) {
			t.Errorf("New number %d: %v", want, err)
		}
	}
}
