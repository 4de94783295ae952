package placement_test

import (
	"fmt"
	"slices"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/placement"
)

// dice returns a number from 0 to n-1.
type dice func(n int) int

// chance is true in so many of a hundred cases.
func (d dice) chance(percent int) bool { return d(100) < percent }

func (d dice) gib(percentKnown int, sizes ...uint64) engines.Opt[uint64] {
	if !d.chance(percentKnown) {
		return engines.Opt[uint64]{}
	}
	return engines.Known(sizes[d(len(sizes))] << 30)
}

func pickOf[T any](d dice, from ...T) T { return from[d(len(from))] }

// fleet is nodes, what replicas hold of them, and a wish.
type fleet struct {
	nodes  []placement.Node
	claims []placement.Claim
	wish   placement.Wish
}

// drawFleet draws up to so many small nodes, in any state, of which much is not
// known; claims, also of cards and nodes that are not there; and a wish that may
// ask for anything.
func drawFleet(d dice, most int) fleet {
	var f fleet
	for i := range max(d(most+1), d(most+1)) {
		f.nodes = append(f.nodes, drawNode(d, fmt.Sprintf("n%d", i)))
	}
	f.claims = drawClaims(d, f.nodes)
	f.wish = drawWish(d, f.nodes)
	return f
}

func drawNode(d dice, id string) placement.Node {
	n := placement.Node{ID: id, State: placement.Ready, Connected: !d.chance(3)}
	if d.chance(5) {
		n.State = pickOf(d, placement.Unheard, placement.Unreachable, placement.Lost)
	}
	if d.chance(5) {
		n.Cordon, n.CordonReason = pickOf(d, placement.Cordoned, placement.Draining), pickOf(d, "", "disks")
	}
	if d.chance(60) {
		n.Labels = map[string]string{"rack": pickOf(d, "r1", "r2")}
		if d.chance(30) {
			n.Labels["tier"] = pickOf(d, "gold", "tin")
		}
	}
	for _, name := range []string{"ib-a", "ib-b"} {
		if d.chance(65) {
			n.Fabrics = append(n.Fabrics, placement.FabricMember{
				Name:    name,
				Verdict: pickOf(d, engines.Confirmed, engines.Confirmed, engines.Confirmed, engines.Unknown, "", engines.Contradicted),
			})
		}
	}
	n.Unified = d.chance(5)
	n.CardsUnknown = d.chance(3)
	if !n.CardsUnknown {
		drawCards(d, &n)
	}
	n.HostFreeBytes = d.gib(70, 20, 60, 200)
	if free, known := n.HostFreeBytes.Get(); known && d.chance(80) {
		n.HostBytes = engines.Known(free + uint64(d(3))*50<<30)
	}
	if d.chance(40) {
		n.CPUFeatures = pickOf(d, []string{"avx2"}, []string{"avx2", "avx512f"})
	}
	if d.chance(50) {
		n.Engines = map[engines.Name]string{engines.SGLang: ""}
		if d.chance(90) {
			n.Engines[engines.VLLM] = pickOf(d, "", "", "", "", "no such file")
		}
	}
	if d.chance(60) {
		n.Weights = map[string]placement.Holding{"w": pickOf(d, placement.NotLooked, placement.Lacks, placement.Holds)}
	}
	if d.chance(15) {
		n.WeightsShared = map[string]string{"w": pickOf(d, "nfs-1", "nfs-2")}
	}
	if d.chance(50) {
		n.FreePorts = engines.Known(d(8))
	}
	return n
}

func drawCards(d dice, n *placement.Node) {
	class := pickOf(d, "NVIDIA H100", "NVIDIA H100", "NVIDIA L4")
	for i := range max(d(5), d(5)) {
		if d.chance(10) {
			class = pickOf(d, "NVIDIA H100", "NVIDIA L4", "")
		}
		card := placement.Card{ID: fmt.Sprintf("c%d", i), Index: i, Class: class, MemoryBytes: engines.Known[uint64](80 << 30)}
		if d.chance(5) {
			card.MemoryBytes = engines.Opt[uint64]{}
		}
		if card.FreeBytes = card.MemoryBytes; d.chance(15) {
			card.FreeBytes = d.gib(50, 0, 30, 72, 79)
		}
		if d.chance(10) {
			card.Problem = "xid-79"
		}
		if d.chance(10) {
			card.Foreign = []engines.GPUProcess{{PID: 7, Name: "python", MemoryBytes: d.gib(70, 1, 50, 100)}}
		}
		if d.chance(50) {
			card.NUMA = engines.Known(d(2))
		}
		if d.chance(50) {
			card.PCIPath = pickOf(d, []string{"p"}, []string{"p", "q"}, []string{"r"})
		}
		n.Cards = append(n.Cards, card)
	}
	if !d.chance(50) {
		return
	}
	n.Links = make([][]string, len(n.Cards))
	for i := range n.Links {
		for range n.Cards {
			n.Links[i] = append(n.Links[i], pickOf(d, "", "X", "NV4", "NV18", "XGMI", "PIX", "PXB", "PHB", "NODE", "SYS", "SYS", "SYS"))
		}
	}
}

func drawClaims(d dice, nodes []placement.Node) []placement.Claim {
	var out []placement.Claim
	taken := make(map[string]bool)
	for i := range d(len(nodes) + 2) {
		c := placement.Claim{Replica: fmt.Sprintf("r%d", i), Model: pickOf(d, "m", "m", "x", "y")}
		if d.chance(15) {
			c.Apart = []string{pickOf(d, "m", "x")}
		}
		for range 1 + d(2) {
			shard := placement.ShardPlace{Node: fmt.Sprintf("n%d", d(len(nodes)+1))}
			for j := range d(3) {
				at := fmt.Sprintf("c%d", j+d(3))
				if key := shard.Node + at; !taken[key] {
					taken[key] = true
					shard.Cards = append(shard.Cards, at)
				}
			}
			if d.chance(20) {
				shard.Ports, shard.HostBytes = d(4), uint64(d(60))<<30
			}
			c.Shards = append(c.Shards, shard)
		}
		out = append(out, c)
	}
	return out
}

func drawWish(d dice, nodes []placement.Node) placement.Wish {
	w := placement.Wish{Model: "m", Replica: "new", Need: placement.Need{Engine: pickOf(d, engines.VLLM, engines.VLLM, "")}}
	alike := d.chance(60)
	cards := min(d(4), d(4))
	for range 1 + d(3) {
		r := placement.RankNeed{Cards: cards}
		if !alike {
			r.Cards = min(d(4), d(4))
		}
		if d.chance(20) {
			r.Ports, r.HostBytes = d(6), uint64(d(60))<<30
		}
		w.Need.Ranks = append(w.Need.Ranks, r)
	}
	w.Need.CardBytes = d.gib(60, 10, 40, 80)
	for _, class := range []string{"H100", "L4"} {
		if d.chance(15) {
			if w.Need.ByClass == nil {
				w.Need.ByClass = make(map[string]placement.ClassNeed)
			}
			w.Need.ByClass[class] = placement.ClassNeed{CardBytes: d.gib(70, 5, 20, 60), Never: pickOf(d, "", "", "it is too small")}
		}
	}
	if d.chance(30) {
		w.Need.Classes = pickOf(d, []string{"H100"}, []string{"H100"}, []string{"l4"}, []string{"H100", "L4"}, []string{"B200"})
	}
	if d.chance(15) {
		w.Need.CPUFeatures = []string{pickOf(d, "avx2", "avx512f")}
	}
	if d.chance(60) {
		w.WeightsKey = "w"
	}
	if d.chance(10) {
		for range 1 + d(4) {
			w.Nodes = append(w.Nodes, fmt.Sprintf("n%d", d(len(nodes)+1)))
		}
	}
	if d.chance(10) {
		w.Labels = map[string]string{"rack": "r1"}
	}
	if d.chance(50) {
		w.Spread = "rack"
	}
	if d.chance(15) {
		w.Apart = []string{pickOf(d, "m", "x")}
	}
	return w
}

// shuffled returns the same nodes and claims in another order.
func (f fleet) shuffled(d dice) fleet {
	out := fleet{nodes: slices.Clone(f.nodes), claims: slices.Clone(f.claims), wish: f.wish}
	for i := range out.nodes {
		j := d(i + 1)
		out.nodes[i], out.nodes[j] = out.nodes[j], out.nodes[i]
	}
	for i := range out.claims {
		j := d(i + 1)
		out.claims[i], out.claims[j] = out.claims[j], out.claims[i]
	}
	return out
}

func (f fleet) cluster() *placement.Cluster { return placement.NewCluster(f.nodes, f.claims) }
