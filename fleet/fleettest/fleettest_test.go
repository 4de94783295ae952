package fleettest_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/sim/simtest"
	"github.com/llmgw/llmgw/fleet/control"
	"github.com/llmgw/llmgw/fleet/fleettest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// leader always leads, in one term.
type leader struct{}

func (leader) Mandate() control.Mandate {
	return control.Mandate{Level: control.Leader, Cluster: "c", Term: 1}
}
func (leader) Outranked(string, uint64) {}

// plane runs a control plane at cp:7443 of a network in memory.
func plane(t *testing.T, network *simtest.Network) *control.Plane {
	t.Helper()
	return planeWith(t, network, control.DefaultConfig())
}

func planeWith(t *testing.T, network *simtest.Network, cfg control.Config) *control.Plane {
	t.Helper()
	p, err := control.New(cfg, control.Deps{Authority: leader{}})
	if err != nil {
		t.Fatal(err)
	}
	l, err := network.Listen("cp:7443")
	if err != nil {
		t.Fatal(err)
	}
	path, handler := p.Handler()
	mux := http.NewServeMux()
	mux.Handle(path, handler)
	s := &http.Server{Handler: mux} //nolint:gosec // in memory
	control.Configure(s)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.Serve(l) })
	wg.Go(func() { _ = p.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		synctest.Wait()
		_ = s.Close()
		wg.Wait()
	})
	return p
}

func fleet(t *testing.T, network *simtest.Network, cfg fleettest.Config) *fleettest.Fleet {
	t.Helper()
	cfg.URL = "http://cp:7443"
	cfg.Client = func(string) *http.Client { return fleettest.PlainClient(network.Dial) }
	f, err := fleettest.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); f.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return f
}

// until waits, in virtual time, for what has to become so.
func until(t *testing.T, what string, so func() bool) {
	t.Helper()
	for begun := time.Now(); !so(); time.Sleep(time.Second) {
		if time.Since(begun) > time.Hour {
			t.Fatalf("after an hour it is still not so: %s", what)
		}
	}
}

func spec(replica string, generation uint64) engines.ShardSpec {
	return engines.ShardSpec{
		ID: engines.ShardID{Replica: replica}, Generation: generation,
		Profile: engines.Profile{Engine: engines.Sim, Model: "m", ServedNames: []string{"m"}},
	}
}

// differs says how what a control plane knows of the agents' shards differs from what
// the agents know themselves; empty: not at all.
func differs(p *control.Plane, f *fleettest.Fleet) string {
	for _, a := range f.Agents() {
		n, there := p.Node(a.ID())
		if !there {
			return a.ID() + " is not known"
		}
		if diff := cmp.Diff(a.Shards(), n.Shards, cmpopts.EquateEmpty(), cmpopts.EquateApproxTime(0)); diff != "" {
			return fmt.Sprintf("%s (-agent +control):\n%s", a.ID(), diff)
		}
	}
	return ""
}

// Agents go by the ports that the control plane says, and say so, by the stream that
// they have and by those that follow.
func TestPortRange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var network simtest.Network
		cfg := control.DefaultConfig()
		cfg.PortRange = []int{30000, 30009}
		p := planeWith(t, &network, cfg)
		f := fleet(t, &network, fleettest.Config{Nodes: 2})
		at := func(id string) control.PortRange {
			n, _ := p.Node(id)
			return n.Ports
		}
		want := control.PortRange{First: 30000, Last: 30009}
		until(t, "they go by it", func() bool { return at("node-1") == want && at("node-2") == want })
		for i := range 12 {
			id := engines.ShardID{Replica: fmt.Sprint("r", i)}
			if _, err := p.Start(t.Context(), "node-1", spec(id.Replica, 1)); err != nil {
				t.Fatal(err)
			}
			until(t, "it serves", func() bool {
				n, _ := p.Node("node-1")
				s, ok := n.Shard(id)
				if port := s.Ports[engines.PortHTTP]; ok && (port < want.First || port > want.Last) {
					t.Fatalf("it has port %d", port)
				}
				return s.State == engines.ShardReady
			})
		}
		f.Agent("node-2").Stop()
		until(t, "it is away", func() bool { n, _ := p.Node("node-2"); return !n.Connected })
		f.Agent("node-2").Start()
		until(t, "it is there again", func() bool { n, _ := p.Node("node-2"); return n.Connected })
		if got := at("node-2"); got != want {
			t.Errorf("it came back with %v", got)
		}
	})
}

// Whatever is lost, doubled, late or in another order: each order is done once, and
// what the control plane knows comes to what is so.
func TestFaultyNetwork(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const nodes, rounds = 10, 4
				var network simtest.Network
				p := plane(t, &network)
				f := fleet(t, &network, fleettest.Config{
					Nodes: nodes, LoadTime: 3 * time.Second, StopTime: time.Second, Seed: seed,
					Faults: fleettest.Faults{Drop: 0.2, Duplicate: 0.2, Delay: 4 * time.Second},
				})
				until(t, "all have registered", func() bool { return len(p.Nodes()) == nodes })
				var wg sync.WaitGroup
				for i, a := range f.Agents() {
					wg.Go(func() {
						for round := range rounds {
							order(t, a.ID(), func(ctx context.Context) error {
								_, err := p.Start(ctx, a.ID(), spec("r", uint64(round+1)))
								return err
							})
							if (i+round)%3 == 0 {
								a.Cut()
							}
							order(t, a.ID(), func(ctx context.Context) error {
								_, err := p.Stop(ctx, a.ID(), control.Stop{Shard: engines.ShardID{Replica: "r"}, Generation: uint64(round + 1), Reason: "test"})
								return err
							})
							until(t, "it has stopped", func() bool {
								s := a.Shards()
								return len(s) == 1 && s[0].State == engines.ShardStopped
							})
						}
					})
				}
				wg.Wait()
				if n := f.Starts(); n != nodes*rounds {
					t.Errorf("%d starts; want %d: an order was done twice or not at all", n, nodes*rounds)
				}
				for _, a := range f.Agents() {
					a.SetFaults(fleettest.Faults{})
				}
				until(t, "the control plane knows what is so: "+differs(p, f), func() bool { return differs(p, f) == "" })
			})
		})
	}
}

// order repeats an order until it is done.
func order(t *testing.T, node string, f func(context.Context) error) {
	for {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		err := f(ctx)
		cancel()
		if err == nil {
			return
		}
		if t.Context().Err() != nil {
			t.Errorf("%s: %v", node, err)
			return
		}
		time.Sleep(time.Second)
	}
}

// A node behind a network that drops everything is silent; one that comes back is
// heard, and nothing was started anew.
func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var network simtest.Network
		p := plane(t, &network)
		f := fleet(t, &network, fleettest.Config{Nodes: 2, LoadTime: time.Second})
		until(t, "both are connected", func() bool { return f.Connected() == 2 })
		a := f.Agent("node-1")
		if _, err := p.Start(t.Context(), a.ID(), spec("r", 1)); err != nil {
			t.Fatal(err)
		}
		a.Silence(true)
		until(t, "it is lost", func() bool { n, _ := p.Node(a.ID()); return n.State == control.Lost })
		if n, _ := p.Node("node-2"); n.State != control.Ready {
			t.Errorf("the other one is %v; want ready", n.State)
		}
		a.Silence(false)
		until(t, "it is ready", func() bool { n, _ := p.Node(a.ID()); return n.State == control.Ready && differs(p, f) == "" })
		if a.Starts() != 1 || a.Shards()[0].State != engines.ShardReady {
			t.Errorf("%d starts, %v; want one that is ready", a.Starts(), a.Shards())
		}
		if !a.Crash(engines.ShardID{Replica: "r"}) || a.Crash(engines.ShardID{Replica: "r"}) {
			t.Error("it crashes once")
		}
		until(t, "its end is known", func() bool {
			n, _ := p.Node(a.ID())
			return len(n.Shards) == 1 && n.Shards[0].State == engines.ShardFailed
		})
	})
}

// Shards that run before the fleet does are told and not started; so is how the
// hardware is, and how long the answers to heartbeats take.
func TestShardsThatRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var network simtest.Network
		p := plane(t, &network)
		var mu sync.Mutex
		beats := map[string]int{}
		f := fleet(t, &network, fleettest.Config{
			Nodes: 2,
			Shards: func(node string) []engines.ShardStatus {
				return []engines.ShardStatus{{ID: engines.ShardID{Replica: "r-" + node}, Generation: 4, Revision: 2, State: engines.ShardReady}}
			},
			State: func(_ string, sequence uint64) engines.NodeState {
				return engines.NodeState{MemoryAvailableBytes: engines.Known(sequence)}
			},
			Beat: func(node string, took time.Duration) {
				mu.Lock()
				defer mu.Unlock()
				if beats[node]++; took < 0 || took > time.Second {
					t.Errorf("%s: an answer after %v", node, took)
				}
			},
		})
		until(t, "the control plane knows what is so", func() bool { return f.Connected() == 2 && differs(p, f) == "" })
		time.Sleep(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		if f.Starts() != 0 || len(f.Agent("node-2").Shards()) != 1 || beats["node-1"] < 10 || beats["node-2"] < 10 {
			t.Errorf("%d starts, %v, heartbeats %v", f.Starts(), f.Agent("node-2").Shards(), beats)
		}
		n, _ := p.Node("node-1")
		if sequence, known := n.Reading.MemoryAvailableBytes.Get(); !known || sequence < 10 {
			t.Errorf("the hardware is as at heartbeat %d, %v", sequence, known)
		}
		if _, err := p.Start(t.Context(), "node-1", spec("r-node-1", 3)); !errors.Is(err, control.ErrStale) {
			t.Errorf("an order of an older generation: %v; want stale", err)
		}
	})
}

// Refused agents are sent away again and again, at growing intervals.
func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var network simtest.Network
		l, err := network.Listen("cp:7443")
		if err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		var at []time.Time
		s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { //nolint:gosec // in memory
			mu.Lock()
			at = append(at, time.Now())
			mu.Unlock()
			w.WriteHeader(http.StatusServiceUnavailable)
		})}
		control.Configure(s)
		done := make(chan struct{})
		go func() { defer close(done); _ = s.Serve(l) }()
		t.Cleanup(func() { _ = s.Close(); <-done })
		f := fleet(t, &network, fleettest.Config{Nodes: 1, BackoffMax: 8 * time.Second})
		time.Sleep(10 * time.Minute)
		mu.Lock()
		defer mu.Unlock()
		// A pause is 4 s on average once the bound is reached.
		if n := len(at); n < 100 || n > 250 {
			t.Errorf("%d tries in 10 minutes; want about 150", n)
		}
		if f.Connected() != 0 || len(f.Agent("node-1").Refusals()) == 0 {
			t.Errorf("it is connected: %v", f.Agent("node-1").Refusals())
		}
	})
}

func TestConfig(t *testing.T) {
	_, err := fleettest.New(fleettest.Config{LoadTime: -1, Faults: fleettest.Faults{Drop: 2, Delay: -1}})
	for _, part := range []string{"URL", "Nodes", "LoadTime", "Drop", "Delay"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v does not name %s", err, part)
		}
	}
}

// A shard that was started so that it can sleeps and is woken, as the same process;
// another refuses to.
func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var network simtest.Network
		p := plane(t, &network)
		f := fleet(t, &network, fleettest.Config{Nodes: 1, LoadTime: time.Minute, WakeTime: 2 * time.Second})
		a := f.Agents()[0]
		until(t, "it is connected", a.Connected)
		sleeps := spec("r1", 1)
		sleeps.Profile.Sleep = true
		for _, s := range []engines.ShardSpec{sleeps, spec("r2", 1)} {
			if _, err := p.Start(t.Context(), a.ID(), s); err != nil {
				t.Fatal(err)
			}
		}
		is := func(want engines.ShardState) func() bool { return func() bool { return a.Shards()[0].State == want } }
		until(t, "it is ready", is(engines.ShardReady))
		before := a.Shards()[0]
		if _, err := p.Sleep(t.Context(), a.ID(), sleeps.ID, 1); err != nil || !is(engines.ShardSleeping)() {
			t.Errorf("sleep: %v, %+v", err, a.Shards()[0])
		}
		if got, err := p.Sleep(t.Context(), a.ID(), sleeps.ID, 1); err != nil || !got.Already {
			t.Errorf("sleep again: %+v, %v", got, err)
		}
		if _, err := p.Sleep(t.Context(), a.ID(), engines.ShardID{Replica: "r2"}, 1); !errors.Is(err, control.ErrRefused) {
			t.Errorf("one that cannot: %v", err)
		}
		began := time.Now()
		if _, err := p.Wake(t.Context(), a.ID(), sleeps.ID, 1); err != nil || !is(engines.ShardLoading)() {
			t.Errorf("wake: %v, %+v", err, a.Shards()[0])
		}
		until(t, "it is awake", is(engines.ShardReady))
		if after := a.Shards()[0]; time.Since(began) > 3*time.Second || after.PID != before.PID || after.Start != before.Start || a.Starts() != 2 {
			t.Errorf("after %v: %+v", time.Since(began), after)
		}
	})
}
