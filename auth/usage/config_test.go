package usage_test

import (
	"strings"
	"testing"
	"time"

	"github.com/llmgw/llmgw/auth/usage"
)

func TestConfig(t *testing.T) {
	if err := usage.DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
	for _, tt := range []struct {
		change func(*usage.Config)
		want   string
	}{
		{func(c *usage.Config) { *c = usage.Config{} }, "buffer_rows: 0 is out of range"},
		{func(c *usage.Config) { c.BatchRows = c.BufferRows + 1 }, "batch_rows: 8001 is out of range; want 1 to buffer_rows, which is 8000"},
		{func(c *usage.Config) { c.FlushInterval = 0 }, "flush_interval: 0s is out of range; want 10ms to 1m0s"},
		{func(c *usage.Config) { c.WriteTimeout = time.Hour }, "write_timeout: 1h0m0s is out of range"},
		{func(c *usage.Config) { c.DrainTimeout = -1 }, "drain_timeout: -1ns is out of range"},
		{func(c *usage.Config) { c.Retention.Rows = time.Hour }, "retention.rows: 1h0m0s is too short; want at least 24h, or 0 to keep all"},
		{func(c *usage.Config) { c.Retention.Days = -1 }, "retention.days: -1ns is too short"},
	} {
		cfg := usage.DefaultConfig()
		tt.change(&cfg)
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("got %v, want %q", err, tt.want)
		}
	}
	if _, err := usage.New(usage.DefaultConfig(), usage.Deps{}); err == nil {
		t.Error("a recorder without a store")
	}
}
