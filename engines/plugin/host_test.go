package plugin_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/plugin"
)

// run runs a host with the adapter "ours" in a part until the test's end.
func run(t *testing.T, cfg plugin.Config, deps plugin.Deps) engines.Adapter {
	t.Helper()
	host, err := plugin.New(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := host.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	a, err := host.Adapter("ours")
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func builtin(part string) plugin.Deps {
	return plugin.Deps{Builtin: []plugin.Program{playing(part)}}
}

// pid is the process that answers.
func pid(t *testing.T, a engines.Adapter) int {
	t.Helper()
	l, err := a.Launch(t.Context(), shard("m"))
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(l.Engine.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// runs reports whether a process is there and no zombie.
func runs(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return syscall.Kill(pid, 0) == nil && !errors.Is(err, os.ErrNotExist)
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(after, "Z") && !strings.HasPrefix(after, "X")
}

// within waits for a condition outside of this process.
func within(t *testing.T, limit time.Duration, what string, holds func() bool) time.Duration {
	t.Helper()
	begin := time.Now()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		if holds() {
			return time.Since(begin)
		}
		if time.Since(begin) > limit {
			t.Fatalf("%s: not within %v", what, limit)
		}
	}
	return 0
}

func TestHost(t *testing.T) {
	t.Setenv("LLMGW_TEST_PASSWORD", "hunter2")
	t.Setenv("TZ", "Antarctica/Troll")
	reg := prometheus.NewPedanticRegistry()
	deps := builtin("ours")
	deps.Registerer = reg
	a := run(t, config(), deps)

	l, err := a.Launch(t.Context(), shard("env"))
	if err != nil {
		t.Fatal(err)
	}
	if _, leaked := l.Engine.Env["LLMGW_TEST_PASSWORD"]; leaked || l.Engine.Env["TZ"] != "Antarctica/Troll" {
		t.Errorf("the adapter's environment is %v", l.Engine.Env)
	}
	first := pid(t, a)
	if first == os.Getpid() {
		t.Fatal("the adapter runs in the host's process")
	}

	// One that dies in the middle of a call fails it, and the next ones work.
	_, err = a.Launch(t.Context(), shard("exit"))
	if !errors.Is(err, engines.ErrUnavailable) || !strings.Contains(err.Error(), "exit status 4") || !strings.Contains(err.Error(), `"ours"`) {
		t.Errorf("error %v, want that it ended during the call", err)
	}
	back := func() bool {
		_, err := a.Describe(t.Context())
		if err != nil && !errors.Is(err, engines.ErrUnavailable) {
			t.Fatalf("error %v while it is away", err)
		}
		return err == nil
	}
	within(t, 5*time.Second, "back after it died in a call", back)

	// One that is killed while nobody calls.
	second := pid(t, a)
	if second == first {
		t.Fatal("the same process answers")
	}
	if err := syscall.Kill(second, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	took := within(t, 5*time.Second, "back after kill -9", func() bool { return back() && pid(t, a) != second })
	t.Logf("back after kill -9 in %v", took)

	// A panic fails the call alone.
	third := pid(t, a)
	if _, err := a.Launch(t.Context(), shard("panic")); err == nil || errors.Is(err, engines.ErrUnavailable) {
		t.Errorf("error %v, want the adapter's failure", err)
	}
	if pid(t, a) != third {
		t.Error("a panic ended the adapter")
	}

	want := `
		# HELP llmgw_plugin_restarts_total Times that an engine adapter ended by itself, hung or did not start, and was started again.
		# TYPE llmgw_plugin_restarts_total counter
		llmgw_plugin_restarts_total{adapter="ours"} 2
		# HELP llmgw_plugin_up Whether an engine adapter that is in use runs; absent for one that is not in use.
		# TYPE llmgw_plugin_up gauge
		llmgw_plugin_up{adapter="ours"} 1
	`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "llmgw_plugin_restarts_total", "llmgw_plugin_up"); err != nil {
		t.Error(err)
	}
}

// A process that stands still, and an adapter that waits for a lock for ever, are
// found by their pings and replaced.
func TestHungAdapterIsReplaced(t *testing.T) {
	cfg := config()
	cfg.PingInterval, cfg.PingTimeout, cfg.CallTimeout = 50*time.Millisecond, 300*time.Millisecond, 200*time.Millisecond
	for name, hang := range map[string]func(a engines.Adapter, pid int) error{
		"stopped": func(_ engines.Adapter, pid int) error { return syscall.Kill(pid, syscall.SIGSTOP) },
		"locked": func(a engines.Adapter, _ int) error {
			if _, err := a.Launch(context.Background(), shard("lock")); !errors.Is(err, engines.ErrUnavailable) {
				return fmt.Errorf("error %w, want that it is not available", err)
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := run(t, cfg, builtin("ours"))
			first := pid(t, a)
			if err := hang(a, first); err != nil {
				t.Fatal(err)
			}
			within(t, 5*time.Second, "another process answers", func() bool {
				l, err := a.Launch(t.Context(), shard("m"))
				return err == nil && l.Engine.Args[0] != fmt.Sprint(first)
			})
			if runs(first) {
				t.Error("the one that hung still runs")
			}
		})
	}
}

func TestIdleAdapterEnds(t *testing.T) {
	cfg := config()
	cfg.PingInterval, cfg.IdleTimeout = 10*time.Millisecond, 30*time.Millisecond
	reg := prometheus.NewPedanticRegistry()
	deps := builtin("ours")
	deps.Registerer = reg
	a := run(t, cfg, deps)
	first := pid(t, a)
	within(t, 5*time.Second, "it ends", func() bool { return !runs(first) })
	within(t, 5*time.Second, "it is not in use", func() bool {
		n, err := testutil.GatherAndCount(reg, "llmgw_plugin_up")
		return err == nil && n == 0
	})
	if pid(t, a) == first {
		t.Error("the first process answers")
	}
}

// A call in flight ends before the host does.
func TestHostDrains(t *testing.T) {
	cfg := config()
	host, err := plugin.New(cfg, builtin("ours"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = host.Run(ctx) })
	a, err := host.Adapter("ours")
	if err != nil {
		t.Fatal(err)
	}
	process := pid(t, a)
	var calling sync.WaitGroup
	nap := shard("nap")
	nap.Dir = t.TempDir()
	calling.Go(func() {
		if _, err := a.Launch(t.Context(), nap); err != nil {
			t.Errorf("the call in flight: %v", err)
		}
	})
	within(t, 5*time.Second, "the call has reached the adapter", func() bool {
		_, err := os.Stat(filepath.Join(nap.Dir, "naps"))
		return err == nil
	})
	cancel()
	time.AfterFunc(50*time.Millisecond, func() { _ = os.WriteFile(filepath.Join(nap.Dir, "wake"), nil, 0o600) })
	calling.Wait()
	running.Wait()
	if runs(process) {
		t.Error("the adapter outlives its host")
	}
	if _, err := a.Describe(t.Context()); !errors.Is(err, engines.ErrUnavailable) {
		t.Errorf("a call after the end: %v", err)
	}
	if err := host.Run(t.Context()); err == nil {
		t.Error("a host runs twice")
	}
}

func TestStartedByHand(t *testing.T) {
	program := playing("ours")
	out, err := exec.CommandContext(t.Context(), program.Path, program.Args...).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "llmgw-adapter-ours") || !strings.Contains(string(out), `"ours" (Ours) of llmgw, version 1, protocol 1`) {
		t.Errorf("it says %q, and ends with %v", out, err)
	}
}

// When the host is gone, killed outright, so is the adapter.
func TestNoOrphans(t *testing.T) {
	host := hostProcess(t, socketDirs(t))
	if err := host.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = host.Wait()
	took := within(t, 2*time.Second, "the adapter is gone", func() bool { return !runs(host.adapter) })
	t.Logf("gone %v after its host", took)
}

// hostOf is a process that is a host, of one adapter.
type hostOf struct {
	*exec.Cmd
	adapter int // the number of the adapter's process
}

// hostProcess starts a host in a process of its own, whose adapter runs.
func hostProcess(t *testing.T, sockets string) hostOf {
	t.Helper()
	program := playing("host")
	host := exec.CommandContext(t.Context(), program.Path, append(program.Args, sockets)...)
	out, err := host.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	var child int
	if _, err := fmt.Fscanf(out, "[%d]", &child); err != nil || !runs(child) {
		t.Fatalf("adapter's process %d: %v", child, err)
	}
	return hostOf{host, child}
}

// The end of standard input alone ends an adapter, where the kernel does not.
func TestAdapterEndsWithItsInput(t *testing.T) {
	program := playing("ours")
	cmd := exec.CommandContext(t.Context(), program.Path, program.Args...)
	cmd.Env = []string{plugin.CookieForTest, "PLUGIN_PROTOCOL_VERSIONS=1", "GORACE=atexit_sleep_ms=0", "PLUGIN_UNIX_SOCKET_DIR=" + t.TempDir()}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var handshake string
	if _, err := fmt.Fscan(out, &handshake); err != nil || !strings.HasPrefix(handshake, "1|1|unix|") {
		t.Errorf("handshake %q: %v", handshake, err)
	}
	_ = in.Close()
	if err := cmd.Wait(); err != nil {
		t.Errorf("ended with %v", err)
	}
}

func TestProgramsThatAreNoAdapters(t *testing.T) {
	missing := plugin.Program{Name: "ours", Path: filepath.Join(t.TempDir(), "gone")}
	text := plugin.Program{Name: "ours", Path: filepath.Join(t.TempDir(), "text")}
	if err := os.WriteFile(text.Path, []byte("just text\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		program plugin.Program
		name    string
		reason  error
		says    string // what of the error a person needs
	}{
		{missing, "missing", plugin.ErrMissing, "install"},
		{text, "not a program", plugin.ErrMissing, "built for this machine"},
		{playing("garbage"), "garbage", plugin.ErrNotAdapter, "Welcome to ours 1.0!"},
		{playing("unended"), "unended", plugin.ErrNotAdapter, "Loading"},
		{playing("endless"), "endless", plugin.ErrNotAdapter, "xxx"},
		{playing("binary"), "binary", plugin.ErrNotAdapter, "ELF"},
		{playing("core"), "core", plugin.ErrNotAdapter, "99|1|unix"},
		{playing("certificate"), "certificate", plugin.ErrNotAdapter, "cert"},
		{playing("netrpc"), "netrpc", plugin.ErrNotAdapter, "netrpc"},
		{playing("failing"), "failing", plugin.ErrNotAdapter, "no licence found"},
		{playing("newer"), "newer", plugin.ErrVersion, "it speaks 2, this host 1"},
		{playing("elsewhere"), "elsewhere", plugin.ErrNotAdapter, "127.0.0.1:80"},
		{playing("nobody"), "nobody", plugin.ErrNotAdapter, "handshake"},
		{playing("silent"), "silent", plugin.ErrSilent, "start_timeout"},
		{playing("mute"), "mute", plugin.ErrSilent, "more time"},
		{playing("theirs"), "theirs", plugin.ErrDescription, "llmgw-adapter-theirs"},
		{playing("invalid"), "invalid", plugin.ErrDescription, "No Name"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cfg := config()
			if tt.reason == plugin.ErrSilent { //nolint:errorlint // the sentinel itself
				cfg.StartTimeout = 400 * time.Millisecond
			}
			a := run(t, cfg, plugin.Deps{Builtin: []plugin.Program{tt.program}})
			began := time.Now()
			_, err := a.Describe(t.Context())
			if took := time.Since(began); took > 3*time.Second {
				t.Errorf("it took %v to say so", took)
			}
			e, ok := errors.AsType[*plugin.ProgramError](err)
			if !ok || !errors.Is(err, engines.ErrUnavailable) || !errors.Is(err, tt.reason) || !strings.Contains(err.Error(), tt.says) || e.Advice == "" {
				t.Fatalf("error %v, want %v with %q and advice", err, tt.reason, tt.says)
			}
			t.Log(err)
		})
	}
}
