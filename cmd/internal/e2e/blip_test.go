package e2e

import (
	"net/http"
	"syscall"
	"testing"

	"github.com/llmgw/llmgw/engines"
)

// An agent that stands still for longer than unreachable_after, and then a control
// plane that does, change nothing on the machine: replicas are as they were, serve
// all the time, and an order that was given meanwhile is done once.
func TestBlip(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.plane()
	n := w.node(nodeOptions{id: "blip", servers: []string{"http://" + p.agents}, more: "log: {level: debug}"})
	n.start()
	wish := spec("m", 1)
	p.done(order{Node: n.id, Start: &wish})
	was := p.awaitShard(n.id, "m", 1, engines.ShardReady)
	serves := func(when string) {
		t.Helper()
		if err := stream(t.Context(), http.DefaultClient, "http://"+was.Address, "m", 20, nil); err != nil {
			t.Errorf("%s: %v", when, err)
		}
	}

	n.signal(syscall.SIGSTOP)
	other := spec("m-2", 1)
	given := make(chan outcome, 1)
	go func() {
		var out outcome
		_ = p.ask("/order", order{Node: n.id, Start: &other}, &out)
		given <- out
	}()
	silent := p.awaitNode(n.id, "unreachable", func(v view) bool { return v.State == "unreachable" })
	if s := silent.shard("m", 1); s.State != engines.ShardReady || s.PID != was.PID {
		t.Errorf("of a node that is not reached the shard is %+v; want it as it was last heard", s)
	}
	serves("while the agent stands still")
	n.signal(syscall.SIGCONT)
	<-given // answered, or given up: it is given again
	p.awaitNode(n.id, "ready", func(v view) bool { return v.State == "ready" && v.Connected })
	p.done(order{Node: n.id, Start: &other})
	p.awaitShard(n.id, "m-2", 1, engines.ShardReady)

	before := n.said("answers no heartbeat")
	p.signal(syscall.SIGSTOP)
	until(t, "the agent gives the stream up", func() bool { return n.said("answers no heartbeat") > before })
	serves("while the control plane stands still")
	p.signal(syscall.SIGCONT)
	now := p.awaitShard(n.id, "m", 1, engines.ShardReady)
	if now.PID != was.PID || now.Start != was.Start {
		t.Errorf("the engine is %+v; it was %+v", now, was)
	}
	if got := n.started(t); len(got) != 2 {
		t.Errorf("engines were started %d times for 2 ordered: %v", len(got), got)
	}
	if p.said("node is silent") > 1 {
		t.Errorf("the control plane took its own sleep for the node's:\n%s", p.tail())
	}
}

// signal sends a signal and waits for nothing.
func (p *program) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}
