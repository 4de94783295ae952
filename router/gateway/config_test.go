package gateway_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/placement/catalog"
	"github.com/llmgw/llmgw/router"
	"github.com/llmgw/llmgw/router/gateway"
	"github.com/llmgw/llmgw/router/schedule"
)

func lines(err error) []string {
	if err == nil {
		return nil
	}
	return strings.Split(err.Error(), "\n")
}

// Every fault is named by the path of its key, and all of them at once.
func TestValidateNamesEveryFault(t *testing.T) {
	if err := gateway.DefaultConfig().Validate(); err != nil {
		t.Errorf("the defaults are at fault: %v", err)
	}
	tests := []struct {
		path   string
		change func(*gateway.Config)
	}{
		{"router.retries", func(c *gateway.Config) { c.Router.Core.Retries = -1 }},
		{"router.retry_budget_ratio", func(c *gateway.Config) { c.Router.Core.RetryBudgetRatio = 1.5 }},
		{"router.retry_budget_min", func(c *gateway.Config) { c.Router.Core.RetryBudgetMin = -1 }},
		{"router.default_profile", func(c *gateway.Config) { c.Router.Core.DefaultProfile = "fast" }},
		{"router.session_header", func(c *gateway.Config) { c.Router.Core.SessionHeader = "a b" }},
		{"router.max_body_bytes", func(c *gateway.Config) { c.Router.Core.MaxBodyBytes = 0 }},
		{"router.body_memory", func(c *gateway.Config) { c.Router.Core.BodyMemoryBytes = 1 }},
		{"router.body_timeout", func(c *gateway.Config) { c.Router.Core.BodyTimeout = 0 }},
		{"router.timeouts.dial", func(c *gateway.Config) { c.Router.Relay.Timeouts.Dial = 0 }},
		{"router.timeouts.response_header", func(c *gateway.Config) { c.Router.Relay.Timeouts.ResponseHeader = 0 }},
		{"router.timeouts.first_token", func(c *gateway.Config) { c.Router.Relay.Timeouts.FirstToken = 0 }},
		{"router.timeouts.idle", func(c *gateway.Config) { c.Router.Relay.Timeouts.Idle = 0 }},
		{"router.timeouts.total", func(c *gateway.Config) { c.Router.Relay.Timeouts.Total = 0 }},
		{"router.pool_idle", func(c *gateway.Config) { c.Router.Relay.PoolIdle = -1 }},
		{"router.pool_size", func(c *gateway.Config) { c.Router.Relay.PoolSize = -1 }},
		{"router.client_write", func(c *gateway.Config) { c.Router.Relay.ClientWrite = 0 }},
		{"router.failure_threshold", func(c *gateway.Config) { c.Router.Breaker.FailureThreshold = 0 }},
		{"router.cooldown", func(c *gateway.Config) { c.Router.Breaker.Cooldown = 0 }},
		{"admission.band_header", func(c *gateway.Config) { c.Admission.BandHeader = "Content-Type" }},
		{"router.scrape_interval", func(c *gateway.Config) { c.Router.Scrape.Interval = 0 }},
		{"router.scrape_timeout", func(c *gateway.Config) { c.Router.Scrape.Timeout = 0 }},
		{"router.stale_after", func(c *gateway.Config) { c.Router.StaleAfter = time.Second }},
		{"scoring.target_waiting", func(c *gateway.Config) { c.Scoring.TargetWaiting = 0 }},
		{"endpoints[0].max_running", func(c *gateway.Config) { c.Endpoints[0].MaxRunning = -1 }},
		{"endpoints[0].priority_scheduling", func(c *gateway.Config) { c.Endpoints[0].PriorityScheduling = true }},
		{"endpoints[0].priority_scheduling", func(c *gateway.Config) {
			c.Endpoints[0].PriorityScheduling, c.Endpoints[0].Engine = true, engines.LlamaCPP
		}},
		{"scoring.target_inflight", func(c *gateway.Config) { c.Scoring.TargetInflight = 0 }},
		{"scoring.kv_ceiling", func(c *gateway.Config) { c.Scoring.KVCeiling = 2 }},
		{"scoring.session_load_factor", func(c *gateway.Config) { c.Scoring.SessionLoadFactor = 0.5 }},
		{"prefix.max_bytes", func(c *gateway.Config) { c.Prefix.Index.MaxBytes = 1 }},
		{"prefix.max_endpoints", func(c *gateway.Config) { c.Prefix.Index.MaxEndpoints = 0 }},
		{"prefix.capacity_tokens", func(c *gateway.Config) { c.Prefix.Index.CapacityTokens = 0 }},
		{"prefix.bytes_per_token", func(c *gateway.Config) { c.Prefix.Index.BytesPerToken = 0 }},
		{"models[1].name", func(c *gateway.Config) { c.Models[1].Name = "a" }},
		{"models[0].aliases[0]", func(c *gateway.Config) { c.Models[0].Aliases = []string{"*"} }},
		{"models[1].fallbacks[0]", func(c *gateway.Config) { c.Models[1].Fallbacks = []string{"nobody"} }},
		{"models[1].routing_profile", func(c *gateway.Config) { c.Models[1].RoutingProfile = "fast" }},
		{"endpoints[0].id", func(c *gateway.Config) { c.Endpoints[0].ID = "" }},
		{"endpoints[1].id", func(c *gateway.Config) { c.Endpoints[1].ID = "x" }},
		{"endpoints[1].url", func(c *gateway.Config) { c.Endpoints[1].URL = "ftp://x" }},
		{"endpoints[1].weight", func(c *gateway.Config) { c.Endpoints[1].Weight = -1 }},
		{"endpoints[1].engine", func(c *gateway.Config) { c.Endpoints[1].Engine = "steam" }},
		{"endpoints[1].models", func(c *gateway.Config) { c.Endpoints[1].Models = nil }},
		{"endpoints[1].models[0].name", func(c *gateway.Config) { c.Endpoints[1].Models[0].Name = "" }},
		{"endpoints[1].ca_file", func(c *gateway.Config) { c.Endpoints[1].CAFile = "/x" }},
		{"endpoints[1].key_file", func(c *gateway.Config) { c.Endpoints[1].KeyEnv, c.Endpoints[1].KeyFile = "A", "/b" }},
	}
	fresh := func() gateway.Config {
		cfg := config(at("x", "http://x:1", "a"), at("y", "http://y:1", "b"))
		cfg.Models = []catalog.Model{{Name: "a"}, {Name: "b"}}
		return cfg
	}
	for _, tt := range tests {
		t.Run(tt.path, func(t *testing.T) {
			cfg := fresh()
			tt.change(&cfg)
			got := lines(cfg.Validate())
			if len(got) != 1 || !strings.HasPrefix(got[0], tt.path+": ") || len(got[0]) < len(tt.path)+20 {
				t.Errorf("got %q", got)
			}
			if _, err := gateway.New(cfg, gateway.Deps{}); err == nil {
				t.Error("New takes it")
			}
		})
	}
	all := fresh()
	var want []string
	for _, tt := range tests {
		if strings.HasPrefix(tt.path, "router.") || strings.HasPrefix(tt.path, "scoring.") {
			tt.change(&all)
			want = append(want, tt.path)
		}
	}
	all.Router.StaleAfter, all.Router.Core.BodyMemoryBytes = 0, -1 // at fault beside the others, too
	var got []string
	for _, l := range lines(all.Validate()) {
		path, _, _ := strings.Cut(l, ": ")
		got = append(got, path)
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("of all at once, -want +got:\n%s", diff)
	}
	if err := (gateway.Config{}).Validate(); err == nil {
		t.Error("a bare Config is taken")
	}
}

// Keys come from where the configuration says, and no error tells one.
func TestKeys(t *testing.T) {
	var seen string
	e := newRaw(t, func(x *exchange) { seen = x.req.Header.Get("Authorization"); good(x) })
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	t.Setenv("LLMGW_TEST_KEY", "sk-from-env")
	t.Setenv("LLMGW_TEST_EMPTY", " ")
	tests := []struct {
		name, env, file string
		want, err       string
	}{
		{name: "none"},
		{name: "environment", env: "LLMGW_TEST_KEY", want: "Bearer sk-from-env"},
		{name: "file", file: file("key", "  sk-from-file\n"), want: "Bearer sk-from-file"},
		{name: "unset", env: "LLMGW_TEST_NOT_SET", err: "endpoints[0].key_env: "},
		{name: "empty variable", env: "LLMGW_TEST_EMPTY", err: "endpoints[0].key_env: "},
		{name: "no file", file: filepath.Join(dir, "none"), err: "endpoints[0].key_file: "},
		{name: "empty file", file: file("empty", "\n"), err: "endpoints[0].key_file: "},
		{name: "two lines", file: file("two", "sk-canary\nX-Evil: 1"), err: "endpoints[0].key_file: "},
		{name: "not ASCII", file: file("bytes", "sk-canary\xff"), err: "endpoints[0].key_file: "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			keyed := at("e", e.url)
			keyed.KeyEnv, keyed.KeyFile = tt.env, tt.file
			if tt.err != "" {
				_, err := gateway.New(config(keyed), gateway.Deps{})
				if err == nil || !strings.HasPrefix(strings.TrimPrefix(err.Error(), "gateway: "), tt.err) || strings.Contains(err.Error(), "canary") {
					t.Errorf("got %v", err)
				}
				return
			}
			f := newFleet(t, config(keyed))
			if got := f.do("POST", chatPath, chatBody, "Authorization", "Bearer sk-client"); got.status != 200 || seen != tt.want {
				t.Errorf("got %d; the engine saw %q", got.status, seen)
			}
			if strings.Contains(f.log.String(), "sk-from") {
				t.Error("the key is logged")
			}
		})
	}
}

// An endpoint may list a model by an alias; the engine is asked under it.
func TestEndpointListsAnAlias(t *testing.T) {
	var sent string
	e := newRaw(t, func(x *exchange) { sent = string(x.body); good(x) })
	renamed := at("r", e.url, "other-alias")
	renamed.Models[0].Upstream = "upstream"
	for _, tt := range []struct {
		endpoint gateway.Endpoint
		model    string
		want     string
	}{
		{at("e", e.url, "alias"), "canonical", "alias"},
		{at("e", e.url, "alias"), "alias", "alias"},
		{at("e", e.url, "canonical", "alias"), "alias", "canonical"},
		{renamed, "alias", "upstream"},
	} {
		cfg := config(tt.endpoint)
		cfg.Models = []catalog.Model{{Name: "canonical", Aliases: []string{"alias", "other-alias"}}}
		f := newFleet(t, cfg)
		got := f.do("POST", chatPath, `{"model":"`+tt.model+`"}`)
		if got.status != 200 || sent != `{"model":"`+tt.want+`"}` {
			t.Errorf("got %d %s; the engine was asked %s, want %s", got.status, got.body, sent, tt.want)
		}
		if o := f.next(); o.Model != "canonical" {
			t.Errorf("recorded as %q", o.Model)
		}
		if list := ids(t, f.do("GET", "/v1/models", "").body); !slices.Equal(list, []string{"canonical"}) {
			t.Errorf("listed are %q", list)
		}
	}
}

func TestWarnings(t *testing.T) {
	cfg := config(at("e", "http://e:1", "a", "z"))
	cfg.Models = []catalog.Model{{Name: "a"}, {Name: "b"}, {Name: "c", Aliases: []string{"z"}}}
	got := cfg.Warnings()
	if len(got) != 1 || !strings.HasPrefix(got[0], "models[1].name: ") {
		t.Errorf("got %q", got)
	}
	cfg.Models = []catalog.Model{{Name: "a", Prices: []catalog.Price{{Input: 1, Output: new(catalog.Money(0))}}}} // what it writes is free
	if got := cfg.Warnings(); len(got) != 0 {
		t.Errorf("free answers: got %q", got)
	}
	cfg.Models[0].Prices = []catalog.Price{{Input: 1, Output: new(catalog.Money(2))}, {Input: 1, Output: new(catalog.Money(0))}}
	if got := cfg.Warnings(); !slices.EqualFunc(got, []string{"models[0].prices[1].output: ", "models[0].max_output_tokens: "}, strings.HasPrefix) {
		t.Errorf("free from then on: got %q", got)
	}
	cfg.Models = []catalog.Model{{Name: "a"}, {Name: "b"}, {Name: "c", Aliases: []string{"z"}}}
	cfg.Endpoints = nil
	if got := cfg.Warnings(); len(got) != 1 || !strings.HasPrefix(got[0], "endpoints: there are none; ") {
		t.Errorf("without endpoints: got %q", got)
	}
	f := newFleet(t, cfg)
	for model, want := range map[string]int{"a": 503, "z": 503, "unknown": 404} {
		if got := f.do("POST", chatPath, `{"model":"`+model+`"}`); got.status != want {
			t.Errorf("without endpoints, model %s: got %d %s, want %d", model, got.status, got.body, want)
		}
	}
}

// Settings of admission that make no sense together are told.
func TestAdmissionWarnings(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*gateway.Config)
		want   []string
	}{
		{"the defaults", func(*gateway.Config) {}, nil},
		{"a wait as long as a request may take", func(c *gateway.Config) { c.Admission.Core.QueueTTL = c.Router.Relay.Timeouts.Total },
			[]string{"admission.queue_ttl: "}},
		{"an interval longer than the wait", func(c *gateway.Config) { c.Admission.Core.Interval = time.Minute }, []string{"admission.interval: "}},
		{"a lower band goes on for longer", func(c *gateway.Config) { c.Admission.Core.Bands[3].SaturationCeiling = 0.7 },
			[]string{"admission.bands[2].saturation_ceiling: silver waits above 0.6, and bronze"}},
		{"a lower band never waits", func(c *gateway.Config) { c.Admission.Core.Bands[3].SaturationCeiling = 2 },
			[]string{"admission.bands[0].", "admission.bands[1].", "admission.bands[2]."}},
		{"priorities", func(c *gateway.Config) { c.Endpoints[0].PriorityScheduling, c.Endpoints[0].Engine = true, engines.VLLM }, nil},
		{"priorities without bands", func(c *gateway.Config) {
			c.Endpoints[0].PriorityScheduling, c.Endpoints[0].Engine = true, engines.VLLM
			c.Admission.Core.Enabled, c.Admission.Core.QueueTTL = false, time.Hour
		}, []string{"endpoints[0].priority_scheduling: "}},
	} {
		cfg := config(at("e", "http://e:1"))
		cfg.Admission.Core.Bands = slices.Clone(cfg.Admission.Core.Bands)
		test.change(&cfg)
		if err := cfg.Validate(); err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
		got := cfg.Warnings()
		if !slices.EqualFunc(got, test.want, strings.HasPrefix) {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
}

// Names of routing profiles are those that there are, an embedder's own
// included.
func TestOwnProfile(t *testing.T) {
	e := newRaw(t, good)
	own := schedule.Profiles(schedule.DefaultConfig())[0]
	own.Name = "own"
	cfg := config(at("e", e.url))
	cfg.Models = []catalog.Model{{Name: "m", RoutingProfile: "own"}}
	if _, err := gateway.New(cfg, gateway.Deps{}); err == nil {
		t.Error("an unknown profile is taken")
	}
	f := newFleet(t, cfg, func(d *gateway.Deps) { d.Profiles = []schedule.Profile{own} })
	if got := f.chat(); got.status != 200 {
		t.Errorf("got %d %s", got.status, got.body)
	}
	f.idle()
	if f.metric("llmgw_schedule_decisions_total", "profile=own", "outcome=picked") != 1 {
		t.Error("the profile is not used")
	}
	for _, name := range schedule.ProfileNames() {
		cfg.Models[0].RoutingProfile = name
		if err := f.gw.Reload(cfg); err != nil {
			t.Error(err)
		}
		if got := f.chat(); got.status != 200 {
			t.Errorf("%s: got %d", name, got.status)
		}
	}
}

// A part that cannot be had is an error of New, not of a request.
func TestNewNeedsItsParts(t *testing.T) {
	_, err := router.New(router.DefaultConfig(), router.Deps{})
	for _, part := range []string{"Proxy", "Endpoints", "Scheduler", "Models"} {
		if err == nil || !strings.Contains(err.Error(), "missing Deps."+part) {
			t.Errorf("%s: %v", part, err)
		}
	}
	f := newFleet(t, config())
	if _, err := gateway.New(config(), gateway.Deps{Registerer: f.reg}); err == nil {
		t.Error("two gateways share a registry")
	}
	if !errors.Is(f.gw.Ready(), gateway.ErrNoEndpoint) {
		t.Error("ready for nothing")
	}
}
