package agent_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/fleetpb"
)

func mode(m string) func(*engines.ShardSpec) {
	return func(s *engines.ShardSpec) { s.Profile.Options = map[string]string{"mode": m} }
}

func shardDir(n *node, id engines.ShardID) string {
	return filepath.Join(n.cfg.StateDir, "shards", fmt.Sprintf("%s.%d", id.Replica, id.Rank))
}

// A profile that cannot run is refused at once, with its fault; nothing is left of
// it, and the same generation can be started once it is mended.
func TestBadProfileIsRefused(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	n := run(t, testConfig(t, p.url), testDeps(t))
	wish := spec("m-1", 1, func(s *engines.ShardSpec) { s.Profile.Model = "bad" })
	p.connected(t)
	began := time.Now()
	a := p.order(t, start(wish))
	if a.GetResult() != fleetpb.Result_RESULT_REFUSED || !strings.Contains(a.GetReason(), "model: is bad") || time.Since(began) > time.Second {
		t.Errorf("after %v: %v", time.Since(began), a)
	}
	if _, err := os.Stat(shardDir(n, wish.ID)); !os.IsNotExist(err) {
		t.Errorf("it has a directory: %v", err)
	}
	if a := p.order(t, start(spec("m-1", 1))); a.GetResult() != fleetpb.Result_RESULT_BEGUN {
		t.Errorf("mended: %v", a)
	}
	p.reaches(t, wish.ID, 1, engines.ShardReady)
	for _, change := range []func(*engines.ShardSpec){
		func(s *engines.ShardSpec) { s.Profile.Engine = engines.VLLM },
		func(s *engines.ShardSpec) { s.Cards = []string{"GPU-none"} },
		func(s *engines.ShardSpec) { s.ID.Rank = 3 },
	} {
		if a := p.order(t, start(spec("m-2", 1, change))); a.GetResult() != fleetpb.Result_RESULT_REFUSED || a.GetReason() == "" || a.GetAdvice() == "" {
			t.Errorf("%v", a)
		}
	}
}

// An engine that fails is reported with its reason, its advice and its last lines;
// one whose executable is missing says that.
func TestFailures(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	run(t, testConfig(t, p.url), testDeps(t))
	p.order(t, start(spec("m-1", 1, mode("fail"))))
	st := p.reaches(t, engines.ShardID{Replica: "m-1"}, 1, engines.ShardFailed)
	if !strings.Contains(st.Reason, "there was no memory") || st.Advice != "give it more" || st.Exit != "exit status 3" ||
		!slices.Equal(st.Lines, []string{"first line", "no memory for the cache"}) {
		t.Errorf("%+v", st)
	}
	p.order(t, start(spec("m-2", 1, func(s *engines.ShardSpec) { s.Profile.Executable = "/no/such/engine" })))
	st = p.reaches(t, engines.ShardID{Replica: "m-2"}, 1, engines.ShardFailed)
	if !strings.Contains(st.Reason, "/no/such/engine is missing") || !strings.Contains(st.Advice, "engines.sim") || st.PID != 0 {
		t.Errorf("%+v", st)
	}
	for _, replica := range []string{"m-1", "m-2"} {
		id := engines.ShardID{Replica: replica}
		if a := p.order(t, stop(id, 1, time.Hour)); a.GetResult() != fleetpb.Result_RESULT_BEGUN {
			t.Errorf("stop: %v", a)
		}
		p.reaches(t, id, 1, engines.ShardStopped)
	}
}

// An engine has its time to finish what it has; when it has nothing left it ends
// at once, another order hastens it, and one that is deaf is killed.
func TestStops(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	n := run(t, testConfig(t, p.url), testDeps(t))
	id := engines.ShardID{Replica: "m-1"}
	p.order(t, start(spec("m-1", 1, mode("deaf"))))
	p.reaches(t, id, 1, engines.ShardReady)
	busy := filepath.Join(shardDir(n, id), "run", "busy")
	if err := os.WriteFile(busy, []byte("2"), 0o600); err != nil {
		t.Fatal(err)
	}
	if a := p.order(t, drain(id, 1)); a.GetResult() != fleetpb.Result_RESULT_BEGUN {
		t.Errorf("drain: %v", a)
	}
	if a := p.order(t, drain(id, 1)); a.GetResult() != fleetpb.Result_RESULT_ALREADY {
		t.Errorf("drain again: %v", a)
	}
	p.until(t, "it says how much it has left", func() bool {
		st := p.last(id)
		return st.State == engines.ShardDraining && st.Running != nil && *st.Running == 2
	})
	if a := p.order(t, stop(id, 1, time.Hour)); a.GetResult() != fleetpb.Result_RESULT_BEGUN {
		t.Errorf("stop: %v", a)
	}
	if a := p.order(t, stop(id, 1, 2*time.Hour)); a.GetResult() != fleetpb.Result_RESULT_ALREADY {
		t.Errorf("a later stop: %v", a)
	}
	if err := os.WriteFile(busy, []byte("0"), 0o600); err != nil {
		t.Fatal(err)
	}
	st := p.reaches(t, id, 1, engines.ShardStopped)
	if st.PID != 0 || st.Exit != "ended by SIGKILL" {
		t.Errorf("%+v", st)
	}

	p.order(t, start(spec("m-1", 2)))
	p.reaches(t, id, 2, engines.ShardReady)
	if err := os.WriteFile(busy, []byte("2"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.order(t, stop(id, 2, time.Hour))
	p.reaches(t, id, 2, engines.ShardDraining)
	if a := p.order(t, stop(id, 2, 0)); a.GetResult() != fleetpb.Result_RESULT_BEGUN {
		t.Errorf("a hastened stop: %v", a)
	}
	p.reaches(t, id, 2, engines.ShardStopped)
}

// A higher generation takes the place of a lower one, which has ended before.
func TestNewGeneration(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	run(t, testConfig(t, p.url), testDeps(t))
	id := engines.ShardID{Replica: "m-1"}
	p.order(t, start(spec("m-1", 1, mode("deaf"))))
	old := p.reaches(t, id, 1, engines.ShardReady)
	if a := p.order(t, start(spec("m-1", 2))); a.GetResult() != fleetpb.Result_RESULT_BEGUN {
		t.Fatalf("%v", a)
	}
	st := p.reaches(t, id, 2, engines.ShardReady)
	if st.PID == old.PID || alive(old.PID) || st.Ports[engines.PortHTTP] == old.Ports[engines.PortHTTP] {
		t.Errorf("%+v after %+v", st, old)
	}
	if a := p.order(t, stop(id, 1, 0)); a.GetResult() != fleetpb.Result_RESULT_STALE {
		t.Errorf("a stop of the generation before: %v", a)
	}
	if !alive(st.PID) {
		t.Error("it ended the new one")
	}
}

func alive(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(text), ") Z ")
}

// Ports that an order names are used, or refused with who has them; a stranger's
// is skipped and told.
func TestPorts(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	cfg := testConfig(t, p.url)
	first := cfg.Ports.First
	cfg.Ports.Last = first + 3
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", first))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	run(t, cfg, testDeps(t))
	pin := func(port int) func(*engines.ShardSpec) {
		return func(s *engines.ShardSpec) { s.Ports = map[string]int{engines.PortHTTP: port} }
	}
	a := p.order(t, start(spec("m-1", 1, pin(first))))
	if a.GetResult() != fleetpb.Result_RESULT_REFUSED || !strings.Contains(a.GetReason(), fmt.Sprintf("%d is held by %d", first, os.Getpid())) {
		t.Errorf("a stranger's port: %v", a)
	}
	p.order(t, start(spec("m-1", 1, pin(first+2))))
	if st := p.reaches(t, engines.ShardID{Replica: "m-1"}, 1, engines.ShardReady); st.Address != fmt.Sprintf("127.0.0.1:%d", first+2) {
		t.Errorf("pinned: %+v", st)
	}
	if a := p.order(t, start(spec("m-2", 1, pin(first+2)))); !strings.Contains(a.GetReason(), fmt.Sprintf("%d belongs to shard m-1/0", first+2)) {
		t.Errorf("another shard's port: %v", a)
	}
	for i, want := range []int{first + 1, first + 3} {
		id := engines.ShardID{Replica: fmt.Sprintf("m-%d", i+3)}
		p.order(t, start(spec(id.Replica, 1)))
		if st := p.reaches(t, id, 1, engines.ShardReady); st.Ports[engines.PortHTTP] != want {
			t.Errorf("%+v; want port %d", st, want)
		}
	}
	if a := p.order(t, start(spec("m-9", 1))); a.GetResult() != fleetpb.Result_RESULT_UNAVAILABLE || !strings.Contains(a.GetReason(), fmt.Sprintf("%d to %d", first, first+3)) {
		t.Errorf("a full range: %v", a)
	}
	p.until(t, "strangers are told", func() bool {
		return slices.ContainsFunc(p.beats, func(b *fleetpb.Heartbeat) bool {
			s := b.GetStrangers()
			return len(s) == 1 && int(s[0].GetPort()) == first && int(s[0].GetPid()) == os.Getpid()
		})
	})
}

// Whatever is lost on the disk, what runs is found, reported, and can be ended, and
// nothing is started twice.
func TestWhatIsLostIsFound(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		lose func(t *testing.T, n *node, id engines.ShardID)
		// whole: the shard is looked after as before. Otherwise it is reported as
		// failed, with its process.
		whole bool
	}{
		{"the state file", func(t *testing.T, n *node, _ engines.ShardID) {
			for _, name := range []string{"state", "state.previous"} {
				if err := os.Remove(filepath.Join(n.cfg.StateDir, name)); err != nil {
					t.Fatal(err)
				}
			}
		}, true},
		{"the record", func(t *testing.T, n *node, id engines.ShardID) {
			if err := os.WriteFile(filepath.Join(shardDir(n, id), "run", "shard.json"), []byte("{"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, false},
		{"the shard's directory", func(t *testing.T, n *node, id engines.ShardID) {
			if err := os.RemoveAll(shardDir(n, id)); err != nil {
				t.Fatal(err)
			}
		}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := newPlane(t)
			n := run(t, testConfig(t, p.url), testDeps(t))
			wish := spec("m-1", 4)
			p.order(t, start(wish))
			ready := p.reaches(t, wish.ID, 4, engines.ShardReady)
			n.stop(t)
			tt.lose(t, n, wish.ID)
			run(t, n.cfg, n.deps)
			p.until(t, "a second Hello", func() bool { return len(p.hellos) == 2 })
			st := p.hello(1).GetShards()[0]
			if st.GetGeneration() != 4 || tt.whole != (st.GetState() == fleetpb.ShardState_SHARD_STATE_READY) {
				t.Errorf("%v", st)
			}
			if !tt.whole && (st.GetState() != fleetpb.ShardState_SHARD_STATE_FAILED || !strings.Contains(st.GetReason(), fmt.Sprint(ready.PID))) {
				t.Errorf("%v", st)
			}
			if a := p.order(t, start(wish)); a.GetResult() != fleetpb.Result_RESULT_ALREADY || !alive(ready.PID) {
				t.Errorf("the same start: %v", a)
			}
			if a := p.order(t, start(spec("m-1", 3))); a.GetResult() != fleetpb.Result_RESULT_STALE {
				t.Errorf("a lower generation: %v", a)
			}
			if a := p.order(t, stop(wish.ID, 4, 0)); a.GetResult() != fleetpb.Result_RESULT_BEGUN {
				t.Errorf("stop: %v", a)
			}
			p.reaches(t, wish.ID, 4, engines.ShardStopped)
			if alive(ready.PID) {
				t.Error("it runs on")
			}
		})
	}
}

// A stop that the agent's end interrupted goes on when it is back.
func TestStopGoesOn(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	n := run(t, testConfig(t, p.url), testDeps(t))
	id := engines.ShardID{Replica: "m-1"}
	p.order(t, start(spec("m-1", 1)))
	p.reaches(t, id, 1, engines.ShardReady)
	busy := filepath.Join(shardDir(n, id), "run", "busy")
	if err := os.WriteFile(busy, []byte("1"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.order(t, stop(id, 1, time.Hour))
	n.stop(t)
	run(t, n.cfg, n.deps)
	p.until(t, "a second Hello", func() bool { return len(p.hellos) == 2 })
	if st := p.hello(1).GetShards()[0]; st.GetState() != fleetpb.ShardState_SHARD_STATE_DRAINING {
		t.Errorf("%v", st)
	}
	if err := os.Remove(busy); err != nil {
		t.Fatal(err)
	}
	p.reaches(t, id, 1, engines.ShardStopped)
}

// A disk that takes nothing keeps orders from being done and touches nothing else;
// when it takes something again, so do they.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	n := run(t, testConfig(t, p.url), testDeps(t))
	p.order(t, start(spec("m-1", 1)))
	ready := p.reaches(t, engines.ShardID{Replica: "m-1"}, 1, engines.ShardReady)
	draft := filepath.Join(n.cfg.StateDir, "state.draft") // nothing keeps root from writing but what is in the way
	if err := os.MkdirAll(filepath.Join(draft, "in-the-way"), 0o700); err != nil {
		t.Fatal(err)
	}
	a := p.order(t, start(spec("m-2", 1)))
	if a.GetResult() != fleetpb.Result_RESULT_UNAVAILABLE || !strings.Contains(a.GetReason(), "state.draft") || a.GetAdvice() == "" {
		t.Errorf("%v", a)
	}
	if a := p.order(t, stop(ready.ID, 1, 0)); a.GetResult() != fleetpb.Result_RESULT_UNAVAILABLE || !alive(ready.PID) {
		t.Errorf("a stop: %v", a)
	}
	p.until(t, "heartbeats say so", func() bool {
		return slices.ContainsFunc(p.beats, func(b *fleetpb.Heartbeat) bool { return strings.Contains(b.GetState().String(), "cannot be kept") })
	})
	if err := os.RemoveAll(draft); err != nil {
		t.Fatal(err)
	}
	if a := p.order(t, start(spec("m-2", 1))); a.GetResult() != fleetpb.Result_RESULT_BEGUN {
		t.Errorf("after it healed: %v", a)
	}
}

// stuck is hardware that does not answer, whatever its context says.
type stuck struct {
	still
	release chan struct{}
}

func (s stuck) State(context.Context) (engines.NodeState, error) {
	<-s.release
	return engines.NodeState{}, nil
}

// Hardware that hangs and an adapter that is slow delay no heartbeat.
func TestSlownessDelaysNoHeartbeat(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	deps := testDeps(t)
	hw := stuck{release: make(chan struct{})}
	defer close(hw.release)
	deps.Hardware, deps.Adapters = hw, adapters{adapter{delay: time.Minute}}
	n := run(t, testConfig(t, p.url), deps)
	p.connected(t)
	p.send(t, start(spec("m-1", 1)))
	p.until(t, "heartbeats, and no answer", func() bool { return len(p.beats) >= 10 && len(p.answers) == 0 })
	beats := p.told()
	if took := beats[9].GetAt().AsTime().Sub(beats[0].GetAt().AsTime()); took > 2900*time.Millisecond {
		t.Errorf("ten heartbeats, of 200ms, take %v", took)
	}
	n.stop(t)
}
