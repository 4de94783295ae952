package controlplane

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/apipb"
	"github.com/llmgw/llmgw/fleet/control"
	"github.com/llmgw/llmgw/storage"
)

const (
	// staleReading is how old a reading of hardware may be before it is told.
	staleReading = time.Minute
	// skewTold is how far a clock may be off before it is told.
	skewTold = 30 * time.Second
	// notHeard is why nothing is said of what a node has.
	notHeard = "the node was not heard since this control plane began"
)

// view is a node as the API shows it.
func (n *nodes) view(node *control.Node) *apipb.Node {
	out := &apipb.Node{
		Id: node.ID, State: stateOf(node.State), Since: stamp(node.Since), Heard: stamp(node.Heard), Connected: node.Connected,
		Address: node.Address, AgentVersion: node.AgentVersion, Goodbye: node.Goodbye, Labels: node.Labels,
		Warnings: warnings(node),
	}
	if skew, known := node.Skew.Get(); known {
		out.ClockSkew = durationpb.New(skew)
	}
	for _, e := range node.Engines {
		out.Engines = append(out.Engines, &apipb.NodeEngine{Engine: string(e.Engine), Executable: e.Executable, Problem: e.Problem})
	}
	for i := range node.Shards {
		out.Shards = append(out.Shards, shardView(&node.Shards[i]))
	}
	n.viewTarget(out)
	viewHardware(out, node.Hardware(), !node.Heard.IsZero())
	return out
}

func stateOf(s control.State) apipb.NodeState {
	switch s {
	case control.Expected:
		return apipb.NodeState_NODE_STATE_EXPECTED
	case control.Ready:
		return apipb.NodeState_NODE_STATE_READY
	case control.Unreachable:
		return apipb.NodeState_NODE_STATE_UNREACHABLE
	case control.Lost:
		return apipb.NodeState_NODE_STATE_LOST
	}
	return apipb.NodeState_NODE_STATE_UNSPECIFIED
}

func (n *nodes) viewTarget(out *apipb.Node) {
	switch cordon, known := n.plane.targets.of(out.GetId()); {
	case !known:
		out.Warnings = append(out.Warnings, "what operators want of it is not known: the store was not read yet")
	case cordon == nil:
		out.Target = apipb.NodeTarget_NODE_TARGET_ACTIVE
	default:
		out.Target = apipb.NodeTarget_NODE_TARGET_CORDONED
		if cordon.Target == storage.TargetDrained {
			out.Target = apipb.NodeTarget_NODE_TARGET_DRAINED
		}
		out.TargetReason, out.TargetAt = cordon.Reason, timestamppb.New(cordon.At)
	}
}

// viewHardware says what a node has and how that is. One that was not heard yet
// has its cards from the journal, and nobody knows how they are: none is planned
// with, and nothing is said against them.
func viewHardware(out *apipb.Node, inv *engines.Inventory, heard bool) {
	if inv == nil {
		return
	}
	out.HardwareKnown = true
	out.Cpu = inv.CPU.Model
	out.MemoryBytes, out.MemoryAvailableBytes = pointer(inv.Memory.TotalBytes), pointer(inv.State.MemoryAvailableBytes)
	for _, gpu := range inv.GPUs {
		state, known := inv.State.GPU(gpu.ID())
		view := &apipb.NodeGPU{
			Id: gpu.ID(), Index: uint32(gpu.Index), Name: gpu.Name, MemoryBytes: pointer(gpu.MemoryBytes), //nolint:gosec // from 0
			MemoryUsedBytes: pointer(state.MemoryUsedBytes), UtilizationRatio: pointer(state.UtilizationRatio),
			TemperatureC: pointer(state.TemperatureC), Usable: known && state.Health.Usable(),
		}
		switch {
		case !heard:
			view.Reasons = append(view.Reasons, notHeard)
		case !known:
			view.Reasons = append(view.Reasons, "it is not in the newest reading")
		case state.Health.State == "":
			view.Reasons = append(view.Reasons, "its health could not be read")
		}
		for _, r := range state.Health.Reasons {
			view.Reasons = append(view.Reasons, reasonText(r))
		}
		for _, p := range state.Foreign {
			view.Foreign = append(view.Foreign, &apipb.NodeGPUProcess{Pid: int32(p.PID), Name: p.Name, MemoryBytes: pointer(p.MemoryBytes)}) //nolint:gosec // a pid
		}
		out.Gpus = append(out.Gpus, view)
	}
	for _, f := range inv.Fabrics {
		view := &apipb.NodeFabric{Name: f.Name, RateGbps: f.RateGbps, Verdict: string(engines.Unknown)}
		if state, known := inv.State.Fabric(f.Name); known {
			view.Verdict, view.Reasons = string(state.Verdict), state.Reasons
		} else if !heard {
			view.Reasons = []string{notHeard}
		}
		out.Fabrics = append(out.Fabrics, view)
	}
}

// reasonText is a fault of a card in a sentence.
func reasonText(r engines.HealthReason) string {
	text := r.Kind
	if r.Detail != "" {
		text += ": " + r.Detail
	}
	if r.Ends != "" {
		text += "; it ends " + r.Ends
	}
	return fmt.Sprintf("%s (%s)", text, r.Action)
}

// warnings are what a person should know of a node, a sentence each.
func warnings(node *control.Node) []string {
	var out []string
	if skew, known := node.Skew.Get(); known && skew.Abs() >= skewTold {
		word := "ahead of"
		if skew < 0 {
			word = "behind"
		}
		out = append(out, fmt.Sprintf("its clock is %v %s this one's; set it by NTP: certificates and logs depend on it", skew.Abs().Round(time.Second), word))
	}
	for _, held := range node.Strangers {
		who := "a process that cannot be seen"
		if pid, known := held.PID.Get(); known {
			who = strings.TrimSpace(fmt.Sprintf("process %d %s", pid, held.Command))
		}
		out = append(out, fmt.Sprintf("port %d of its range is held by %s", held.Port, who))
	}
	for _, id := range slices.SortedFunc(maps.Keys(node.Strange), func(a, b engines.ShardID) int { return strings.Compare(a.String(), b.String()) }) {
		out = append(out, fmt.Sprintf("shard %v says that it serves at %s, which is none of the node's addresses, so no router is told of it; "+
			"if the node is reached there, set address in its agent's configuration", id, node.Strange[id]))
	}
	inv := node.Hardware()
	if inv == nil {
		return out
	}
	if age := inv.State.GPUsAge; age >= staleReading {
		out = append(out, fmt.Sprintf("what is known of its cards is %v old: the driver does not answer", age.Round(time.Second)))
	}
	for _, list := range [][]engines.Warning{inv.Warnings, inv.State.Problems} {
		for _, w := range list {
			text := w.Part + ": " + w.Problem
			if w.Advice != "" {
				text += "; " + w.Advice
			}
			out = append(out, text)
		}
	}
	return out
}

func shardView(s *engines.ShardStatus) *apipb.NodeShard {
	out := &apipb.NodeShard{
		Replica: s.ID.Replica, Rank: uint32(s.ID.Rank), Generation: s.Generation, State: s.State.String(), Since: stamp(s.Since), //nolint:gosec // from 0
		Address: s.Address, Running: count(s.Running), Waiting: count(s.Waiting), Adopted: s.Adopted,
		Reason: s.Reason, Advice: s.Advice, Lines: s.Lines, MemoryHeld: s.MemoryHeld, Cards: s.Cards,
	}
	if s.Phase != engines.PhaseUnset {
		out.Phase = s.Phase.String()
	}
	if s.PID != 0 {
		out.Pid = new(int32(s.PID)) //nolint:gosec // a pid
	}
	return out
}

func count(n *int) *uint32 {
	if n == nil || *n < 0 {
		return nil
	}
	return new(uint32(*n)) //nolint:gosec // requests inside one engine
}

// pointer is nil for what is not known.
func pointer[T comparable](o engines.Opt[T]) *T {
	if v, known := o.Get(); known {
		return &v
	}
	return nil
}

func stamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}
