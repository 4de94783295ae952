package server_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgw/llmgw/cmd/internal/config/server"
	"github.com/llmgw/llmgw/fleet/pki"
	"github.com/llmgw/llmgw/placement/catalog/strictyaml"
	"github.com/llmgw/llmgw/router/endpoint"
)

func parse(t *testing.T, text string, environ ...string) (*server.Loaded, []string) {
	t.Helper()
	l, err := server.Parse("f.yaml", []byte(text), environ)
	if err != nil {
		return nil, strings.Split(err.Error(), "\n")
	}
	return l, nil
}

// A static endpoint takes every field it is documented to have.
func TestEndpointFields(t *testing.T) {
	l, faults := parse(t, `
endpoints:
  - {id: a, url: "https://h:1/base/", models: [m, {name: n, upstream: u}], pool: p, weight: 2, engine: auto, key_env: K, ca_file: /ca}
`)
	if faults != nil {
		t.Fatal(faults)
	}
	want := endpoint.Spec{
		ID: "a", URL: "https://h:1/base/", Pool: "p", Weight: 2, Engine: "auto", CAFile: "/ca",
		Models: []endpoint.Model{{Name: "m"}, {Name: "n", Upstream: "u"}},
	}
	if diff := cmp.Diff(want, l.Gateway.Endpoints[0].Spec); diff != "" || l.Gateway.Endpoints[0].KeyEnv != "K" {
		t.Errorf("endpoint (-want +got):\n%s", diff)
	}
}

// Where no weight is written it is 1, and is printed.
func TestWeightDefault(t *testing.T) {
	l, faults := parse(t, "endpoints: [{id: a, url: http://h, models: [m]}]")
	if faults != nil {
		t.Fatal(faults)
	}
	var out bytes.Buffer
	if err := strictyaml.Print(&out, l.Config); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "weight: 1\n") {
		t.Errorf("printed is\n%s", out.String())
	}
}

// What would send requests astray without a word is refused, with its line.
func TestMisroutingIsRefused(t *testing.T) {
	tests := []struct {
		name, text string
		want       []string
	}{
		{"unknown fallback", "models: [{name: a, fallbacks: [b]}]", []string{
			`f.yaml:1: models[0].fallbacks[0]: "b" is no model or alias of this catalog; name one that is, or add it`,
		}},
		{"alias of two", "models:\n- {name: a, aliases: [x]}\n- {name: b, aliases: [x]}", []string{
			`f.yaml:3: models[1].aliases[0]: "x" is already an alias of models[0]; a name or alias leads to one model`,
		}},
		{"unknown profile", "models: [{name: a, routing_profile: chatty}]\nrouter: {default_profile: fast}", []string{
			`f.yaml:1: models[0].routing_profile: "chatty" is no routing profile; want one of chat, batch, long-context, debug`,
			`f.yaml:2: router.default_profile: "fast" is no routing profile; want one of chat, batch, long-context, debug`,
		}},
		{"the same id, no models, unknown engine", "endpoints:\n- {id: a, url: http://h, models: [m]}\n- id: a\n  url: http://i\n  models: []\n  engine: vlm", []string{
			`f.yaml:3: endpoints[1].id: "a" is used by endpoints[0] too; want one of its own`,
			`f.yaml:5: endpoints[1].models: is empty; want at least one model`,
			`f.yaml:6: endpoints[1].engine: "vlm" is unknown; want auto or one of [infinity llamacpp lmdeploy lmstudio mlx ollama sglang tei tgi triton trtllm vllm]`,
		}},
		{"an endpoint of weight 0", "endpoints:\n- {id: a, url: http://h, models: [m]}\n- {id: b, url: http://i, models: [m], weight: 0}\n- {id: c, url: http://j, models: [m], weight: -1}", []string{
			`f.yaml:3: endpoints[1].weight: 0 is not accepted; want more than 0, e.g. 1; to take the endpoint out of use remove its entry and send SIGHUP: what it is answering runs to its end`,
			`f.yaml:4: endpoints[2].weight: -1 is out of range; want more than 0 and at most 1e6, e.g. 1`,
		}},
		{"ports alone", "listen: 8080\nadmin_listen: 9090", []string{
			`f.yaml:1: listen: 8080 is a number; want ":8080"`,
			`f.yaml:2: admin_listen: 9090 is a number; want "127.0.0.1:9090"`,
		}},
		{"admission", "admission:\n  queue_ttl: 0s\n  default_band: iron\n  band_header: x y\n  bands:\n  - {name: a}\n  - {name: a, saturation_ceiling: -1}", []string{
			`f.yaml:2: admission.queue_ttl: 0s is not positive; want e.g. 30s`,
			`f.yaml:3: admission.default_band: "iron" is none of bands; want the name of one`,
			`f.yaml:4: admission.band_header: "x y" is no header name; want one such as x-llmgw-band`,
			`f.yaml:7: admission.bands[1].name: "a" is there twice; want each once`,
			`f.yaml:7: admission.bands[1].saturation_ceiling: -1 is out of range; want 0 to 1, or more than 1 for a band that never waits`,
		}},
		{"sections of later versions", "mirror: {dir: x}", []string{
			`f.yaml:1: mirror: unknown key; known here are listen, admin_listen, metrics_listen, agent_listen, agent_tls, control, plugins, routers, follow, tls, http, shutdown, log, store, auth, limits, usage, accounts, portal, landing, console, router, admission, on_demand, scoring, prefix, recorder, models, endpoints`,
		}},
		{"a control plane that cannot be", "agent_listen: 7443\nagent_tls: {cert_file: a}\ncontrol: {heartbeat: 10s, cluster: a/b}", []string{
			`f.yaml:1: agent_listen: 7443 is a number; want ":7443"`,
			"f.yaml:2: agent_tls: set cert_file, key_file and ca_file, or none of them: a connection on which both ends prove themselves needs all three",
			`f.yaml:3: control.cluster: engines: not an id: "a/b" has '/'; want letters, digits, '.', '-' and '_'`,
			"f.yaml:3: control.unreachable_after: 15s; want at least twice heartbeat, 20s: one heartbeat may be late",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, got := parse(t, tt.text)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
}

// What may be meant is a warning with its line, and stops nothing.
func TestWarnings(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l, faults := parse(t, `models:
- name: nobody
endpoints:
- {id: a, url: http://h, models: [m], key_env: LLMGW_TEST_KEY_A}
- {id: b, url: http://h/, models: [m, n], key_file: /nonexistent/key}
- {id: c, url: https://h, models: [m], ca_file: `+empty+`}
tls: {cert_file: /nonexistent/cert, key_file: /nonexistent/key}
router: {spool_dir: /nonexistent/dir}
auth: {enabled: false}
`, "LLMGW_TEST_KEY_B=x", "LLMGW_TEST_KEY_A=x", "LLMGW_API_KEY=x", "LLMGW_PORT=tcp://10.0.0.1:80", "LLMGW_ROUTER_RETRIES=1")
	if faults != nil {
		t.Fatal(faults)
	}
	want := []string{
		`no key belongs to the environment variables LLMGW_PORT, LLMGW_ROUTER_RETRIES (did you mean LLMGW_ROUTER__RETRIES?), LLMGW_TEST_KEY_B; they are ignored`,
		`f.yaml:5: endpoints[1].url: the engine of endpoints[0] again, for the model "m"; it gets twice its share of the load`,
		`f.yaml:2: models[0].name: no endpoint serves "nobody"; requests for it get its fallbacks, or 503`,
		`f.yaml:9: auth.enabled: false and listen: ":8080" let everybody who reaches this machine use every model; leave auth.enabled out, or listen on a loopback address`,
		`f.yaml:4: endpoints[0].key_env: the environment variable "LLMGW_TEST_KEY_A" is not set; set it, or leave the key out`,
		`f.yaml:5: endpoints[1].key_file: open /nonexistent/key: no such file or directory`,
		`f.yaml:6: endpoints[2].ca_file: "` + empty + `" holds no certificate; want PEM`,
		`f.yaml:7: tls.cert_file: open /nonexistent/cert: no such file or directory`,
		`f.yaml:7: tls.key_file: open /nonexistent/key: no such file or directory`,
		`f.yaml:8: router.spool_dir: "/nonexistent/dir" cannot be used: stat /nonexistent/dir: no such file or directory; want a directory that exists`,
	}
	if diff := cmp.Diff(want, l.Warnings()); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	if err := l.Check(); !strictyaml.IsFault(err) {
		t.Errorf("Check = %v, want faults", err)
	}
}

// A control plane and a router have the engines of the fleet.
func TestNoEndpointsWarning(t *testing.T) {
	for _, tt := range []struct {
		file     string
		asRouter bool
		want     bool
	}{
		{file: "auth: {enabled: false}\nlisten: 127.0.0.1:8080\n", want: true},
		{file: "agent_listen: 127.0.0.1:7443\n"},
		{file: "models: [{name: m, source: /m, profile: {engine: vllm}}]\n"},
		{file: "auth: {enabled: false}\nfollow: {servers: [\"http://h:1\"], file: /f, token_file: /t}\n", asRouter: true},
	} {
		l, faults := parse(t, tt.file)
		if faults != nil {
			t.Fatal(faults)
		}
		if tt.asRouter {
			if err := l.UseAsRouter(); err != nil {
				t.Fatal(err)
			}
		}
		got := slices.ContainsFunc(l.Warnings(), func(w string) bool { return strings.Contains(w, "endpoints: there are none") })
		if got != tt.want {
			t.Errorf("%s: it is warned of: %t; want %t", tt.file, got, tt.want)
		}
	}
}

// Files that are there and do not fit together are a fault before a start.
func TestMismatchedCertificate(t *testing.T) {
	authority, err := pki.NewAuthority("prod", time.Now(), pki.DefaultAuthorityLifetime)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, name := range []string{"a", "b"} {
		pair, err := authority.Issue(time.Now(), pki.Request{Role: pki.RoleServer, ID: name, Hosts: []string{"gw.example"}, Lifetime: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		if err := pki.WritePair(filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key"), pair, false); err != nil {
			t.Fatal(err)
		}
	}
	check := func(cert, key string) error {
		l, faults := parse(t, fmt.Sprintf("tls: {cert_file: %s/%s, key_file: %s/%s}\n", dir, cert, dir, key))
		if faults != nil {
			t.Fatal(faults)
		}
		return l.Check()
	}
	if err := check("a.crt", "a.key"); err != nil {
		t.Errorf("a pair: %v", err)
	}
	if err := check("a.crt", "b.key"); err == nil || !strings.Contains(err.Error(), "f.yaml:1: tls.cert_file: ") || !strings.Contains(err.Error(), "does not belong to the certificate") || !strings.Contains(err.Error(), "b.key") {
		t.Errorf("two halves: %v", err)
	}
	if err := check("a.key", "a.key"); err == nil || !strings.Contains(err.Error(), "there is no certificate in it") {
		t.Errorf("a key as certificate: %v", err)
	}
}

func TestPrintedDefaultsReadBack(t *testing.T) {
	var out bytes.Buffer
	if err := strictyaml.Print(&out, server.DefaultConfig()); err != nil {
		t.Fatal(err)
	}
	l, faults := parse(t, out.String())
	if faults != nil {
		t.Fatal(faults)
	}
	// An empty list is not nil, and means the same.
	l.Gateway.Models, l.Gateway.Endpoints = nil, nil
	// To write agent_listen has an effect.
	if diff := cmp.Diff(server.DefaultConfig().WithControlPlane(":7443"), l.Config); diff != "" {
		t.Errorf("after printing and reading (-want +got):\n%s", diff)
	}
}

func TestLoadReadsFiles(t *testing.T) {
	if _, err := server.Load(filepath.Join(t.TempDir(), "none.yaml"), nil); err == nil || strictyaml.IsFault(err) {
		t.Errorf("a missing file: %v", err)
	}
	if _, err := server.Load(t.TempDir(), nil); err == nil || strictyaml.IsFault(err) {
		t.Errorf("a directory: %v", err)
	}
	l, err := server.Load("", []string{"LLMGW_ROUTER__RETRIES=0"})
	if err != nil || l.Gateway.Router.Core.Retries != 0 {
		t.Errorf("variables alone: %+v, %v", l, err)
	}
	huge := filepath.Join(t.TempDir(), "huge.yaml")
	if err := os.WriteFile(huge, bytes.Repeat([]byte("#"), strictyaml.MaxFileBytes+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := server.Load(huge, nil); !strictyaml.IsFault(err) {
		t.Errorf("a huge file: %v", err)
	}
}

// No text panics, and whatever is accepted is valid and can be printed.
func FuzzParse(f *testing.F) {
	example, err := os.ReadFile(filepath.Join(repository, "examples", "server.yaml"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(example)
	f.Add([]byte("endpoints:\n- &a {id: a, url: http://h, models: [m]}\n- {<<: *a, id: b}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		l, err := server.Parse("f.yaml", data, nil)
		if err != nil {
			if !strictyaml.IsFault(err) {
				t.Errorf("error that is no fault of the file: %v", err)
			}
			return
		}
		if err := l.Validate(); err != nil {
			t.Errorf("accepted and not valid: %v", err)
		}
		var out bytes.Buffer
		if err := strictyaml.Print(&out, l.Config); err != nil {
			t.Error(err)
		}
		again, err := server.Parse("printed", out.Bytes(), nil)
		if err != nil {
			t.Fatalf("what is printed is not accepted: %v\n%s", err, out.String())
		}
		if diff := strictyaml.Changed(l.Config, again.Config); len(diff) > 0 && !emptyLists(l.Config, again.Config) {
			t.Errorf("printing and reading changes %v\n%s", diff, out.String())
		}
	})
}

// emptyLists reports whether two configurations differ only in lists that are
// nil in one and empty in the other.
func emptyLists(a, b server.Config) bool {
	var one, two bytes.Buffer
	_ = strictyaml.Print(&one, a) // a buffer takes everything
	_ = strictyaml.Print(&two, b)
	return one.String() == two.String()
}

// A server is a control plane where agent_listen is written, and only there.
func TestControlPlane(t *testing.T) {
	for text, want := range map[string]bool{"": false, "agent_listen: ''": false, "agent_listen: ':7443'": true, "control: {heartbeat: 4s}": false} {
		loaded, faults := parse(t, text)
		if len(faults) > 0 || loaded.ControlPlane() != want || loaded.AgentListen != ":7443" && want {
			t.Errorf("%q: %v, a control plane: %t; want %t", text, faults, loaded.ControlPlane(), want)
		}
		if warned := loaded.ClearWarning() != ""; warned != want {
			t.Errorf("%q: warned that agents speak in clear: %t; want %t", text, warned, want)
		}
	}
	loaded, _ := parse(t, "", "LLMGW_AGENT_LISTEN=127.0.0.1:0")
	if !loaded.ControlPlane() || loaded.ClearWarning() != "" {
		t.Errorf("by a variable, on loopback: %t, %q", loaded.ControlPlane(), loaded.ClearWarning())
	}
}

// A file of agent_tls that is not there is told before the server starts.
func TestAgentFilesAreLookedAt(t *testing.T) {
	dir := t.TempDir()
	text := fmt.Sprintf("agent_listen: '127.0.0.1:0'\nagent_tls: {cert_file: %[1]s/a.crt, key_file: %[1]s/a.key, ca_file: %[1]s/ca.crt}", dir)
	loaded, faults := parse(t, text)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	err := loaded.Check()
	for _, want := range []string{"f.yaml:2: agent_tls.cert_file: ", "f.yaml:2: agent_tls.key_file: ", "f.yaml:2: agent_tls.ca_file: ", "a.crt", "ca.crt"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want it to have %q", err, want)
		}
	}
}
