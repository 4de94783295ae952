package generate

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgw/llmgw/engines/sim/workload"
)

func TestBodies(t *testing.T) {
	request := workload.Request{PromptTokens: 2, OutputTokens: 9, Text: "say \"hé\"\n", Session: `a"b`}
	tests := []struct {
		name   string
		change func(*Config)
		want   string
	}{
		{"defaults", func(*Config) {}, `{"messages":[{"role":"user","content":"say \"hé\"\n"}],"model":"m","stream":true,
			"stream_options":{"include_usage":true},"ignore_eos":true,"max_tokens":9,"user":"a\"b"}`},
		{"as little as can be", func(c *Config) { c.Stream, c.ExactLength = false, false }, `{"messages":[{"role":"user","content":"say \"hé\"\n"}],"model":"m","max_tokens":9,"user":"a\"b"}`},
		{"completions with extra and a bound", func(c *Config) {
			c.API, c.Extra, c.MaxTokens, c.IncludeUsage = Completions, ` { "temperature": 0 } `, 4, false
		}, `{"prompt":"say \"hé\"\n","model":"m","stream":true,
			"ignore_eos":true,"temperature":0,"max_tokens":4,"user":"a\"b"}`},
		{"empty extra", func(c *Config) { c.Extra, c.Stream = "{}", false }, `{"messages":[{"role":"user","content":"say \"hé\"\n"}],"model":"m","ignore_eos":true,"max_tokens":9,"user":"a\"b"}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := DefaultConfig()
			tt.change(&cfg)
			b := newBodies(cfg, "m", workload.NewPrompter(&workload.Trace{}))
			var got, want any
			if err := json.Unmarshal(b.build(nil, &request), &got); err != nil {
				t.Fatalf("%v: %s", err, b.build(nil, &request))
			}
			if err := json.Unmarshal([]byte(tt.want), &want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestBaseURL(t *testing.T) {
	for in, want := range map[string]string{
		"http://a:1": "http://a:1/v1", "http://a:1/": "http://a:1/v1", "http://a/v1": "http://a/v1", "https://a/v1/": "https://a/v1",
		"https://a/v1beta/openai/": "https://a/v1beta/openai", "http://[::1]:8": "http://[::1]:8/v1",
	} {
		if got, err := baseURL(in); err != nil || got != want {
			t.Errorf("%s: %s, %v; want %s", in, got, err, want)
		}
	}
}
