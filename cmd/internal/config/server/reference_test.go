package server_test

import (
	"bytes"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgw/llmgw/cmd/internal/config"
	"github.com/llmgw/llmgw/cmd/internal/config/reference"
	"github.com/llmgw/llmgw/cmd/internal/config/server"
)

const (
	repository    = "../../../.."
	referencePage = "docs/reference/configuration.md"
)

var update = flag.Bool("update", false, "write docs/reference/configuration.md from the code")

// keys returns every key of server.yaml in the order of the structs.
func keys(t *testing.T) []reference.Key {
	t.Helper()
	all, err := reference.Keys(repository, server.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Every key is explained, and what its comment calls the default is the default.
func TestCommentsAgreeWithDefaults(t *testing.T) {
	stated := regexp.MustCompile(`Default:? ("[^"]*"|none|empty|[0-9]+(?:\.[0-9]+)?[a-z0-9]*|true|false|[a-z-]+)`)
	for _, k := range keys(t) {
		if k.Comment == "" {
			t.Errorf("%s has no comment", k.Path)
			continue
		}
		if config.IsSection(k.Type) {
			continue
		}
		m := stated.FindStringSubmatch(k.Comment)
		if m == nil {
			if k.Value.IsValid() || !strings.Contains(k.Comment, "Required") && !strings.Contains(k.Comment, "Empty means") {
				t.Errorf("%s: its comment states no default: %s", k.Path, k.Comment)
			}
			continue
		}
		if k.Entry != "" && m[1] != k.Entry {
			t.Errorf("%s: its comment says the default is %s, it is %s", k.Path, m[1], k.Entry)
		}
		if k.Value.IsValid() && !sameDefault(m[1], k.Value) {
			t.Errorf("%s: its comment says the default is %s, it is %v", k.Path, m[1], k.Value)
		}
	}
}

func sameDefault(stated string, v reflect.Value) bool {
	if stated == "none" || stated == "empty" {
		return v.IsZero() || (v.Kind() == reflect.Slice && v.Len() == 0)
	}
	if d, ok := v.Interface().(time.Duration); ok {
		want, err := time.ParseDuration(stated)
		return d == want && (err == nil || stated == "0")
	}
	switch v.Kind() {
	case reflect.String:
		if unquoted, err := strconv.Unquote(stated); err == nil {
			stated = unquoted
		}
		return v.String() == stated
	case reflect.Slice: // of a list the first entry's name stands for all
		return v.Len() > 0 && config.IsSection(v.Type().Elem()) && fmt.Sprint(v.Index(0).Field(0)) == stated
	default:
		return fmt.Sprint(v) == stated
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
	if diff := cmp.Diff([]string{"models", "endpoints"}, config.Changed(server.DefaultConfig(), loaded.Config)); diff != "" {
		t.Errorf("keys that differ from their defaults (-want +got):\n%s", diff)
	}
	explained := make(map[string]bool)
	commented := false
	for line := range strings.Lines(string(data)) {
		text := strings.TrimSpace(line)
		name, rest, isKey := strings.Cut(strings.TrimPrefix(text, "- "), ":")
		switch {
		case strings.HasPrefix(text, "#"):
			commented = true
		case text == "":
			commented = false
		case isKey:
			explained[name] = explained[name] || commented || strings.Contains(rest, " # ")
			commented = false
		}
	}
	for _, k := range keys(t) {
		name := k.Path[strings.LastIndexByte(k.Path, '.')+1:]
		if done, present := explained[name]; !present {
			t.Errorf("the example lacks %s", k.Path)
		} else if !done {
			t.Errorf("the example does not explain %s", k.Path)
		}
	}
}

// Nothing in examples is a configuration that the loader has not seen.
func TestEveryExampleFileIsLoaded(t *testing.T) {
	known := map[string]bool{
		"server.yaml":   true,
		"simulate.yaml": true, // by TestSimulateExample of cmd/internal/cli
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

// No key looks like what Kubernetes puts into the environment for a Service.
func TestNoKeyIsAServiceLink(t *testing.T) {
	for _, k := range keys(t) {
		name := config.VariableFor(k.Path)
		if strings.HasSuffix(name, "SERVICE_HOST") || strings.Contains(name, "_PORT_") || name == "LLMGW_PORT" {
			t.Errorf("%s is overridden by %s, which Kubernetes may set", k.Path, name)
		}
	}
}
