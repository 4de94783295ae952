package e2e

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/llmgw/llmgw/engines/process"
)

// A demo of a fleet serves each of its models, and leaves no process and no file
// behind, whether it is interrupted or killed.
func TestDemoFleet(t *testing.T) {
	t.Parallel()
	for _, how := range []syscall.Signal{syscall.SIGINT, syscall.SIGKILL} {
		t.Run(how.String(), func(t *testing.T) {
			w := newWorld(t)
			p := w.program("demo", binary(t, "llmgw"), "demo", "--fleet", "--no-auth", "--json", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
			p.env = append(p.env, "TMPDIR="+w.dir)
			p.start()
			var served struct {
				BaseURL string `json:"base_url"`
				Models  []string
			}
			until(t, "the demo is ready", func() bool {
				for line := range strings.Lines(text(p.log)) {
					if strings.HasPrefix(line, "{") && json.Unmarshal([]byte(line), &served) == nil {
						return true
					}
				}
				return false
			})
			if want := []string{"sim-large", "sim-small", "sim-tiny", "sim-asleep"}; !slices.Equal(served.Models, want) {
				t.Errorf("models are %q; want %q", served.Models, want)
			}
			left := w.marks(t)
			t.Cleanup(func() {
				for _, pid := range left() {
					_ = syscall.Kill(pid, syscall.SIGKILL)
				}
			})
			if n := len(left()); n != 5 { // two of sim-large, one of sim-small, two of sim-tiny
				t.Errorf("%d engines run; want 5", n)
			}
			for _, model := range served.Models {
				if err := stream(t.Context(), http.DefaultClient, served.BaseURL, model, 5, nil); err != nil {
					t.Errorf("%s: %v", model, err)
				}
			}
			if n := len(left()); n != 6 { // and one of sim-asleep, which was asked for
				t.Errorf("%d engines run; want 6", n)
			}
			p.kill(how)
			dirs := func() []string {
				found, _ := filepath.Glob(filepath.Join(w.dir, "llmgw-demo-*"))
				return found
			}
			if how == syscall.SIGINT && (len(left()) > 0 || len(dirs()) > 0 || len(w.processes()) > 0) {
				t.Errorf("when it has ended there are engines %v, processes %v, directories %v", left(), w.processes(), dirs())
			}
			until(t, "nothing is left", func() bool { return len(left()) == 0 && len(dirs()) == 0 && len(w.processes()) == 0 })
		})
	}
}

// marks returns what finds the engines of all agents below the world's directory.
func (w *world) marks(t *testing.T) func() []int {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(w.dir, "llmgw-demo-*", "machines", "*", "state", "instance"))
	if err != nil || len(files) != 4 {
		t.Fatalf("agents' states: %v, %v; want 4", files, err)
	}
	var tags []string
	for _, file := range files {
		tags = append(tags, "."+strings.ToLower(text(file)[:8]))
	}
	return func() (pids []int) {
		marked, err := process.FindMarked()
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range marked {
			if slices.ContainsFunc(tags, func(tag string) bool { return strings.HasSuffix(m.ID, tag) }) {
				pids = append(pids, m.PID)
			}
		}
		return pids
	}
}

// processes are the files of the processes that have the world's token.
func (w *world) processes() (found []string) {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		if environ, err := os.ReadFile(file); err == nil && bytes.Contains(environ, []byte(tokenName+"="+w.token)) {
			found = append(found, file)
		}
	}
	return found
}
