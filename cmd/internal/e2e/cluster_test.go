package e2e

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/llmgw/llmgw/engines"
)

// Agents that are processes of their own make one cluster: three with simulated
// cards, and one without a card, which runs llama.cpp where LLMGW_TEST_LLAMACPP
// names its executable and LLMGW_TEST_MODEL a model file, and else a simulated
// engine. All serve behind one router, and all come back to a control plane that
// was killed.
func TestCluster(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.plane()
	cpu := spec("words", 1)
	offered := ""
	if llama := os.Getenv("LLMGW_TEST_LLAMACPP"); llama != "" {
		offered = "llamacpp: " + llama
		cpu.Profile = engines.Profile{
			Engine: engines.LlamaCPP, Model: os.Getenv("LLMGW_TEST_MODEL"), ServedNames: []string{"words"}, CPU: true,
			ContextTokens: 2048, MaxRunning: 2, ExtraArgs: []string{"--threads", "1", "--poll", "0"}, // spares a busy machine
		}
	}
	wishes := map[string]engines.ShardSpec{"cpu-1": cpu}
	var nodes []*node
	for i := range 3 {
		id := fmt.Sprintf("gpu-%d", i+1)
		wish := spec("m-"+id, 1)
		wish.Profile.CPU, wish.Cards = false, []string{"SIM-" + id + "-1"}
		wishes[id] = wish
		nodes = append(nodes, w.node(nodeOptions{id: id, servers: []string{"http://" + p.agents}, cards: 2, slim: i > 0}))
	}
	nodes = append(nodes, w.node(nodeOptions{id: "cpu-1", servers: []string{"http://" + p.agents}, engines: offered, slim: true}))
	for _, n := range nodes {
		n.start()
	}
	endpoints := map[string]string{}
	was := map[string]engines.ShardStatus{}
	for _, n := range nodes {
		wish := wishes[n.id]
		p.done(order{Node: n.id, Start: &wish})
	}
	for _, n := range nodes {
		s := p.awaitShard(n.id, wishes[n.id].ID.Replica, 1, engines.ShardReady)
		was[n.id], endpoints[s.ID.Replica] = s, "http://"+s.Address
	}
	seen, _ := p.node("gpu-2")
	if cards := seen.Inventory.GPUs; len(cards) != 2 || cards[1].ID() != "SIM-gpu-2-1" || cards[1].Vendor != engines.SimulatedCard {
		t.Errorf("gpu-2 has %+v", cards)
	}
	if seen, _ = p.node("cpu-1"); len(seen.Inventory.GPUs) != 0 || seen.Inventory.CPU.Model == "" {
		t.Errorf("cpu-1 has %+v", seen.Inventory)
	}

	r := w.router(endpoints)
	p.kill(syscall.SIGKILL)
	for model := range endpoints {
		if err := stream(t.Context(), http.DefaultClient, r.client, model, 20, nil); err != nil {
			t.Errorf("%s while there is no control plane: %v", model, err)
		}
	}
	p.start()
	for _, n := range nodes {
		now := p.awaitShard(n.id, was[n.id].ID.Replica, 1, engines.ShardReady)
		if now.PID != was[n.id].PID || now.Start != was[n.id].Start || now.Adopted {
			t.Errorf("%s: %+v; it was %+v", n.id, now, was[n.id])
		}
		if n.id != "cpu-1" || offered == "" { // llama.cpp is started by itself
			if got := n.started(t); len(got) != 1 {
				t.Errorf("%s: engines were started %d times: %v", n.id, len(got), got)
			}
		}
	}
}

// An agent listens on nothing: it registers and serves engines by what it dials.
// With LLMGW_TEST_NAMESPACES, for which it takes root, it lives in a network of
// its own.
func TestListensOnNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := nodeOptions{id: "alone", address: "127.0.0.1", slim: true}
	here := "127.0.0.1"
	if namespaces() {
		here, o.address = "10.213.77.1", "10.213.77.2"
		o.wrap = w.network(here, o.address)
	}
	p := w.planeAt(here)
	o.servers = []string{"http://" + p.agents}
	n := w.node(o)
	n.start()
	p.awaitNode("alone", "connected", func(v view) bool { return v.Connected })
	if got := listening(t, n.cmd.Process.Pid); len(got) > 0 {
		t.Errorf("the agent listens: %q", got)
	}
	wish := spec("m", 1)
	p.done(order{Node: "alone", Start: &wish})
	s := p.awaitShard("alone", "m", 1, engines.ShardReady)
	if !strings.HasPrefix(s.Address, o.address+":") {
		t.Errorf("the engine is at %s; want %s", s.Address, o.address)
	}
	if err := stream(t.Context(), http.DefaultClient, w.router(map[string]string{"m": "http://" + s.Address}).client, "m", 20, nil); err != nil {
		t.Errorf("by the address that the node advertises: %v", err)
	}
	if got := listening(t, n.cmd.Process.Pid); len(got) > 0 {
		t.Errorf("the agent listens: %q", got)
	}
	n.kill(syscall.SIGKILL)
	n.start()
	if again := p.awaitNode("alone", "connected in another run", func(v view) bool { return v.Connected && v.shard("m", 1).Adopted }).shard("m", 1); again.PID != s.PID {
		t.Errorf("the engine is process %d; it was %d", again.PID, s.PID)
	}
}

func namespaces() bool { return os.Getenv("LLMGW_TEST_NAMESPACES") != "" }

// listening returns the TCP and UDP sockets of a process that take what comes.
func listening(t *testing.T, pid int) []string {
	t.Helper()
	fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil || len(fds) == 0 {
		t.Fatalf("the files of process %d: %v, %v", pid, fds, err)
	}
	sockets := map[string]bool{}
	for _, fd := range fds {
		if to, err := os.Readlink(fd); err == nil {
			if inode, is := strings.CutPrefix(to, "socket:["); is {
				sockets[strings.TrimSuffix(inode, "]")] = true
			}
		}
	}
	var out []string
	for _, table := range []string{"tcp", "tcp6", "udp", "udp6"} {
		for line := range strings.Lines(text(fmt.Sprintf("/proc/%d/net/%s", pid, table))) {
			f := strings.Fields(line)
			// The state 0A is LISTEN, 07 a UDP socket that is not connected.
			if len(f) > 9 && sockets[f[9]] && (f[3] == "0A" || f[3] == "07") {
				out = append(out, line)
			}
		}
	}
	return out
}

// network makes a network namespace that one cable joins to this machine's, and
// returns the command that runs others in it.
func (w *world) network(here, there string) []string {
	w.t.Helper()
	name := networkName(runToken)
	must := func(args ...string) {
		w.t.Helper()
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil { //nolint:gosec,noctx // it returns at once
			w.t.Fatalf("ip %q: %v: %s", args, err, out)
		}
	}
	must("netns", "add", name)
	w.t.Cleanup(func() { must("netns", "del", name) }) // and the cable with it
	cable := fmt.Sprintf("e2e%d", os.Getpid()%100000)
	must("link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", name)
	must("addr", "add", here+"/30", "dev", cable)
	must("link", "set", cable, "up")
	must("-n", name, "addr", "add", there+"/30", "dev", "eth0")
	must("-n", name, "link", "set", "eth0", "up")
	must("-n", name, "link", "set", "lo", "up")
	return []string{"ip", "netns", "exec", name}
}
