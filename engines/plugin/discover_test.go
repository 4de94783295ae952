package plugin_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/plugin"
)

// install writes a program that plays a part into a directory, and returns its path.
func install(t *testing.T, dir, name, part string) string {
	t.Helper()
	path := filepath.Join(dir, plugin.Prefix+name)
	p := playing(part)
	script := fmt.Sprintf("#!/bin/sh\nexec '%s' %s\n", p.Path, strings.Join(p.Args, " "))
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func sum(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", sha256.Sum256(data))
}

func TestDiscover(t *testing.T) {
	chmod := func(t *testing.T, path string, mode os.FileMode) {
		t.Helper()
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	write := func(t *testing.T, path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		name    string
		prepare func(t *testing.T, dir string, cfg *plugin.Config)
		found   []string
		reason  error  // of the only one that is refused; nil: none is
		says    string // what of the error a person needs
	}{
		{"two", func(t *testing.T, dir string, _ *plugin.Config) {
			install(t, dir, "ours", "ours")
			install(t, dir, "theirs", "theirs")
			write(t, filepath.Join(dir, "README"), "not an adapter")
		}, []string{"built-in", "ours", "theirs"}, nil, ""},
		{"no directory", func(_ *testing.T, dir string, cfg *plugin.Config) { cfg.Dir = filepath.Join(dir, "gone") }, []string{"built-in"}, plugin.ErrMissing, "gone"},
		{"a directory that anybody may write to", func(t *testing.T, dir string, _ *plugin.Config) {
			install(t, dir, "ours", "ours")
			chmod(t, dir, 0o777)
		}, []string{"built-in"}, plugin.ErrUnsafe, "chmod 755"},
		{"a file that anybody may write to", func(t *testing.T, dir string, _ *plugin.Config) {
			chmod(t, install(t, dir, "ours", "ours"), 0o757)
		}, []string{"built-in"}, plugin.ErrUnsafe, "chmod 755"},
		{"a link to one", func(t *testing.T, dir string, _ *plugin.Config) {
			elsewhere := t.TempDir()
			chmod(t, install(t, elsewhere, "ours", "ours"), 0o757)
			if err := os.Symlink(filepath.Join(elsewhere, "llmgw-adapter-ours"), filepath.Join(dir, "llmgw-adapter-ours")); err != nil {
				t.Fatal(err)
			}
		}, []string{"built-in"}, plugin.ErrUnsafe, "chmod 755"},
		{"a link to nothing", func(t *testing.T, dir string, _ *plugin.Config) {
			if err := os.Symlink("/nowhere", filepath.Join(dir, "llmgw-adapter-ours")); err != nil {
				t.Fatal(err)
			}
		}, []string{"built-in"}, plugin.ErrMissing, "install"},
		{"not executable", func(t *testing.T, dir string, _ *plugin.Config) {
			chmod(t, install(t, dir, "ours", "ours"), 0o644)
		}, []string{"built-in"}, plugin.ErrUnsafe, "not executable"},
		{"a directory in its place", func(t *testing.T, dir string, _ *plugin.Config) {
			if err := os.Mkdir(filepath.Join(dir, "llmgw-adapter-ours"), 0o755); err != nil {
				t.Fatal(err)
			}
		}, []string{"built-in"}, plugin.ErrUnsafe, "not a file"},
		{"no engine's name", func(t *testing.T, dir string, _ *plugin.Config) { install(t, dir, "ours.bak", "ours") }, []string{"built-in"}, plugin.ErrUnsafe, "ours.bak"},
		{"the name of one that is built in", func(t *testing.T, dir string, _ *plugin.Config) { install(t, dir, "built-in", "ours") }, nil, plugin.ErrDuplicate, "rename"},
		{"in the list of checksums", func(t *testing.T, dir string, cfg *plugin.Config) {
			cfg.ChecksumFile = filepath.Join(dir, "sums")
			write(t, cfg.ChecksumFile, "# ours\n"+sum(t, install(t, dir, "ours", "ours"))+"  llmgw-adapter-ours\n")
		}, []string{"built-in", "ours"}, nil, ""},
		{"not in the list", func(t *testing.T, dir string, cfg *plugin.Config) {
			install(t, dir, "ours", "ours")
			cfg.ChecksumFile = filepath.Join(dir, "sums")
			write(t, cfg.ChecksumFile, "")
		}, []string{"built-in"}, plugin.ErrChecksum, "sha256sum"},
		{"not in the list, but pinned", func(t *testing.T, dir string, cfg *plugin.Config) {
			cfg.Checksums = map[string]string{"ours": sum(t, install(t, dir, "ours", "ours"))}
			cfg.ChecksumFile = filepath.Join(dir, "sums")
			write(t, cfg.ChecksumFile, "")
		}, []string{"built-in", "ours"}, nil, ""},
		{"no list", func(t *testing.T, dir string, cfg *plugin.Config) {
			install(t, dir, "ours", "ours")
			cfg.ChecksumFile = filepath.Join(dir, "sums")
		}, []string{"built-in"}, plugin.ErrChecksum, "no such file"},
		{"a list that anybody may write to", func(t *testing.T, dir string, cfg *plugin.Config) {
			cfg.ChecksumFile = filepath.Join(dir, "sums")
			write(t, cfg.ChecksumFile, sum(t, install(t, dir, "ours", "ours"))+"  llmgw-adapter-ours\n")
			chmod(t, cfg.ChecksumFile, 0o666)
		}, []string{"built-in"}, plugin.ErrChecksum, "chmod 644"},
		{"a list that is none", func(t *testing.T, dir string, cfg *plugin.Config) {
			install(t, dir, "ours", "ours")
			cfg.ChecksumFile = filepath.Join(dir, "sums")
			write(t, cfg.ChecksumFile, "\nd41d8cd98f00b204e9800998ecf8427e  llmgw-adapter-ours\n")
		}, []string{"built-in"}, plugin.ErrChecksum, "line 2"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := config()
			cfg.Dir = t.TempDir()
			tt.prepare(t, cfg.Dir, &cfg)
			programs, err := plugin.Discover(cfg, []plugin.Program{{Name: "built-in", Builtin: true}})
			var found []string
			for _, p := range programs {
				found = append(found, p.Name)
			}
			if !slices.Equal(found, tt.found) {
				t.Errorf("found %v, want %v", found, tt.found)
			}
			switch e, _ := errors.AsType[*plugin.ProgramError](err); {
			case tt.reason == nil && err != nil:
				t.Error(err)
			case tt.reason != nil && (!errors.Is(err, tt.reason) || !strings.Contains(err.Error(), tt.says) || e.Advice == ""):
				t.Errorf("error %v, want %v with %q and advice", err, tt.reason, tt.says)
			}
		})
	}
}

// An adapter in a directory: found by its name, pinned, and not started when it has
// become another file.
func TestPinnedAdapter(t *testing.T) {
	cfg := config()
	cfg.Dir = t.TempDir()
	path := install(t, cfg.Dir, "ours", "ours")
	cfg.Checksums = map[string]string{"ours": sum(t, path)}
	cfg.PingInterval = cfg.RestartDelay
	a := run(t, cfg, plugin.Deps{})
	first := pid(t, a)

	if err := os.WriteFile(path, []byte("#!/bin/sh\ntouch "+filepath.Join(cfg.Dir, "bitten")+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if p, err := os.FindProcess(first); err != nil || p.Kill() != nil {
		t.Fatal("cannot kill the adapter")
	}
	within(t, cfg.StartTimeout, "it is refused", func() bool {
		_, err := a.Describe(t.Context())
		return errors.Is(err, plugin.ErrChecksum) && errors.Is(err, engines.ErrUnavailable)
	})
	if _, err := os.Stat(filepath.Join(cfg.Dir, "bitten")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the other file was started: %v", err)
	}
}

func TestUnknownAdapter(t *testing.T) {
	host, err := plugin.New(plugin.DefaultConfig(), plugin.Deps{Builtin: []plugin.Program{{Name: "ours"}, {Name: "theirs"}}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = host.Adapter("hours")
	if !errors.Is(err, plugin.ErrUnknown) || !strings.Contains(err.Error(), "ours, theirs") {
		t.Errorf("error %v, want the adapters that there are", err)
	}
}

func TestConfigValidate(t *testing.T) {
	if err := plugin.DefaultConfig().Validate(); err != nil {
		t.Errorf("the defaults: %v", err)
	}
	cfg := plugin.Config{
		Dir: "adapters", SocketDir: "/" + strings.Repeat("x", 64), IdleTimeout: -1,
		Checksums: map[string]string{"Ours": strings.Repeat("a", 64), "theirs": "abc"}, Environment: []string{"A=B"},
	}
	err := cfg.Validate()
	for _, want := range []string{"dir: ", "socket_dir: ", "checksums.Ours: ", "checksums.theirs: ", "environment[0]: ", "start_timeout: ", "call_timeout: ",
		"ping_interval: ", "ping_timeout: ", "restart_delay: ", "max_restart_delay: ", "drain_timeout: ", "idle_timeout: "} {
		if err == nil || !strings.Contains("\n"+err.Error(), "\n"+want) {
			t.Errorf("no word of %s", want)
		}
	}
	if _, err := plugin.New(cfg, plugin.Deps{}); err == nil {
		t.Error("New takes it")
	}
	if _, err := plugin.New(plugin.DefaultConfig(), plugin.Deps{Builtin: []plugin.Program{{Name: "a"}, {Name: "a"}}}); err == nil {
		t.Error("New takes two of one name")
	}
}
