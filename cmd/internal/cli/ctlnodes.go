package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/llmgw/llmgw/fleet/apipb"
	"github.com/llmgw/llmgw/fleet/apipb/telling"
)

type ctlNodesCmd struct {
	watchFlags
	Node string `arg:"" optional:"" help:"ID of a node, to show all that is known of it. Default: a line for each node."`
}

// Run shows the nodes, or one of them.
func (c *ctlNodesCmd) Run(ctx context.Context, streams Streams) error {
	client, err := c.client()
	if err != nil {
		return fmt.Errorf("ctl nodes: %w", err)
	}
	if c.Node != "" {
		err = follow(ctx, &c.watchFlags, streams, func(ctx context.Context) (*apipb.GetNodeResponse, error) {
			return client.Nodes.GetNode(ctx, &apipb.GetNodeRequest{Node: c.Node})
		}, writeNode)
	} else {
		err = follow(ctx, &c.watchFlags, streams, func(ctx context.Context) (*apipb.ListNodesResponse, error) {
			return client.Nodes.ListNodes(ctx, &apipb.ListNodesRequest{})
		}, writeNodes)
	}
	if err != nil {
		return fmt.Errorf("ctl nodes: %w", err)
	}
	return nil
}

// writeNodes prints a line a node, and below them what a person should look at.
func writeNodes(w io.Writer, l *apipb.ListNodesResponse) error {
	w = printable{w}
	if l.GetWhy() != "" {
		fmt.Fprintf(w, "this control plane gives no orders: %s\n", l.GetWhy())
	}
	if len(l.GetNodes()) == 0 {
		_, err := fmt.Fprintln(w, "no node has registered yet; start one with llmgw agent -c agent.yaml")
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NODE\tSTATE\tFOR\tTARGET\tGPUS\tSHARDS\tADDRESS\tAGENT")
	for _, n := range l.GetNodes() {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", n.GetId(), telling.NodeState(n), telling.Since(l.GetAt(), n.GetSince()), telling.NodeTarget(n.GetTarget()),
			telling.Cards(n), telling.Shards(n), telling.OrDash(n.GetAddress()), telling.OrDash(n.GetAgentVersion()))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, n := range l.GetNodes() {
		for _, line := range telling.NodeTroubles(n) {
			fmt.Fprintf(w, "\n%s: %s", n.GetId(), line)
		}
	}
	_, err := fmt.Fprint(w, "\n")
	return err
}

// writeNode prints all that is known of a node but its inventory, which is JSON.
func writeNode(w io.Writer, r *apipb.GetNodeResponse) error {
	w = printable{w}
	n := r.GetNode()
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "node\t%s\n", n.GetId())
	fmt.Fprintf(t, "state\t%s for %s\n", telling.NodeState(n), telling.Since(r.GetAt(), n.GetSince()))
	if n.GetHeard() != nil {
		fmt.Fprintf(t, "heard\t%s ago\n", telling.Since(r.GetAt(), n.GetHeard()))
	} else {
		fmt.Fprintf(t, "heard\tnot since this control plane began\n")
	}
	fmt.Fprintf(t, "target\t%s\n", telling.OrText([]string{telling.NodeTarget(n.GetTarget()), n.GetTargetReason()}, "-"))
	fmt.Fprintf(t, "address\t%s\n", telling.OrDash(n.GetAddress()))
	fmt.Fprintf(t, "agent\t%s\n", telling.OrDash(n.GetAgentVersion()))
	if n.GetGoodbye() != "" {
		fmt.Fprintf(t, "goodbye\t%s\n", n.GetGoodbye())
	}
	if n.ClockSkew != nil {
		fmt.Fprintf(t, "clock\t%v ahead\n", n.GetClockSkew().AsDuration().Round(time.Millisecond))
	}
	fmt.Fprintf(t, "cpu\t%s\n", telling.OrDash(n.GetCpu()))
	fmt.Fprintf(t, "memory\t%s, %s available\n", telling.Gibibytes(n.MemoryBytes), telling.Gibibytes(n.MemoryAvailableBytes))
	for _, g := range n.GetGpus() {
		state := "usable"
		switch {
		case n.GetHeard() == nil:
			state = "not known whether usable"
		case !g.GetUsable():
			state = "excluded"
		}
		fmt.Fprintf(t, "gpu %d\t%s, %s of %s used, %s\n", g.GetIndex(), telling.OrDash(g.GetName()), telling.Gibibytes(g.MemoryUsedBytes), telling.Gibibytes(g.MemoryBytes), state)
	}
	for _, f := range n.GetFabrics() {
		fmt.Fprintf(t, "fabric\t%s, %s\n", f.GetName(), f.GetVerdict())
	}
	for _, e := range n.GetEngines() {
		fmt.Fprintf(t, "engine\t%s, %s\n", e.GetEngine(), cmp.Or(e.GetExecutable(), "by the executable that its adapter knows"))
	}
	for _, s := range n.GetShards() {
		fmt.Fprintf(t, "shard\t%s/%d generation %d: %s for %s%s\n", s.GetReplica(), s.GetRank(), s.GetGeneration(), s.GetState(),
			telling.Since(r.GetAt(), s.GetSince()), telling.ShardWork(s))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, line := range telling.NodeTroubles(n) {
		fmt.Fprintf(w, "%s\n", line)
	}
	if r.GetInventory() == nil {
		_, err := fmt.Fprintln(w, "its hardware is not known")
		return err
	}
	text, err := protojson.MarshalOptions{Multiline: true}.Marshal(r.GetInventory())
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "inventory %s\n", text)
	return err
}

type ctlTargetCmd struct {
	ctlFlags
	Node   string `arg:"" help:"ID of the node."`
	Reason string `help:"Why, for those who look later."`
}

type (
	ctlCordonCmd   struct{ ctlTargetCmd }
	ctlUncordonCmd struct{ ctlTargetCmd }
	ctlDrainCmd    struct{ ctlTargetCmd }
)

// Run keeps new replicas off a node.
func (c *ctlCordonCmd) Run(ctx context.Context, streams Streams) error {
	return c.set(ctx, streams, "cordon", apipb.NodeTarget_NODE_TARGET_CORDONED)
}

// Run lets a node get replicas again.
func (c *ctlUncordonCmd) Run(ctx context.Context, streams Streams) error {
	return c.set(ctx, streams, "uncordon", apipb.NodeTarget_NODE_TARGET_ACTIVE)
}

// Run keeps new replicas off a node and moves those that are there.
func (c *ctlDrainCmd) Run(ctx context.Context, streams Streams) error {
	return c.set(ctx, streams, "drain", apipb.NodeTarget_NODE_TARGET_DRAINED)
}

func (c *ctlTargetCmd) set(ctx context.Context, streams Streams, verb string, target apipb.NodeTarget) error {
	client, err := c.client()
	if err != nil {
		return fmt.Errorf("ctl %s: %w", verb, err)
	}
	ctx, cancel := withTime(ctx)
	defer cancel()
	resp, err := client.Nodes.SetNodeTarget(ctx, &apipb.SetNodeTargetRequest{Node: c.Node, Target: target, Reason: c.Reason, Actor: actor()})
	if err != nil {
		return fmt.Errorf("ctl %s: %w", verb, c.failed(err))
	}
	return show(&c.ctlFlags, streams.Out, resp, func(w io.Writer, r *apipb.SetNodeTargetResponse) error {
		_, err := fmt.Fprintf(printable{w}, "%s is %s\n", r.GetNode().GetId(), telling.NodeTarget(r.GetNode().GetTarget()))
		return err
	})
}

type ctlForgetCmd struct {
	ctlFlags
	Node string `arg:"" help:"ID of the node."`
}

// Run removes a node that is gone for good.
func (c *ctlForgetCmd) Run(ctx context.Context, streams Streams) error {
	client, err := c.client()
	if err != nil {
		return fmt.Errorf("ctl forget: %w", err)
	}
	ctx, cancel := withTime(ctx)
	defer cancel()
	resp, err := client.Nodes.ForgetNode(ctx, &apipb.ForgetNodeRequest{Node: c.Node, Actor: actor()})
	if err != nil {
		return fmt.Errorf("ctl forget: %w", c.failed(err))
	}
	return show(&c.ctlFlags, streams.Out, resp, func(w io.Writer, _ *apipb.ForgetNodeResponse) error {
		_, err := fmt.Fprintf(printable{w}, "%s is forgotten\n", c.Node)
		return err
	})
}
