//go:build unix

package weights_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/llmgw/llmgw/storage/weights"
)

// A pipe would block whoever opens it.
func TestPipe(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a.gguf", "a.safetensors", "a"} {
		if err := syscall.Mkfifo(filepath.Join(dir, name), 0o600); err != nil {
			t.Fatal(err)
		}
		readFault(t, os.DirFS(dir), name, weights.ErrFormat)
	}
}
