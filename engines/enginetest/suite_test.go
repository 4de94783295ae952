package enginetest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/llmgw/llmgw/engines/plugin"
)

// TestMain makes the test's binary the program of the toy, where it is called
// that.
func TestMain(m *testing.M) {
	if strings.HasPrefix(filepath.Base(os.Args[0]), plugin.Prefix) {
		plugin.Serve(toy{})
		return
	}
	os.Exit(m.Run())
}

func TestToy(t *testing.T) { Run(t, toy{}) }

func TestToyAsAProgram(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), plugin.Prefix+"toy")
	if err := os.Link(self, program); err != nil { // another file system
		data, err := os.ReadFile(self)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(program, data, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	RunPlugin(t, program)
}
