package agent_test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/fleetpb"
)

// metered is a card of 80 GiB of which an engine has 60 while it is awake, and 3 while
// it sleeps, or all of them where "keeps" stands in its directory.
type metered struct {
	still
	dir string // of the engine
}

func (m metered) State(context.Context) (engines.NodeState, error) {
	const gib = 1 << 30
	used := uint64(60 * gib)
	switch in := func(name string) bool { return there(filepath.Join(m.dir, name)) }; {
	case !in("."):
		used = 0
	case in("asleep") && !in("keeps"):
		used = 3 * gib
	}
	return engines.NodeState{GPUs: []engines.GPUState{{
		GPU: "GPU-a", MemoryUsedBytes: engines.Known(used), MemoryFreeBytes: engines.Known(80*gib - used),
	}}}, nil
}

func (m metered) Inventory(ctx context.Context) (*engines.Inventory, error) {
	inv, _ := m.still.Inventory(ctx)
	inv.State, _ = m.State(ctx)
	return inv, nil
}

// sleeper runs an agent with an engine that can sleep, and waits until that is ready.
func sleeper(t *testing.T, p *plane) (n *node, ready engines.ShardStatus, dir string) {
	t.Helper()
	cfg, deps := testConfig(t, p.url), testDeps(t)
	cfg.MemoryTimeout = time.Second
	dir = filepath.Join(cfg.StateDir, "shards", "m-1.0", "run")
	deps.Hardware = metered{dir: dir}
	n = run(t, cfg, deps)
	p.order(t, start(spec("m-1", 1, func(s *engines.ShardSpec) { s.Profile.Sleep, s.Cards = true, []string{"GPU-a"} })))
	return n, p.reaches(t, engines.ShardID{Replica: "m-1"}, 1, engines.ShardReady), dir
}

func mark(t *testing.T, dir, name string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// healthy is whether an engine answers its probe.
func healthy(t *testing.T, st engines.ShardStatus) bool {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+st.Address+"/health", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// An engine is put to sleep, gives its card back, sleeps on over the agent's restart,
// and is woken and serves, as one process of one start.
func TestSleepOverARestart(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	n, ready, _ := sleeper(t, p)
	id := ready.ID
	p.order(t, drain(id, 1))
	if a := p.order(t, sleep(id, 1)); a.GetResult() != fleetpb.Result_RESULT_BEGUN || a.GetStatus().GetState() != fleetpb.ShardState_SHARD_STATE_DRAINING {
		t.Fatalf("%v", a)
	}
	st := p.reaches(t, id, 1, engines.ShardSleeping)
	if st.PID != ready.PID || st.Start != ready.Start || st.MemoryHeld != "" || st.Reason != "" {
		t.Errorf("%+v after %+v", st, ready)
	}
	if a := p.order(t, sleep(id, 1)); a.GetResult() != fleetpb.Result_RESULT_ALREADY {
		t.Errorf("sleep again: %v", a)
	}
	n.stop(t)
	run(t, n.cfg, n.deps)
	p.until(t, "a second Hello", func() bool { return len(p.hellos) == 2 })
	if st := p.hello(1).GetShards()[0]; st.GetState() != fleetpb.ShardState_SHARD_STATE_SLEEPING || !st.GetAdopted() || int(st.GetPid()) != ready.PID {
		t.Errorf("taken up: %v", st)
	}
	if a := p.order(t, wake(id, 1)); a.GetResult() != fleetpb.Result_RESULT_BEGUN || a.GetStatus().GetState() != fleetpb.ShardState_SHARD_STATE_LOADING ||
		!strings.Contains(a.GetStatus().GetReason(), "woken") {
		t.Errorf("wake: %v", a)
	}
	st = p.reaches(t, id, 1, engines.ShardReady)
	if st.PID != ready.PID || st.Start != ready.Start || !healthy(t, st) {
		t.Errorf("awake: %+v", st)
	}
	if a := p.order(t, wake(id, 1)); a.GetResult() != fleetpb.Result_RESULT_ALREADY {
		t.Errorf("wake again: %v", a)
	}
}

// One that sleeps is stopped at once, however long it may take, and counts as failed
// when it ends by itself.
func TestSleeperEnds(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	_, ready, _ := sleeper(t, p)
	p.order(t, sleep(ready.ID, 1))
	p.reaches(t, ready.ID, 1, engines.ShardSleeping)
	p.order(t, stop(ready.ID, 1, time.Hour))
	if st := p.reaches(t, ready.ID, 1, engines.ShardStopped); alive(ready.PID) {
		t.Errorf("%+v", st)
	}
	if a := p.order(t, wake(ready.ID, 1)); a.GetResult() != fleetpb.Result_RESULT_REFUSED {
		t.Errorf("wake what was stopped: %v", a)
	}
	p.order(t, start(spec("m-1", 2, func(s *engines.ShardSpec) { s.Profile.Sleep = true })))
	ready = p.reaches(t, ready.ID, 2, engines.ShardReady)
	p.order(t, sleep(ready.ID, 2))
	p.reaches(t, ready.ID, 2, engines.ShardSleeping)
	if process, err := os.FindProcess(ready.PID); err != nil || process.Kill() != nil {
		t.Fatalf("it is not there: %v", err)
	}
	p.reaches(t, ready.ID, 2, engines.ShardFailed)
}

// An engine that does not fall asleep, keeps its card's memory or does not wake has
// failed, with the reason and what to do, and is ended by an order at once.
func TestTurnFails(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, before, after string
		want                string
	}{
		{"does not fall asleep", "broken", "", `could not be put to sleep: process: engine did not do as it was asked: POST /sleep?level=1: status 500: "it is broken"`},
		{"keeps the memory", "keeps", "", "it sleeps, and has memory of its cards: 60.0 GiB of card GPU-a are still in use, and 8.0 GiB would be little enough"},
		{"does not wake", "", "broken", "could not be woken"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := newPlane(t)
			_, ready, dir := sleeper(t, p)
			if tt.before != "" {
				mark(t, dir, tt.before)
			}
			p.order(t, sleep(ready.ID, 1))
			if tt.after != "" {
				p.reaches(t, ready.ID, 1, engines.ShardSleeping)
				mark(t, dir, tt.after)
				p.order(t, wake(ready.ID, 1))
			}
			st := p.reaches(t, ready.ID, 1, engines.ShardFailed)
			if !strings.Contains(st.Reason, tt.want) || st.Advice == "" || st.PID != ready.PID {
				t.Errorf("%+v; want %q", st, tt.want)
			}
			for _, c := range []*fleetpb.Command{sleep(ready.ID, 1), wake(ready.ID, 1)} {
				if a := p.order(t, c); a.GetResult() != fleetpb.Result_RESULT_REFUSED && a.GetResult() != fleetpb.Result_RESULT_ALREADY {
					t.Errorf("%v", a)
				}
			}
			p.order(t, stop(ready.ID, 1, time.Hour))
			if p.reaches(t, ready.ID, 1, engines.ShardStopped); alive(ready.PID) {
				t.Error("it runs on")
			}
		})
	}
}

// What cannot sleep is not asked to; a profile that asks for it, of an adapter that
// knows nothing of it, is refused.
func TestSleepIsRefused(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	run(t, testConfig(t, p.url), testDeps(t))
	a := p.order(t, start(spec("m-1", 1, mode("knows nothing of it"), func(s *engines.ShardSpec) { s.Profile.Sleep = true })))
	if a.GetResult() != fleetpb.Result_RESULT_REFUSED || !strings.Contains(a.GetReason(), "how it sleeps") || a.GetAdvice() == "" {
		t.Errorf("%v", a)
	}
	p.order(t, start(spec("m-1", 1)))
	st := p.reaches(t, engines.ShardID{Replica: "m-1"}, 1, engines.ShardReady)
	if a := p.order(t, sleep(st.ID, 1)); a.GetResult() != fleetpb.Result_RESULT_REFUSED || !strings.Contains(a.GetReason(), "not launched so that it can sleep") {
		t.Errorf("%v", a)
	}
	p.order(t, drain(st.ID, 1))
	p.reaches(t, st.ID, 1, engines.ShardDraining)
	if a := p.order(t, wake(st.ID, 1)); a.GetResult() != fleetpb.Result_RESULT_BEGUN {
		t.Errorf("a drain that is undone: %v", a)
	}
	p.reaches(t, st.ID, 1, engines.ShardReady)
}
