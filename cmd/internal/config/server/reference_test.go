package server_test

import (
	"bytes"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgw/llmgw/cmd/internal/config/reference"
	"github.com/llmgw/llmgw/cmd/internal/config/server"
	"github.com/llmgw/llmgw/placement/catalog/strictyaml"
)

const (
	repository    = "../../../.."
	referencePage = "docs/reference/configuration.md"
)

var update = flag.Bool("update", false, "write docs/reference/configuration.md from the code")

// allKeys reads the sources of every package that has a part of the file: once.
var allKeys = sync.OnceValues(func() ([]reference.Key, error) {
	return reference.Keys(repository, server.DefaultConfig())
})

// keys returns every key of server.yaml in the order of the structs.
func keys(t *testing.T) []reference.Key {
	t.Helper()
	all, err := allKeys()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Every key is explained, and what its comment calls the default is the default.
func TestCommentsAgreeWithDefaults(t *testing.T) {
	for _, fault := range reference.Disagreements(keys(t)) {
		t.Error(fault)
	}
}

// The reference page is what the code says.
func TestReferenceIsCurrent(t *testing.T) {
	want := page(keys(t))
	file := filepath.Join(repository, referencePage)
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s is stale; run go generate ./cmd/internal/config/server (-want +got):\n%s", referencePage, diff)
	}
}

func page(all []reference.Key) []byte {
	var b bytes.Buffer
	b.WriteString(`# server.yaml

<!-- Generated from the comments in the code by go generate ./cmd/internal/config/server; do not edit. -->

` + "`llmgw server -c server.yaml`" + ` reads one YAML file over the defaults below. ` + "`llmgw config check -c server.yaml`" + ` names every
fault of a file with its line, ` + "`llmgw config print -c server.yaml`" + ` shows what is in force, and
[examples/server.yaml](../../examples/server.yaml) has every key with the reason for its value.

A key that is not listed here is an error. A list replaces its default as a whole. Durations have a unit, as in
` + "`250ms`, `5s` or `2m30s`" + `. A section or list without a value, as when all below it is commented out, keeps its default.

Each key can be overridden by an environment variable: ` + "`LLMGW_`" + ` and the path in capitals, with two underscores for each
dot, as in ` + "`LLMGW_ROUTER__RETRIES=3`" + `. Lists of names are separated by commas; anything may be written as YAML
(` + "`LLMGW_ENDPOINTS='[{id: a, url: http://10.0.0.5:8000, models: [m]}]'`" + `); a number leads into a list that the file has
(` + "`LLMGW_ENDPOINTS__0__URL`" + `). A variable of this prefix that no key has is reported in one warning and ignored.

SIGHUP reads the file again. These keys change while requests run: ` + code(server.LiveKeys()) + `.
The others need a restart, and a warning names those that differ. A file with a fault changes nothing.

## Top level
`)
	b.WriteString(reference.Tables(all))
	return b.Bytes()
}

func code(words []string) string { return "`" + strings.Join(words, "`, `") + "`" }

// The example carries every key, explains each, and shows the defaults.
func TestExample(t *testing.T) {
	file := filepath.Join(repository, "examples", "server.yaml")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := server.Parse("examples/server.yaml", data, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range loaded.Gateway.Warnings() {
		t.Errorf("the example causes a warning: %s", w)
	}
	if diff := cmp.Diff([]string{"models", "endpoints"}, strictyaml.Changed(server.DefaultConfig(), loaded.Config)); diff != "" {
		t.Errorf("keys that differ from their defaults (-want +got):\n%s", diff)
	}
	data = bytes.Replace(data, []byte(`# agent_listen:`), []byte(`agent_listen:`), 1) // to write it has an effect
	for _, fault := range reference.Unexplained(data, keys(t)) {
		t.Errorf("the example %s", fault)
	}
}

// Nothing in examples is a configuration that the loader has not seen.
func TestEveryExampleFileIsLoaded(t *testing.T) {
	known := map[string]bool{
		"agent.yaml":    true, // by TestExample of config/agent
		"server.yaml":   true,
		"simulate.yaml": true, // by TestSimulateExample of cmd/internal/cli
		"scale.yaml":    true, // by TestSimulateScaleExample of cmd/internal/cli
	}
	err := filepath.WalkDir(filepath.Join(repository, "examples"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.HasSuffix(path, ".yaml") && filepath.Base(filepath.Dir(path)) == "examples" && !known[d.Name()] {
			t.Errorf("%s is loaded by no test", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// No key looks like what Kubernetes puts into the environment for a Service, by the
// name of which the variables begin.
func TestNoKeyIsAServiceLink(t *testing.T) {
	link := regexp.MustCompile(`_SERVICE_HOST$|_SERVICE_PORT(_.+)?$|_PORT$|_PORT_[0-9]+_(TCP|UDP|SCTP)(_[A-Z]+)?$`)
	for _, k := range keys(t) {
		name := strictyaml.VariableFor(k.Path)
		if link.MatchString(name) {
			t.Errorf("%s is overridden by %s, which Kubernetes may set", k.Path, name)
		}
	}
}
