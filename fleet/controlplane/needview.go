package controlplane

import (
	"fmt"
	"maps"
	"slices"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/apipb"
	"github.com/llmgw/llmgw/placement"
	"github.com/llmgw/llmgw/placement/reconcile"
)

// memoryView is what is known of a model's need, and how.
func memoryView(n *modelNeed) *apipb.MemoryNeed {
	out := &apipb.MemoryNeed{
		StatedBytes: pointer(n.stated), HostBytes: pointer(n.host), WeightsMissing: n.missing, Looking: n.need.Looking,
	}
	if n.seen != nil {
		first := n.seen.first()
		f := n.seen.nodes[first]
		out.Weights = &apipb.WeightsSeen{
			Format: string(n.seen.facts.Format), Architecture: n.seen.facts.Architecture, Quantization: n.seen.facts.Quantization,
			Bytes: f.GetBytes(), Files: f.GetFiles(), Node: first, Path: f.GetPath(), Nodes: number(len(n.seen.nodes)), OtherNodes: number(n.others),
		}
	}
	sources := make(map[apipb.MemorySource]bool)
	for i := range n.classes {
		c := &n.classes[i]
		class := classMemoryView(c)
		sources[class.GetSource()] = true
		out.Classes = append(out.Classes, class)
	}
	cards := n.profile.WithDefaults().Cards() > 0
	_, stated := n.stated.Get()
	switch {
	case stated:
		out.Source, out.Why = apipb.MemorySource_MEMORY_SOURCE_STATED, "stated by the model's entry (placement.card_memory_bytes), and nothing else counts"
	case sources[apipb.MemorySource_MEMORY_SOURCE_LEARNED]:
		out.Source, out.Why = apipb.MemorySource_MEMORY_SOURCE_LEARNED, "learned: replicas of this profile were seen to use it, which counts before an estimate"
	case sources[apipb.MemorySource_MEMORY_SOURCE_ESTIMATED]:
		out.Source, out.Why = apipb.MemorySource_MEMORY_SOURCE_ESTIMATED, "estimated from the profile and from what is known of the weights, until a replica was measured"
	case cards:
		out.Source = apipb.MemorySource_MEMORY_SOURCE_UNKNOWN
		out.Why = fmt.Sprintf("not known, which is not zero: only cards are taken of which %.0f %% are free", 100*placement.WholeCardRatio)
	default:
		out.Source = apipb.MemorySource_MEMORY_SOURCE_UNKNOWN
		out.Why = "not known, so that no node is refused for its memory; placement.host_memory_bytes states it"
	}
	return out
}

func classMemoryView(c *classNeed) *apipb.ClassMemory {
	out := &apipb.ClassMemory{
		Class: c.class, CardBytes: pointer(c.Memory.CardBytes), NeedBytes: pointer(c.NeedBytes), EstimateBytes: pointer(c.EstimateBytes),
		PeakBytes: pointer(c.PeakBytes), Bytes: pointer(c.plan), OffRatio: pointer(c.OffRatio), Why: c.Why, Never: c.never,
	}
	for _, p := range c.Parts() {
		out.Parts = append(out.Parts, &apipb.MemoryPart{Name: p.Name, Bytes: pointer(p.Bytes), How: p.How})
	}
	bytes, known := c.Bytes.Get()
	switch {
	case !known:
		out.Source = apipb.MemorySource_MEMORY_SOURCE_UNKNOWN
	case c.PeakBytes.Is(bytes):
		out.Source = apipb.MemorySource_MEMORY_SOURCE_LEARNED
	default:
		out.Source = apipb.MemorySource_MEMORY_SOURCE_ESTIMATED
	}
	return out
}

// weightsIn is whose weights are in each fabric: on storage of members' own, and on
// shared filesystems, of which each counts once.
func weightsIn(s *reconcile.Snapshot) map[string][]*apipb.FabricWeights {
	type at struct{ fabric, key string }
	nodes, filers := make(map[at]int), make(map[at]map[string]bool)
	for n := range s.Cluster.Nodes() {
		for i, f := range n.Fabrics {
			if f.Verdict == engines.Contradicted || slices.ContainsFunc(n.Fabrics[:i], func(o placement.FabricMember) bool { return o.Name == f.Name }) {
				continue
			}
			for key, held := range n.Weights {
				if held == placement.Holds {
					nodes[at{f.Name, key}]++
				}
			}
			for key, filer := range n.WeightsShared {
				if filers[at{f.Name, key}] == nil {
					filers[at{f.Name, key}] = make(map[string]bool)
				}
				filers[at{f.Name, key}][filer] = true
			}
		}
	}
	out := make(map[string][]*apipb.FabricWeights)
	fabrics := make(map[string]bool)
	for a := range nodes {
		fabrics[a.fabric] = true
	}
	for a := range filers {
		fabrics[a.fabric] = true
	}
	for _, fabric := range slices.Sorted(maps.Keys(fabrics)) {
		for i := range s.Models { // by name
			a := at{fabric, s.Models[i].Wish.WeightsKey}
			if n, shared := nodes[a], len(filers[a]); n+shared > 0 {
				out[fabric] = append(out[fabric], &apipb.FabricWeights{Model: s.Models[i].Name, Nodes: number(n), Filers: number(shared)})
			}
		}
	}
	return out
}
