package proxy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/llmgw/llmgw/router/proxy"
	"github.com/prometheus/client_golang/prometheus"
)

func TestValidate(t *testing.T) {
	for _, tt := range []struct {
		name string
		mod  func(c *proxy.Config)
		want []string // the errors' beginnings
	}{
		{"default", func(*proxy.Config) {}, nil},
		{"no pool", func(c *proxy.Config) { c.PoolIdle, c.PoolSize = 0, 0 }, nil},
		{"zero", func(c *proxy.Config) { *c = proxy.Config{} }, []string{
			"timeouts.dial: 0s ", "timeouts.response_header: 0s ", "timeouts.first_token: 0s ", "timeouts.idle: 0s ",
			"timeouts.total: 0s ", "client_write: 0s ",
		}},
		{"negative", func(c *proxy.Config) { c.Timeouts.Idle, c.PoolIdle, c.PoolSize = -time.Second, -1, -2 }, []string{
			"timeouts.idle: -1s ", "pool_idle: -1ns ", "pool_size: -2 ",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := proxy.DefaultConfig()
			tt.mod(&cfg)
			err := cfg.Validate()
			var got []string
			if err != nil {
				got = strings.Split(err.Error(), "\n")
			}
			if len(got) != len(tt.want) {
				t.Fatalf("got %q, want %q", got, tt.want)
			}
			for i := range got {
				if !strings.HasPrefix(got[i], tt.want[i]) {
					t.Errorf("got %q, want %q", got[i], tt.want[i])
				}
			}
			if _, err := proxy.New(cfg, proxy.Deps{}); (err == nil) != (tt.want == nil) {
				t.Errorf("New: %v", err)
			}
		})
	}
}

func TestDefaults(t *testing.T) {
	want := proxy.Config{
		Timeouts: proxy.Timeouts{
			Dial: 5 * time.Second, ResponseHeader: time.Minute, FirstToken: 2 * time.Minute, Idle: time.Minute,
			Total: 30 * time.Minute,
		},
		PoolIdle: 4 * time.Second, PoolSize: 2048, ClientWrite: time.Minute,
	}
	if d := cmp.Diff(want, proxy.DefaultConfig()); d != "" {
		t.Errorf("defaults (-want +got):\n%s", d)
	}
}

func TestRegisterTwice(t *testing.T) {
	reg := prometheus.NewRegistry()
	if _, err := proxy.New(proxy.DefaultConfig(), proxy.Deps{Registerer: reg}); err != nil {
		t.Fatal(err)
	}
	if _, err := proxy.New(proxy.DefaultConfig(), proxy.Deps{Registerer: reg}); err == nil {
		t.Error("the same metrics were registered twice")
	}
	if _, err := proxy.New(proxy.DefaultConfig(), proxy.Deps{Registerer: prometheus.NewRegistry()}); err != nil {
		t.Errorf("two in one process: %v", err)
	}
}

func TestKind(t *testing.T) {
	names := map[string]bool{}
	for k := proxy.KindDial; k <= proxy.KindBody; k++ {
		names[k.String()] = true
	}
	if len(names) != 11 || names["unset"] || names["unknown"] {
		t.Errorf("kinds share names: %v", names)
	}
	if proxy.Kind(0).String() != "unset" || proxy.Kind(99).String() != "unknown" {
		t.Error("a kind that is none has a name")
	}
}
