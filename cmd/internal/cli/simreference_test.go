package cli_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgw/llmgw/cmd/internal/cli"
	"github.com/llmgw/llmgw/cmd/internal/config/reference"
	"github.com/llmgw/llmgw/engines/sim"
	"github.com/llmgw/llmgw/placement/catalog/strictyaml"
)

var update = flag.Bool("update", false, "write faults.txt, the tables of docs/reference/sim.md and the help that engines/sim is held against from the code")

// What is said of the simulated engine's keys, in --faults=help and in the
// reference, is what the comments in the code say, and leaves none out.
func TestSimReference(t *testing.T) {
	const repository = "../../.."
	keys, err := reference.Keys(repository, sim.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range keys {
		if k.Comment == "" {
			t.Errorf("%s has no comment", k.Path)
		}
		if k.Path == "faults.metrics" {
			for _, name := range sim.MetricsFaults() {
				if !strings.Contains(k.Comment, " "+name) {
					t.Errorf("the comment of %s lacks %s", k.Path, name)
				}
			}
		}
	}
	sameText(t, "simserve/faults.txt", faultsText(keys))
	// The adapter's flags are held against this text, in the tests of engines/sim.
	var help strings.Builder
	if code := cli.Main(t.Context(), []string{"sim", "serve", "--help"}, cli.Streams{Out: &help, Err: t.Output()}); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	sameText(t, filepath.Join(repository, "engines", "sim", "testdata", "help", "llmgw.txt"), help.String())

	page := filepath.Join(repository, "docs", "reference", "sim.md")
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- keys: made by go generate ./cmd/internal/cli -->\n", "\n<!-- /keys -->"
	head, rest, opened := strings.Cut(string(text), begin)
	_, tail, closed := strings.Cut(rest, end)
	if !opened || !closed {
		t.Fatalf("%s has no place for the keys", page)
	}
	tables := strings.ReplaceAll(reference.Tables(keys), "\n## ", "\n### ")
	sameText(t, page, head+begin+tables+end+tail)
}

// Every flag of llmgw sim and every option of its adapter stands in the reference.
func TestSimFlags(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "reference", "sim.md"))
	if err != nil {
		t.Fatal(err)
	}
	var help strings.Builder
	if code := cli.Main(t.Context(), []string{"sim", "serve", "--help"}, cli.Streams{Out: &help, Err: t.Output()}); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	flags := regexp.MustCompile(`(?m)^ +(?:-\w, )? *(--[a-z-]+)`).FindAllStringSubmatch(help.String(), -1)
	if len(flags) < 5 {
		t.Fatalf("only the flags %v in\n%s", flags, &help)
	}
	for _, m := range flags {
		if m[1] != "--help" && m[1] != "--version" && !strings.Contains(string(page), "`"+m[1]+"`") {
			t.Errorf("docs/reference/sim.md does not explain %s", m[1])
		}
	}
	d, err := sim.Adapter{}.Describe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range d.Options {
		if !strings.Contains(string(page), "\n| `"+o.Key+"` | "+o.Doc+" |\n") {
			t.Errorf("docs/reference/sim.md does not say of the option %s: %s", o.Key, o.Doc)
		}
	}
}

func sameText(t *testing.T, file, want string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("%s is stale; run go generate ./cmd/internal/cli (-want +got):\n%s", file, diff)
	}
}

// faultsText is each fault as it is written and what it does.
func faultsText(keys []reference.Key) string {
	var b strings.Builder
	b.WriteString("Faults are written as KEY=VALUE, with semicolons between them.\n")
	for _, k := range keys {
		key, ok := strings.CutPrefix(k.Path, "faults.")
		if !ok || strings.Contains(key, ".") {
			continue
		}
		meaning := strings.TrimPrefix(k.Comment, "`"+key+"` ")
		fmt.Fprintf(&b, "\n%s=%s\n%s", key, faultValue(k.Type), wrapped(strings.ReplaceAll(meaning, "`", "")))
	}
	return b.String()
}

func faultValue(t reflect.Type) string {
	switch {
	case strictyaml.IsDuration(t):
		return "DURATION"
	case t.Kind() == reflect.Bool:
		return "true"
	case t.Kind() == reflect.Int:
		return "NUMBER"
	case t.Kind() == reflect.Slice:
		return "STATUS [RETRY-AFTER|- [BODY]], …"
	}
	return "NAME"
}

// wrapped indents the text and breaks it before column 80.
func wrapped(text string) string {
	var b strings.Builder
	column := 0
	for word := range strings.FieldsSeq(text) {
		if n := len([]rune(word)); column == 0 || column+1+n > 79 {
			if column > 0 {
				b.WriteByte('\n')
			}
			b.WriteString("    " + word)
			column = 4 + n
		} else {
			b.WriteString(" " + word)
			column += 1 + n
		}
	}
	return b.String() + "\n"
}
