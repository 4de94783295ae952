package agent_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgw/llmgw/cmd/internal/config/agent"
	"github.com/llmgw/llmgw/cmd/internal/config/reference"
	"github.com/llmgw/llmgw/placement/catalog/strictyaml"
)

const (
	repository    = "../../../.."
	referencePage = "docs/reference/agent.md"
)

var update = flag.Bool("update", false, "write docs/reference/agent.md from the code")

// allKeys reads the sources of every package that has a part of the file: once.
var allKeys = sync.OnceValues(func() ([]reference.Key, error) {
	return reference.Keys(repository, agent.DefaultConfig())
})

// keys returns every key of agent.yaml in the order of the structs.
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
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s is stale; run go generate ./cmd/internal/config/agent (-want +got):\n%s", referencePage, diff)
	}
}

func page(all []reference.Key) []byte {
	var b bytes.Buffer
	b.WriteString(`# agent.yaml

<!-- Generated from the comments in the code by go generate ./cmd/internal/config/agent; do not edit. -->

` + "`llmgw agent -c agent.yaml`" + ` reads one YAML file over the defaults below. ` + "`llmgw config check --for agent -c agent.yaml`" + ` names
every fault of a file with its line, and [examples/agent.yaml](../../examples/agent.yaml) has every key with the reason for its
value. How a node is set up is told in [how-to/agent](../how-to/agent.md), what an agent does in
[explanation/agent](../explanation/agent.md).

A key that is not listed here is an error. A list replaces its default as a whole. Durations have a unit, as in
` + "`250ms`, `5s` or `2m30s`" + `. Each key can be overridden by an environment variable: ` + "`LLMGW_`" + ` and the path in capitals, with two
underscores for each dot, as in ` + "`LLMGW_RECONNECT__DELAY=1s`" + `. Every change needs a restart of the agent, which touches no engine.

## Top level
`)
	b.WriteString(reference.Tables(all))
	return b.Bytes()
}

// The example carries every key, explains each, and shows the defaults; labels of
// fabrics bind with their rates.
func TestExample(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(repository, "examples", "agent.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := agent.Parse("examples/agent.yaml", data, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(loaded.Warnings) > 0 {
		t.Errorf("the example causes warnings: %q", loaded.Warnings)
	}
	if diff := cmp.Diff([]string{"servers", "engines", "weights.dirs", "fabrics"}, strictyaml.Changed(agent.DefaultConfig(), loaded.Config)); diff != "" {
		t.Errorf("keys that differ from their defaults (-want +got):\n%s", diff)
	}
	if f := loaded.Fabrics; len(f) != 1 || f[0].Name != "ib-hall-1" || f[0].RateGbps != 400 {
		t.Errorf("fabrics: %+v", f)
	}
	for _, fault := range reference.Unexplained(data, keys(t)) {
		t.Errorf("the example %s", fault)
	}
}
