//go:build linux

package process_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/process"
)

func adopt(t *testing.T, r *process.Runner, dir string) (*process.Shard, process.Found) {
	t.Helper()
	s, found, err := r.Adopt(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tidy(t, s) })
	return s, found
}

// rewrite changes the record as JSON.
func rewrite(t *testing.T, sp process.Spec, change func(record map[string]any, engine map[string]any)) {
	t.Helper()
	path := filepath.Join(sp.Dir, "shard.json")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var record map[string]any
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.UseNumber()
	if err := d.Decode(&record); err != nil {
		t.Fatal(err)
	}
	all := record["processes"].([]any)
	change(record, all[len(all)-1].(map[string]any))
	if text, err = json.Marshal(record); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestAdoptRunning(t *testing.T) {
	t.Parallel()
	r := runner(t, nil)
	path, open := gate(t)
	sp := spec(t, "print=Loading", "gate="+path, "print=ready")
	sp.Launch.Logs = []engines.LogRule{{Match: "Loading", Phase: engines.PhaseLoading}}
	first := start(t, r, sp)
	wait(t, first, process.StateLoading)
	pid := first.Status().Processes[0].PID

	hasty := runner(t, func(c *process.Config) { c.LockWait = 0 })
	if _, _, err := hasty.Adopt(t.Context(), sp.Dir); !errors.Is(err, process.ErrAttended) {
		t.Errorf("adopted while it is attended to: %v", err)
	}
	if _, err := hasty.Start(t.Context(), sp); !errors.Is(err, process.ErrAttended) {
		t.Errorf("started while it is attended to: %v", err)
	}
	first.Detach()
	first.Detach()
	if err := first.Stop(t.Context()); !errors.Is(err, process.ErrDetached) {
		t.Errorf("Stop after Detach: %v", err)
	}
	if _, err := first.Wait(t.Context(), process.StateReady); !errors.Is(err, process.ErrDetached) {
		t.Errorf("Wait after Detach: %v", err)
	}
	if _, err := r.Start(t.Context(), sp); !errors.Is(err, process.ErrRunning) {
		t.Errorf("started while it runs: %v", err)
	}

	second, found := adopt(t, r, sp.Dir)
	if status := second.Status(); found != process.FoundRunning || status.Processes[0].PID != pid || status.State != process.StateLoading {
		t.Fatalf("found %v, %+v", found, status)
	}
	open()
	wait(t, second, process.StateReady)
	second.Detach()

	// What was ready and cannot be asked is ready.
	third, found := adopt(t, r, sp.Dir)
	if wait(t, third, process.StateReady); found != process.FoundRunning {
		t.Errorf("found %v", found)
	}
	// Its end is seen, and how it ended is not known: we may not be its parent.
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	status := wait(t, third, process.StateFailed)
	if f := status.Failure; !errors.Is(f, process.ErrExited) || f.Exit == nil || f.Exit.Known {
		t.Errorf("failure is %+v", status.Failure)
	}
	stop(t, third)
	if s, found := adopt(t, r, sp.Dir); found != process.FoundStopped || s.Status().State != process.StateStopped {
		t.Errorf("found %v, %+v", found, s.Status())
	}
}

func TestAdoptUnrecorded(t *testing.T) {
	t.Parallel()
	r := runner(t, nil)
	sp := spec(t, "child=told", "print=ready")
	first := start(t, r, sp)
	wait(t, first, process.StateReady)
	pid := first.Status().Processes[0].PID
	first.Detach()
	rewrite(t, sp, func(record, engine map[string]any) { // as it is between the start and the second writing
		delete(record, "ready")
		delete(engine, "begun")
		engine["pid"], engine["start"] = 0, 0
	})
	s, found := adopt(t, r, sp.Dir)
	if found != process.FoundRunning || s.Status().Processes[0].PID != pid {
		t.Fatalf("found %v, %+v", found, s.Status())
	}
	wait(t, s, process.StateReady)
	stop(t, s)
	if runs(pid) {
		t.Error("it runs")
	}
}

func TestAdoptWhatIsGone(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(record, engine map[string]any)
		found  process.Found
		class  error
		exit   string
		kept   bool // the process runs on, for it is not the shard's
	}{
		{name: "replaced", found: process.FoundReplaced, class: process.ErrExited, exit: "ended, status unknown", kept: true, change: func(record, engine map[string]any) {
			// The number is another's: the shard's own started a tick earlier.
			start, _ := strconv.Atoi(engine["start"].(json.Number).String())
			engine["start"], record["start"] = start-1, "another"
		}},
		{name: "other boot", found: process.FoundOtherBoot, class: process.ErrExited, exit: "ended, status unknown", kept: true, change: func(record, _ map[string]any) {
			record["boot"] = "00000000-0000-0000-0000-000000000000"
		}},
		{name: "never started", found: process.FoundUnstarted, class: process.ErrInterrupted, kept: true, change: func(record, engine map[string]any) {
			record["start"] = "another"
			engine["pid"], engine["start"] = 0, 0
		}},
		{name: "a stop was under way", found: process.FoundStopping, change: func(record, _ map[string]any) {
			record["stopping"] = time.Now()
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := runner(t, nil)
			sp := spec(t, "print=ready")
			first := start(t, r, sp)
			wait(t, first, process.StateReady)
			pid := first.Status().Processes[0].PID
			t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
			first.Detach()
			rewrite(t, sp, c.change)
			if c.kept { // nor does its log tell that it is the shard's
				if err := os.Rename(filepath.Join(sp.Dir, "engine.log"), filepath.Join(sp.Dir, "moved")); err != nil {
					t.Fatal(err)
				}
			}
			s, found := adopt(t, r, sp.Dir)
			status := s.Status()
			if found != c.found {
				t.Fatalf("found %v, %+v", found, status)
			}
			if c.class != nil && !errors.Is(status.Failure, c.class) {
				t.Errorf("failure is %v", status.Failure)
			}
			if c.exit != "" && status.Failure.Exit.String() != c.exit {
				t.Errorf("exit is %v", status.Failure.Exit)
			}
			stop(t, s)
			if runs(pid) != c.kept {
				t.Errorf("the process runs: %v, want %v", !c.kept, c.kept)
			}
		})
	}
}

func TestAdoptKnowsTheExitOfTheRecord(t *testing.T) {
	t.Parallel()
	r := runner(t, func(c *process.Config) { c.GiveUp = patience })
	sp := spec(t, "print=no room", "exit=3")
	sp.Launch.Logs = []engines.LogRule{{Match: "no room", Phase: engines.PhaseFailed, Reason: "the card is full"}}
	first := start(t, r, sp)
	wait(t, first, process.StateFailed)
	first.Detach()
	s, found := adopt(t, r, sp.Dir)
	f := s.Status().Failure
	if found != process.FoundEnded || f == nil || f.Exit.Code != 3 || f.Reason != "the card is full" {
		t.Errorf("found %v, failure %+v", found, f)
	}
}

func TestAdoptRefusesWhatItCannotRead(t *testing.T) {
	r := runner(t, nil)
	dir := t.TempDir()
	if _, _, err := r.Adopt(t.Context(), dir); !errors.Is(err, process.ErrNoRecord) {
		t.Errorf("an empty directory: %v", err)
	}
	for _, text := range []string{"", "{", `{"version":2}`, `{"version":1}`,
		`{"version":1,"id":"s","boot":"b","start":"x","launch":{"Sidecars":[{"Name":"../../x"}]},"processes":[{"name":"../../x"},{"name":"engine"}]}`,
		`{"version":1,"id":"s","boot":"b","start":"x","processes":[{"name":"engine","pid":1,"start":1}]}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, "shard.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := r.Adopt(t.Context(), dir); !errors.Is(err, process.ErrRecord) {
			t.Errorf("record %q: %v", text, err)
		}
	}
}

// TestLauncherIsKilled ends a launcher with SIGKILL as soon as one thing or
// another can be seen of its work, and sees that nothing it started is unknown.
func TestLauncherIsKilled(t *testing.T) {
	for _, seen := range []string{"shard.json", "engine.log", "ray.log", "said"} {
		t.Run(seen, func(t *testing.T) {
			t.Parallel()
			sp := spec(t, "child=away,deaf,told", "print=ready")
			sp.Launch.Stop.Grace = 0
			sidecar := engines.Sidecar{Name: "ray", Command: acting(t, "print=up"), Stop: sp.Launch.Stop}
			sidecar.Ready = engines.Readiness{Log: "up", Timeout: patience}
			sp.Launch.Sidecars = []engines.Sidecar{sidecar}
			text, err := json.Marshal(sp)
			if err != nil {
				t.Fatal(err)
			}
			self := acting(t, "launch="+sp.Dir+".said")
			launcher := exec.CommandContext(t.Context(), self.Executable, self.Args...)
			launcher.Env = []string{"SPEC=" + string(text), "GORACE=atexit_sleep_ms=0"}
			launcher.Stdout, launcher.Stderr = t.Output(), t.Output()
			t.Cleanup(func() { _, _ = runner(t, nil).Sweep(context.WithoutCancel(t.Context()), sp.ID) })
			if err := launcher.Start(); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(sp.Dir, seen)
			if seen == "said" {
				file = sp.Dir + ".said"
			}
			eventually(t, func() bool { _, err := os.Stat(file); return err == nil })
			if err := launcher.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = launcher.Wait()

			s, found := adopt(t, runner(t, nil), sp.Dir)
			if found != process.FoundRunning && found != process.FoundUnstarted || seen == "said" && found != process.FoundRunning {
				t.Errorf("found %v", found)
			}
			stop(t, s)
			marked, err := process.FindMarked()
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range marked {
				if m.ID == sp.ID {
					t.Errorf("%v runs", m)
				}
			}
		})
	}
}

// eventually asks until it is so.
func eventually(t *testing.T, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !so(); {
		if time.Now().After(deadline) {
			t.Fatal("it is not so")
		}
		<-time.After(100 * time.Microsecond)
	}
}

func TestSweep(t *testing.T) {
	t.Parallel()
	r := runner(t, nil)
	sp := spec(t, "child=away,deaf,told", "print=ready")
	first := start(t, r, sp)
	wait(t, first, process.StateReady)
	pid := first.Status().Processes[0].PID
	first.Detach()
	if err := os.Remove(filepath.Join(sp.Dir, "shard.json")); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Start(t.Context(), sp); !errors.Is(err, process.ErrRunning) {
		t.Errorf("started beside what has no record: %v", err)
	}
	killed, err := r.Sweep(t.Context(), sp.ID)
	if err != nil || len(killed) != 2 || runs(pid) {
		t.Errorf("killed %v, %v", killed, err)
	}
	if killed, err := r.Sweep(t.Context(), sp.ID); err != nil || len(killed) != 0 {
		t.Errorf("again: killed %v, %v", killed, err)
	}
}
