package cli_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/llmgw/llmgw/cmd/internal/cli"
	"github.com/llmgw/llmgw/cmd/internal/config/reference"
	"github.com/llmgw/llmgw/fleet/twin"
)

var simulatePage = filepath.Join("..", "..", "..", "docs", "how-to", "simulate.md")

// The keys of simulate.yaml in the how-to are those of the code, but for those
// that other pages have.
func TestSimulateReference(t *testing.T) {
	all, err := reference.Keys("../../..", twin.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := regexp.MustCompile(`^(engine|scoring|prefix|admission)(\.|$)`)
	var keys []reference.Key
	for _, k := range all {
		switch {
		case k.Comment == "":
			t.Errorf("%s has no comment", k.Path)
		case !elsewhere.MatchString(k.Path):
			keys = append(keys, k)
		}
	}
	text, err := os.ReadFile(simulatePage)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- keys: made by go generate ./cmd/internal/cli -->\n", "\n<!-- /keys -->"
	head, rest, opened := strings.Cut(string(text), begin)
	_, tail, closed := strings.Cut(rest, end)
	if !opened || !closed {
		t.Fatalf("%s has no place for the keys", simulatePage)
	}
	sameText(t, simulatePage, head+begin+strings.ReplaceAll(reference.Tables(keys), "\n## ", "\n### ")+end+tail)
}

// Every flag of llmgw simulate stands in the how-to.
func TestSimulateFlags(t *testing.T) {
	page, err := os.ReadFile(simulatePage)
	if err != nil {
		t.Fatal(err)
	}
	var help strings.Builder
	if code := cli.Main(t.Context(), []string{"simulate", "--help"}, cli.Streams{Out: &help, Err: t.Output()}); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	flags := regexp.MustCompile(`(?m)^ +(?:-\w, )? *(--[a-z0-9-]+)`).FindAllStringSubmatch(help.String(), -1)
	if len(flags) < 5 {
		t.Fatalf("only the flags %v in\n%s", flags, &help)
	}
	for _, m := range flags {
		if m[1] != "--help" && m[1] != "--version" && !strings.Contains(string(page), "`"+m[1]) {
			t.Errorf("docs/how-to/simulate.md does not explain %s", m[1])
		}
	}
}

// The example runs, and the same seed prints the same figures but for the time
// it took.
func TestSimulateExample(t *testing.T) {
	t.Parallel()
	figures := func(args ...string) string {
		var out, errs bytes.Buffer
		args = append([]string{"simulate", "-c", "../../../examples/simulate.yaml", "--requests", "200", "--json"}, args...)
		if code := cli.Main(t.Context(), args, cli.Streams{Out: &out, Err: &errs}); code != 0 {
			t.Fatalf("exit code %d: %s", code, &errs)
		}
		for line := range strings.Lines(out.String()) {
			var r twin.Report
			if err := json.Unmarshal([]byte(line), &r); err != nil || r.Completed != 200 || r.WallS <= 0 {
				t.Errorf("%d completed in %v s (%v): %s", r.Completed, r.WallS, err, line)
			}
		}
		return regexp.MustCompile(`"wall_s":[^,]*`).ReplaceAllString(out.String(), "")
	}
	first := figures()
	if strings.Count(first, "\n") != 4 {
		t.Errorf("not a line for each of 4 policies:\n%s", first)
	}
	if first != figures() || first != figures("--seed", "1") {
		t.Error("the same seed prints other figures")
	}
	if first == figures("--seed", "2") {
		t.Error("another seed prints the same figures")
	}
}
