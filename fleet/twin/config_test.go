package twin_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/llmgw/llmgw/engines/sim/workload"
	"github.com/llmgw/llmgw/fleet/twin"
)

func TestValidate(t *testing.T) {
	if err := twin.DefaultConfig().Validate(); err != nil {
		t.Errorf("the defaults: %v", err)
	}
	for _, tc := range []struct {
		name string
		edit func(*twin.Config)
		want string
	}{
		{"no groups", func(c *twin.Config) { c.Groups = nil }, "groups: 0 engines in all; want 1 to 4096"},
		{"no engines", func(c *twin.Config) { c.Groups[0].Engines = 0 }, "groups[0].engines: 0 is too few"},
		{"too many", func(c *twin.Config) { c.Groups[0].Engines = 5000 }, "groups: 5000 engines in all"},
		{"more than can be counted", func(c *twin.Config) {
			c.Groups = []twin.Group{{Name: "a", Engines: math.MaxInt, Weight: 1}, {Name: "b", Engines: math.MaxInt, Weight: 1}}
		}, "groups: 9223372036854775807 engines in all"},
		{"no name", func(c *twin.Config) { c.Groups[0].Name = "a b" }, `groups[0].name: "a b" is no name`},
		{"names twice", func(c *twin.Config) { c.Groups = append(c.Groups, c.Groups[0]) }, `groups[1].name: "engine" is there twice`},
		{"weight", func(c *twin.Config) { c.Groups[0].Weight = 0 }, "groups[0].weight: 0 is out of range"},
		{"speed", func(c *twin.Config) { c.Groups[0].Speed = new(0.0) }, "groups[0].speed: "},
		{"too slow", func(c *twin.Config) { c.Groups[0].Speed = new(1e-300) }, "groups[0].speed: "},
		{"engine", func(c *twin.Config) { c.Engine.BlockSize = 0 }, "engine.block_size: "},
		{"scrapes", func(c *twin.Config) { c.ScrapeInterval = time.Millisecond }, "scrape_interval: 1ms is too short"},
		{"scoring", func(c *twin.Config) { c.Scoring.TargetWaiting = 0 }, "scoring.target_waiting: "},
		{"index", func(c *twin.Config) { c.Prefix.MaxBytes = 1 }, "prefix.max_bytes: "},
		{"admission", func(c *twin.Config) { c.Admission.QueueTTL = 0 }, "admission.queue_ttl: "},
		{"band", func(c *twin.Config) { c.Tenants = []twin.Tenant{{"a", "tin", 1}} }, `tenants[0].band: "tin" is none of admission.bands`},
		{"share", func(c *twin.Config) { c.Tenants = []twin.Tenant{{"a", "", 0}} }, "tenants[0].share: 0 is not positive"},
		{"SLO", func(c *twin.Config) { c.SLO.TPOT = -1 }, "slo.tpot: -1ns is negative"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg := twin.DefaultConfig()
			tc.edit(&cfg)
			err := cfg.Validate()
			if err == nil || !strings.Contains("\n"+err.Error(), "\n"+tc.want) {
				t.Errorf("got %v, want %s", err, tc.want)
			}
		})
	}
}

func TestNewRefuses(t *testing.T) {
	tr := &workload.Trace{Requests: []workload.Request{{PromptTokens: 1, OutputTokens: 1}}}
	if _, err := twin.New(twin.DefaultConfig(), "magic", tr); !errors.Is(err, twin.ErrUnknownPolicy) {
		t.Errorf("an unknown policy: %v", err)
	}
	if _, err := twin.New(twin.DefaultConfig(), twin.Random, &workload.Trace{}); !errors.Is(err, workload.ErrEmpty) {
		t.Errorf("an empty trace: %v", err)
	}
	if _, err := twin.New(twin.Config{}, twin.Random, tr); err == nil {
		t.Error("the zero Config is taken")
	}
}
