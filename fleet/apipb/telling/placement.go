package telling

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/llmgw/llmgw/fleet/apipb"
)

// Place is the place of a decision.
func Place(d *apipb.PlacementDecision) string {
	text := Places(d.GetShards())
	if d.GetFabric() != "" {
		text += " in " + d.GetFabric()
	}
	return text
}

// Places are the nodes of shards, by rank, with their cards.
func Places(shards []*apipb.PlacementShard) string {
	var out []string
	for _, s := range shards {
		text := s.GetNode()
		switch n := len(s.GetCards()); n {
		case 0:
		case 1:
			text += " (" + s.GetCards()[0] + ")"
		default:
			text += fmt.Sprintf(" (%d cards)", n)
		}
		out = append(out, text)
	}
	return cmp.Or(strings.Join(out, ", "), "no node")
}

// Need is what one replica takes.
func Need(n *apipb.ReplicaNeed) string {
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	for rank := 0; rank < len(n.GetRanks()); {
		r, same := n.GetRanks()[rank], 1
		for rank+same < len(n.GetRanks()) && sameNeed(r, n.GetRanks()[rank+same]) {
			same++
		}
		text := fmt.Sprintf("%d nodes with ", same)
		if same == 1 {
			text = "a node with "
		}
		add("%s%s", text, rankText(r))
		rank += same
	}
	if len(n.GetRanks()) > 1 {
		add("all in one fabric")
	}
	switch {
	case n.CardMemoryBytes != nil:
		add("%s free on each card", Gibibytes(n.CardMemoryBytes))
	case !slices.ContainsFunc(n.GetRanks(), func(r *apipb.RankNeed) bool { return r.GetCards() > 0 }):
	case slices.ContainsFunc(n.GetMemory().GetClasses(), func(c *apipb.ClassMemory) bool { return c.Bytes != nil }):
		add("as much free on each card as is told below, by class")
	case n.GetMemory().GetSource() == apipb.MemorySource_MEMORY_SOURCE_ESTIMATED || n.GetMemory().GetSource() == apipb.MemorySource_MEMORY_SOURCE_LEARNED:
		add("cards that are wholly free, since the engine takes all of a card")
	default:
		add("cards that are wholly free, since how much of them it needs is not known")
	}
	if len(n.GetClasses()) > 0 {
		add("cards that are %s", strings.Join(n.GetClasses(), " or "))
	}
	if n.GetEngine() != "" {
		add("the engine %s", n.GetEngine())
	}
	if len(n.GetNodes()) > 0 {
		add("nodes out of %s", strings.Join(n.GetNodes(), ", "))
	}
	for _, key := range slices.Sorted(maps.Keys(n.GetLabels())) {
		add("the label %s=%s", key, n.GetLabels()[key])
	}
	if len(n.GetApart()) > 0 {
		add("no replica of %s beside it", strings.Join(n.GetApart(), ", "))
	}
	if n.GetSpread() != "" {
		add("replicas spread by the label %s", n.GetSpread())
	}
	return strings.Join(parts, "; ")
}

// rankText is what one rank takes of its node.
func rankText(r *apipb.RankNeed) string {
	parts := []string{Several(r.GetCards(), "card")}
	if r.GetPorts() > 0 {
		parts = append(parts, Several(r.GetPorts(), "port"))
	}
	if r.GetHostMemoryBytes() > 0 {
		parts = append(parts, Gibibytes(&r.HostMemoryBytes)+" of its own memory")
	}
	return strings.Join(parts, " and ")
}

// sameNeed reports whether two ranks take the same.
func sameNeed(a, b *apipb.RankNeed) bool {
	return a.GetCards() == b.GetCards() && a.GetPorts() == b.GetPorts() && a.GetHostMemoryBytes() == b.GetHostMemoryBytes()
}
