package process

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgw/llmgw/engines"
)

var update = flag.Bool("update", false, "write testdata/record-v1.json anew")

// oldRecord has something in every field that version 1 has had from the first.
func oldRecord() *record {
	begun := time.Date(2026, 11, 30, 8, 0, 0, 0, time.UTC)
	command := engines.Command{Executable: "vllm", Args: []string{"serve", "m"}, Env: map[string]string{"VLLM_API_KEY": engines.SecretPlaceholder}, Unset: []string{"VLLM_PORT"}}
	stop := engines.Stop{Signal: engines.SignalInt, Grace: 30 * time.Second}
	ready := engines.Readiness{
		Probe: &engines.Probe{Port: 20000, Path: "/health", Contains: "ok", Keyed: true, Timeout: 2 * time.Second},
		Log:   "up", Timeout: time.Minute, Stalled: 10 * time.Second,
	}
	logs := []engines.LogRule{{Match: "out of memory", Phase: engines.PhaseFailed, Reason: "no room", Advice: "less"}}
	launch := engines.Launch{
		Engine: command, Files: []engines.File{{Name: "conf", Content: "x"}},
		Sidecars:   []engines.Sidecar{{Name: "ray", Command: command, Ready: ready, RunsOnce: true, Stop: stop, Logs: logs}},
		ServesHTTP: true, Ready: ready, Stop: stop, Logs: logs,
	}
	return &record{
		Version: 1, ID: "replica-1.0", Generation: 7, Boot: "f5c5c3ae-0000-4000-8000-000000000000", Since: 123456, Start: "ABCDEF",
		Command: CommandHash(launch), Launch: launch, Address: "10.0.0.7", Ports: []int{20000, 20001},
		Begun: begun, Ready: begun.Add(time.Minute), Stopping: begun.Add(time.Hour), Stopped: begun.Add(2 * time.Hour),
		Processes: []processRecord{
			{Name: "ray", identity: identity{PID: 4711, Start: 123457}, Begun: begun, Exit: &Exit{Known: true}},
			{Name: Engine, identity: identity{PID: 4712, Start: 123458}, Begun: begun, Exit: &Exit{Known: true, Signal: "SIGTERM"}},
		},
	}
}

// TestOldRecordsAreUnderstood: a launcher takes up what an older one started.
// A field that is new goes into a record of its own beside this one, which stays.
func TestOldRecordsAreUnderstood(t *testing.T) {
	golden := filepath.Join("testdata", "record-v1.json")
	text, err := os.ReadFile(golden)
	if *update {
		dir := t.TempDir()
		if err := oldRecord().write(dir); err != nil {
			t.Fatal(err)
		}
		if text, err = os.ReadFile(filepath.Join(dir, recordName)); err == nil {
			err = os.WriteFile(golden, text, 0o600)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, recordName), text, 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := readRecord(dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(oldRecord(), got, cmp.AllowUnexported(processRecord{})); diff != "" {
		t.Errorf("record differs (-want +got):\n%s", diff)
	}
}
