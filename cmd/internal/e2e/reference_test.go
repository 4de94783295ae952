package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/llmgw/llmgw/engines/process"
)

// referenceRouter has requests that reach a machine that says nothing be tried
// elsewhere soon, and answers say which replica they are of.
const referenceRouter = `
router: {explain_to_loopback: true, timeouts: {response_header: 2s, first_token: 2s, idle: 2s}}
`

// referenceModel is a model whose replicas take four cards on each of two nodes.
const referenceModel = `
name: big
source: sim/big
profile: {engine: sim, ranks: 2, tensor_parallel: 8}
scaling: {min: 2, max: 2}
`

// Four machines of eight cards on two fabrics, a replica of two nodes on each. A
// machine falls silent whose replica goes on answering: nothing is done. A machine
// dies: its replica is lost when lost_after is over and no sooner, another one is
// ready on the fabric that holds all of it, the machine that is left has none of it
// any more and its cards are free, and no stream of the other replica is cut. It comes
// back empty. LLMGW_TEST_LOST_AFTER is the lost_after; default 4s.
func TestReferenceCluster(t *testing.T) {
	t.Parallel()
	lostAfter := setting(t, "LLMGW_TEST_LOST_AFTER", 4*time.Second)
	w := newWorld(t)
	w.lostAfter = lostAfter.String()
	s := w.server(referenceRouter)
	r := &router{program: s.program, client: "http://" + s.serving(t)["listen"]}
	nodes := map[string]*node{}
	for _, id := range []string{"a1", "a2", "b1", "b2"} {
		nodes[id] = w.node(nodeOptions{
			id: id, servers: []string{"http://" + s.agents}, cards: 8, infiniband: w.ports(id), slim: true,
			more: fmt.Sprintf("fabrics: [{name: %s, rate_gbps: 400}]", id[:1]),
		})
		nodes[id].start()
	}
	until(t, "all machines are free", func() bool { return w.fabric(s, "a").WholeFree == 2 && w.fabric(s, "b").WholeFree == 2 })
	w.ctl(s, "model", "add", "-f", w.write("big.yaml", referenceModel))
	within := func(what string, so func() bool) {
		t.Helper()
		eventuallyIn(t, patience+lostAfter, func() string {
			if so() {
				return ""
			}
			return "it is still not so that " + what
		})
	}
	within("two replicas are ready", func() bool { return len(w.inState(s, "big", "READY")) == 2 })
	r.serves(t, "big", "at first")
	ready := w.inState(s, "big", "READY")
	for _, one := range ready {
		if on := one.nodes(); len(on) != 2 || on[0][0] != on[1][0] {
			t.Fatalf("%s is on %v; want two nodes of one fabric", one.ID, on)
		}
	}
	if ready[0].Fabric == ready[1].Fabric {
		t.Fatalf("both are on fabric %s; want one on each", ready[0].Fabric)
	}
	victim, other := ready[0], ready[1]
	started := func() (n int) {
		for _, one := range nodes {
			n += len(one.started(t))
		}
		return n
	}
	if n := started(); n != 4 {
		t.Fatalf("%d engines were started; want 4", n)
	}
	load := r.traffic(t, "big", 4)

	// The machine of a rank that serves nothing: its replica shows that it works.
	silent := nodes[victim.nodes()[1]]
	silent.freeze(t, syscall.SIGSTOP)
	within("it is held", func() bool { return w.row(s, "big", victim.ID).Held != "" })
	served := func() int {
		load.mu.Lock()
		defer load.mu.Unlock()
		return load.picks[victim.ID]
	}
	until(t, "it is held while it answers", func() bool { return served() > 0 })
	before := served()
	until(t, "it answers still", func() bool { return served() >= before+20 })
	if now := w.row(s, "big", victim.ID); now.State != "REPLICA_STATE_READY" || now.Held == "" {
		t.Errorf("a replica that answers, of whose nodes one is silent, is %+v", now)
	}
	silent.freeze(t, syscall.SIGCONT)
	within("nothing is held", func() bool { return w.row(s, "big", victim.ID).Held == "" })
	if _, failed := load.counted(); len(failed) > 0 || started() != 4 {
		t.Errorf("behind a silent node: %d engines were started; failed: %v", started()-4, failed)
	}

	// The machine of the rank that serves: not a word more, and connections that hang.
	dead, survivor := nodes[victim.nodes()[0]], nodes[victim.nodes()[1]]
	died := time.Now()
	dead.freeze(t, syscall.SIGSTOP)
	within("it is lost", func() bool { return w.row(s, "big", victim.ID).State != "REPLICA_STATE_READY" })
	lost := time.Since(died)
	if was := w.row(s, "big", victim.ID); !strings.Contains(was.Reason, "is lost") {
		t.Errorf("it is %s since %q; want that node %s is lost", was.State, was.Reason, dead.id)
	}
	// What was heard last may be a heartbeat old.
	if lost < lostAfter-time.Second/2 {
		t.Errorf("it was lost after %v; want %v", lost, lostAfter)
	}
	within("another one is ready", func() bool { return len(w.inState(s, "big", "READY")) == 2 })
	replaced := time.Since(died)
	for _, now := range w.inState(s, "big", "READY") {
		on := now.nodes()
		if now.Fabric != other.Fabric || len(on) != 2 || on[0][:1] != other.Fabric || on[1][:1] != other.Fabric || on[0] == on[1] {
			t.Errorf("%s is on %v of fabric %s; want two nodes of %s", now.ID, on, now.Fabric, other.Fabric)
		}
		if now.ID == other.ID && (now.Generation != other.Generation || now.Address != other.Address || *now.Shards[0].Status != *other.Shards[0].Status) {
			t.Errorf("the other replica was touched: %+v; it was %+v", now, other)
		}
	}
	within("nothing of it is on the machine that is left", func() bool {
		return w.shards(s, "big", "starting", "loading", "ready", "draining", "stopping", "failed")[victim.ID] == nil
	})
	if pids := survivor.engines(t); len(pids) > 0 {
		t.Errorf("on %s engines %v run still", survivor.id, pids)
	}
	within("its cards are free", func() bool { f := w.fabric(s, victim.Fabric); return f.WholeFree == 1 && f.FreeCards == 8 })
	idle := time.Since(died)
	if f := w.fabric(s, other.Fabric); f.FreeCards != 0 {
		t.Errorf("on fabric %s, where two replicas run, %d cards are free", f.Fabric, f.FreeCards)
	}

	// It was frozen, and is now switched off; and on again.
	dead.kill(syscall.SIGKILL)
	dead.killEngines(t)
	dead.start()
	within("both machines of its fabric are free", func() bool { f := w.fabric(s, victim.Fabric); return f.WholeFree == 2 && f.FreeCards == 16 })
	within("no row is left of what was lost", func() bool { rows, known := w.rows(s, "big"); return known && len(rows) == 2 })
	if n := started(); n != 6 {
		t.Errorf("%d engines were started; want 4 at first and 2 more", n)
	}
	whole, failed := load.end()
	var hung []error
	for _, err := range failed {
		if one, is := errors.AsType[*result](err); is && one.pick == victim.ID {
			hung = append(hung, err) // it had tokens of the machine that died
			continue
		}
		t.Errorf("of another replica: %v", err)
	}
	if len(hung) > 4 {
		t.Errorf("%d streams ended with the machine that died; its clients were 4: %v", len(hung), hung)
	}
	t.Logf("lost_after %v: lost after %v, another one ready after %v, the other machine idle after %v; %d streams whole, %d of the dead machine's cut",
		lostAfter, lost.Round(10*time.Millisecond), replaced.Round(10*time.Millisecond), idle.Round(10*time.Millisecond), whole, len(hung))
}

// freeze has a machine say nothing any more by SIGSTOP, agent and engines, and go
// on by SIGCONT: nobody is told that it is gone, and its connections hang.
func (n *node) freeze(t *testing.T, s syscall.Signal) {
	t.Helper()
	n.signal(s)
	for _, pid := range n.engines(t) {
		if err := syscall.Kill(pid, s); err != nil {
			t.Error(err)
		}
	}
}

// engines are the processes of a node's engines that run.
func (n *node) engines(t *testing.T) (pids []int) {
	t.Helper()
	marked, err := process.FindMarked()
	if err != nil {
		t.Fatal(err)
	}
	instance, err := os.ReadFile(filepath.Join(n.state, "instance"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range marked {
		if strings.HasSuffix(m.ID, "."+strings.ToLower(string(instance[:8]))) {
			pids = append(pids, m.PID)
		}
	}
	return slices.Compact(pids)
}

// killEngines kills every engine of a node, as a machine that dies does.
func (n *node) killEngines(t *testing.T) {
	t.Helper()
	for _, pid := range n.engines(t) {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			t.Error(err)
		}
	}
}
