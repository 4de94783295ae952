package cli_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/llmgw/llmgw/cmd/internal/app"
	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/enginetest"
	"github.com/llmgw/llmgw/engines/plugin"
	"github.com/llmgw/llmgw/engines/process"
)

// An adapter that is killed while its engine loads, and again while it serves,
// touches no engine: it described one, and that was all. It is back at once.
func TestEngineOutlivesItsAdapter(t *testing.T) {
	cfg := plugin.DefaultConfig()
	cfg.Dir = filepath.Dir(program(t, "sim"))
	host, err := plugin.New(cfg, plugin.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- host.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	adapter, err := host.Adapter("sim")
	if err != nil {
		t.Fatal(err)
	}

	ranks, url := startReplica(t, adapter, engines.Profile{Options: map[string]string{"load_time": "200ms"}})
	if s := ranks[0].Status().State; s == process.StateReady {
		t.Errorf("the engine is %v, and not loading", s)
	}
	killAdapter(t, adapter)
	ready, err := ranks[0].Wait(t.Context(), process.StateReady)
	if err != nil {
		t.Fatal(err)
	}
	killAdapter(t, adapter)
	if code, body := askWith(t, "sesame", "POST", url+"/v1/completions", `{"model":"tiny","prompt":"on you go","max_tokens":3}`); code != 200 {
		t.Errorf("the engine answers %d: %s", code, body)
	}
	if s := ranks[0].Status(); s.State != process.StateReady || s.Processes[0].PID != ready.Processes[0].PID {
		t.Errorf("the engine was %+v and is %+v", ready, s)
	}
}

// What the binary is built with keeps the contract as programs, too, over the
// wire, with the profiles and pages of each adapter's own tests.
func TestBuiltinAdaptersAsPrograms(t *testing.T) {
	for _, a := range app.Adapters() {
		d, err := a.Describe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		name := string(d.Engine)
		if d.Engine == engines.Sim || !asProgram(d.Engine) {
			continue // sim's launches name the binary that it is part of: TestEngineOutlivesItsAdapter
		}
		t.Run(name, func(t *testing.T) {
			path := program(t, name)
			t.Chdir(filepath.Join("..", "..", "..", "engines", name))
			enginetest.RunPlugin(t, path)
		})
	}
}

// engine-check takes an adapter of a folder before one that is built in, and one
// that is built in where the folder has none.
func TestEngineCheckOfAFolder(t *testing.T) {
	t.Parallel()
	help := filepath.Join("..", "..", "..", "engines", "tei", "testdata", "help")
	texts, err := filepath.Glob(filepath.Join(help, "*.txt"))
	if err != nil || len(texts) == 0 {
		t.Fatalf("no help text in %s: %v", help, err)
	}
	broken := filepath.Join(t.TempDir(), plugin.Prefix+"tei")
	if err := os.WriteFile(broken, []byte("#!/bin/sh\necho hello\n"), 0o755); err != nil { //nolint:gosec // it is to be run
		t.Fatal(err)
	}
	tei := "ctl engine-check tei --help-file " + texts[0] + " --adapter-dir "
	expect(t, []expected{
		{tei + filepath.Dir(program(t, "tei")), 0, "the engine knows all", "^$"},
		{tei + filepath.Dir(program(t, "vllm")), 0, "the engine knows all", "^$"},
		{tei + filepath.Dir(broken), 2, "^$", `is no adapter: it printed "hello"`},
		{"ctl engine-check doll --adapter-dir " + filepath.Dir(broken), 2, "^$", `there are tei; correct the name, or put llmgw-adapter-doll into .*; nor is it built in: .*"infinity" `},
		{"ctl engine-check doll", 2, "^$", `there are \["infinity" .*; --adapter-dir names the folder of those that are not built in\n$`},
		{"ctl engine-check tei --exe ”", 80, "^$", `--exe: is empty; give the path`},
		{"ctl engine-check tei --help-file ”", 80, "^$", `--help-file: is empty; give a file`},
	})
}

// program returns a program of the built-in adapter, in a directory of its own.
func program(t *testing.T, name string) string {
	t.Helper()
	llmgw, err := exec.LookPath("llmgw")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), plugin.Prefix+name)
	script := "#!/bin/sh\nexec " + llmgw + " engine-plugin " + name + "\n"
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil { //nolint:gosec // it is to be run
		t.Fatal(err)
	}
	return path
}

// killAdapter kills the adapter's process and waits until another one answers.
func killAdapter(t *testing.T, a engines.Adapter) {
	t.Helper()
	pids := adapterPIDs(t)
	if len(pids) != 1 {
		t.Fatalf("the adapter has the processes %v", pids)
	}
	if err := syscall.Kill(pids[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	killed := time.Now()
	for {
		_, err := a.Describe(t.Context())
		if now := adapterPIDs(t); err == nil && len(now) == 1 && now[0] != pids[0] {
			t.Logf("back after %v", time.Since(killed))
			return
		}
		if time.Since(killed) > 5*time.Second {
			t.Fatalf("not back in 5 s: %v", err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// adapterPIDs are the children of this process that are adapters.
func adapterPIDs(t *testing.T) (pids []int) {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	parent := fmt.Sprintf("PPid:\t%d\n", os.Getpid())
	for _, path := range lines {
		cmdline, _ := os.ReadFile(path)
		status, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "status"))
		if strings.Contains(string(cmdline), "\x00engine-plugin\x00sim") && strings.Contains(string(status), parent) {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, pid)
		}
	}
	return pids
}
