package generate_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/llmgw/llmgw/cmd/internal/bench/generate"
	"github.com/llmgw/llmgw/engines/sim/workload"
)

func TestConfigValidate(t *testing.T) {
	tests := []struct {
		name   string
		change func(*generate.Config)
		want   string // substring of the only problem; "" for none
	}{
		{"defaults with a URL", func(*generate.Config) {}, ""},
		{"no URL", func(c *generate.Config) { c.URL = "" }, "URL: none; want"},
		{"no scheme", func(c *generate.Config) { c.URL = "localhost:8080" }, "none of http or https"},
		{"another scheme", func(c *generate.Config) { c.URL = "ftp://a" }, "none of http or https"},
		{"a password in the URL", func(c *generate.Config) { c.URL = "http://me:hunter2@a" }, "user or password"},
		{"a query", func(c *generate.Config) { c.URL = "http://a/v1?x=1" }, "query or fragment"},
		{"a request's path", func(c *generate.Config) { c.URL = "http://a/v1/chat/completions" }, "path of a request"},
		{"an API", func(c *generate.Config) { c.API = "images" }, `"images" is unknown; want chat or completions`},
		{"extra that is no object", func(c *generate.Config) { c.Extra = "[1]" }, "no JSON object"},
		{"extra null", func(c *generate.Config) { c.Extra = "null" }, "no JSON object"},
		{"extra of the generator's", func(c *generate.Config) { c.Extra = `{"model":"x"}` }, `"model" is set by the generator`},
		{"extra", func(c *generate.Config) { c.Extra = `{"temperature":0}` }, ""},
		{"headers", func(c *generate.Config) { c.Header = http.Header{"X-Team!": {"blue\tand é"}} }, ""},
		{"a header's name", func(c *generate.Config) { c.Header = http.Header{"X y": {"z"}} }, `header: the name "X y" is none; want letters`},
		{"a header without a name", func(c *generate.Config) { c.Header = http.Header{"": {"z"}} }, `header: the name "" is none`},
		{"a header's value", func(c *generate.Config) { c.Header = http.Header{"X": {"a\r\nb: c"}} }, "header: the value of X has a line break"},
		{"tokens", func(c *generate.Config) { c.MaxTokens = -1 }, "max tokens: -1 is negative"},
		{"concurrency", func(c *generate.Config) { c.Concurrency = -1 }, "concurrency: -1 is out of range; want 0 (an open loop) to 65536"},
		{"too many callers", func(c *generate.Config) { c.Concurrency = 65537 }, "concurrency: 65537 is out of range"},
		{"outstanding", func(c *generate.Config) { c.MaxOutstanding = 0 }, "max outstanding: 0 is out of range"},
		{"duration", func(c *generate.Config) { c.Duration = -1 }, "duration: -1ns is negative"},
		{"warm-up", func(c *generate.Config) { c.Duration, c.Warmup = time.Second, time.Second }, "leaves nothing of the duration"},
		{"timeout", func(c *generate.Config) { c.Timeout = 0 }, "timeout: 0s is not positive"},
		{"cancel", func(c *generate.Config) { c.CancelRatio = 1.5 }, "cancel ratio: 1.5 is out of range"},
		{"cancel without streams", func(c *generate.Config) { c.CancelRatio, c.Stream = .1, false }, "only a stream can be left"},
		{"SLO without streams", func(c *generate.Config) { c.SLO.TTFT, c.Stream = 1, false }, "measured in streams only"},
		{"SLO", func(c *generate.Config) { c.SLO.E2E = -1 }, "E2E: -1ns is negative"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := generate.DefaultConfig()
			cfg.URL = "http://127.0.0.1:1"
			tt.change(&cfg)
			err := cfg.Validate()
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("error %v, want none", err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n")):
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
			if strings.Contains(tt.name, "password") && strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error shows the password: %v", err)
			}
		})
	}
	if err := (generate.Config{}).Validate(); err == nil || strings.Count(err.Error(), "\n") < 2 {
		t.Errorf("a zero Config: %v, want every problem", err)
	}
}

func TestNewNeedsATrace(t *testing.T) {
	cfg := generate.DefaultConfig()
	cfg.URL = "http://127.0.0.1:1"
	for name, trace := range map[string]*workload.Trace{"none": nil, "empty": {}} {
		if _, err := generate.New(cfg, generate.Deps{Trace: trace}); err == nil || !strings.HasPrefix(err.Error(), "trace: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
