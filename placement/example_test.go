package placement_test

import (
	"fmt"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/placement"
)

// machine returns a node with so many cards in a fabric, as a program would make
// it of a registration with [placement.NodeOf].
func machine(id, fabric string, cards int) placement.Node {
	inv := &engines.Inventory{
		Fabrics: []engines.Fabric{{Name: fabric}},
		State:   engines.NodeState{Fabrics: []engines.FabricState{{Name: fabric, Verdict: engines.Confirmed}}},
	}
	for i := range cards {
		uuid := fmt.Sprintf("GPU-%s-%d", id, i)
		inv.GPUs = append(inv.GPUs, engines.GPU{Index: i, UUID: uuid, Name: "NVIDIA H100", MemoryBytes: engines.Known[uint64](80 << 30)})
		inv.State.GPUs = append(inv.State.GPUs, engines.GPUState{GPU: uuid, Health: engines.Health{State: engines.Healthy}})
	}
	n := placement.NodeOf(id, inv)
	n.State, n.Connected = placement.Ready, true
	return n
}

func Example() {
	c := placement.NewCluster([]placement.Node{machine("a1", "ib-a", 2), machine("a2", "ib-a", 2), machine("b1", "ib-b", 2)}, nil)
	gang := placement.Wish{
		Model: "large", Replica: "large-1",
		Need: placement.Need{Ranks: []placement.RankNeed{{Cards: 2}, {Cards: 2}}},
	}
	d := c.Place(gang)
	fmt.Print(d.Explain())

	// Whoever acts on it claims it; the next decision sees that.
	c.Claim(gang.Claim(d))
	gang.Replica = "large-2"
	fmt.Print(c.Place(gang).Explain())
	// Output:
	// replica large-1 of model large: fabric ib-a is the only one with nodes that fit all 2 ranks
	//   rank 0: a1 GPU-a1-0 GPU-a1-1
	//   rank 1: a2 GPU-a2-0 GPU-a2-1
	//   not b1: it would do, but fabric ib-b with NVIDIA H100 holds 1 of 2 ranks
	//   fabric ib-a: needs 2 nodes with 2 cards of one class, each wholly free, has 2 (NVIDIA H100); 2 of 2 wholly free
	//   fabric ib-b: 1 node short: needs 2 nodes with 2 cards of one class, each wholly free, has 1 (NVIDIA H100); 1 of 1 wholly free
	// replica large-2 of model large: no place: no fabric holds all 2 ranks; fabric ib-b: 1 node short: needs 2 nodes with 2 cards of one class, each wholly free, has 1 (NVIDIA H100); 1 of 1 wholly free; nodes: 2 cards-short, 1 fabric-short
	//   not a1: needs 2 cards of one class, each wholly free; of 2 cards has 0, 2 taken (replica large-1 of model large)
	//   not a2: needs 2 cards of one class, each wholly free; of 2 cards has 0, 2 taken (replica large-1 of model large)
	//   not b1: it would do, but fabric ib-b with NVIDIA H100 holds 1 of 2 ranks
	//   fabric ib-a: 2 nodes short: needs 2 nodes with 2 cards of one class, each wholly free, has 0; 0 of 2 wholly free
	//   fabric ib-b: 1 node short: needs 2 nodes with 2 cards of one class, each wholly free, has 1 (NVIDIA H100); 1 of 1 wholly free
}

// What if a node were gone, or came, is asked of a clone.
func ExampleCluster_Clone() {
	c := placement.NewCluster([]placement.Node{machine("a1", "ib-a", 2)}, nil)
	w := placement.Wish{
		Model: "large", Replica: "large-1",
		Need: placement.Need{Ranks: []placement.RankNeed{{Cards: 2}, {Cards: 2}}},
	}
	what := c.Clone()
	what.SetNode(machine("a2", "ib-a", 2))
	fmt.Println("as it is:", c.Place(w).Placed)
	fmt.Println("with a2:", what.Place(w).Placed)
	// Output:
	// as it is: false
	// with a2: true
}

func ExampleCluster_Fits() {
	c := placement.NewCluster([]placement.Node{machine("a1", "ib-a", 2)}, nil)
	fmt.Println(c.Fits(placement.Wish{Model: "huge", Need: placement.Need{Ranks: []placement.RankNeed{{Cards: 4}}}}))
	// Output:
	// placement: no known node could hold it, even empty: model "huge": 0 of 1 nodes fit: 1 cards-short; nearest a1: needs 4 cards of one class, each wholly free; of 2 cards has 2
}
