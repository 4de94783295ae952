package placement_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/placement"
)

// A need may be another one on each class of cards: an engine that takes a part of
// its card takes less of a smaller one, and one class may be too small for ever.
func TestNeedByClass(t *testing.T) {
	const gib = 1 << 30
	node := func(id, class string, cards int, free, total uint64) placement.Node {
		n := placement.Node{ID: id, State: placement.Ready, Connected: true}
		for i := range cards {
			n.Cards = append(n.Cards, placement.Card{
				ID: fmt.Sprint(i), Index: i, Class: class, FreeBytes: engines.Known(free * gib), MemoryBytes: engines.Known(total * gib),
			})
		}
		return n
	}
	wish := placement.Wish{Model: "m", Replica: "r", Need: placement.Need{
		Ranks: []placement.RankNeed{{Cards: 1}},
		ByClass: map[string]placement.ClassNeed{
			"Large": {CardBytes: engines.Known[uint64](73 * gib)},
			"Small": {CardBytes: engines.Known[uint64](22 * gib)},
			"Tiny":  {Never: "vllm needs 16.0 GiB of a card"},
		},
	}}
	place := func(nodes ...placement.Node) placement.Decision { return placement.NewCluster(nodes, nil).Place(wish) }
	if d := place(node("a", "Large", 1, 70, 80), node("b", "Small", 1, 23, 24)); !d.Placed || d.Shards[0].Node != "b" {
		t.Errorf("%+v; want it on b, of whose card enough is free", d)
	}
	d := place(node("a", "Large", 1, 70, 80), node("b", "Tiny", 2, 16, 16))
	text := d.Explain()
	for _, want := range []string{"with 73.0 GiB free", "70.0 GiB free of 80.0 GiB", "2 that can never hold it (vllm needs 16.0 GiB of a card)"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
	if d.Placed || !d.CouldEver {
		t.Errorf("%+v; want that an empty Large could", d)
	}
	tiny := placement.NewCluster([]placement.Node{node("b", "Tiny", 2, 16, 16)}, nil)
	if err := tiny.Fits(wish); !errors.Is(err, placement.ErrUnfit) || !strings.Contains(err.Error(), "can never hold it") {
		t.Errorf("on Tiny alone: %v", err)
	}
	// A class of which nothing is said has to be wholly free.
	if d := place(node("a", "Other", 1, 70, 80)); d.Placed || !strings.Contains(d.Why, "wholly free") {
		t.Errorf("%+v", d)
	}
	// Of unified memory the class's own need counts.
	unified := node("u", "Small", 1, 0, 24)
	unified.Unified, unified.HostFreeBytes = true, engines.Known[uint64](23*gib)
	if d := place(unified); !d.Placed || d.Shards[0].HostBytes != 22*gib {
		t.Errorf("%+v; want it on unified memory", d)
	}
	unified.HostFreeBytes = engines.Known[uint64](21 * gib)
	if d := place(unified); d.Placed || !strings.Contains(d.Why, "needs 22.0 GiB of its memory, 21.0 GiB free") {
		t.Errorf("%+v", d)
	}
}
