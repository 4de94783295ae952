package doctest_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/llmgw/llmgw/cmd/internal/cli"
)

// Every block that begins with "# server.yaml" passes llmgw config check.
func TestServerConfigurations(t *testing.T) {
	seen := map[string]int{}
	for name, text := range pages(t) {
		for _, b := range blocks(name, text) {
			if b.lang != "yaml" || b.first() != "# server.yaml" {
				continue
			}
			seen[name]++
			file := filepath.Join(t.TempDir(), "server.yaml")
			if err := os.WriteFile(file, []byte(b.text), 0o600); err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			if code := cli.Main(t.Context(), []string{"config", "check", "-c", file}, cli.Streams{Out: &out, Err: &out}); code != 0 {
				t.Errorf("%s:%d: exit code %d\n%s", name, b.line, code, &out)
			}
		}
	}
	for _, name := range []string{"README.md", "docs/tutorial/first-hour.md"} {
		if seen[name] == 0 {
			t.Errorf("%s shows no server.yaml", name)
		}
	}
}

// Every Go program that a page shows compiles.
func TestPrograms(t *testing.T) {
	seen := 0
	for name, text := range pages(t) {
		for _, b := range blocks(name, text) {
			if b.lang != "go" || !strings.HasPrefix(b.text, "package main\n") {
				continue
			}
			seen++
			file := filepath.Join(t.TempDir(), "main.go")
			if err := os.WriteFile(file, []byte(b.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if out, err := exec.CommandContext(t.Context(), "go", "vet", file).CombinedOutput(); err != nil {
				t.Errorf("%s:%d: %v\n%s", name, b.line, err, out)
			}
		}
	}
	if seen == 0 {
		t.Error("no page shows a program")
	}
}
