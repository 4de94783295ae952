package server_test

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
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
	"github.com/llmgw/llmgw/cmd/internal/config/server"
)

const (
	repository = "../../../.."
	module     = "github.com/llmgw/llmgw"
	reference  = "docs/reference/configuration.md"
)

var update = flag.Bool("update", false, "write docs/reference/configuration.md from the code")

// key is one key with what its field's comment says.
type key struct {
	path    string // positions written []
	typ     reflect.Type
	value   reflect.Value // the default; invalid within lists
	comment string        // one line
	entry   string        // the default within an entry of a list; "" for none
}

// keys returns every key of server.yaml in the order of the structs.
func keys(t *testing.T) []key {
	return collect(t, reflect.ValueOf(server.DefaultConfig()), reflect.TypeFor[server.Config](), "", make(map[reflect.Type]map[string]string))
}

func collect(t *testing.T, v reflect.Value, typ reflect.Type, path string, docs map[reflect.Type]map[string]string) []key {
	t.Helper()
	var out []key
	for _, f := range config.Fields(typ) {
		owner := typ
		for _, i := range f.Index[:len(f.Index)-1] {
			owner = owner.Field(i).Type
		}
		name := owner.Field(f.Index[len(f.Index)-1]).Name
		if docs[owner] == nil {
			docs[owner] = fieldComments(t, owner)
		}
		k := key{path: strings.TrimPrefix(path+"."+f.Key, "."), typ: f.Type, comment: docs[owner][name], entry: f.Default}
		if rest, ok := strings.CutPrefix(k.comment, name+" "); ok {
			k.comment = "`" + f.Key + "` " + rest
		}
		if v.IsValid() {
			k.value = v.FieldByIndex(f.Index)
		}
		out = append(out, k)
		switch elem := f.Type; {
		case config.IsSection(elem):
			out = append(out, collect(t, k.value, elem, k.path, docs)...)
		case elem.Kind() == reflect.Slice && config.IsSection(elem.Elem()):
			out = append(out, collect(t, reflect.Value{}, elem.Elem(), k.path+"[]", docs)...)
		}
	}
	return out
}

// fieldComments reads the comments of a struct's fields from its source.
func fieldComments(t *testing.T, typ reflect.Type) map[string]string {
	t.Helper()
	dir := filepath.Join(repository, strings.TrimPrefix(typ.PkgPath(), module))
	fset := token.NewFileSet()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string]string)
	for _, name := range files {
		file, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok || spec.Name.Name != typ.Name() {
				return true
			}
			if s, ok := spec.Type.(*ast.StructType); ok {
				for _, f := range s.Fields.List {
					for _, id := range f.Names {
						out[id.Name] = strings.Join(strings.Fields(f.Doc.Text()), " ")
					}
				}
			}
			return false
		})
	}
	return out
}

// Every key is explained, and what its comment calls the default is the default.
func TestCommentsAgreeWithDefaults(t *testing.T) {
	stated := regexp.MustCompile(`Default:? ("[^"]*"|none|empty|[0-9]+(?:\.[0-9]+)?[a-z0-9]*|true|false|[a-z-]+)`)
	for _, k := range keys(t) {
		if k.comment == "" {
			t.Errorf("%s has no comment", k.path)
			continue
		}
		if config.IsSection(k.typ) {
			continue
		}
		m := stated.FindStringSubmatch(k.comment)
		if m == nil {
			if k.value.IsValid() || !strings.Contains(k.comment, "Required") && !strings.Contains(k.comment, "Empty means") {
				t.Errorf("%s: its comment states no default: %s", k.path, k.comment)
			}
			continue
		}
		if k.entry != "" && m[1] != k.entry {
			t.Errorf("%s: its comment says the default is %s, it is %s", k.path, m[1], k.entry)
		}
		if k.value.IsValid() && !sameDefault(m[1], k.value) {
			t.Errorf("%s: its comment says the default is %s, it is %v", k.path, m[1], k.value)
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
	case reflect.Slice:
		return false
	default:
		return fmt.Sprint(v) == stated
	}
}

// The reference page is what the code says.
func TestReferenceIsCurrent(t *testing.T) {
	want := page(keys(t))
	file := filepath.Join(repository, reference)
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
		t.Errorf("%s is stale; run go generate ./cmd/internal/config/server (-want +got):\n%s", reference, diff)
	}
}

func page(all []key) []byte {
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
	section(&b, "", all)
	for _, k := range all {
		if config.IsSection(k.typ) || (k.typ.Kind() == reflect.Slice && config.IsSection(k.typ.Elem())) {
			path := k.path
			if !config.IsSection(k.typ) {
				path += "[]"
			}
			fmt.Fprintf(&b, "\n## `%s`\n\n%s\n", path, k.comment)
			section(&b, path, all)
		}
	}
	return b.Bytes()
}

// section writes the table of the keys directly below a path.
func section(b *bytes.Buffer, path string, all []key) {
	b.WriteString("\n| key | type | default | meaning |\n| --- | --- | --- | --- |\n")
	for _, k := range all {
		i := strings.LastIndexByte(k.path, '.')
		if k.path[:max(i, 0)] != path {
			continue
		}
		name, meaning, value := k.path[i+1:], strings.ReplaceAll(k.comment, "|", `\|`), ""
		if config.IsSection(k.typ) || (k.typ.Kind() == reflect.Slice && config.IsSection(k.typ.Elem())) {
			meaning = "see below"
		} else if k.value.IsValid() {
			value = "`" + shown(k.value) + "`"
		} else if k.entry != "" {
			value = "`" + k.entry + "`"
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", name, typeName(k.typ), value, meaning)
	}
}

func shown(v reflect.Value) string {
	if d, ok := v.Interface().(time.Duration); ok {
		return config.Duration(d)
	}
	switch v.Kind() {
	case reflect.String:
		return strconv.Quote(v.String())
	case reflect.Slice:
		return "[]"
	default:
		return fmt.Sprint(v)
	}
}

func typeName(t reflect.Type) string {
	switch {
	case config.IsDuration(t):
		return "duration"
	case config.IsSection(t):
		return "section"
	}
	switch t.Kind() {
	case reflect.String:
		return "text"
	case reflect.Bool:
		return "true or false"
	case reflect.Float64, reflect.Float32:
		return "number"
	case reflect.Slice:
		return "list"
	case reflect.Map:
		return "mapping"
	default:
		return "whole number"
	}
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
		name := k.path[strings.LastIndexByte(k.path, '.')+1:]
		if done, present := explained[name]; !present {
			t.Errorf("the example lacks %s", k.path)
		} else if !done {
			t.Errorf("the example does not explain %s", k.path)
		}
	}
}

// Nothing in examples is a configuration that the loader has not seen.
func TestEveryExampleFileIsLoaded(t *testing.T) {
	known := map[string]bool{"server.yaml": true}
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
		name := config.VariableFor(k.path)
		if strings.HasSuffix(name, "SERVICE_HOST") || strings.Contains(name, "_PORT_") || name == "LLMGW_PORT" {
			t.Errorf("%s is overridden by %s, which Kubernetes may set", k.path, name)
		}
	}
}
