package e2e

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/process"
)

// node is an agent under test.
type node struct {
	*program
	id     string
	state  string // its directory
	starts string // a file with a line for each engine that was ever started
	file   string // its configuration
}

// nodeOptions are what differs between nodes.
type nodeOptions struct {
	id         string
	slim       bool     // llmgw-agent in place of llmgw agent
	servers    []string // URLs
	address    string   // default 127.0.0.1
	state      string   // the state directory; default one below the world's
	cards      int      // simulated ones
	infiniband string   // a directory of its adapters, beside simulated cards
	root       string   // a machine that does not exist, in place of simulated cards
	more       string   // further keys of agent.yaml
	engines    string   // entries of engines beside sim, such as "llamacpp: /bin/llama-server"
	wrap       []string // a command before the agent's own
	ports      int      // how many engines may get; default 10
	rest       string   // how long a freed one rests; default the agent's own
	aliases    []string // names that each of its simulated engines answers to, beside its own
}

// node makes an agent, which does not run yet.
func (w *world) node(o nodeOptions) *node {
	w.t.Helper()
	n := &node{id: o.id, state: o.state, starts: filepath.Join(w.dir, o.id+".starts")}
	if n.state == "" {
		n.state = filepath.Join(w.dir, o.id+".state")
	}
	if o.address == "" {
		o.address = "127.0.0.1"
	}
	// A witness of engines' starts that is nobody's but the operating system's: who
	// starts an engine runs this.
	engine := w.write(o.id+".engine", fmt.Sprintf("#!/bin/sh\necho \"$$ $%s\" >>%s\n"+
		"for m in %s; do case \" $* \" in *\" --model=$m \"*) ;; *) set -- \"$@\" --alias=$m;; esac; done\n"+
		"exec %s \"$@\"\n", process.Marker, n.starts, strings.Join(o.aliases, " "), binary(w.t, "llmgw")))
	cards := "[]"
	if o.cards > 0 {
		cards = fmt.Sprintf("[{count: %d, name: Simulated, memory_bytes: 85899345920}]", o.cards)
	}
	machine := "simulated: " + w.write(o.id+".cards.yaml", fmt.Sprintf("host: {hostname: %s}\ngpus: %s\n", o.id, cards))
	if o.infiniband != "" {
		machine += ", infiniband: " + o.infiniband
	}
	if o.root != "" {
		machine = "command_timeout: 500ms, root: " + o.root
	}
	if o.ports == 0 {
		o.ports = 10
	}
	first := freePorts(o.ports)
	n.file = w.write(o.id+".yaml", fmt.Sprintf(`
node: %s
servers: [%s]
state_dir: %s
address: %s
engines: {sim: %s%s}
port_range: {first: %d, last: %d%s}
reconnect: {delay: 50ms, max_delay: 300ms, refused_max_delay: 2s}
load_interval: 1s
process: {poll: 20ms, probe_every: 50ms, hand_on: [PATH, HOME, LD_LIBRARY_PATH, %s]}
plugins: {environment: [PATH, HOME, %s]}
hardware: {%s}
%s`, o.id, strings.Join(o.servers, ", "), n.state, o.address, engine, prefixed(", ", o.engines), first, first+o.ports-1, prefixed(", rest: ", o.rest), tokenName, tokenName, machine, o.more))
	args := []string{binary(w.t, "llmgw"), "agent", "-c", n.file}
	if o.slim {
		args = []string{binary(w.t, "llmgw-agent"), "run", "-c", n.file}
	}
	n.program = w.program(o.id, append(o.wrap, args...)...)
	return n
}

func prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}

// enginePorts is how many ports freePorts has given out.
var enginePorts atomic.Int64

// portBlock is the first of the ports that are this run's, of a block that no other
// run on this machine has, and what says so for as long as the process lives. Those
// that a run before had are not free for a minute, so that it is not always the same.
var portBlock = sync.OnceValues(func() (first int, held net.Listener) {
	for first = 22000; first < 29500; first += 1500 {
		var err error
		if held, err = net.Listen("unix", fmt.Sprintf("@llmgw-e2e-ports-%d", first)); err == nil { //nolint:noctx // held to the end
			break
		}
	}
	return first + rand.IntN(700), held
})

// freePorts returns the first of some ports in a row, which are the caller's alone.
func freePorts(count int) int {
	first, _ := portBlock()
	return first + int(enginePorts.Add(int64(count))) - count
}

// start is one start of an engine: its process and the mark it carries.
type start struct {
	pid        int
	replica    string
	generation uint64
	name       string
}

// started returns every start of an engine that the node has ever made, by the
// processes' own word.
func (n *node) started(t *testing.T) []start {
	t.Helper()
	data, err := os.ReadFile(n.starts)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	var out []start
	for line := range bytes.Lines(data) {
		out = append(out, parseStart(t, string(line)))
	}
	return out
}

// parseStart reads "PID REPLICA.RANK.INSTANCE/GENERATION/START/PROCESS".
func parseStart(t *testing.T, line string) start {
	t.Helper()
	pid, mark, _ := strings.Cut(strings.TrimSpace(line), " ")
	parts := strings.Split(mark, "/")
	if len(parts) != 4 {
		t.Fatalf("a start without a mark: %q", line)
	}
	var s start
	var err error
	if s.pid, err = strconv.Atoi(pid); err != nil {
		t.Fatal(err)
	}
	if s.generation, err = strconv.ParseUint(parts[1], 10, 64); err != nil {
		t.Fatal(err)
	}
	s.replica, _, _ = strings.Cut(parts[0], ".")
	s.name = parts[2]
	return s
}

// running returns the processes that run of a shard's engine now, by the marks
// that processes carry.
func (n *node) running(t *testing.T, replica string) []int {
	t.Helper()
	marked, err := process.FindMarked()
	if err != nil {
		t.Fatal(err)
	}
	instance, err := os.ReadFile(filepath.Join(n.state, "instance"))
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, m := range marked {
		if m.ID == replica+".0."+strings.ToLower(string(instance[:8])) {
			pids = append(pids, m.PID)
		}
	}
	return pids
}

// spec is a wish for a simulated engine.
func spec(replica string, generation uint64, change ...func(*engines.ShardSpec)) engines.ShardSpec {
	s := engines.ShardSpec{
		ID: engines.ShardID{Replica: replica}, Generation: generation,
		Profile: engines.Profile{Engine: engines.Sim, ServedNames: []string{replica}, CPU: true, Options: map[string]string{}},
	}
	for _, f := range change {
		f(&s)
	}
	return s
}

// with sets an option of the simulated engine.
func with(key, value string) func(*engines.ShardSpec) {
	return func(s *engines.ShardSpec) { s.Profile.Options[key] = value }
}
