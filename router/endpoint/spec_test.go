package endpoint_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgw/llmgw/router/endpoint"
)

func TestSpecValidate(t *testing.T) {
	with := func(change func(*endpoint.Spec)) endpoint.Spec {
		s := spec("a", "m")
		change(&s)
		return s
	}
	tests := []struct {
		name string
		spec endpoint.Spec
		want string // "" valid; else what the one error says
	}{
		{"good", spec("a", "m"), ""},
		{"base path", with(func(s *endpoint.Spec) { s.URL = "https://h/engines/a/" }), ""},
		{"authority", with(func(s *endpoint.Spec) { s.URL, s.CAFile = "https://h", "ca.pem" }), ""},
		{"no id", with(func(s *endpoint.Spec) { s.ID = "" }), "id: is empty; want a name of its own"},
		{"blank in id", with(func(s *endpoint.Spec) { s.ID = "a b" }), `id: "a b" has spaces or what cannot be printed; want neither`},
		{"id is no text", with(func(s *endpoint.Spec) { s.ID = "a\xff" }), `id: "a\xff" has spaces or what cannot be printed; want neither`},
		{"long id", with(func(s *endpoint.Spec) { s.ID = strings.Repeat("x", 129) }), `id: "xxxxxxxxxxxxxxxxxxxx"… has 129 bytes; want at most 128`},
		{"no url", with(func(s *endpoint.Spec) { s.URL = "" }), "url: is empty; want e.g. http://10.0.0.5:8000"},
		{"scheme", with(func(s *endpoint.Spec) { s.URL = "ftp://x" }), `url: "ftp://x": scheme must be http or https`},
		{"no scheme", with(func(s *endpoint.Spec) { s.URL = "localhost:8000" }), `url: "localhost:8000": scheme must be http or https`},
		{"no host", with(func(s *endpoint.Spec) { s.URL = "http:///x" }), `url: "http:///x" has no host; want e.g. http://10.0.0.5:8000`},
		{"unreadable", with(func(s *endpoint.Spec) { s.URL = "http://u:hunter2@h:port" }), `url: cannot be read (invalid port ":port" after host); want e.g. http://10.0.0.5:8000`},
		{"password", with(func(s *endpoint.Spec) { s.URL = "http://u:hunter2@h" }), `url: "http://u:xxxxx@h" has a user or password; want the key as a secret instead`},
		{"query", with(func(s *endpoint.Spec) { s.URL = "http://h?a=b" }), `url: "http://h?a=b" has a query or fragment; want scheme, host and base path only`},
		{"v1", with(func(s *endpoint.Spec) { s.URL = "http://h/v1/" }), `url: "http://h/v1/" ends in /v1; want it without, since request paths begin with it`},
		{"path of a request", with(func(s *endpoint.Spec) { s.URL = "http://h:1/a/v1/chat/completions" }), `url: "http://h:1/a/v1/chat/completions" has the path of a request; want "http://h:1/a", since each request brings its own`},
		{"v1 elsewhere", with(func(s *endpoint.Spec) { s.URL = "http://h/v1/engine-v1/x/v12" }), ""},
		{"weight", with(func(s *endpoint.Spec) { s.Weight = -1 }), "weight: -1 is out of range; want more than 0 and at most 1e6, e.g. 1"},
		{"weight is no number", with(func(s *endpoint.Spec) { s.Weight = math.NaN() }), "weight: NaN is out of range; want more than 0 and at most 1e6, e.g. 1"},
		{"an adapter's own engine", with(func(s *endpoint.Spec) { s.Engine = "ours" }), ""},
		{"engine", with(func(s *endpoint.Spec) { s.Engine = "vLLM" }), `engine: "vLLM" is no engine's name; want auto or one such as [infinity llamacpp lmdeploy lmstudio mlx ollama sglang tei tgi triton trtllm vllm]`},
		{"no models", with(func(s *endpoint.Spec) { s.Models = nil }), "models: is empty; want at least one model"},
		{"model without name", spec("a", "m", " "), "models[1].name: is empty; want the name requests use"},
		{"model twice", spec("a", "m", "m"), `models[1].name: "m" is listed twice; want it once`},
		{"authority of nothing", with(func(s *endpoint.Spec) { s.CAFile = "ca.pem" }), `ca_file: "ca.pem" is of no use for an http URL; want it with https only`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := ""
			if err := tt.spec.Validate(); err != nil {
				got = err.Error()
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

func TestValidateSpecsNamesEveryFault(t *testing.T) {
	err := endpoint.ValidateSpecs([]endpoint.Spec{spec("a", "m"), {ID: "b"}, spec("a", "m")})
	var got []string
	if joined, ok := errors.AsType[interface {
		error
		Unwrap() []error
	}](err); ok {
		for _, e := range joined.Unwrap() {
			got = append(got, e.Error())
		}
	}
	want := []string{
		"endpoints[1].url: is empty; want e.g. http://10.0.0.5:8000",
		"endpoints[1].models: is empty; want at least one model",
		`endpoints[2].id: "a" is used by endpoints[0] too; want one of its own`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
}

func TestSecretIsNeverPrinted(t *testing.T) {
	s := spec("a", "m")
	s.Secret = "canary-key"
	var text strings.Builder
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		fmt.Fprintf(&text, format+"\n", s)
		fmt.Fprintf(&text, format+"\n", s.Secret)
		fmt.Fprintf(&text, format+"\n", &s)
	}
	encoded, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	text.Write(encoded)
	slog.New(slog.NewTextHandler(&text, nil)).Info("x", "spec", s, "secret", s.Secret)
	slog.New(slog.NewJSONHandler(&text, nil)).Info("x", "spec", s, "secret", s.Secret)
	for _, canary := range []string{"canary-key", fmt.Sprintf("%x", "canary-key")} {
		if strings.Contains(text.String(), canary) {
			t.Errorf("found %q in:\n%s", canary, text.String())
		}
	}
	if s.Secret.Reveal() != "canary-key" {
		t.Error("the key cannot be had at all")
	}
}

func TestConfig(t *testing.T) {
	if err := endpoint.DefaultConfig().Validate(); err != nil {
		t.Errorf("the defaults: %v", err)
	}
	want := "failure_threshold: 0 is too small; want 1 or more, e.g. 3\ncooldown: 0s is out of range; want more than 0 and at most 1h0m0s, e.g. 15s"
	if err := (endpoint.Config{}).Validate(); err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
	if _, err := endpoint.NewSet(endpoint.Config{}, endpoint.Deps{}); err == nil {
		t.Error("NewSet takes a zero Config")
	}
}
