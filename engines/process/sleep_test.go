//go:build linux

package process_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/process"
)

// sleepy is a shard of an engine that can sleep.
func sleepy(t *testing.T) process.Spec {
	t.Helper()
	port := freePort(t)
	sp := spec(t, "sleeper="+strconv.Itoa(port))
	sp.Secret, sp.Ports = "sk-canary-0003", []int{port}
	sp.Launch.Engine.Env["KEY"] = engines.SecretPlaceholder
	sp.Launch.ServesHTTP = true
	sp.Launch.Ready = engines.Readiness{Probe: &engines.Probe{Port: port, Path: "/health", Timeout: patience}, Timeout: patience}
	sp.Launch.Sleep = &engines.Sleep{
		Port: port, Keyed: true, Sleep: "/sleep", Wake: "/wake", Check: "/how", Asleep: `"asleep":true`, Awake: `"asleep":false`,
		SleepTimeout: patience, WakeTimeout: patience,
	}
	return sp
}

// An engine sleeps and is woken as one process, whoever attends to it: taken up in
// its sleep it counts as ready, whatever its probe says.
func TestSleepAndWake(t *testing.T) {
	t.Parallel()
	r := runner(t, nil)
	sp := sleepy(t)
	s := start(t, r, sp)
	pid := wait(t, s, process.StateReady).Processes[0].PID
	is := func(s *process.Shard, want bool) {
		t.Helper()
		if asleep, err := s.Asleep(t.Context()); err != nil || asleep != want {
			t.Errorf("asleep is %t, %v; want %t", asleep, err, want)
		}
	}
	is(s, false)
	for range 2 {
		if err := s.Sleep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	is(s, true)
	s.Detach()
	second, found := adopt(t, r, sp.Dir)
	status := wait(t, second, process.StateReady)
	if found != process.FoundRunning || status.Processes[0].PID != pid || !second.Sleeps() {
		t.Errorf("found %v, %+v", found, status)
	}
	is(second, true)
	for range 2 {
		if err := second.Wake(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	is(second, false)
	stop(t, second)
	if _, err := second.Asleep(t.Context()); err == nil {
		t.Error("what was stopped says how it is")
	}
}

// What an engine does not do is said, with its answer, within its time.
func TestSleepFails(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(*engines.Sleep)
		want   string
	}{
		{"it refuses", func(s *engines.Sleep) { s.Sleep = "/busy" }, `POST /busy: status 409: "not now"`},
		{"it has no such route", func(s *engines.Sleep) { s.Sleep = "/none" }, "POST /none: status 404"},
		{"it stays awake", func(s *engines.Sleep) { s.Sleep, s.SleepTimeout = "/wake", 300*time.Millisecond }, "it took more than 300ms; the last answer: it says that it is asleep: false"},
		{"it does not say", func(s *engines.Sleep) { s.Asleep, s.SleepTimeout = "zzz", 300*time.Millisecond }, `neither "zzz" nor`},
		{"it does not know the key", func(s *engines.Sleep) { s.Keyed = false }, "status 401"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			sp := sleepy(t)
			tt.change(sp.Launch.Sleep)
			s := start(t, runner(t, nil), sp)
			wait(t, s, process.StateReady)
			if err := s.Sleep(t.Context()); !errors.Is(err, process.ErrTurn) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v; want %q", err, tt.want)
			}
			if state := s.Status().State; state != process.StateReady {
				t.Errorf("its state is %v", state)
			}
		})
	}
	s := start(t, runner(t, nil), spec(t, "print=ready"))
	_, err := s.Asleep(t.Context())
	if err := errors.Join(s.Sleep(t.Context()), s.Wake(t.Context()), err); s.Sleeps() || strings.Count(err.Error(), process.ErrSleepless.Error()) != 3 {
		t.Errorf("one that cannot: %v", err)
	}
}
