package admission_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/llmgw/llmgw/admission"
)

// TestKeys holds the configuration's keys and defaults, which are a contract.
func TestKeys(t *testing.T) {
	got, err := yaml.Marshal(admission.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	want := `enabled: true
default_band: gold
bands:
    - name: platinum
      priority: 400
      saturation_ceiling: 1
    - name: gold
      priority: 300
      saturation_ceiling: 0.85
    - name: silver
      priority: 200
      saturation_ceiling: 0.6
    - name: bronze
      priority: 100
      saturation_ceiling: 0.3
queue_ttl: 30s
queue_capacity_per_band: 2000
interval: 10ms
`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
	if err := admission.DefaultConfig().Validate(); err != nil {
		t.Errorf("the defaults: %v", err)
	}
	if err := (admission.Config{}).Validate(); err == nil {
		t.Error("an empty configuration is taken")
	}
}

func TestValidate(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*admission.Config)
		want   []string // in the error; none is no error
	}{
		{"no queue", func(c *admission.Config) { c.QueueCapacityPerBand = 0 }, nil},
		{"a band that never waits", func(c *admission.Config) { c.Bands[0].SaturationCeiling = 10 }, nil},
		{"negative queue", func(c *admission.Config) { c.QueueCapacityPerBand = -1 }, []string{"queue_capacity_per_band: -1 is negative"}},
		{"no TTL, no interval", func(c *admission.Config) { c.QueueTTL, c.Interval = 0, -time.Second }, []string{
			"queue_ttl: 0s is not positive; want e.g. 30s", "interval: -1s is too short; want 1ms or more, e.g. 10ms",
		}},
		{"an interval that leaves no time", func(c *admission.Config) { c.Interval = time.Nanosecond }, []string{"interval: 1ns is too short"}},
		{"names that no header can say", func(c *admission.Config) {
			c.Bands[0].Name, c.Bands[1].Name, c.Bands[2].Name, c.Bands[3].Name = "a\x1b[2J", "gold,silver", " bronze", strings.Repeat("x", 65)
			c.DefaultBand = " bronze"
		}, []string{`bands[0].name: "a\x1b[2J" cannot`, "bands[1].name: ", "bands[2].name: ", "bands[3].name: "}},
		{"a name of all that may be", func(c *admission.Config) { c.Bands[0].Name = "tier 1/~!" }, nil},
		{"no bands", func(c *admission.Config) { c.Bands = nil }, []string{"bands: there are 0; want 1 to 64", `default_band: "gold" is none of bands`}},
		{"too many bands", func(c *admission.Config) {
			for i := range 64 {
				c.Bands = append(c.Bands, admission.Band{Name: strings.Repeat("x", i+1)})
			}
		}, []string{"bands: there are 68"}},
		{"a band twice", func(c *admission.Config) { c.Bands[2].Name = "gold" }, []string{`bands[2].name: "gold" is there twice`}},
		{"a band without a name", func(c *admission.Config) { c.Bands[3].Name = "" }, []string{"bands[3].name: is empty"}},
		{"negative ceiling", func(c *admission.Config) { c.Bands[3].SaturationCeiling = -0.1 }, []string{"bands[3].saturation_ceiling: -0.1 is out of range"}},
		{"unknown default", func(c *admission.Config) { c.DefaultBand = "diamond" }, []string{`default_band: "diamond" is none of bands`}},
		{"targets", func(c *admission.Config) { c.Saturation = admission.SaturationConfig{KVCeiling: 1.5} }, []string{
			"assumed_capacity: 0 is out of range", "target_waiting: 0 is not positive", "kv_ceiling: 1.5 is out of range", "stale_after: 0s is not positive",
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			cfg := admission.DefaultConfig()
			test.change(&cfg)
			err := cfg.Validate()
			if test.want == nil {
				if err != nil {
					t.Errorf("error %v, want none", err)
				}
				return
			}
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error\n%v\nwants %q", err, want)
				}
			}
			if got := strings.Count(err.Error(), "\n") + 1; got != len(test.want) {
				t.Errorf("%d faults in\n%v\nwant %d", got, err, len(test.want))
			}
			if _, err := admission.NewCore(cfg, nil); err == nil {
				t.Error("NewCore takes it")
			}
			if _, err := admission.New(cfg, admission.Deps{Load: &capacity{}}); err == nil {
				t.Error("New takes it")
			}
		})
	}
}

func TestNewWantsLoad(t *testing.T) {
	if _, err := admission.New(admission.DefaultConfig(), admission.Deps{}); err == nil || !strings.Contains(err.Error(), "Deps.Load") {
		t.Errorf("error %v, want one that names Deps.Load", err)
	}
	if _, err := admission.NewWorseOf(admission.SaturationConfig{}); err == nil {
		t.Error("NewWorseOf takes an empty configuration")
	}
}

// TestReasons: every reason has its sentinel and its word.
func TestReasons(t *testing.T) {
	for reason, want := range map[admission.Reason]struct {
		word string
		err  error
	}{
		admission.ReasonQueueFull: {"queue_full", admission.ErrQueueFull},
		admission.ReasonExpired:   {"expired", admission.ErrExpired},
		admission.ReasonCancelled: {"cancelled", admission.ErrCancelled},
		admission.ReasonClosed:    {"closed", admission.ErrClosed},
	} {
		err := &admission.RejectedError{Reason: reason}
		if reason.String() != want.word || !errors.Is(err, want.err) || err.Error() == "" {
			t.Errorf("%d: %q, %v", reason, reason, err)
		}
	}
	if s := admission.ReasonUnset.String(); s != "unset" {
		t.Errorf("unset is %q", s)
	}
}
