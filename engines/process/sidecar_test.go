//go:build linux

package process_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/process"
)

func sidecar(t *testing.T, name string, deeds ...string) engines.Sidecar {
	t.Helper()
	return engines.Sidecar{
		Name: name, Command: acting(t, deeds...),
		Ready: engines.Readiness{Log: "^up$", Timeout: patience},
		Stop:  engines.Stop{Signal: engines.SignalTerm, Grace: patience},
	}
}

func TestSidecarsStartInOrderAndStopInReverse(t *testing.T) {
	t.Parallel()
	path, open := gate(t)
	sp := spec(t, "print=ready")
	once := sidecar(t, "prepare", "gate="+path, "exit=0")
	once.RunsOnce = true
	sp.Launch.Sidecars = []engines.Sidecar{once, sidecar(t, "ray", "print=up")}
	s := start(t, runner(t, nil), sp)
	status, changed := s.Changed()
	for status.Processes[0].PID == 0 {
		<-changed
		status, changed = s.Changed()
	}
	if status.State != process.StateStarting || status.Processes[1].PID != 0 || status.Processes[2].PID != 0 {
		t.Errorf("before the first is ready: %+v", status)
	}
	open()
	status = wait(t, s, process.StateReady)
	if exit := status.Processes[0].Exit; exit == nil || *exit != (process.Exit{Known: true}) {
		t.Errorf("the one that runs once: %v", exit)
	}
	status = stop(t, s)
	var ended []string
	for _, e := range status.Ended {
		ended = append(ended, e.Name)
	}
	if got := strings.Join(ended, " "); got != "engine ray" {
		t.Errorf("ended in the order %q", got)
	}
}

func TestSidecarThatIsNotReadyFailsTheShard(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*engines.Sidecar)
		class  error
		line   string
	}{
		{"in time", func(c *engines.Sidecar) {
			c.Command = acting(t, "print=waiting for redis")
			c.Ready.Timeout = 300 * time.Millisecond
		}, process.ErrTimeout, "waiting for redis"},
		{"it ends", func(c *engines.Sidecar) { c.Command = acting(t, "print=no redis", "exit=1") }, process.ErrExited, "no redis"},
		{"it is not there", func(c *engines.Sidecar) { c.Command.Executable = "no-such-program" }, process.ErrStart, ""},
		{"it runs once and fails", func(c *engines.Sidecar) {
			c.Command, c.RunsOnce = acting(t, "print=no space left", "exit=1"), true
		}, process.ErrExited, "no space left"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			sp := spec(t, "print=ready")
			sp.Launch.Sidecars = []engines.Sidecar{sidecar(t, "ray", "print=up")}
			c.change(&sp.Launch.Sidecars[0])
			s := start(t, runner(t, nil), sp)
			_, err := s.Wait(t.Context(), process.StateReady)
			failed, ok := errors.AsType[*process.FailedError](err)
			if !ok || !errors.Is(err, c.class) || failed.Process != "ray" {
				t.Fatalf("error is %v", err)
			}
			if lines := strings.Join(failed.Lines, "\n"); lines != c.line {
				t.Errorf("lines are %q, want %q", lines, c.line)
			}
			status := stop(t, s)
			if status.Processes[1].PID != 0 {
				t.Errorf("the engine was started: %+v", status)
			}
		})
	}
}

func TestSidecarThatEndsFailsTheShard(t *testing.T) {
	t.Parallel()
	path, open := gate(t)
	sp := spec(t, "print=ready")
	sp.Launch.Sidecars = []engines.Sidecar{sidecar(t, "ray", "print=up", "gate="+path, "exit=1")}
	s := start(t, runner(t, nil), sp)
	wait(t, s, process.StateReady)
	open()
	status := wait(t, s, process.StateFailed)
	if f := status.Failure; f.Process != "ray" || f.Exit.Code != 1 {
		t.Errorf("failure is %+v", f)
	}
}

func TestWhatARunningEnginePrintsIsNotHeldAgainstIt(t *testing.T) {
	t.Parallel()
	path, open := gate(t)
	sp := spec(t, "print=ready", "print=prompt: CUDA out of memory", "gate="+path, "print=CUDA out of memory", "kill")
	sp.Launch.Logs = []engines.LogRule{{Match: "CUDA out of memory", Phase: engines.PhaseFailed, Reason: "the card is full"}}
	s := start(t, runner(t, nil), sp)
	if status := wait(t, s, process.StateReady); status.Reason != "" {
		t.Errorf("ready, with reason %q", status.Reason)
	}
	open()
	f := wait(t, s, process.StateFailed).Failure
	if !errors.Is(f, process.ErrExited) || f.Exit.String() != "ended by SIGKILL" || f.Reason != "the card is full" {
		t.Errorf("failure is %+v", f)
	}
	if strings.Contains(f.Error(), "prompt") {
		t.Errorf("what clients sent stands in %q", f)
	}
}

func TestStopAtAnyMoment(t *testing.T) {
	for _, at := range []process.State{process.StateStarting, process.StateLoading, process.StateReady, process.StateFailed} {
		t.Run(at.String(), func(t *testing.T) {
			t.Parallel()
			path, open := gate(t)
			deeds := []string{"gate=" + path, "print=ready"}
			switch at {
			case process.StateFailed:
				deeds = []string{"exit=1"}
			case process.StateReady:
				deeds = []string{"print=ready"}
			}
			sp := spec(t, deeds...)
			sp.Launch.Sidecars = []engines.Sidecar{sidecar(t, "ray", "print=up")}
			s := start(t, runner(t, nil), sp)
			if at != process.StateStarting {
				wait(t, s, at)
			}
			var all sync.WaitGroup
			for range 3 {
				all.Go(func() { stop(t, s) })
			}
			all.Wait()
			if _, err := s.Wait(t.Context(), process.StateReady); !errors.Is(err, process.ErrStopped) {
				t.Errorf("Wait after Stop: %v", err)
			}
			for _, p := range s.Status().Processes {
				if p.PID != 0 && (runs(p.PID) || p.Exit == nil) {
					t.Errorf("%+v runs", p)
				}
			}
			_ = open
			// The directory can be used again, and keeps the log of before.
			again := start(t, runner(t, nil), sp)
			stop(t, again)
			if at == process.StateReady {
				if _, err := os.Stat(filepath.Join(sp.Dir, "engine.log")); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestStopGoesOnWhereItWasLeft(t *testing.T) {
	t.Parallel()
	sp := spec(t, "deaf", "print=ready")
	s := start(t, runner(t, nil), sp)
	wait(t, s, process.StateReady)
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error)
	go func() { done <- s.Stop(ctx) }()
	eventually(t, func() bool { return s.Status().Phase == engines.PhaseStopping })
	why := errors.New("the agent ends")
	cancel(why)
	if err := <-done; !errors.Is(err, why) {
		t.Errorf("Stop: %v", err)
	}
	pid := s.Status().Processes[0].PID
	if status := s.Status(); status.State != process.StateStopping || !runs(pid) {
		t.Errorf("status is %+v", status)
	}
	s.Detach()
	if s, found := adopt(t, runner(t, nil), sp.Dir); found != process.FoundStopping {
		t.Errorf("found %v, %+v", found, s.Status())
	}
	if _, err := runner(t, nil).Sweep(t.Context(), sp.ID); err != nil {
		t.Error(err)
	}
}

func TestStartSaysWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*process.Spec)
		want   string
	}{
		{"id", func(s *process.Spec) { s.ID = "a/b" }, "id:"},
		{"dir", func(s *process.Spec) { s.Dir = "shard" }, "is not absolute"},
		{"file outside", func(s *process.Spec) { s.Launch.Files = []engines.File{{Name: "../x"}} }, "leaves the shard's directory"},
		{"file of ours", func(s *process.Spec) { s.Launch.Files = []engines.File{{Name: "./shard.json"}} }, "a name of the launcher's own"},
		{"file behind one of ours", func(s *process.Spec) { s.Launch.Files = []engines.File{{Name: "secret/x"}} }, "a name of the launcher's own"},
		{"draft of ours", func(s *process.Spec) { s.Launch.Files = []engines.File{{Name: "shard.json.draft"}} }, "a name of the launcher's own"},
		{"draft of a log", func(s *process.Spec) { s.Launch.Files = []engines.File{{Name: "engine.log.1.draft"}} }, "a name of the launcher's own"},
		{"no secret", func(s *process.Spec) { s.Launch.Engine.Env["K"] = engines.SecretPlaceholder }, "asks for a secret"},
		{"secret in an argument", func(s *process.Spec) {
			s.Secret, s.Launch.Engine.Args = "sk-canary", append(s.Launch.Engine.Args, "--api-key=sk-canary")
		}, "every user of the machine can read arguments"},
		{"placeholder in an argument", func(s *process.Spec) {
			s.Launch.Engine.Args = append(s.Launch.Engine.Args, engines.SecretPlaceholder)
		}, "every user of the machine can read arguments"},
		{"set and unset", func(s *process.Spec) { s.Launch.Engine.Env["K"] = "1"; s.Launch.Engine.Unset = []string{"K"} }, "both set and unset"},
		{"marker", func(s *process.Spec) { s.Launch.Engine.Env[process.Marker] = "x" }, "no name of a variable that may be set"},
		{"timeout", func(s *process.Spec) { s.Launch.Ready.Timeout = 0 }, "timeout is 0s"},
		{"signal", func(s *process.Spec) { s.Launch.Stop.Signal = engines.SignalUnset }, "signal unset"},
		{"rule", func(s *process.Spec) { s.Launch.Logs = []engines.LogRule{{Match: "("}} }, "logs[0]"},
		{"sidecar's name", func(s *process.Spec) {
			s.Launch.Sidecars = []engines.Sidecar{{Name: process.Engine, Command: s.Launch.Engine, Ready: s.Launch.Ready, Stop: s.Launch.Stop}}
		}, "sidecars[0]: name"},
		{"relative executable", func(s *process.Spec) { s.Launch.Engine.Executable = "./engine" }, "absolute path or a name"},
	} {
		t.Run(c.name, func(t *testing.T) {
			sp := spec(t)
			c.change(&sp)
			_, err := runner(t, nil).Start(t.Context(), sp)
			if !errors.Is(err, process.ErrSpec) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error is %v, want %q", err, c.want)
			}
			if err != nil && strings.Contains(err.Error(), "canary") {
				t.Errorf("the secret stands in %q", err)
			}
		})
	}
}

func TestExecutableThatIsMissing(t *testing.T) {
	t.Parallel()
	sp := spec(t)
	sp.Launch.Engine.Executable = "no-such-engine"
	s := start(t, runner(t, nil), sp)
	_, err := s.Wait(t.Context(), process.StateReady)
	failed, ok := errors.AsType[*process.FailedError](err)
	if !ok || !errors.Is(err, process.ErrStart) || !strings.Contains(failed.Reason, `"no-such-engine" in PATH=/usr/bin:/bin`) {
		t.Errorf("error is %v", err)
	}
}

func TestFilesDoNotFollowLinksOut(t *testing.T) {
	sp := spec(t)
	outside := t.TempDir()
	if err := os.MkdirAll(sp.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(sp.Dir, "conf")); err != nil {
		t.Fatal(err)
	}
	sp.Launch.Files = []engines.File{{Name: "conf/keys.json", Content: "{}"}}
	if _, err := runner(t, nil).Start(t.Context(), sp); err == nil {
		t.Error("a file was written through a link that leads out")
	}
	if left, err := os.ReadDir(outside); err != nil || len(left) != 0 {
		t.Errorf("outside: %v, %v", left, err)
	}
	if _, _, err := runner(t, nil).Adopt(t.Context(), sp.Dir); !errors.Is(err, process.ErrNoRecord) {
		t.Errorf("there is a record of it: %v", err)
	}
}

func TestLogOfARunningEngineIsBounded(t *testing.T) {
	t.Parallel()
	const limit = 4096
	path, open := gate(t)
	line := "print=" + strings.Repeat("x", limit-1)
	sp := spec(t, "print=ready", line, "gate="+path, line, "print=last", "exit=1")
	s := start(t, runner(t, func(c *process.Config) { c.LogBytes = limit }), sp)
	kept := filepath.Join(sp.Dir, "engine.log.1")
	eventually(t, func() bool { _, err := os.Stat(kept); return err == nil })
	open()
	f := wait(t, s, process.StateFailed).Failure
	if f.Lines[len(f.Lines)-1] != "last" {
		t.Errorf("last lines are %q", f.Lines)
	}
	if size := len(output(t, sp, "engine.log")) + len(output(t, sp, "engine.log.1")); size > 2*limit {
		t.Errorf("logs have %d bytes", size)
	}
}
