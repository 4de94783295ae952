package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/apipb"
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
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", n.GetId(), nodeState(n), since(l.GetAt(), n.GetSince()), nodeTarget(n.GetTarget()),
			cards(n), shards(n), orDash(n.GetAddress()), orDash(n.GetAgentVersion()))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, n := range l.GetNodes() {
		for _, line := range nodeTroubles(n) {
			fmt.Fprintf(w, "\n%s: %s", n.GetId(), line)
		}
	}
	_, err := fmt.Fprint(w, "\n")
	return err
}

// nodeTroubles are what keeps cards and nodes out of use, and what a person should
// know. Of the cards and fabrics of a node that was not heard yet nothing is known,
// which is no trouble of theirs.
func nodeTroubles(n *apipb.Node) []string {
	var out []string
	if n.GetHeard() != nil {
		out = hardwareTroubles(n)
	}
	for _, e := range n.GetEngines() {
		if e.GetProblem() != "" {
			out = append(out, fmt.Sprintf("%s cannot be launched: %s", e.GetEngine(), e.GetProblem()))
		}
	}
	for _, s := range n.GetShards() {
		if s.GetMemoryHeld() != "" {
			out = append(out, fmt.Sprintf("memory of shard %s/%d, which is %s, is held: %s", s.GetReplica(), s.GetRank(), s.GetState(), s.GetMemoryHeld()))
		}
		if s.GetState() == "failed" {
			out = append(out, fmt.Sprintf("shard %s/%d failed: %s", s.GetReplica(), s.GetRank(), orText([]string{s.GetReason(), s.GetAdvice()}, "why is not known")))
		}
	}
	return append(out, n.GetWarnings()...)
}

func hardwareTroubles(n *apipb.Node) []string {
	var out []string
	for _, g := range n.GetGpus() {
		if !g.GetUsable() {
			out = append(out, fmt.Sprintf("GPU %d %s (%s) is excluded: %s", g.GetIndex(), g.GetName(), g.GetId(), orText(g.GetReasons(), "why is not known")))
		}
		for _, p := range g.GetForeign() {
			out = append(out, fmt.Sprintf("GPU %d %s (%s) is used by a process that the agent did not start: %s", g.GetIndex(), g.GetName(), g.GetId(), process(p)))
		}
	}
	for _, f := range n.GetFabrics() {
		if f.GetVerdict() != "confirmed" {
			out = append(out, fmt.Sprintf("fabric %s is %s: %s", f.GetName(), f.GetVerdict(), orText(f.GetReasons(), "why is not known")))
		}
	}
	return out
}

// writeNode prints all that is known of a node but its inventory, which is JSON.
func writeNode(w io.Writer, r *apipb.GetNodeResponse) error {
	w = printable{w}
	n := r.GetNode()
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "node\t%s\n", n.GetId())
	fmt.Fprintf(t, "state\t%s for %s\n", nodeState(n), since(r.GetAt(), n.GetSince()))
	if n.GetHeard() != nil {
		fmt.Fprintf(t, "heard\t%s ago\n", since(r.GetAt(), n.GetHeard()))
	} else {
		fmt.Fprintf(t, "heard\tnot since this control plane began\n")
	}
	fmt.Fprintf(t, "target\t%s\n", orText([]string{nodeTarget(n.GetTarget()), n.GetTargetReason()}, "-"))
	fmt.Fprintf(t, "address\t%s\n", orDash(n.GetAddress()))
	fmt.Fprintf(t, "agent\t%s\n", orDash(n.GetAgentVersion()))
	if n.GetGoodbye() != "" {
		fmt.Fprintf(t, "goodbye\t%s\n", n.GetGoodbye())
	}
	if n.ClockSkew != nil {
		fmt.Fprintf(t, "clock\t%v ahead\n", n.GetClockSkew().AsDuration().Round(time.Millisecond))
	}
	fmt.Fprintf(t, "cpu\t%s\n", orDash(n.GetCpu()))
	fmt.Fprintf(t, "memory\t%s, %s available\n", gibibytes(n.MemoryBytes), gibibytes(n.MemoryAvailableBytes))
	for _, g := range n.GetGpus() {
		state := "usable"
		switch {
		case n.GetHeard() == nil:
			state = "not known whether usable"
		case !g.GetUsable():
			state = "excluded"
		}
		fmt.Fprintf(t, "gpu %d\t%s, %s of %s used, %s\n", g.GetIndex(), orDash(g.GetName()), gibibytes(g.MemoryUsedBytes), gibibytes(g.MemoryBytes), state)
	}
	for _, f := range n.GetFabrics() {
		fmt.Fprintf(t, "fabric\t%s, %s\n", f.GetName(), f.GetVerdict())
	}
	for _, e := range n.GetEngines() {
		fmt.Fprintf(t, "engine\t%s, %s\n", e.GetEngine(), cmp.Or(e.GetExecutable(), "by the executable that its adapter knows"))
	}
	for _, s := range n.GetShards() {
		fmt.Fprintf(t, "shard\t%s/%d generation %d: %s for %s%s\n", s.GetReplica(), s.GetRank(), s.GetGeneration(), s.GetState(),
			since(r.GetAt(), s.GetSince()), under(s))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, line := range nodeTroubles(n) {
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

// under is what more there is to say of a shard that runs.
func under(s *apipb.NodeShard) string {
	var out string
	if s.GetAddress() != "" {
		out += ", at " + s.GetAddress()
	}
	if s.Running != nil {
		out += fmt.Sprintf(", %d running", s.GetRunning())
	}
	if s.Waiting != nil {
		out += fmt.Sprintf(", %d waiting", s.GetWaiting())
	}
	return out
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
		_, err := fmt.Fprintf(printable{w}, "%s is %s\n", r.GetNode().GetId(), nodeTarget(r.GetNode().GetTarget()))
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

// nodeState is a node's state in a word, with whether it can be given orders.
func nodeState(n *apipb.Node) string {
	word := strings.ToLower(strings.TrimPrefix(n.GetState().String(), "NODE_STATE_"))
	if n.GetState() == apipb.NodeState_NODE_STATE_READY && !n.GetConnected() {
		word += ", no stream"
	}
	return word
}

func nodeTarget(t apipb.NodeTarget) string {
	if t == apipb.NodeTarget_NODE_TARGET_UNSPECIFIED {
		return "not known"
	}
	return strings.ToLower(strings.TrimPrefix(t.String(), "NODE_TARGET_"))
}

// cards says how many cards of a node may be used.
func cards(n *apipb.Node) string {
	switch {
	case !n.GetHardwareKnown():
		return "not known"
	case n.GetHeard() == nil && len(n.GetGpus()) > 0:
		return fmt.Sprintf("not known of %d", len(n.GetGpus()))
	}
	usable := 0
	for _, g := range n.GetGpus() {
		if g.GetUsable() {
			usable++
		}
	}
	if all := len(n.GetGpus()); usable < all {
		return fmt.Sprintf("%d of %d", usable, all)
	}
	return fmt.Sprint(usable)
}

// shards says how many shards of a node are ready. Those that were stopped are not
// counted: an agent remembers them for a day, and nothing of them runs.
func shards(n *apipb.Node) string {
	ready, all := 0, 0
	for _, s := range n.GetShards() {
		if s.GetState() == engines.ShardStopped.String() {
			continue
		}
		all++
		if s.GetState() == engines.ShardReady.String() {
			ready++
		}
	}
	if ready < all {
		return fmt.Sprintf("%d ready of %d", ready, all)
	}
	return fmt.Sprint(ready)
}

func process(p *apipb.NodeGPUProcess) string {
	text := fmt.Sprintf("pid %d", p.GetPid())
	if p.GetName() != "" {
		text += " " + p.GetName()
	}
	return text + ", " + gibibytes(p.MemoryBytes)
}

// gibibytes is a size for people.
func gibibytes(n *uint64) string {
	if n == nil {
		return "not known"
	}
	return fmt.Sprintf("%.1f GiB", float64(*n)/(1<<30))
}

// since is the time from one moment to another for people.
func since(now, then *timestamppb.Timestamp) string {
	if now == nil || then == nil {
		return "-"
	}
	return lasting(now.AsTime().Sub(then.AsTime()))
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// orText joins what there is.
func orText(parts []string, none string) string {
	var there []string
	for _, p := range parts {
		if p != "" {
			there = append(there, p)
		}
	}
	if len(there) == 0 {
		return none
	}
	return strings.Join(there, "; ")
}
