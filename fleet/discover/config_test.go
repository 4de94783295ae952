package discover_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/llmgw/llmgw/fleet/discover"
)

func TestConfig(t *testing.T) {
	if err := discover.DefaultConfig().Validate(); err != nil {
		t.Fatalf("the defaults: %v", err)
	}
	tests := []struct {
		name   string
		change func(*discover.Config)
		want   string
	}{
		{"interval as long as ttl", func(c *discover.Config) { c.Interval = c.TTL }, "interval: 1m30s; want less than ttl, 1m30s"},
		{"interval longer than ttl", func(c *discover.Config) { c.Interval = time.Hour }, "interval: 1h0m0s; want less than ttl"},
		{"interval none", func(c *discover.Config) { c.Interval = 0 }, "interval: 0s"},
		{"ttl none", func(c *discover.Config) { c.TTL = 0 }, "ttl: 0s"},
		{"ttl in parts of seconds", func(c *discover.Config) { c.TTL = 90*time.Second + time.Millisecond }, "ttl: 1m30.001s; want whole seconds"},
		{"discover", func(c *discover.Config) { c.Discover = -1 }, "discover: "},
		{"list_timeout", func(c *discover.Config) { c.ListTimeout = 0 }, "list_timeout: "},
		{"register_timeout", func(c *discover.Config) { c.RegisterTimeout = 0 }, "register_timeout: "},
		{"register_timeout over ttl", func(c *discover.Config) { c.RegisterTimeout = time.Hour }, "register_timeout: 1h0m0s; want less than ttl"},
		{"register_at_once", func(c *discover.Config) { c.RegisterAtOnce = 0 }, "register_at_once: "},
		{"max_candidates", func(c *discover.Config) { c.MaxCandidates = 0 }, "max_candidates: "},
		{"engine", func(c *discover.Config) { c.Engine = "v LLM" }, "engine: "},
		{"name", func(c *discover.Config) { c.Name = "Gold 1" }, "name: "},
		{"name too long", func(c *discover.Config) { c.Name = strings.Repeat("a", 257) }, "name: "},
		{"allow", func(c *discover.Config) { c.Allow = []netip.Prefix{{}} }, "allow[0]: "},
		{"probe.timeout", func(c *discover.Config) { c.Probe.Timeout = 0 }, "probe.timeout: "},
		{"probe.dial_timeout", func(c *discover.Config) { c.Probe.DialTimeout = time.Minute }, "probe.dial_timeout: 1m0s"},
		{"probe.at_once", func(c *discover.Config) { c.Probe.AtOnce = 1025 }, "probe.at_once: "},
		{"probe.max_answer_bytes", func(c *discover.Config) { c.Probe.MaxAnswerBytes = 0 }, "probe.max_answer_bytes: "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := discover.DefaultConfig()
			tt.change(&cfg)
			if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want an error with %q", err, tt.want)
			}
		})
	}
	if err := (discover.Config{}).Validate(); err == nil {
		t.Error("a Config of zeros is taken")
	}
}

func TestNewRefuses(t *testing.T) {
	source := discover.PortScan{}
	if _, err := discover.New(discover.DefaultConfig(), discover.Deps{Sources: []discover.Source{source}}); err == nil {
		t.Error("no registrar is taken")
	}
	if _, err := discover.NewScanner(discover.DefaultConfig(), discover.ScannerDeps{}); err == nil {
		t.Error("no source is taken")
	}
	if _, err := discover.NewScanner(discover.Config{}, discover.ScannerDeps{Sources: []discover.Source{source}}); err == nil {
		t.Error("a Config of zeros is taken")
	}
}
