package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/llmgw/llmgw/fleet/api"
	"github.com/llmgw/llmgw/fleet/apipb"
)

// ending is how a server ends.
type ending struct {
	name   string
	signal syscall.Signal
}

func killed() ending { return ending{"killed", syscall.SIGKILL} }

func inGoodOrder() ending { return ending{"ended in good order", syscall.SIGTERM} }

// restarts ends a server and starts it anew, in several ways.
func (b *bench) restarts(ctx context.Context, ends ...ending) error {
	certs, err := newCertificates()
	if err != nil {
		return err
	}
	s, err := newServer(ctx, b.opts, filepath.Join(b.dir, "restart"), certs)
	if err != nil {
		return err
	}
	defer func() { s.process.Stop() }() // the last one
	nodes := b.opts.restart
	f, err := startFleet(ctx, s, certs, fleetOptions{nodes: nodes, backoff: b.opts.backoff})
	if err != nil {
		return err
	}
	defer f.stop()
	took, err := until(ctx, time.Minute, "all agents have come", func() bool { return f.Connected() == nodes })
	if err != nil {
		return err
	}
	fmt.Fprintf(b.out, "%d agents of a new server: all there after %v\n", nodes, took.Round(10*time.Millisecond))
	for _, r := range ends {
		if !pause(ctx, 2*b.opts.journal+200*time.Millisecond) { // until all are in the journal
			return context.Cause(ctx)
		}
		back, err := b.restart(ctx, s, f, r.signal)
		if err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
		fmt.Fprintf(b.out, "%s and started anew: %s\n", r.name, back)
	}
	return nil
}

// comeback is how the agents of a server that ended found the next one.
type comeback struct {
	agents  int
	ready   time.Duration // from the end of the one until the next was ready
	all     time.Duration // from the end until the last agent was back
	seconds []int         // agents that came back, by the second since the end
	cpu     time.Duration // of the new server until then
	peakRSS int64
}

func (c *comeback) String() string {
	spread := make([]string, len(c.seconds))
	for i, n := range c.seconds {
		spread[i] = fmt.Sprint(n)
	}
	return fmt.Sprintf("ready after %.2f s, all %d agents back after %.2f s; by the second: %s; the server's CPU until then %v, peak RSS %d MiB",
		c.ready.Seconds(), c.agents, c.all.Seconds(), strings.Join(spread, " "), c.cpu.Round(time.Millisecond), c.peakRSS>>20)
}

// restart ends the server, starts it anew, and waits for all agents.
func (b *bench) restart(ctx context.Context, s *server, f *fleet, sig syscall.Signal) (*comeback, error) {
	s.end(sig)
	ended := time.Now()
	if err := s.start(ctx); err != nil {
		return nil, err
	}
	c := &comeback{agents: len(f.Agents()), ready: time.Since(ended)}
	back := func() bool {
		for _, a := range f.Agents() {
			if at := a.Connects(); !a.Connected() || len(at) == 0 || at[len(at)-1].Before(ended) {
				return false
			}
		}
		return true
	}
	if _, err := until(ctx, b.opts.back, "all agents are back", back); err != nil {
		return nil, err
	}
	var err error
	if c.cpu, err = s.process.CPU(); err != nil {
		return nil, err
	}
	c.peakRSS = s.process.PeakRSS()
	for _, a := range f.Agents() {
		at := a.Connects()
		took := at[len(at)-1].Sub(ended)
		c.all = max(c.all, took)
		for second := int(took.Seconds()); len(c.seconds) <= second; {
			c.seconds = append(c.seconds, 0)
		}
		c.seconds[int(took.Seconds())]++
	}
	return c, b.undisturbed(ctx, s, f)
}

// undisturbed notes what a restart should not have done: the server knows each
// node from before, with the shards that it has, and has ordered nothing.
func (b *bench) undisturbed(ctx context.Context, s *server, f *fleet) error {
	page, err := s.metrics(ctx)
	if err != nil {
		return err
	}
	if n := page[`llmgw_control_registrations_total{kind="new"}`]; n != 0 {
		b.problem("%g nodes were new to a server that has them in its store", n)
	}
	if n := f.Starts() + f.orders(); n != 0 {
		b.problem("%d shards were started anew, or got another order", n)
	}
	client, err := api.NewClient(api.ClientConfig{URL: "http://" + s.admin})
	if err != nil {
		return err
	}
	list, err := client.Nodes.ListNodes(ctx, &apipb.ListNodesRequest{})
	if err != nil {
		return err
	}
	if n := len(list.GetNodes()); n != len(f.Agents()) {
		b.problem("the server knows %d nodes; want %d", n, len(f.Agents()))
	}
	for _, n := range list.GetNodes() {
		ready := 0
		for _, shard := range n.GetShards() {
			if shard.GetState() == "ready" {
				ready++
			}
		}
		if n.GetState() != apipb.NodeState_NODE_STATE_READY || !n.GetConnected() || ready != shards {
			b.problem("%s is %v, connected %t, with %d shards that are ready; want %d", n.GetId(), n.GetState(), n.GetConnected(), ready, shards)
		}
	}
	return nil
}
