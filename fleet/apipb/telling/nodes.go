package telling

import (
	"fmt"
	"strings"

	"github.com/llmgw/llmgw/fleet/apipb"
)

// States of shards, as engines.ShardState has them.
const (
	shardReady   = "ready"
	shardFailed  = "failed"
	shardStopped = "stopped"
)

// NodeCounts writes "1 lost, 4 ready; of these 1 draining": how many nodes are in
// each state, and what else is said of some of them, so that none is added twice.
func NodeCounts(list []*apipb.NamedCount) string {
	var states, also []*apipb.NamedCount
	for _, c := range list {
		switch c.GetName() {
		case "cordoned", "draining", "not connected":
			also = append(also, c)
		default:
			states = append(states, c)
		}
	}
	text := Counts(states, "none has registered yet")
	if len(also) > 0 {
		text += "; of these " + Counts(also, "")
	}
	return text
}

// NodeTroubles are what keeps cards and nodes out of use, and what a person should
// know. Of the cards and fabrics of a node that was not heard yet nothing is known,
// which is no trouble of theirs.
func NodeTroubles(n *apipb.Node) []string {
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
		if s.GetState() == shardFailed {
			out = append(out, fmt.Sprintf("shard %s/%d failed: %s", s.GetReplica(), s.GetRank(), OrText([]string{s.GetReason(), s.GetAdvice()}, "why is not known")))
		}
	}
	return append(out, n.GetWarnings()...)
}

// hardwareTroubles are those of the cards and fabrics.
func hardwareTroubles(n *apipb.Node) []string {
	var out []string
	for _, g := range n.GetGpus() {
		if !g.GetUsable() {
			out = append(out, fmt.Sprintf("GPU %d %s (%s) is excluded: %s", g.GetIndex(), g.GetName(), g.GetId(), OrText(g.GetReasons(), "why is not known")))
		}
		for _, p := range g.GetForeign() {
			out = append(out, fmt.Sprintf("GPU %d %s (%s) is used by a process that the agent did not start: %s", g.GetIndex(), g.GetName(), g.GetId(), Process(p)))
		}
	}
	for _, f := range n.GetFabrics() {
		if f.GetVerdict() != "confirmed" {
			out = append(out, fmt.Sprintf("fabric %s is %s: %s", f.GetName(), f.GetVerdict(), OrText(f.GetReasons(), "why is not known")))
		}
	}
	return out
}

// ShardWork is what more there is to say of a shard that runs.
func ShardWork(s *apipb.NodeShard) string {
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

// NodeState is a node's state in a word, with whether it can be given orders.
func NodeState(n *apipb.Node) string {
	word := strings.ToLower(strings.TrimPrefix(n.GetState().String(), "NODE_STATE_"))
	if n.GetState() == apipb.NodeState_NODE_STATE_READY && !n.GetConnected() {
		word += ", no stream"
	}
	return word
}

// NodeTarget is what an operator wants of a node, in a word.
func NodeTarget(t apipb.NodeTarget) string {
	if t == apipb.NodeTarget_NODE_TARGET_UNSPECIFIED {
		return "not known"
	}
	return strings.ToLower(strings.TrimPrefix(t.String(), "NODE_TARGET_"))
}

// Cards says how many cards of a node may be used.
func Cards(n *apipb.Node) string {
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

// Shards says how many shards of a node are ready. Those that were stopped are not
// counted: an agent remembers them for a day, and nothing of them runs.
func Shards(n *apipb.Node) string {
	ready, all := 0, 0
	for _, s := range n.GetShards() {
		if s.GetState() == shardStopped {
			continue
		}
		all++
		if s.GetState() == shardReady {
			ready++
		}
	}
	if ready < all {
		return fmt.Sprintf("%d ready of %d", ready, all)
	}
	return fmt.Sprint(ready)
}

// Process is a process that the agent did not start, and what it holds of a card.
func Process(p *apipb.NodeGPUProcess) string {
	text := fmt.Sprintf("pid %d", p.GetPid())
	if p.GetName() != "" {
		text += " " + p.GetName()
	}
	return text + ", " + Gibibytes(p.MemoryBytes)
}
