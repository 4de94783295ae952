package discover_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgw/llmgw/fleet/discover"
)

func TestParseModels(t *testing.T) {
	tests := []struct {
		name, body string
		want       []string
		err        error
	}{
		{"vLLM", `{"object":"list","data":[{"id":"nvidia/Qwen3.6-35B","object":"model","created":1,"owned_by":"vllm","root":"x","max_model_len":4096}]}`, []string{"nvidia/Qwen3.6-35B"}, nil},
		{"several, in their order", `{"data":[{"id":"b"},{"id":"a"}]}`, []string{"b", "a"}, nil},
		{"llama.cpp, with a list of its own beside", `{"models":[{"name":"x"}],"object":"list","data":[{"id":"x.gguf","meta":{"n_ctx_train":1}}]}`, []string{"x.gguf"}, nil},
		{"spaces", " \n{\"data\":[{\"id\":\"a\"}]}\n", []string{"a"}, nil},
		{"serves nothing", `{"object":"list","data":[]}`, nil, discover.ErrNoModel},
		{"null", `{"data":null}`, nil, discover.ErrNoEngine},
		{"no list", `{"object":"list"}`, nil, discover.ErrNoEngine},
		{"an error", `{"error":{"message":"nope"}}`, nil, discover.ErrNoEngine},
		{"HTML", `<!doctype html><title>Grafana</title>`, nil, discover.ErrNoEngine},
		{"nothing", ``, nil, discover.ErrNoEngine},
		{"an array", `[{"id":"a"}]`, nil, discover.ErrNoEngine},
		{"cut off", `{"data":[{"id":"a"}`, nil, discover.ErrNoEngine},
		{"more after it", `{"data":[{"id":"a"}]} {}`, nil, discover.ErrNoEngine},
		{"no name", `{"data":[{"object":"model"}]}`, nil, discover.ErrNoEngine},
		{"an empty name", `{"data":[{"id":" "}]}`, nil, discover.ErrNoEngine},
		{"a number", `{"data":[{"id":1}]}`, nil, discover.ErrNoEngine},
		{"a control character", `{"data":[{"id":"a\nlevel=ERROR"}]}`, nil, discover.ErrNoEngine},
		{"a long name", `{"data":[{"id":"` + strings.Repeat("x", 513) + `"}]}`, nil, discover.ErrNoEngine},
		{"many", `{"data":[{"id":"a"}` + strings.Repeat(`,{"id":"a"}`, 10_000) + `]}`, nil, discover.ErrNoEngine},
		{"no UTF-8", "{\"data\":[{\"id\":\"\xff\"}]}", nil, discover.ErrNoEngine},
		{"deep", strings.Repeat(`{"data":`, 20_000), nil, discover.ErrNoEngine},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := discover.ParseModels([]byte(tt.body))
			if !errors.Is(err, tt.err) || (tt.err == nil) != (err == nil) {
				t.Fatalf("error %v, want %v", err, tt.err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func FuzzParseModels(f *testing.F) {
	for _, seed := range []string{`{"data":[{"id":"a"},{"id":"b"}]}`, `{"data":[]}`, `<html>`, `{"data":[{"id":null}]}`, "{\"data\":[{\"id\":\"\\ud800\"}]}"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := discover.ParseModels(body)
		if err != nil {
			if !errors.Is(err, discover.ErrNoEngine) && !errors.Is(err, discover.ErrNoModel) {
				t.Fatalf("error %v", err)
			}
			return
		}
		if len(got) == 0 || !json.Valid(body) {
			t.Fatalf("%q: %q", body, got)
		}
		for _, m := range got {
			if m == "" || len(m) > 512 || !utf8.ValidString(m) || strings.ContainsAny(m, "\n\r\x00") {
				t.Fatalf("model %q", m)
			}
		}
	})
}
