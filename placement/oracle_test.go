package placement_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/placement"
)

// The oracle tries every place that there is, and shares nothing with the solver
// but the words. It is slow, and short enough to be seen to be right.

// spot is one place for a whole replica.
type spot struct {
	fabric, class string
	nodes         []*placement.Node // by rank
}

// spots returns every place that breaks no rule.
func (f *fleet) spots() []spot {
	classes := []string{""}
	for i := range f.nodes {
		for _, c := range f.nodes[i].Cards {
			if !slices.Contains(classes, c.Class) {
				classes = append(classes, c.Class)
			}
		}
	}
	fabrics := []string{""}
	if len(f.wish.Need.Ranks) > 1 {
		fabrics = []string{"ib-a", "ib-b"}
	}
	var out []spot
	for _, fabric := range fabrics {
		for _, class := range classes {
			f.extend(spot{fabric: fabric, class: class}, &out)
		}
	}
	return out
}

// extend adds to out every place that begins with the nodes of s.
func (f *fleet) extend(s spot, out *[]spot) {
	rank := len(s.nodes)
	if rank == len(f.wish.Need.Ranks) {
		*out = append(*out, s)
		return
	}
	for i := range f.nodes {
		n := &f.nodes[i]
		if slices.Contains(s.nodes, n) || !f.mayUse(n, s.fabric) || !f.hasRoom(n, s.class, f.wish.Need.Ranks[rank]) {
			continue
		}
		next := s
		next.nodes = append(slices.Clone(s.nodes), n)
		f.extend(next, out)
	}
}

// mayUse is the rules that have nothing to do with amounts.
func (f *fleet) mayUse(n *placement.Node, fabric string) bool {
	w := f.wish
	if n.State != placement.Ready || !n.Connected || n.Cordon != placement.NoCordon {
		return false
	}
	if len(w.Nodes) > 0 && !slices.Contains(w.Nodes, n.ID) {
		return false
	}
	for k, v := range w.Labels {
		if have, ok := n.Labels[k]; !ok || have != v {
			return false
		}
	}
	if w.Need.Engine != "" && n.Engines != nil {
		if problem, ok := n.Engines[w.Need.Engine]; !ok || problem != "" {
			return false
		}
	}
	for _, feature := range w.Need.CPUFeatures {
		if len(n.CPUFeatures) > 0 && !slices.Contains(n.CPUFeatures, feature) {
			return false
		}
	}
	for _, c := range f.claims {
		if onNode(c, n.ID) && (slices.Contains(w.Apart, c.Model) || slices.Contains(c.Apart, w.Model)) {
			return false
		}
	}
	if fabric == "" {
		return true
	}
	verdict, in := verdictOf(n, fabric)
	return in && verdict != engines.Contradicted
}

func verdictOf(n *placement.Node, fabric string) (engines.Verdict, bool) {
	for _, m := range n.Fabrics {
		if m.Name == fabric {
			return m.Verdict, true
		}
	}
	return "", false
}

func onNode(c placement.Claim, node string) bool {
	return slices.ContainsFunc(c.Shards, func(s placement.ShardPlace) bool { return s.Node == node })
}

// hasRoom is the rules of amounts.
func (f *fleet) hasRoom(n *placement.Node, class string, r placement.RankNeed) bool {
	ports, host := r.Ports, r.HostBytes
	per, known := f.needOf(class).CardBytes.Get()
	if r.Cards == 0 {
		known = false
	}
	if known && n.Unified {
		host += uint64(r.Cards) * per
	}
	for _, c := range f.claims {
		for _, s := range c.Shards {
			if s.Node == n.ID {
				ports += s.Ports
				host += s.HostBytes
			}
		}
	}
	// What others hold counts only against those who ask for some.
	if free, known := n.FreePorts.Get(); known && r.Ports > 0 && ports > free {
		return false
	}
	asks := r.HostBytes > 0 || (n.Unified && known && per > 0)
	if free, known := n.HostFreeBytes.Get(); known && asks && host > free {
		return false
	}
	return len(f.cardsFor(n, class)) >= r.Cards
}

// needOf is what the wish needs of cards of a class.
func (f *fleet) needOf(class string) placement.ClassNeed {
	if of, other := f.wish.Need.ByClass[class]; other {
		return of
	}
	return placement.ClassNeed{CardBytes: f.wish.Need.CardBytes}
}

// cardsFor returns the places of the cards that the wish can have there.
func (f *fleet) cardsFor(n *placement.Node, class string) []int {
	var out []int
	for i, c := range n.Cards {
		need := f.wish.Need
		accepted := len(need.Classes) == 0
		for _, a := range need.Classes {
			accepted = accepted || strings.Contains(strings.ToLower(c.Class), strings.ToLower(a))
		}
		if accepted && c.Class == class && f.unclaimed(n, c) && c.Problem == "" && f.needOf(class).Never == "" && memoryDoes(n, c, f.needOf(class).CardBytes) {
			out = append(out, i)
		}
	}
	return out
}

func (f *fleet) unclaimed(n *placement.Node, c placement.Card) bool {
	for _, claim := range f.claims {
		for _, s := range claim.Shards {
			if s.Node == n.ID && slices.Contains(s.Cards, c.ID) {
				return false
			}
		}
	}
	return true
}

func memoryDoes(n *placement.Node, c placement.Card, need engines.Opt[uint64]) bool {
	if n.Unified {
		return true
	}
	total, totalKnown := c.MemoryBytes.Get()
	free, freeKnown := c.FreeBytes.Get()
	if !freeKnown && len(c.Foreign) > 0 {
		if !totalKnown {
			return false
		}
		left := int64(total)
		for _, p := range c.Foreign {
			held, known := p.MemoryBytes.Get()
			if !known {
				return false
			}
			left -= int64(held)
		}
		free, freeKnown = uint64(max(0, left)), true
	}
	want, wantKnown := need.Get()
	switch {
	case wantKnown && freeKnown:
		return free >= want
	case wantKnown && totalKnown:
		return total >= want
	case !wantKnown && freeKnown && totalKnown:
		return 10*free >= 9*total
	}
	return true
}

// isWhole reports whether all of the node's cards are wholly free.
func (f *fleet) isWhole(n *placement.Node) bool {
	for _, c := range n.Cards {
		if !f.unclaimed(n, c) || c.Problem != "" || !memoryDoes(n, c, engines.Opt[uint64]{}) {
			return false
		}
	}
	return len(n.Cards) > 0
}

// wholeIn counts the nodes of a fabric that are wholly free and take replicas.
func (f *fleet) wholeIn(fabric string) int {
	count := 0
	for i := range f.nodes {
		n := &f.nodes[i]
		verdict, in := verdictOf(n, fabric)
		if in && verdict != engines.Contradicted && n.State == placement.Ready && n.Connected && n.Cordon == placement.NoCordon && f.isWhole(n) {
			count++
		}
	}
	return count
}

// score is what a place is worth if each rank gets the closest cards.
func (f *fleet) score(s spot) placement.Score {
	var out placement.Score
	for rank, n := range s.nodes {
		cards := f.wish.Need.Ranks[rank].Cards
		if v, in := verdictOf(n, s.fabric); in && v != engines.Confirmed {
			out[placement.FabricUnconfirmed]++
		}
		out[placement.SameModelInDomain] += int32(f.sameModel(n))
		if seen := n.Weights["w"] == placement.Holds || n.WeightsShared["w"] != ""; f.wish.WeightsKey != "" && !seen {
			out[placement.WeightsUnseen]++
			if !f.filerIn(s.fabric) {
				out[placement.WeightsMissing]++
			}
		}
		if cards > 0 && f.isWhole(n) {
			out[placement.WholeNodesBroken]++
			most := f.wholeIn(s.fabric)
			if s.fabric == "" {
				most = 0
				for _, m := range n.Fabrics {
					if m.Verdict != engines.Contradicted {
						most = max(most, f.wholeIn(m.Name))
					}
				}
			}
			out[placement.WholeNodesInFabric] += int32(most)
		}
		for _, c := range n.Cards {
			if f.unclaimed(n, c) && c.Problem == "" {
				out[placement.CardsLeft]++
			}
		}
		out[placement.CardsLeft] -= int32(cards)
		out[placement.CardDistance] += int32(closest(n, f.cardsFor(n, s.class), cards))
	}
	return out
}

// sameModel counts the model's replicas in the node's failure domain.
func (f *fleet) sameModel(n *placement.Node) int {
	count := 0
	for _, c := range f.claims {
		if c.Model != f.wish.Model {
			continue
		}
		there := false
		for i := range f.nodes {
			other := &f.nodes[i]
			same := other.ID == n.ID
			if domain, ok := n.Labels[f.wish.Spread]; ok && f.wish.Spread != "" {
				theirs, ok := other.Labels[f.wish.Spread]
				same = ok && theirs == domain
			}
			there = there || (same && onNode(c, other.ID))
		}
		if there {
			count++
		}
	}
	return count
}

func (f *fleet) filerIn(fabric string) bool {
	return slices.ContainsFunc(f.nodes, func(n placement.Node) bool {
		v, in := verdictOf(&n, fabric)
		return in && v != engines.Contradicted && n.WeightsShared["w"] != ""
	})
}

// closest returns the least sum of distances of so many of the cards.
func closest(n *placement.Node, from []int, count int) int {
	best := -1
	for set := range 1 << len(from) {
		sum, size := 0, 0
		for i := range from {
			for j := range i {
				if set>>i&1 == 1 && set>>j&1 == 1 {
					sum += apart(n, from[i], from[j])
				}
			}
			size += set >> i & 1
		}
		if size == count && (best < 0 || sum < best) {
			best = sum
		}
	}
	return best
}

func apart(n *placement.Node, i, j int) int {
	return min(way(n, i, j), way(n, j, i))
}

func way(n *placement.Node, i, j int) int {
	if n.Links != nil && n.Links[i][j] != "" {
		return map[string]int{"X": 0, "NV4": 0, "NV18": 0, "XGMI": 0, "PIX": 1, "PXB": 2, "PHB": 3, "NODE": 4, "SYS": 5}[n.Links[i][j]]
	}
	a, b := n.Cards[i], n.Cards[j]
	an, aKnown := a.NUMA.Get()
	bn, bKnown := b.NUMA.Get()
	switch {
	case len(a.PCIPath) > 0 && slices.Equal(a.PCIPath, b.PCIPath):
		return 1
	case len(a.PCIPath) > 0 && len(b.PCIPath) > 0 && a.PCIPath[0] == b.PCIPath[0]:
		return 2
	case aKnown && bKnown && an == bn:
		return 4
	}
	return 5
}

// faults returns what is wrong with a decision that placed the wish.
func (f *fleet) faults(d placement.Decision) []string {
	var out []string
	s := spot{fabric: d.Fabric, class: d.Class}
	distance := 0
	for rank, shard := range d.Shards {
		at := slices.IndexFunc(f.nodes, func(n placement.Node) bool { return n.ID == shard.Node })
		if at < 0 {
			return append(out, "no node "+shard.Node)
		}
		n := &f.nodes[at]
		s.nodes = append(s.nodes, n)
		var places []int
		for _, id := range shard.Cards {
			place := slices.IndexFunc(n.Cards, func(c placement.Card) bool { return c.ID == id })
			if !slices.Contains(f.cardsFor(n, d.Class), place) || slices.Contains(places, place) {
				out = append(out, fmt.Sprintf("rank %d may not have card %s", rank, id))
			}
			places = append(places, place)
		}
		if len(places) != f.wish.Need.Ranks[rank].Cards {
			out = append(out, fmt.Sprintf("rank %d has %d cards", rank, len(places)))
			continue
		}
		distance += closest(n, places, len(places))
	}
	matches := func(o spot) bool { return o.fabric == s.fabric && o.class == s.class && slices.Equal(o.nodes, s.nodes) }
	if !slices.ContainsFunc(f.spots(), matches) {
		return append(out, "the place breaks a rule")
	}
	if want := f.score(s); d.Score != want {
		out = append(out, fmt.Sprintf("the score is %v, want %v", d.Score, want))
	}
	if int32(distance) != d.Score[placement.CardDistance] {
		out = append(out, fmt.Sprintf("the cards are %d apart", distance))
	}
	return out
}

// The solver places what can be placed, and nowhere is better.
func TestOracle(t *testing.T) {
	const seed = 1
	placed, ganged := 0, 0
	for i := range uint64(oracleFleets) {
		rng := rand.New(rand.NewPCG(seed, i))
		f := drawFleet(rng.IntN, 6)
		d := f.cluster().Place(f.wish)
		spots := f.spots()
		if d.Placed != (len(spots) > 0) {
			t.Fatalf("fleet %d: placed %v, and there are %d places\n%s", i, d.Placed, len(spots), d.Explain())
		}
		if !d.Placed {
			continue
		}
		placed++
		if len(d.Shards) > 1 {
			ganged++
		}
		if faults := f.faults(d); len(faults) > 0 {
			t.Fatalf("fleet %d: %s\n%s", i, strings.Join(faults, "; "), d.Explain())
		}
		for _, s := range spots {
			if score := f.score(s); score.Compare(&d.Score) < 0 {
				t.Fatalf("fleet %d: fabric %q, class %q, nodes %v is better: %v, not %v\n%s", i, s.fabric, s.class, ids(s.nodes), score, d.Score, d.Explain())
			}
		}
	}
	t.Logf("%d fleets, %d placed, of which %d gangs", oracleFleets, placed, ganged)
	// Fleets in which nothing fits would prove little.
	if placed < oracleFleets/4 || ganged < oracleFleets/20 {
		t.Errorf("too few fleets had a place: %d of %d, %d gangs", placed, oracleFleets, ganged)
	}
}

func ids(nodes []*placement.Node) []string {
	out := make([]string, len(nodes))
	for i, n := range nodes {
		out[i] = n.ID
	}
	return out
}
