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
	"github.com/llmgw/llmgw/fleet/twin/scaling"
)

var simulatePage = filepath.Join("..", "..", "..", "docs", "how-to", "simulate.md")

// The keys of simulate.yaml and scale.yaml in the how-to are those of the code, but for
// those that other pages have.
func TestSimulateReference(t *testing.T) {
	text, err := os.ReadFile(simulatePage)
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	for _, file := range []struct {
		name   string
		config any
	}{{"keys", twin.DefaultConfig()}, {"scale keys", scaling.DefaultConfig()}} {
		all, err := reference.Keys("../../..", file.config)
		if err != nil {
			t.Fatal(err)
		}
		elsewhere := regexp.MustCompile(`^(engine|scoring|prefix|admission|control)(\.|$)`)
		var keys []reference.Key
		for _, k := range all {
			switch {
			case k.Comment == "":
				t.Errorf("%s has no comment", k.Path)
			case !elsewhere.MatchString(k.Path):
				keys = append(keys, k)
			}
		}
		begin, end := "<!-- "+file.name+": made by go generate ./cmd/internal/cli -->\n", "\n<!-- /"+file.name+" -->"
		head, rest, opened := strings.Cut(page, begin)
		_, tail, closed := strings.Cut(rest, end)
		if !opened || !closed {
			t.Fatalf("%s has no place for the %s", simulatePage, file.name)
		}
		page = head + begin + strings.ReplaceAll(reference.Tables(keys), "\n## ", "\n### ") + end + tail
	}
	sameText(t, simulatePage, page)
}

// Every flag of llmgw simulate stands in the how-to.
func TestSimulateFlags(t *testing.T) {
	page, err := os.ReadFile(simulatePage)
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range [][]string{{"simulate"}, {"simulate", "scale"}} {
		var help strings.Builder
		if code := cli.Main(t.Context(), append(command, "--help"), cli.Streams{Out: &help, Err: t.Output()}); code != 0 {
			t.Fatalf("exit code %d", code)
		}
		flags := regexp.MustCompile(`(?m)^ +(?:-\w, )? *(--[a-z0-9-]+)`).FindAllStringSubmatch(help.String(), -1)
		if len(flags) < 5 {
			t.Fatalf("only the flags %v in\n%s", flags, &help)
		}
		for _, m := range flags {
			if m[1] != "--help" && m[1] != "--version" && !strings.Contains(string(page), "`"+m[1]) {
				t.Errorf("docs/how-to/simulate.md does not explain %s of %v", m[1], command)
			}
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

// scaleExample is the command line of the example of scaling, with more arguments.
func scaleExample(args ...string) []string {
	return append([]string{"simulate", "scale", "-c", "../../../examples/scale.yaml", "--rates", "../../../examples/traces/servegen_clients.csv.gz"}, args...)
}

// The example of scaling runs, says what was decided and why, and the same seed prints
// the same but for the time it took.
func TestSimulateScaleExample(t *testing.T) {
	t.Parallel()
	print := func(args ...string) string {
		var out, errs bytes.Buffer
		args = append(scaleExample("--from", "10h", "--duration", "10m", "--policy", "autoscaled"), args...)
		if code := cli.Main(t.Context(), args, cli.Streams{Out: &out, Err: &errs}); code != 0 {
			t.Fatalf("exit code %d: %s", code, &errs)
		}
		return regexp.MustCompile(`"wall_s":[^,]*`).ReplaceAllString(out.String(), "")
	}
	first := print("--json", "--decisions")
	if n := strings.Count(first, "\n"); n < 4 || strings.Count(first, " for it") < 3 {
		t.Errorf("%d lines:\n%s", n, first)
	}
	if first != print("--json", "--decisions", "--seed", "1") {
		t.Error("the same seed prints other figures")
	}
	if text := print(); !strings.Contains(text, "card-hours") || !strings.Contains(text, "small-1") {
		t.Errorf("no table:\n%s", text)
	}
}
