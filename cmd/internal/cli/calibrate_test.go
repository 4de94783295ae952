package cli_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/llmgw/llmgw/engines/sim/calibrate"
)

// What sim calibrate prints is a file that sim takes.
func TestCalibrate(t *testing.T) {
	t.Parallel()
	engine := start(t, "sim", "--listen", "127.0.0.1:0", "--model", "measured", "--speed", "100", "--json")
	// Steps of 65 µs are for timers to tell, and anything may run beside the test.
	args := []string{"sim", "calibrate", "--url", engine.BaseURL, "--concurrent", "2", "--max-prompt", "64", "--tolerance", "1e9"}
	out, err := exec.CommandContext(t.Context(), "llmgw", args...).Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	file := filepath.Join(t.TempDir(), "engine.yaml")
	if err := os.WriteFile(file, out, 0o600); err != nil {
		t.Fatal(err)
	}
	copied := start(t, "sim", "-c", file, "--listen", "127.0.0.1:0", "--json")
	if len(copied.Models) != 1 || copied.Models[0] != "measured" {
		t.Errorf("the copy serves %q, want measured", copied.Models)
	}
	copied.stop(t)

	out, err = exec.CommandContext(t.Context(), "llmgw", append(args, "--json")...).Output()
	var report calibrate.Report
	if err != nil || json.Unmarshal(out, &report) != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if report.Model.Name != "measured" || len(report.Model.Costs) != 6 || len(report.Samples.Prefills) == 0 {
		t.Errorf("report %s", out)
	}

	// What is off is printed all the same, and told by the exit code.
	args[len(args)-1] = "1e-9"
	var said strings.Builder
	command := exec.CommandContext(t.Context(), "llmgw", args...)
	command.Stderr = &said
	out, err = command.Output()
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok || exit.ExitCode() != 2 || !strings.Contains(said.String(), "the model is not like the engine: ") {
		t.Errorf("%v, %q; want exit code 2 and why", err, said.String())
	}
	if !strings.HasPrefix(string(out), "# DO NOT USE THIS: ") || !strings.Contains(string(out), "\ntiming:\n") {
		t.Errorf("printed %s", out)
	}
	engine.stop(t)
}

func TestCalibrateFails(t *testing.T) {
	t.Parallel()
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<!doctype html>"))
	}))
	t.Cleanup(page.Close)
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"--url", page.URL}, "llmgw: calibrate: not an OpenAI-compatible engine: GET /v1/models answers HTML"},
		{[]string{"--url", page.URL, "--tolerance", "0"}, "ToleranceRatio: 0 is no positive number"},
		{[]string{"--url", "engine:8000"}, "want e.g. http://127.0.0.1:8000"},
		{[]string{"--url", page.URL, "--api-key-file", "/nowhere"}, "/nowhere: no such file"},
		{[]string{"--url", page.URL, "--words", "/dev/null"}, "/dev/null: no words"},
		{[]string{"--url", page.URL, "--words", "/dev/zero"}, "--words: /dev/zero: more than 64 MiB"},
	} {
		out, err := exec.CommandContext(t.Context(), "llmgw", append([]string{"sim", "calibrate"}, tt.args...)...).CombinedOutput()
		exit, ok := err.(*exec.ExitError)
		if !ok || exit.ExitCode() != 1 || !strings.Contains(string(out), tt.want) {
			t.Errorf("%v: %v, %q; want exit code 1 and %q", tt.args, err, out, tt.want)
		}
	}
}
