package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/control"
)

// The steps of a row: "-" ends what follows, an agent or a control plane, by
// SIGKILL or SIGTERM, and "+" starts it.
const (
	killAgent = "-agent KILL"
	termAgent = "-agent TERM"
	agentBack = "+agent"
	killPlane = "-plane KILL"
	termPlane = "-plane TERM"
	planeBack = "+plane"
)

// killings returns the rows: the few that every run of the tests plays, and with
// LLMGW_TEST_KILLS every order of ends and starts of one agent and one control
// plane, by both signals.
func killings() [][]string {
	rows := [][]string{
		{termAgent, termPlane, agentBack, planeBack},
		{killPlane, killAgent, planeBack, agentBack},
	}
	if os.Getenv("LLMGW_TEST_KILLS") == "" {
		return rows
	}
	rows = append(rows, []string{killAgent, agentBack}, []string{killPlane, planeBack},
		[]string{killAgent, agentBack, killAgent, agentBack}) // the second while it takes up what runs
	rows = append(rows, []string{termAgent, agentBack}, []string{termPlane, planeBack}, []string{killPlane, planeBack, killPlane, planeBack})
	for _, agent := range []string{killAgent, termAgent} {
		for _, plane := range []string{killPlane, termPlane} {
			for _, back := range [][]string{{agentBack, planeBack}, {planeBack, agentBack}} {
				for _, ends := range [][]string{{agent, plane}, {plane, agent}} {
					if row := slices.Concat(ends, back); !slices.ContainsFunc(rows, func(r []string) bool { return slices.Equal(r, row) }) {
						rows = append(rows, row)
					}
				}
			}
		}
	}
	return rows
}

// An agent and a control plane are ended and started in every order while a replica
// is in each state of its life: ordered at this moment, loading, ready, draining
// and stopping. No engine is started that was not ordered, none is started twice,
// each keeps its process, every order is done once, and of the requests that a
// router sends to the engine that serves, none fails.
func TestKilled(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano()) //nolint:gosec // any number
	t.Logf("seed %d", seed)
	k := &killing{t: t, world: newWorld(t), random: rand.New(rand.NewPCG(seed, 0))} //nolint:gosec // moments, not secrets
	k.plane = k.world.plane()
	k.node = k.world.node(nodeOptions{id: "a1", servers: []string{"http://" + k.plane.agents}, cards: 2, ports: 400})
	k.node.start()
	k.order("steady", 1)
	k.steady = k.plane.awaitShard(k.node.id, "steady", 1, engines.ShardReady)
	router := k.world.router(map[string]string{"steady": "http://" + k.steady.Address})
	traffic := router.traffic(t, "steady", 2)
	for i, steps := range killings() {
		if !t.Run(strings.Join(steps, ","), func(t *testing.T) { k.row(t, 10*uint64(i)+10, steps) }) {
			break
		}
		if _, failed := traffic.counted(); len(failed) > 0 {
			t.Fatalf("after %v: %d requests failed: %v", steps, len(failed), failed)
		}
	}
	whole, failed := traffic.end()
	if len(failed) > 0 || whole == 0 {
		t.Errorf("%d streams were whole, %d failed: %v", whole, len(failed), failed)
	}
	now := k.plane.awaitShard(k.node.id, "steady", 1, engines.ShardReady)
	if now.PID != k.steady.PID || now.Start != k.steady.Start {
		t.Errorf("the engine that serves is %d %s; it was %d %s", now.PID, now.Start, k.steady.PID, k.steady.Start)
	}
	t.Logf("%d rows, %d kills, %d engine starts for %d ordered, %d ordered again, %d streams whole, %d failed",
		len(killings()), k.kills, len(k.node.started(t)), len(k.wanted), k.again, whole, len(failed))
}

// killing is the state of the test over its rows.
type killing struct {
	t      *testing.T
	world  *world
	random *rand.Rand
	plane  *plane
	node   *node
	steady engines.ShardStatus
	wanted []string // "REPLICA GENERATION" that were ordered to start
	kills  int
	again  int // orders that were given again
}

// order orders a replica to start.
func (k *killing) order(replica string, generation uint64, options ...func(*engines.ShardSpec)) {
	k.wanted = append(k.wanted, fmt.Sprint(replica, " ", generation))
	s := spec(replica, generation, options...)
	k.plane.done(order{Node: k.node.id, Start: &s})
}

// row plays one row.
func (k *killing) row(t *testing.T, generation uint64, steps []string) {
	// The helpers fail the test that they belong to.
	k.t, k.plane.t, k.node.t = t, t, t
	node := k.node.id
	id := func(replica string) engines.ShardID { return engines.ShardID{Replica: replica} }

	// Two that will have a request to finish, and one that takes long to load.
	k.order("draining", generation)
	k.order("stopping", generation, with("shutdown_timeout", "30s"))
	k.order("loading", generation, with("load_time", "1s"))
	draining := k.plane.awaitShard(node, "draining", generation, engines.ShardReady)
	stopping := k.plane.awaitShard(node, "stopping", generation, engines.ShardReady)
	loading := k.plane.awaitShard(node, "loading", generation, engines.ShardLoading, engines.ShardReady)
	last := make(chan error, 2)
	for _, s := range []engines.ShardStatus{draining, stopping} {
		begun := make(chan struct{})
		go func() {
			last <- stream(t.Context(), http.DefaultClient, "http://"+s.Address, s.ID.Replica, 160, func() { close(begun) })
		}()
		<-begun
	}
	k.plane.done(order{Node: node, Drain: new(id("draining")), Generation: generation})
	k.plane.done(order{Node: node, Stop: &control.Stop{Shard: id("stopping"), Generation: generation, Reason: "test"}})
	k.plane.awaitShard(node, "draining", generation, engines.ShardDraining)

	// One is ordered while everything is killed.
	ordered := make(chan struct{})
	go func() {
		defer close(ordered)
		k.order("ordered", generation)
	}()
	k.play(steps)
	<-ordered

	for _, was := range []engines.ShardStatus{draining, loading, k.steady} {
		states := []engines.ShardState{engines.ShardReady}
		if was.ID.Replica == "draining" {
			states = []engines.ShardState{engines.ShardDraining}
		}
		now := k.plane.awaitShard(node, was.ID.Replica, was.Generation, states...)
		if now.PID != was.PID || now.Start != was.Start || now.Address != was.Address {
			t.Errorf("%s is process %d, start %s at %s; it was %d, %s at %s", was.ID, now.PID, now.Start, now.Address, was.PID, was.Start, was.Address)
		}
	}
	fresh := k.sees(t, "ordered", generation)
	for range 2 {
		if err := <-last; err != nil {
			t.Errorf("a request inside an engine that drains or stops: %v", err)
		}
	}
	k.plane.awaitShard(node, "stopping", generation, engines.ShardStopped)
	for _, s := range []engines.ShardStatus{draining, loading, fresh, k.steady} {
		if pids := k.node.running(t, s.ID.Replica); !slices.Equal(pids, []int{s.PID}) {
			t.Errorf("of %s run processes %v; want %d alone", s.ID, pids, s.PID)
		}
	}
	for _, s := range []engines.ShardStatus{fresh, loading, draining} {
		k.plane.done(order{Node: node, Stop: &control.Stop{Shard: s.ID, Generation: s.Generation, Reason: "test"}})
	}
	for _, s := range []engines.ShardStatus{fresh, loading, draining, stopping} {
		k.plane.awaitShard(node, s.ID.Replica, s.Generation, engines.ShardStopped)
		if pids := k.node.running(t, s.ID.Replica); len(pids) > 0 {
			t.Errorf("of %s, which is stopped, run processes %v", s.ID, pids)
		}
	}
	k.count(t)
}

// sees waits until a replica that was ordered is ready, as who looks after
// replicas does. What an agent had said to have begun, and was killed before it did,
// is not there when it comes back, and is ordered again; a start that was cut off on
// its way is failed, says so, and is ordered with the next generation.
func (k *killing) sees(t *testing.T, replica string, generation uint64) engines.ShardStatus {
	n := k.plane.awaitNode(k.node.id, "connected with "+replica, func(n view) bool {
		if n.Connected && n.shard(replica, generation).State == engines.ShardUnset {
			s := spec(replica, generation)
			k.plane.done(order{Node: k.node.id, Start: &s})
			k.again++
			return false
		}
		return n.Connected
	})
	if now := n.shard(replica, generation); now.State == engines.ShardFailed && strings.Contains(now.Reason, "start was interrupted") && now.Advice != "" {
		k.again++
		k.wanted = slices.DeleteFunc(k.wanted, func(w string) bool { return w == fmt.Sprint(replica, " ", generation) })
		generation++
		k.order(replica, generation)
	}
	return k.plane.awaitShard(k.node.id, replica, generation, engines.ShardReady)
}

// play ends and starts agent and control plane, each at a moment that is drawn.
func (k *killing) play(steps []string) {
	for _, step := range steps {
		time.Sleep(time.Duration(k.random.IntN(150)) * time.Millisecond) // the moment is what is tested
		switch step {
		case killAgent:
			k.node.kill(syscall.SIGKILL)
		case termAgent:
			k.node.kill(syscall.SIGTERM)
		case agentBack:
			k.node.start()
			continue
		case killPlane:
			k.plane.kill(syscall.SIGKILL)
		case termPlane:
			k.plane.kill(syscall.SIGTERM)
		case planeBack:
			k.plane.start()
			continue
		}
		k.kills++
	}
}

// count compares the engines that were ever started with those that were ordered.
func (k *killing) count(t *testing.T) {
	var have []string
	for _, s := range k.node.started(t) {
		have = append(have, fmt.Sprint(s.replica, " ", s.generation))
	}
	want := slices.Clone(k.wanted)
	slices.Sort(have)
	slices.Sort(want)
	if !slices.Equal(have, want) {
		t.Errorf("engines were started as %q; ordered were %q", have, want)
	}
}
