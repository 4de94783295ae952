//go:build linux

package plugin_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/llmgw/llmgw/engines/plugin"
)

// socketDirs makes a directory for sockets whose path is short, as theirs are.
func socketDirs(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "llmgw")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// What a host leaves behind that is killed the next one removes, and nothing else:
// neither what one has that lives, nor what others have.
func TestRemainsOfDeadHosts(t *testing.T) {
	cfg := config()
	cfg.SocketDir = socketDirs(t)

	// Of others: nothing in it, and something of theirs.
	var kept []string
	for name, file := range map[string]string{"plugin-dir1": "", "plugin-dir2": "socket", "plugin-dir3": "llmgw-host.draft"} {
		if err := os.Mkdir(filepath.Join(cfg.SocketDir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		if file != "" {
			if err := os.WriteFile(filepath.Join(cfg.SocketDir, name, file), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		kept = append(kept, name)
	}
	// Where a link leads nothing is removed.
	elsewhere := t.TempDir()
	if err := os.WriteFile(filepath.Join(elsewhere, "llmgw-host"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(elsewhere, filepath.Join(cfg.SocketDir, "plugin-dir4")); err != nil {
		t.Fatal(err)
	}
	kept = append(kept, "plugin-dir4")

	living, err := plugin.New(cfg, builtin("ours"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = living.Run(ctx) })
	a, err := living.Adapter("ours")
	if err != nil {
		t.Fatal(err)
	}
	first := pid(t, a)
	for _, name := range names(t, cfg.SocketDir) {
		if !slices.Contains(kept, name) {
			kept = append(kept, name)
		}
	}
	if len(kept) != 5 {
		t.Fatalf("with one adapter there are %q", kept)
	}

	dead := hostProcess(t, cfg.SocketDir)
	if n := len(names(t, cfg.SocketDir)); n != 6 {
		t.Fatalf("with two there are %q", names(t, cfg.SocketDir))
	}
	if err := dead.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = dead.Wait()

	next := run(t, cfg, builtin("ours"))
	second := pid(t, next)
	within(t, 5*time.Second, "what the dead one left is gone", func() bool { return len(names(t, cfg.SocketDir)) == 6 })
	for _, name := range kept {
		if !slices.Contains(names(t, cfg.SocketDir), name) {
			t.Errorf("%s was removed; %q are there", name, names(t, cfg.SocketDir))
		}
	}
	if _, err := os.Stat(filepath.Join(elsewhere, "llmgw-host")); err != nil {
		t.Error(err)
	}
	if pid(t, a) != first || pid(t, next) != second {
		t.Error("an adapter was started anew")
	}

	// One that ends in good order leaves nothing.
	cancel()
	running.Wait()
	if n := len(names(t, cfg.SocketDir)); n != 5 {
		t.Errorf("after the end of one host there are %q", names(t, cfg.SocketDir))
	}
}
