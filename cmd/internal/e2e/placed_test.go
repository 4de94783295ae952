package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// placedModels is a model whose replicas take eight cards on each of two nodes, and
// one that takes four of one of two others.
const placedModels = `
models:
  - name: big
    source: sim/big
    profile: {engine: sim, ranks: 2, tensor_parallel: 16}
    scaling: {min: 2, max: 2}
  - name: small
    source: sim/small
    profile: {engine: sim, tensor_parallel: 4, max_running: %d}
    placement: {nodes: [c1, c2]}
    scaling: {min: 1, max: 1}
`

// Four machines of eight cards on two fabrics, and two of four: models are placed
// on them, a control plane that is killed adopts what runs, a node whose processes
// die takes its replica with it and no stream of the other, and a node is drained and a
// profile changed under load without a failed request. With LLMGW_TEST_KILLS; without,
// nothing is drained or changed.
func TestPlaced(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.lostAfter = "4s"
	s := w.server(fmt.Sprintf(placedModels, 8))
	r := &router{program: s.program, client: "http://" + s.serving(t)["listen"]}
	nodes := map[string]*node{}
	for i, fabric := range []string{"a", "a", "b", "b", "c", "c"} {
		id := fmt.Sprintf("%s%d", fabric, i%2+1)
		nodes[id] = w.node(nodeOptions{
			id: id, servers: []string{"http://" + s.agents}, cards: map[string]int{"a": 8, "b": 8, "c": 4}[fabric], infiniband: w.ports(id), slim: true,
			more: fmt.Sprintf("fabrics: [{name: %s, rate_gbps: 400}]", fabric),
		})
		nodes[id].start()
	}
	answers := func(model string, tokens int) error {
		return stream(t.Context(), http.DefaultClient, r.client, model, tokens, nil)
	}
	serve := func(when string) {
		t.Helper()
		for _, model := range []string{"big", "small"} {
			eventually(t, func() string {
				if err := answers(model, 5); err != nil {
					return fmt.Sprintf("%s: %s: %v", when, model, err)
				}
				return ""
			})
		}
	}
	serve("at first")
	until(t, "two replicas of big", func() bool { return len(w.replicas(s, "big")) == 2 })
	for id, on := range w.replicas(s, "big") {
		if len(on) != 2 || on[0][0] != on[1][0] {
			t.Errorf("%s is on %v; want two nodes of one fabric", id, on)
		}
	}

	started := func() (n int) {
		for _, n1 := range nodes {
			n += len(n1.started(t))
		}
		return n
	}
	before := started()
	s.kill(syscall.SIGKILL)
	s.start()
	r.client = "http://" + s.serving(t)["listen"]
	serve("behind the next control plane")
	if n := started(); n != before {
		t.Errorf("%d engines were started behind it", n-before)
	}

	until(t, "all nodes are back", func() bool { return len(w.replicas(s, "big")) == 2 && len(w.places(s, "small")) == 1 })
	var lost string
	for id := range w.replicas(s, "big") {
		lost = id
	}
	on := w.replicas(s, "big")[lost]
	dead := nodes[on[0]]
	dead.kill(syscall.SIGKILL)
	dead.killEngines(t)
	until(t, "its replica is gone", func() bool { return w.replicas(s, "big")[lost] == nil && len(w.replicas(s, "big")) == 1 })
	load := r.traffic(t, "big", 2)
	for range 5 {
		if err := answers("big", 50); err != nil {
			t.Errorf("on the other fabric: %v", err)
		}
	}
	if _, failed := load.end(); len(failed) > 0 {
		t.Errorf("on the other fabric: %v", failed)
	}
	for id, at := range w.replicas(s, "big") {
		if at[0][0] != at[1][0] || slices.Contains(at, dead.id) {
			t.Errorf("%s is on %v", id, at)
		}
	}
	dead.start()
	until(t, "two replicas of big again", func() bool { return len(w.replicas(s, "big")) == 2 })
	serve("after a machine came back")

	if os.Getenv("LLMGW_TEST_KILLS") == "" {
		return // for half a minute after a control plane came to lead, drains wait
	}
	at := w.places(s, "small")[0]
	load = r.traffic(t, "small", 2)
	w.ctl(s, "drain", at)
	until(t, "small is elsewhere", func() bool { now := w.places(s, "small"); return len(now) == 1 && now[0] != at })
	w.ctl(s, "uncordon", at)
	w.write("server.yaml", strings.ReplaceAll(text(filepath.Join(w.dir, "server.yaml")), "max_running: 8", "max_running: 9"))
	before = started()
	s.signal(syscall.SIGHUP)
	until(t, "small is rolled", func() bool { return started() == before+1 && len(w.places(s, "small")) == 1 })
	if whole, failed := load.end(); len(failed) > 0 || whole == 0 {
		t.Errorf("while small moved: %d whole, failed: %v", whole, failed)
	}

}

// ports makes the directory that stands for a node's adapters, and returns it.
func (w *world) ports(id string) string {
	w.t.Helper()
	dir := filepath.Join(w.dir, id+".infiniband")
	cmd := exec.Command("sh", "../../../examples/simulated/infiniband.sh", dir, "2", "400") //nolint:gosec,noctx // of this repository
	if out, err := cmd.CombinedOutput(); err != nil {
		w.t.Fatalf("%v: %s", err, out)
	}
	return dir
}

// shards asks a server which nodes have shards of a model's replicas in some
// states: nodes by replica, in order.
func (w *world) shards(s *server, model string, states ...string) map[string][]string {
	w.t.Helper()
	resp, err := http.Post("http://"+s.admin+"/llmgw.api.v1.NodeService/ListNodes", "application/json", strings.NewReader("{}")) //nolint:noctx // it answers or is gone
	if err != nil {
		return nil
	}
	defer resp.Body.Close()
	var list struct {
		Nodes []struct {
			ID, State string
			Shards    []struct{ Replica, State string }
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&list); err != nil {
		w.t.Fatal(err)
	}
	out := map[string][]string{}
	for _, n := range list.Nodes {
		if n.State != "NODE_STATE_READY" {
			continue // what it was heard of last is old
		}
		for _, shard := range n.Shards {
			if strings.HasPrefix(shard.Replica, model+"-") && slices.Contains(states, shard.State) {
				out[shard.Replica] = append(out[shard.Replica], n.ID)
			}
		}
	}
	return out
}

// replicas are those of a model of which both ranks are ready, on nodes that are
// heard.
func (w *world) replicas(s *server, model string) map[string][]string {
	w.t.Helper()
	out := w.shards(s, model, "ready")
	for id, on := range out {
		if len(on) != 2 {
			delete(out, id)
		}
	}
	return out
}

// places are the nodes on which anything of a model is that is not stopped.
func (w *world) places(s *server, model string) (nodes []string) {
	w.t.Helper()
	for _, on := range w.shards(s, model, "starting", "loading", "ready", "draining", "stopping", "failed") {
		nodes = append(nodes, on...)
	}
	return nodes
}
