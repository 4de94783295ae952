package controlplane_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/sim/simtest"
	"github.com/llmgw/llmgw/fleet/api"
	"github.com/llmgw/llmgw/fleet/apipb"
	"github.com/llmgw/llmgw/fleet/control"
	"github.com/llmgw/llmgw/fleet/controlplane"
	"github.com/llmgw/llmgw/fleet/fleettest"
	"github.com/llmgw/llmgw/storage"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memory is a store of a control plane's in memory, which can be away.
type memory struct {
	mu      sync.Mutex
	away    bool
	term    storage.Term
	nodes   map[string]storage.Node
	cordons map[string]storage.Cordon
	audit   []storage.Audit

	replicas map[string]storage.Replica
}

func newMemory() *memory {
	return &memory{nodes: map[string]storage.Node{}, cordons: map[string]storage.Cordon{}, replicas: map[string]storage.Replica{}}
}

func (m *memory) do(f func() error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.away {
		return fmt.Errorf("%w: pulled", storage.ErrUnavailable)
	}
	return f()
}

func (m *memory) setAway(away bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.away = away
}

func (m *memory) fenced(f storage.Fence, do func() error) error {
	return m.do(func() error {
		if now := m.term.Fence(); now != f {
			return &storage.FencedError{Wrote: f, Now: now}
		}
		return do()
	})
}

func (m *memory) BeginTerm(_ context.Context, r storage.TermRequest) (t storage.Term, err error) {
	err = m.do(func() error {
		if m.term.Cluster != "" && m.term.Cluster != r.Cluster {
			return storage.ErrConflict
		}
		m.term = storage.Term{Cluster: r.Cluster, Number: max(m.term.Number, r.Above) + 1, Holder: r.Holder, BegunAt: r.At}
		t = m.term
		return nil
	})
	return t, err
}

func (m *memory) Term(context.Context) (t storage.Term, err error) {
	err = m.do(func() error {
		if t = m.term; t.Number == 0 {
			return storage.ErrNotFound
		}
		return nil
	})
	return t, err
}

func (m *memory) PutNodes(_ context.Context, f storage.Fence, nodes []storage.Node) error {
	return m.fenced(f, func() error {
		for _, n := range nodes {
			if err := n.Validate(); err != nil {
				return err
			}
			m.nodes[n.ID] = n
		}
		return nil
	})
}

func (m *memory) ListNodes(context.Context, storage.Page) (out []storage.Node, next string, err error) {
	err = m.do(func() error {
		for _, n := range m.nodes {
			out = append(out, n)
		}
		return nil
	})
	return out, "", err
}

func (m *memory) RemoveNode(_ context.Context, f storage.Fence, id string, why storage.Audit) error {
	return m.fenced(f, func() error {
		if _, there := m.nodes[id]; !there {
			return storage.ErrNotFound
		}
		delete(m.nodes, id)
		delete(m.cordons, id)
		m.audit = append(m.audit, why)
		return nil
	})
}

func (m *memory) SetCordon(_ context.Context, c storage.Cordon, why storage.Audit) error {
	return m.do(func() error {
		if err := errors.Join(c.Validate(), why.Validate()); err != nil {
			return err
		}
		m.cordons[c.Node] = c
		m.audit = append(m.audit, why)
		return nil
	})
}

func (m *memory) ClearCordon(_ context.Context, node string, why storage.Audit) error {
	return m.do(func() error {
		if _, there := m.cordons[node]; there {
			delete(m.cordons, node)
			m.audit = append(m.audit, why)
		}
		return nil
	})
}

func (m *memory) ListCordons(context.Context) (out []storage.Cordon, err error) {
	err = m.do(func() error {
		for _, c := range m.cordons {
			out = append(out, c)
		}
		return nil
	})
	return out, err
}

// actions are those of the audit rows.
func (m *memory) PutReplica(_ context.Context, f storage.Fence, r storage.Replica) error {
	if err := r.Validate(); err != nil {
		return err
	}
	return m.fenced(f, func() error {
		m.replicas[r.ID] = r
		return nil
	})
}

func (m *memory) ListReplicas(context.Context, storage.ReplicaQuery) (out []storage.Replica, next string, err error) {
	err = m.do(func() error {
		for _, r := range m.replicas {
			out = append(out, r)
		}
		return nil
	})
	return out, "", err
}

func (m *memory) RemoveReplica(_ context.Context, f storage.Fence, id string, _ uint64) error {
	return m.fenced(f, func() error {
		delete(m.replicas, id)
		return nil
	})
}

func (m *memory) actions() (out []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, a := range m.audit {
		out = append(out, a.Action+" "+a.Target+" by "+a.Actor)
	}
	return out
}

// running is a plane that runs at an address of a network in memory.
type running struct {
	*controlplane.Plane
	stop func()
}

// begin runs a plane until stop is called or the test ends.
func begin(t *testing.T, network *simtest.Network, store controlplane.Store) *running {
	t.Helper()
	return beginWith(t, network, controlplane.Deps{Store: store, Holder: "test"})
}

func beginWith(t *testing.T, network *simtest.Network, deps controlplane.Deps) *running {
	t.Helper()
	p, err := controlplane.New(controlplane.DefaultConfig(), deps)
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
	wg.Go(func() {
		if err := p.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	stop := sync.OnceFunc(func() {
		cancel()
		// Streams are ended by Run, and then connections.
		synctest.Wait()
		_ = s.Close()
		wg.Wait()
	})
	t.Cleanup(stop)
	return &running{p, stop}
}

// agents runs fake agents that dial cp:7443.
func agents(t *testing.T, network *simtest.Network, n int) (f *fleettest.Fleet, stop func()) {
	t.Helper()
	f, err := fleettest.New(fleettest.Config{
		URL: "http://cp:7443", Nodes: n, LoadTime: time.Second, StopTime: time.Second,
		Client: func(string) *http.Client { return fleettest.PlainClient(network.Dial) },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); f.Run(ctx) }()
	stop = sync.OnceFunc(func() { cancel(); <-done })
	t.Cleanup(stop)
	return f, stop
}

// until waits, in virtual time, for what has to become so.
func until(t *testing.T, what string, so func() bool) {
	t.Helper()
	for begun := time.Now(); !so(); time.Sleep(100 * time.Millisecond) {
		if time.Since(begun) > 5*time.Minute {
			t.Fatalf("after 5 minutes it is still not so: %s", what)
		}
	}
}

func states(p *running) map[string]int {
	out := make(map[string]int)
	for _, n := range p.Control().Nodes() {
		out[n.State.String()]++
	}
	return out
}

func spec(replica string, generation uint64) engines.ShardSpec {
	return engines.ShardSpec{
		ID: engines.ShardID{Replica: replica}, Generation: generation,
		Profile: engines.Profile{Engine: engines.Sim, Model: "m", ServedNames: []string{"m"}},
	}
}

// A plane that is started anew has a higher term, knows the nodes that it had, and
// what runs there runs on: nothing is started.
func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var network simtest.Network
		store := newMemory()
		first := begin(t, &network, store)
		f, _ := agents(t, &network, 20)
		until(t, "20 nodes are ready", func() bool { return states(first)["ready"] == 20 })
		for i := range 20 {
			if _, err := first.Control().Start(t.Context(), fmt.Sprintf("node-%d", i+1), spec(fmt.Sprintf("r-%d", i+1), 1)); err != nil {
				t.Fatal(err)
			}
		}
		until(t, "20 shards are ready", func() bool { return ready(first) == 20 })
		time.Sleep(10 * time.Second) // the journal's pause
		before, _ := first.Standing()
		first.stop()
		f.Agent("node-7").Stop()
		time.Sleep(time.Minute)

		second := begin(t, &network, store)
		until(t, "19 nodes are back", func() bool { return states(second)["ready"] == 19 })
		if got := states(second); got["expected"] != 1 {
			t.Errorf("the node that is away: %v; want it expected", got)
		}
		away, err := second.Nodes().GetNode(t.Context(), &apipb.GetNodeRequest{Node: "node-7"})
		if err != nil {
			t.Fatal(err)
		}
		for _, gpu := range away.GetNode().GetGpus() {
			if gpu.GetUsable() || !strings.Contains(strings.Join(gpu.GetReasons(), ""), "was not heard since") {
				t.Errorf("its card %v; want that nothing is known of it", gpu)
			}
		}
		if n := len(away.GetNode().GetGpus()); n != 2 {
			t.Errorf("the journal has %d of its cards; want 2", n)
		}
		if after, why := second.Standing(); after.Term != before.Term+1 || after.Cluster != before.Cluster || why != "" {
			t.Errorf("mandate %+v, %q; want a term above %+v", after, why, before)
		}
		until(t, "it is lost", func() bool { return states(second)["lost"] == 1 })
		f.Agent("node-7").Start()
		until(t, "it is back", func() bool { return ready(second) == 20 })
		if n := f.Starts(); n != 20 {
			t.Errorf("%d shards were started; want 20", n)
		}
	})
}

func ready(p *running) (n int) {
	for _, node := range p.Control().Nodes() {
		for _, s := range node.Shards {
			if s.State == engines.ShardReady {
				n++
			}
		}
	}
	return n
}

// Without its store a plane that starts takes no agents; one that leads goes on.
func TestStoreAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var network simtest.Network
		store := newMemory()
		store.setAway(true)
		p := begin(t, &network, store)
		f, _ := agents(t, &network, 3)
		time.Sleep(time.Minute)
		if _, why := p.Standing(); f.Connected() != 0 || !strings.Contains(why, "no term could be begun") {
			t.Errorf("%d agents are connected, %q; want none", f.Connected(), why)
		}
		list, err := p.Nodes().ListNodes(t.Context(), &apipb.ListNodesRequest{})
		if err != nil || list.Term != nil || list.GetWhy() == "" {
			t.Errorf("%v, %v; want no term, and why", list, err)
		}
		store.setAway(false)
		until(t, "agents are taken", func() bool { return states(p)["ready"] == 3 })

		store.setAway(true)
		time.Sleep(time.Minute)
		if _, err := p.Control().Start(t.Context(), "node-1", spec("r", 1)); err != nil || f.Connected() != 3 {
			t.Errorf("while the store is away: %d connected, %v", f.Connected(), err)
		}
		_, err = p.Nodes().SetNodeTarget(t.Context(), &apipb.SetNodeTargetRequest{Node: "node-1", Target: apipb.NodeTarget_NODE_TARGET_CORDONED})
		if !errors.Is(err, api.ErrUnavailable) {
			t.Errorf("a cordon while the store is away: %v; want ErrUnavailable", err)
		}
	})
}

// A store that was restored from a backup knows an older term than agents do: the
// plane begins one above theirs, and its orders are followed.
func TestOutranked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var network simtest.Network
		store := newMemory()
		store.term = storage.Term{Cluster: "c", Number: 40}
		first := begin(t, &network, store)
		f, _ := agents(t, &network, 2)
		until(t, "both are ready", func() bool { return states(first)["ready"] == 2 })
		first.stop()
		store.term.Number = 3

		second := begin(t, &network, store)
		until(t, "it leads above 41", func() bool { m, _ := second.Standing(); return m.Term == 42 })
		until(t, "both are ready again", func() bool { return states(second)["ready"] == 2 })
		until(t, "its orders are followed", func() bool {
			_, err := second.Control().Start(t.Context(), "node-1", spec("r", 1))
			return err == nil
		})
		if term := f.Agent("node-1").Term(); term != 42 {
			t.Errorf("the agent has heard of term %d; want 42", term)
		}
	})
}

// Of two planes on one store the later one leads; the other steps back and does not
// quarrel.
func TestTwoOnOneStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var network, elsewhere simtest.Network
		store := newMemory()
		first := begin(t, &network, store)
		until(t, "the first leads", func() bool { _, why := first.Standing(); return why == "" })
		second := begin(t, &elsewhere, store)
		until(t, "the second leads", func() bool { _, why := second.Standing(); return why == "" })
		until(t, "the first steps back", func() bool { m, _ := first.Standing(); return m.Level == control.Standby })
		if _, why := first.Standing(); !strings.Contains(why, "another control plane leads") {
			t.Errorf("why: %q", why)
		}
		time.Sleep(time.Minute)
		if m, _ := second.Standing(); m.Level != control.Leader || m.Term != 2 {
			t.Errorf("the second: %+v; want it to lead in term 2", m)
		}
		if _, err := first.Control().Start(t.Context(), "node-1", spec("r", 1)); !errors.Is(err, control.ErrNotLeader) {
			t.Errorf("an order of the first: %v; want ErrNotLeader", err)
		}
	})
}

func TestTargets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var network simtest.Network
		store := newMemory()
		p := begin(t, &network, store)
		f, _ := agents(t, &network, 2)
		until(t, "both are ready", func() bool { return states(p)["ready"] == 2 })
		set := func(node string, target apipb.NodeTarget, reason string) (*apipb.Node, error) {
			r, err := p.Nodes().SetNodeTarget(t.Context(), &apipb.SetNodeTargetRequest{Node: node, Target: target, Reason: reason, Actor: "ada"})
			return r.GetNode(), err
		}
		for _, step := range []apipb.NodeTarget{
			apipb.NodeTarget_NODE_TARGET_CORDONED, apipb.NodeTarget_NODE_TARGET_CORDONED, apipb.NodeTarget_NODE_TARGET_DRAINED, apipb.NodeTarget_NODE_TARGET_ACTIVE,
		} {
			n, err := set("node-1", step, "fan")
			if err != nil || n.GetTarget() != step {
				t.Errorf("%v: %v, %v", step, n.GetTarget(), err)
			}
			if step != apipb.NodeTarget_NODE_TARGET_ACTIVE && n.GetTargetReason() != "fan" {
				t.Errorf("%v: reason %q; want fan", step, n.GetTargetReason())
			}
		}
		want := []string{"node.cordon node-1 by ada", "node.drain node-1 by ada", "node.uncordon node-1 by ada"}
		if got := store.actions(); !slices.Equal(got, want) {
			t.Errorf("audit rows %q; want %q", got, want)
		}
		if _, err := set("node-9", apipb.NodeTarget_NODE_TARGET_CORDONED, ""); !errors.Is(err, api.ErrNotFound) || !strings.Contains(err.Error(), "node-1, node-2") {
			t.Errorf("a node that is not there: %v; want ErrNotFound with those that are", err)
		}

		// What another process writes is seen soon.
		store.mu.Lock()
		store.cordons["node-2"] = storage.Cordon{Node: "node-2", Target: storage.TargetDrained, At: time.Now()}
		store.mu.Unlock()
		until(t, "node-2 is drained", func() bool {
			r, err := p.Nodes().GetNode(t.Context(), &apipb.GetNodeRequest{Node: "node-2"})
			return err == nil && r.GetNode().GetTarget() == apipb.NodeTarget_NODE_TARGET_DRAINED
		})

		// A node that is gone is forgotten, and one that is heard is not.
		forget := func() error {
			_, err := p.Nodes().ForgetNode(t.Context(), &apipb.ForgetNodeRequest{Node: "node-2", Actor: "ada"})
			return err
		}
		if err := forget(); !errors.Is(err, api.ErrPrecondition) {
			t.Errorf("forget a node that is heard: %v; want ErrPrecondition", err)
		}
		f.Agent("node-2").Stop()
		until(t, "it is unreachable", func() bool { return states(p)["unreachable"] == 1 })
		if err := forget(); err != nil {
			t.Errorf("forget a node that is gone: %v", err)
		}
		list, err := p.Nodes().ListNodes(t.Context(), &apipb.ListNodesRequest{})
		if err != nil || len(list.GetNodes()) != 1 || list.GetNodes()[0].GetId() != "node-1" {
			t.Errorf("nodes %v, %v; want node-1", list.GetNodes(), err)
		}
		f.Agent("node-2").Start()
		until(t, "it registers anew", func() bool { return states(p)["ready"] == 2 })
	})
}

// What a person is to know of a node is said in words, and what is not known is not
// said.
func TestView(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var network simtest.Network
		p := begin(t, &network, newMemory())
		agents(t, &network, 1)
		until(t, "it is ready", func() bool { return states(p)["ready"] == 1 })
		r, err := p.Nodes().GetNode(t.Context(), &apipb.GetNodeRequest{Node: "node-1"})
		if err != nil {
			t.Fatal(err)
		}
		n := r.GetNode()
		if len(n.GetGpus()) != 2 || !n.GetGpus()[0].GetUsable() || n.GetGpus()[0].UtilizationRatio != nil || n.GetGpus()[0].GetMemoryUsedBytes() != 0 {
			t.Errorf("cards %v; want two that may be used, of no known utilization", n.GetGpus())
		}
		if n.GetState() != apipb.NodeState_NODE_STATE_READY || !n.GetConnected() || n.MemoryAvailableBytes != nil || n.GetMemoryBytes() != 512<<30 {
			t.Errorf("node %v", n)
		}
		if got := r.GetInventory().GetFields()["host"].GetStructValue().GetFields()["hostname"].GetStringValue(); got != "node-1" {
			t.Errorf("inventory's host %q; want node-1", got)
		}
	})
}

func TestConfig(t *testing.T) {
	if _, err := controlplane.New(controlplane.DefaultConfig(), controlplane.Deps{}); err == nil || !strings.Contains(err.Error(), "Store") {
		t.Errorf("without a store: %v", err)
	}
	cfg := controlplane.DefaultConfig()
	cfg.Cluster, cfg.StoreTimeout, cfg.Control.Heartbeat = "a/b", 0, 0
	err := cfg.Validate()
	for _, part := range []string{"cluster", "store_timeout", "heartbeat"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v does not name %s", err, part)
		}
	}
	cfg = controlplane.DefaultConfig()
	cfg.Control.UnreachableAfter, cfg.Control.LostAfter, cfg.Control.Heartbeat, cfg.Control.Tick = time.Second, 3*time.Second, 100*time.Millisecond, 100*time.Millisecond
	if err := cfg.Validate(); err == nil || err.Error() != "lost_after: 3s; want at least 4s: routers are asked each second at most whether a replica works" {
		t.Errorf("lost_after of 3s: %v", err)
	}
}
