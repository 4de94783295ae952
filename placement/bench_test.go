package placement_test

import (
	"fmt"
	"testing"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/placement"
)

// bigFleet returns nodes of 8 cards each, 50 to a fabric and 10 to a rack, as
// real ones are: two halves of four cards, most of them in use. Of every ten
// nodes one is wholly free, six hold replicas on some cards, one has two cards
// with faults, one is cordoned, and one is silent.
func bigFleet(nodes int) (out []placement.Node, claims []placement.Claim) {
	for i := range nodes {
		n := placement.Node{
			ID: fmt.Sprintf("gpu-%04d", i), State: placement.Ready, Connected: true,
			Labels:        map[string]string{"rack": fmt.Sprintf("r%03d", i/10), "zone": fmt.Sprintf("z%d", i/500)},
			Fabrics:       []placement.FabricMember{{Name: fmt.Sprintf("ib-%02d", i/50), Verdict: engines.Confirmed}},
			HostFreeBytes: engines.Known[uint64](1 << 40), CPUFeatures: []string{"avx2", "avx512f"},
			Engines: map[engines.Name]string{engines.VLLM: "", engines.SGLang: ""}, FreePorts: engines.Known(900),
			Weights: map[string]placement.Holding{"w": placement.Holding(i % 3)},
		}
		for j := range 8 {
			n.Cards = append(n.Cards, placement.Card{
				ID: fmt.Sprintf("GPU-%04d-%d", i, j), Index: j, Class: "NVIDIA H100 80GB HBM3", Vendor: engines.NVIDIA,
				MemoryBytes: engines.Known[uint64](80 << 30), FreeBytes: engines.Known[uint64](79 << 30), NUMA: engines.Known(j / 4),
			})
		}
		switch kind := i % 10; kind {
		case 0:
		case 7:
			n.Cards[1].Problem, n.Cards[6].Problem = "xid-79", "ecc-uncorrected"
		case 8:
			n.Cordon, n.CordonReason = placement.Cordoned, "new firmware"
		case 9:
			n.State, n.Connected = placement.Unreachable, false
		default:
			c := placement.Claim{Replica: fmt.Sprintf("r%04d", i), Model: fmt.Sprintf("model-%d", i%200), Shards: []placement.ShardPlace{{Node: n.ID}}}
			for j := range kind {
				c.Shards[0].Cards = append(c.Shards[0].Cards, n.Cards[j].ID)
			}
			claims = append(claims, c)
		}
		out = append(out, n)
	}
	return out, claims
}

func bigWish(cards ...int) placement.Wish {
	w := placement.Wish{
		Model: "m", Replica: "new", WeightsKey: "w", Spread: "rack", Labels: map[string]string{"zone": "z0"}, Apart: []string{"batch"},
		Need: placement.Need{Engine: engines.VLLM, CardBytes: engines.Known[uint64](60 << 30), Classes: []string{"H100"}, CPUFeatures: []string{"avx2"}},
	}
	for _, n := range cards {
		w.Need.Ranks = append(w.Need.Ranks, placement.RankNeed{Cards: n, Ports: 3, HostBytes: 64 << 30})
	}
	return w
}

func BenchmarkPlace(b *testing.B) {
	for _, bb := range []struct {
		name string
		wish placement.Wish
	}{
		{"one", bigWish(2)},
		{"gang", bigWish(8, 8, 8, 8)},
		{"uneven-gang", bigWish(0, 4, 8, 8)},
		{"nowhere", bigWish(8, 8, 8, 8, 8, 8, 8, 8)},
	} {
		for _, nodes := range []int{1000, 2000} {
			b.Run(fmt.Sprintf("%s/nodes=%d", bb.name, nodes), func(b *testing.B) {
				c := placement.NewCluster(bigFleet(nodes))
				bb.wish.Labels = nil
				if got := c.Place(bb.wish); got.Placed != (bb.name != "nowhere") {
					b.Fatal(got.Explain())
				}
				b.ReportAllocs()
				for b.Loop() {
					c.Place(bb.wish)
				}
			})
		}
	}
}

// A pass over a fleet that has just begun: each model is placed and claimed.
func BenchmarkPass(b *testing.B) {
	for _, nodes := range []int{1000, 2000} {
		b.Run(fmt.Sprintf("models=200/nodes=%d", nodes), func(b *testing.B) {
			fleet, claims := bigFleet(nodes)
			for b.Loop() {
				c := placement.NewCluster(fleet, claims)
				placed := 0
				for i := range 200 {
					w := bigWish([][]int{{1}, {2}, {4}, {8}, {4, 4}}[i%5]...)
					w.Labels = nil
					w.Model, w.Replica = fmt.Sprintf("model-%d", i), fmt.Sprintf("new-%d", i)
					if d := c.Place(w); d.Placed {
						c.Claim(w.Claim(d))
						placed++
					}
				}
				if placed != 200 {
					b.Fatalf("%d placed", placed)
				}
			}
		})
	}
}

func BenchmarkNewCluster(b *testing.B) {
	for _, nodes := range []int{1000, 2000} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			fleet, claims := bigFleet(nodes)
			for b.Loop() {
				placement.NewCluster(fleet, claims)
			}
		})
	}
}

// What a heartbeat costs.
func BenchmarkSetNode(b *testing.B) {
	fleet, claims := bigFleet(2000)
	c := placement.NewCluster(fleet, claims)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		c.SetNode(fleet[i%len(fleet)])
	}
}

// A question of what if: a clone in which a node drains, and a place in it.
func BenchmarkWhatIf(b *testing.B) {
	fleet, claims := bigFleet(2000)
	c := placement.NewCluster(fleet, claims)
	drained := fleet[0]
	drained.Cordon = placement.Draining
	w := bigWish(2)
	for b.Loop() {
		what := c.Clone()
		what.SetNode(drained)
		what.Place(w)
	}
}
