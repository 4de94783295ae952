//go:build linux

package process_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/process"
)

// patience bounds what a test waits for; reaching it is a failure.
const patience = 30 * time.Second

func runner(t *testing.T, change func(*process.Config)) *process.Runner {
	t.Helper()
	cfg := process.DefaultConfig()
	cfg.Poll, cfg.ProbeEvery, cfg.GiveUp, cfg.Linger = 2*time.Millisecond, 2*time.Millisecond, 0, 0
	if change != nil {
		change(&cfg)
	}
	r, err := process.New(cfg, process.Deps{Environ: func() []string {
		return []string{"PATH=/usr/bin:/bin", "HOME=/root", "LANG=C", "HF_TOKEN=hf_secret", "LD_LIBRARY_PATH=/lib"}
	}})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// acting is a command that does the deeds: a shell where it can, which starts
// in a moment, and this test binary otherwise.
func acting(t *testing.T, deeds ...string) engines.Command {
	t.Helper()
	if script, ok := script(deeds); ok {
		return engines.Command{Executable: "/bin/sh", Args: []string{"-c", script}, Env: map[string]string{}}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return engines.Command{
		Executable: self, Args: append([]string{actor}, deeds...),
		Env: map[string]string{"GORACE": "atexit_sleep_ms=0"}, // the race detector makes os.Exit last a second
	}
}

func script(deeds []string) (string, bool) {
	var lines []string
	for _, deed := range deeds {
		switch what, with, _ := strings.Cut(deed, "="); what {
		case "print":
			lines = append(lines, "echo '"+with+"'")
		case "gate":
			lines = append(lines, ": <'"+with+"'")
		case "deaf":
			lines = append(lines, "trap '' TERM INT QUIT")
		case "exit":
			lines = append(lines, "exit "+with)
		case "kill":
			lines = append(lines, "kill -KILL $$")
		default:
			return "", false
		}
	}
	return strings.Join(append(lines, "exec sleep 600"), "\n"), true
}

// spec is a shard whose engine is ready when it prints "ready" alone.
func spec(t *testing.T, deeds ...string) process.Spec {
	t.Helper()
	return process.Spec{
		ID: strings.Map(letters, t.Name()) + "." + strconv.Itoa(os.Getpid()), Generation: 3, Dir: filepath.Join(t.TempDir(), "shard"),
		Launch: engines.Launch{
			Engine: acting(t, deeds...),
			Ready:  engines.Readiness{Log: "^ready$", Timeout: patience},
			Stop:   engines.Stop{Signal: engines.SignalTerm, Grace: patience},
		},
	}
}

func letters(r rune) rune {
	if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
		return r
	}
	return '.'
}

func start(t *testing.T, r *process.Runner, sp process.Spec) *process.Shard {
	t.Helper()
	s, err := r.Start(t.Context(), sp)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tidy(t, s) })
	return s
}

func tidy(t *testing.T, s *process.Shard) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	defer cancel()
	if err := s.Stop(ctx); err != nil && !errors.Is(err, process.ErrDetached) {
		t.Error(err)
	}
}

func wait(t *testing.T, s *process.Shard, want process.State) process.Status {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	status, err := s.Wait(ctx, want)
	if err != nil {
		t.Fatal(err)
	}
	return status
}

func stop(t *testing.T, s *process.Shard) process.Status {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := s.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	return s.Status()
}

func output(t *testing.T, sp process.Spec, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(sp.Dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// runs reports whether a process does more than wait for its parent to notice
// that it has ended.
func runs(pid int) bool {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && !strings.Contains(string(text), ") Z ")
}

// gate makes a FIFO for the deed of that name, and returns what opens it.
func gate(t *testing.T) (path string, open func()) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "gate")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path, func() {
		t.Helper()
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestStartGivesExactlyWhatTheLaunchSays(t *testing.T) {
	sp := spec(t, "env", "print=ready")
	sp.Secret = "sk-canary-0001"
	sp.Launch.Engine.Env["KEY"], sp.Launch.Engine.Env["LANG"] = engines.SecretPlaceholder, "de"
	sp.Launch.Engine.Unset = []string{"LD_LIBRARY_PATH"}
	sp.Launch.Files = []engines.File{{Name: "conf/keys.json", Content: `{"key":"` + engines.SecretPlaceholder + `"}`}}
	s := start(t, runner(t, nil), sp)
	wait(t, s, process.StateReady)

	var env []string
	for line := range strings.Lines(output(t, sp, "engine.log")) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "env "); ok {
			env = append(env, v)
		}
	}
	slices.Sort(env)
	marker := slices.IndexFunc(env, func(v string) bool { return strings.HasPrefix(v, process.Marker+"="+sp.ID+"/3/") })
	if marker < 0 || !strings.HasSuffix(env[marker], "/engine") {
		t.Fatalf("no marker in %q", env)
	}
	env = slices.Delete(env, marker, marker+1)
	if want := []string{"GORACE=atexit_sleep_ms=0", "HOME=/root", "KEY=sk-canary-0001", "LANG=de", "PATH=/usr/bin:/bin"}; !slices.Equal(env, want) {
		t.Errorf("environment is %q, want %q", env, want)
	}

	if got := output(t, sp, "conf/keys.json"); got != `{"key":"sk-canary-0001"}` {
		t.Errorf("file holds %s", got)
	}
	for _, name := range []string{"conf/keys.json", "shard.json", "secret", "engine.log", "lock"} {
		info, err := os.Stat(filepath.Join(sp.Dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", name, info.Mode())
		}
	}
	if strings.Contains(output(t, sp, "shard.json"), "canary") {
		t.Error("the record holds the secret")
	}
	status := stop(t, s)
	if status.State != process.StateStopped || status.Failure != nil || len(status.Ended) != 1 || len(status.Ended[0].Killed) != 0 {
		t.Errorf("after Stop: %+v", status)
	}
}

func TestProbeDecidesWithTheSecret(t *testing.T) {
	port := freePort(t)
	sp := spec(t, "serve="+strconv.Itoa(port))
	sp.Secret, sp.Ports = "sk-canary-0002", []int{port}
	sp.Launch.Engine.Env["KEY"] = engines.SecretPlaceholder
	sp.Launch.Ready = engines.Readiness{
		Probe:   &engines.Probe{Port: port, Path: "/health", Contains: "fine", Keyed: true, Timeout: patience},
		Timeout: patience,
	}
	s := start(t, runner(t, nil), sp)
	if status := wait(t, s, process.StateReady); status.Phase != engines.PhaseListening {
		t.Errorf("phase is %v", status.Phase)
	}
	if h, held := process.PortHolder(port); !held || h.PID != s.Status().Processes[0].PID {
		t.Errorf("holder is %+v, %v", h, held)
	}
	stop(t, s)
	if l, err := net.Listen("tcp", ":"+strconv.Itoa(port)); err != nil {
		t.Errorf("after Stop: %v", err)
	} else {
		l.Close()
	}
}

func TestExitNamesTheFlag(t *testing.T) {
	sp := spec(t, "print=usage: vllm [-h]", "print=vllm: error: unrecognized arguments: --no-such 3", "exit=2")
	s := start(t, runner(t, nil), sp)
	_, err := s.Wait(t.Context(), process.StateReady)
	failed, ok := errors.AsType[*process.FailedError](err)
	if !ok || !errors.Is(err, process.ErrExited) {
		t.Fatalf("error is %v", err)
	}
	if failed.Exit == nil || failed.Exit.Code != 2 || failed.Reason != "it does not know the flag --no-such 3" || len(failed.Lines) != 2 {
		t.Errorf("failure is %+v", failed)
	}
	status := stop(t, s)
	if status.State != process.StateStopped || status.Failure != failed {
		t.Errorf("after Stop: %+v", status)
	}
}

func TestStopLadder(t *testing.T) {
	quick := engines.Stop{Signal: engines.SignalTerm, Grace: 30 * time.Millisecond}
	slow := engines.Stop{Signal: engines.SignalTerm, Grace: patience} // children have no time of their own here
	for _, c := range []struct {
		name   string
		deeds  []string
		stop   engines.Stop
		linger time.Duration
		killed int
		logged string
	}{
		{name: "polite", deeds: []string{"polite", "print=ready"}, logged: "asked by interrupt", stop: engines.Stop{Signal: engines.SignalInt, Grace: patience}},
		{name: "deaf", deeds: []string{"deaf", "print=ready"}, stop: quick, killed: 1},
		{name: "polite child in another session", deeds: []string{"child=away,polite,told", "print=ready"}, stop: slow, linger: patience, logged: "asked by terminated"},
		{name: "deaf child", deeds: []string{"child=deaf,told", "print=ready"}, stop: slow, killed: 1},
		{name: "deaf child in another session", deeds: []string{"child=away,deaf,told", "print=ready"}, stop: slow, killed: 1},
		{name: "child without sign but its parent", deeds: []string{"child=away,bare,mute,deaf,told", "print=ready"}, stop: slow, killed: 1},
		{name: "grandchild with its parent gone and a title over its environment", deeds: []string{"child=away,child=away;deaf;title;told,told,exit=0", "print=ready"}, stop: slow, killed: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			sp := spec(t, c.deeds...)
			sp.Launch.Stop = c.stop
			s := start(t, runner(t, func(cfg *process.Config) { cfg.Linger = c.linger }), sp)
			wait(t, s, process.StateReady)
			status := stop(t, s)
			if len(status.Ended) != 1 || len(status.Ended[0].Killed) != c.killed {
				t.Errorf("ended: %+v, want %d killed", status.Ended, c.killed)
			}
			if log := output(t, sp, "engine.log"); !strings.Contains(log, c.logged) {
				t.Errorf("log is %q, want %q in it", log, c.logged)
			}
			for _, p := range status.Ended[0].Killed {
				if runs(p.PID) {
					t.Errorf("%v runs", p)
				}
			}
			stop(t, s) // again
		})
	}
}
