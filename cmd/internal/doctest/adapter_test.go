package doctest_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The adapter that the how-to shows passes the suite that it names, with the
// profile and the test that it shows.
func TestAdapterOfTheHowTo(t *testing.T) {
	const page = "docs/how-to/adapter.md"
	dir := t.TempDir()
	files := map[string]string{}
	for _, b := range blocks(page, pages(t)[page]) {
		switch {
		case strings.HasPrefix(b.text, "package main\n"):
			files["main.go"] = b.text
		case b.first() == "// main_test.go":
			files["main_test.go"] = b.text
		case b.lang == "yaml":
			files[strings.TrimPrefix(b.first(), "# ")] = b.text
		}
	}
	if len(files) != 3 {
		t.Fatalf("%s shows %d files; want an adapter, a test and a profile", page, len(files))
	}
	for name, text := range files {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	test := func(flags ...string) string {
		args := append([]string{"test", filepath.Join(dir, "main.go"), filepath.Join(dir, "main_test.go")}, flags...)
		out, err := exec.CommandContext(t.Context(), "go", args...).CombinedOutput()
		if err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	test("-enginetest.update")
	golden, err := os.ReadFile(filepath.Join(dir, "testdata/launch/plain.golden"))
	if err != nil || !strings.Contains(string(golden), "executable mlx_lm.server\n      --model\n") {
		t.Errorf("golden launch %q, error %v", golden, err)
	}
}
