package placement_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/placement"
)

func oneCard(id string) placement.Node {
	return placement.Node{ID: id, State: placement.Ready, Connected: true, Cards: []placement.Card{{ID: "c0"}}}
}

func TestTheLastOfTwoCounts(t *testing.T) {
	cordoned := oneCard("a")
	cordoned.Cordon = placement.Cordoned
	c := placement.NewCluster(
		[]placement.Node{oneCard("b"), cordoned, oneCard("a")},
		[]placement.Claim{
			{Replica: "r", Model: "x", Shards: []placement.ShardPlace{{Node: "a", Cards: []string{"c0"}}}},
			{Replica: "r", Model: "y", Shards: []placement.ShardPlace{{Node: "b", Cards: []string{"c0"}}}},
		},
	)
	d := c.Place(bareWish(1))
	if !d.Placed || d.Shards[0].Node != "a" || len(d.Others)+len(d.Rejected) != 1 {
		t.Errorf("%s", d.Explain())
	}
	if claim, ok := c.ClaimOf("r"); !ok || claim.Model != "y" {
		t.Errorf("%+v, %v", claim, ok)
	}
	if _, ok := c.ClaimOf("none"); ok {
		t.Error("a claim of a replica that has none")
	}
	if n, ok := c.Node("a"); !ok || n.Cordon != placement.NoCordon {
		t.Errorf("%+v, %v", n, ok)
	}
	if _, ok := c.Node("z"); ok {
		t.Error("a node that is not there")
	}
}

func bareWish(cards ...int) placement.Wish {
	w := placement.Wish{Model: "m", Replica: "new"}
	for _, n := range cards {
		w.Need.Ranks = append(w.Need.Ranks, placement.RankNeed{Cards: n})
	}
	return w
}

// The zero Cluster is a fleet without nodes, and can be changed.
func TestZeroCluster(t *testing.T) {
	var c placement.Cluster
	if d := c.Place(bareWish(1)); d.Placed || d.Why != "no node is known" {
		t.Errorf("%+v", d)
	}
	c.RemoveNode("a")
	c.Release("r")
	clone := c.Clone()
	clone.SetNode(oneCard("a"))
	if d := clone.Place(bareWish(1)); !d.Placed {
		t.Error(d.Explain())
	}
	if d := c.Place(bareWish(1)); d.Placed {
		t.Error(d.Explain())
	}
}

// A wish that is none is not placed, and says what is wrong.
func TestNoWish(t *testing.T) {
	c := placement.NewCluster([]placement.Node{oneCard("a")}, nil)
	if d := c.Place(placement.Wish{Model: "m"}); d.Placed || !strings.Contains(d.Why, "need.ranks is empty") {
		t.Errorf("%+v", d)
	}
}

// Amounts beyond all measure are too much, and never little.
func TestAmountsDoNotWrap(t *testing.T) {
	n := oneCard("a")
	n.Unified, n.HostFreeBytes = true, engines.Known[uint64](100)
	c := placement.NewCluster([]placement.Node{n}, nil)
	w := bareWish(1)
	w.Need.CardBytes, w.Need.Ranks[0].HostBytes = engines.Known[uint64](math.MaxUint64), 2
	if d := c.Place(w); d.Placed {
		t.Error(d.Explain())
	}
	w = bareWish(0)
	w.Need.Ranks[0].HostBytes = 1
	for i := range 2 {
		c.Claim(placement.Claim{Replica: fmt.Sprint(i), Shards: []placement.ShardPlace{{Node: "a", HostBytes: math.MaxUint64 - 10}}})
	}
	if d := c.Place(w); d.Placed {
		t.Error(d.Explain())
	}
}

// Questions may be asked at once, of a cluster and of its clones, while these
// change.
func TestClonesAtOnce(t *testing.T) {
	c := placement.NewCluster(bigFleet(100))
	w := bigWish(3)
	want := c.Place(w).Explain()
	var wg sync.WaitGroup
	for range 4 {
		clone := c.Clone()
		wg.Go(func() {
			for i := range 10 {
				if got := c.Place(w).Explain(); got != want {
					t.Errorf("changed:\n%s\nwas:\n%s", got, want)
				}
				own := w
				own.Replica = fmt.Sprint(i)
				d := clone.Place(own)
				clone.Claim(own.Claim(d))
			}
		})
	}
	wg.Wait()
}

// Free cards of a fabric are those of its members that take replicas, whole nodes or
// not; nodes come by ID.
func TestFreeCardsOfFabrics(t *testing.T) {
	node := func(id string, verdict engines.Verdict, cards ...placement.Card) placement.Node {
		return placement.Node{
			ID: id, State: placement.Ready, Connected: true, Cards: cards, Fabrics: []placement.FabricMember{{Name: "f", Verdict: verdict}},
		}
	}
	free := placement.Card{ID: "0", MemoryBytes: engines.Known(uint64(80 << 30)), FreeBytes: engines.Known(uint64(80 << 30))}
	other, broken, full := free, free, free
	other.ID, broken.ID, full.ID = "1", "2", "3"
	broken.Problem, full.FreeBytes = "xid-79", engines.Known(uint64(8<<30))
	away := node("away", engines.Confirmed, free)
	away.Cordon = placement.Cordoned
	c := placement.NewCluster([]placement.Node{
		node("whole", engines.Confirmed, free, other), node("mixed", engines.Confirmed, free, other, broken, full), node("denied", engines.Contradicted, free), away,
	}, []placement.Claim{{Replica: "r", Model: "m", Shards: []placement.ShardPlace{{Node: "mixed", Cards: []string{"1"}}}}})
	want := placement.FabricCapacity{Fabric: "f", Members: 4, Contradicted: 1, WholeFree: 1, FreeCards: 3}
	if got := c.Capacity().Fabrics; len(got) != 1 || got[0] != want {
		t.Errorf("%+v; want %+v", got, want)
	}
	var ids []string
	for n := range c.Nodes() {
		if ids = append(ids, n.ID); n.ID == "mixed" {
			break
		}
	}
	if !slices.Equal(ids, []string{"away", "denied", "mixed"}) {
		t.Errorf("nodes %q", ids)
	}
}
