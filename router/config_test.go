package router

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestConfigValidate(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
	if err := (Config{}).Validate(); err == nil {
		t.Error("a bare Config is taken")
	}
	fine := map[string]func(*Config){
		"no retries":             func(c *Config) { c.Retries, c.RetryBudgetRatio, c.RetryBudgetMin = 0, 0, 0 },
		"no session header":      func(c *Config) { c.SessionHeader = "" },
		"memory for one body":    func(c *Config) { c.BodyMemoryBytes = c.MaxBodyBytes },
		"the longest of bodies":  func(c *Config) { c.MaxBodyBytes = 1 << 40 },
		"a profile of one's own": func(c *Config) { c.DefaultProfile = "own" },
	}
	for name, change := range fine {
		c := DefaultConfig()
		change(&c)
		if err := c.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	faults := map[string]func(*Config){
		"retries: -1":                  func(c *Config) { c.Retries = -1 },
		"retry_budget_ratio: NaN":      func(c *Config) { c.RetryBudgetRatio = math.NaN() },
		"retry_budget_ratio: -0.1":     func(c *Config) { c.RetryBudgetRatio = -0.1 },
		"retry_budget_min: -1":         func(c *Config) { c.RetryBudgetMin = -1 },
		`default_profile: ""`:          func(c *Config) { c.DefaultProfile = "" },
		`session_header: "a:b"`:        func(c *Config) { c.SessionHeader = "a:b" },
		"max_body_bytes: -1":           func(c *Config) { c.MaxBodyBytes = -1 },
		"max_body_bytes: 922337203685": func(c *Config) { c.MaxBodyBytes = math.MaxInt64 },
		"body_memory: -1":              func(c *Config) { c.BodyMemoryBytes = -1 },
		"max_form_bytes: 0":            func(c *Config) { c.MaxFormBytes = 0 },
		"spool_bytes: 100 is less":     func(c *Config) { c.SpoolBytes = 100 },
		"response_pins: -1":            func(c *Config) { c.ResponsePins = -1 },
		"response_pins: 10000001":      func(c *Config) { c.ResponsePins = 10_000_001 },
		"response_pin_ttl: 0s":         func(c *Config) { c.ResponsePinTTL = 0 },
		"body_memory: 100 is less":     func(c *Config) { c.BodyMemoryBytes = 100 },
		"body_timeout: 0s":             func(c *Config) { c.BodyTimeout = 0 },
		"timeouts.total: -1s":          func(c *Config) { c.Total = -time.Second },
	}
	for want, change := range faults {
		c := DefaultConfig()
		change(&c)
		err := c.Validate()
		if err == nil || !strings.HasPrefix(err.Error(), want) || !strings.Contains(err.Error(), "; want ") && !strings.Contains(err.Error(), "want at least") {
			t.Errorf("%s: got %v", want, err)
		}
	}
}
