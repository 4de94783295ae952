package reconcile_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/placement"
	"github.com/llmgw/llmgw/placement/reconcile"
)

// fates are what a forecast says of replicas, and where to.
func fates(f *reconcile.Forecast) map[string]string {
	out := map[string]string{}
	for _, r := range f.Replicas {
		text := r.Fate.String()
		if r.Decision != nil && r.Decision.Placed {
			text += " " + nodesOf(r.Decision.Shards)
		}
		out[r.Replica.ID] = text
	}
	return out
}

func nodesOf(shards []placement.ShardPlace) string {
	var text strings.Builder
	for _, s := range shards {
		text.WriteString("[" + s.Node + "]")
	}
	return text.String()
}

// What is forecast of a drain is what then happens.
func TestWhatIfDrainComesTrue(t *testing.T) {
	w := newWorld(t, 1)
	w.nodes("a", 2, 8)
	w.nodes("b", 2, 8)
	w.nodes("c", 4, 8)
	w.setModels(simModel("big", 2, 2, 16), simModel("small", 2, 1, 2))
	w.startPlane()
	w.until(120, "all serve", func() bool { return w.serves("big") == 2 && w.serves("small") == 2 })
	for _, node := range []string{"n1", "n5"} {
		before := w.core.Snapshot()
		forecast, err := before.WhatIf(reconcile.Change{Drain: []string{node}})
		if err != nil {
			t.Fatal(err)
		}
		again, err := before.WhatIf(reconcile.Change{Drain: []string{node}})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(fates(forecast), fates(again)); diff != "" {
			t.Errorf("asked again (-first +second):\n%s", diff)
		}
		want := map[string]int{}
		moves := 0
		for _, r := range forecast.Replicas {
			at := nodesOf(r.Replica.Row.Shards)
			if r.Decision != nil {
				moves++
				at = nodesOf(r.Decision.Shards)
			}
			want[r.Replica.Model+at]++
		}
		w.machine(node).cordon = placement.Draining
		w.until(900, node+" is empty", func() bool { return w.on(node) == "" && w.serves("big") == 2 && w.serves("small") == 2 })
		got := map[string]int{}
		for _, r := range w.core.View().Replicas {
			if r.State == reconcile.Ready {
				got[r.Model+nodesOf(r.Row.Shards)]++
			}
		}
		if diff := cmp.Diff(want, got); diff != "" || moves == 0 {
			t.Errorf("drain of %s, %d moves (-forecast +happened):\n%s", node, moves, diff)
		}
	}
}

// card is a wholly free card of 80 GiB.
func card(id string) placement.Card {
	return placement.Card{ID: id, Class: "H100", MemoryBytes: engines.Known(uint64(80 << 30)), FreeBytes: engines.Known(uint64(80 << 30))}
}

func plainNode(id, fabric string) placement.Node {
	return placement.Node{
		ID: id, State: placement.Ready, Connected: true, Cards: []placement.Card{card(id + "-0"), card(id + "-1")},
		Fabrics: []placement.FabricMember{{Name: fabric, Verdict: engines.Confirmed}},
	}
}

func gangWish(model string, ranks int) placement.Wish {
	w := placement.Wish{Model: model}
	for range ranks {
		w.Need.Ranks = append(w.Need.Ranks, placement.RankNeed{Cards: 2})
	}
	return w
}

// snapshotOf is a fleet where each replica is whole on the nodes that it names.
func snapshotOf(nodes []placement.Node, models []reconcile.ModelView, at map[string][]string) *reconcile.Snapshot {
	v := &reconcile.View{Models: models}
	var claims []placement.Claim
	for _, id := range sortedKeys(at) {
		row := reconcile.Row{ID: id, Model: id[:1], State: reconcile.Ready}
		for _, node := range at[id] {
			row.Shards = append(row.Shards, placement.ShardPlace{Node: node, Cards: []string{node + "-0", node + "-1"}})
		}
		r := reconcile.ReplicaView{Row: row}
		for _, place := range row.Shards {
			r.Shards = append(r.Shards, reconcile.ShardView{ShardPlace: place})
		}
		v.Replicas = append(v.Replicas, r)
		claims = append(claims, placement.Claim{Replica: id, Model: row.Model, Shards: row.Shards})
	}
	return &reconcile.Snapshot{View: v, Cluster: placement.NewCluster(nodes, claims)}
}

func TestWhatIf(t *testing.T) {
	abc := []placement.Node{plainNode("a1", "a"), plainNode("a2", "a"), plainNode("b1", "b"), plainNode("b2", "b")}
	gang := reconcile.ModelView{Name: "g", Wanted: 1, Wish: gangWish("g", 2)}
	one := reconcile.ModelView{Name: "o", Wanted: 1, Wish: gangWish("o", 1)}
	tests := []struct {
		name     string
		snapshot *reconcile.Snapshot
		change   reconcile.Change
		want     map[string]string
		placed   []string // of what is new, where; "" for no place
		before   []bool   // had it no place before
	}{
		{
			name:     "nothing is changed",
			snapshot: snapshotOf(abc, []reconcile.ModelView{gang}, map[string][]string{"g1": {"a1", "a2"}}),
			want:     map[string]string{"g1": "stays"},
		},
		{
			name:     "a gang goes to the other fabric",
			snapshot: snapshotOf(abc, []reconcile.ModelView{gang}, map[string][]string{"g1": {"a1", "a2"}}),
			change:   reconcile.Change{Drain: []string{"a2"}},
			want:     map[string]string{"g1": "moves [b1][b2]"},
		},
		{
			name:     "free cards on two fabrics are no place for a gang",
			snapshot: snapshotOf(abc, []reconcile.ModelView{gang, one}, map[string][]string{"g1": {"a1", "a2"}, "o1": {"b1"}}),
			change:   reconcile.Change{Drain: []string{"a2"}},
			want:     map[string]string{"g1": "no-place", "o1": "stays"},
		},
		{
			name:     "what it holds is needed for its next place",
			snapshot: snapshotOf(append(abc[:2:2], plainNode("a3", "a")), []reconcile.ModelView{gang}, map[string][]string{"g1": {"a1", "a2"}}),
			change:   reconcile.Change{Remove: []string{"a2"}},
			want:     map[string]string{"g1": "moves-after-end [a1][a3]"},
		},
		{
			name:     "a node that comes gives a place to what has none",
			snapshot: snapshotOf(abc[:3], []reconcile.ModelView{gang, one}, map[string][]string{"o1": {"a1"}}),
			change:   reconcile.Change{Add: []placement.Node{plainNode("b2", "b")}},
			want:     map[string]string{"o1": "stays"}, placed: []string{"[b1][b2]"}, before: []bool{true},
		},
		{
			name:     "one more than is wanted ends",
			snapshot: snapshotOf(abc, []reconcile.ModelView{one}, map[string][]string{"o1": {"a1"}, "o2": {"b1"}}),
			change:   reconcile.Change{Drain: []string{"b1"}},
			want:     map[string]string{"o1": "stays", "o2": "ends"},
		},
		{
			name:     "what is large is placed before what is small",
			snapshot: snapshotOf(abc[:2], nil, nil),
			change:   reconcile.Change{Models: []reconcile.Wanted{{Name: "s", Count: 1, Wish: gangWish("s", 1)}, {Name: "z", Count: 1, Wish: gangWish("z", 2)}}},
			want:     map[string]string{}, placed: []string{"[a1][a2]", ""}, before: []bool{false, false},
		},
		{
			name:     "a node in place of another",
			snapshot: snapshotOf(abc[:1], []reconcile.ModelView{one}, map[string][]string{"o1": {"a1"}}),
			change:   reconcile.Change{Remove: []string{"a1"}, Add: []placement.Node{plainNode("a9", "a")}},
			want:     map[string]string{"o1": "moves [a9]"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := tt.snapshot.Cluster.Capacity()
			got, err := tt.snapshot.WhatIf(tt.change)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, fates(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			var placed []string
			var had []bool
			for _, n := range got.New {
				at := ""
				if n.Decision.Placed {
					at = nodesOf(n.Decision.Shards)
				} else if n.Decision.Why == "" {
					t.Errorf("%s has no place, and why is not said", n.Model)
				}
				placed, had = append(placed, at), append(had, n.Before != "")
			}
			if !slices.Equal(placed, tt.placed) || !slices.Equal(had, tt.before) {
				t.Errorf("new: at %q, without a place before %v; want %q, %v", placed, had, tt.placed, tt.before)
			}
			if diff := cmp.Diff(before, tt.snapshot.Cluster.Capacity()); diff != "" {
				t.Errorf("the snapshot was changed:\n%s", diff)
			}
			if diff := cmp.Diff(before, got.Before); diff != "" {
				t.Errorf("capacity before:\n%s", diff)
			}
		})
	}
}

// What is free once all is done is without the nodes that are gone, and with what
// those gave back that moved.
func TestWhatIfCapacity(t *testing.T) {
	nodes := []placement.Node{plainNode("a1", "a"), plainNode("a2", "a"), plainNode("b1", "b"), plainNode("b2", "b")}
	s := snapshotOf(nodes, []reconcile.ModelView{{Name: "g", Wanted: 1, Wish: gangWish("g", 2)}}, map[string][]string{"g1": {"a1", "a2"}})
	got, err := s.WhatIf(reconcile.Change{Drain: []string{"a2"}})
	if err != nil {
		t.Fatal(err)
	}
	want := placement.Capacity{
		Classes: []placement.ClassCapacity{{Class: "H100", Total: 8, Taken: 4, Away: 2, Free: 2}},
		Fabrics: []placement.FabricCapacity{{Fabric: "a", Members: 2, WholeFree: 1, FreeCards: 2}, {Fabric: "b", Members: 2}}, WholeFree: 1,
	}
	if diff := cmp.Diff(want, got.After); diff != "" {
		t.Errorf("after (-want +got):\n%s", diff)
	}
}

func TestWhatIfErrors(t *testing.T) {
	s := snapshotOf([]placement.Node{plainNode("a1", "a")}, []reconcile.ModelView{{Name: "o", Wanted: 0, Wish: gangWish("o", 1)}}, nil)
	for _, tt := range []struct {
		change reconcile.Change
		want   error
	}{
		{reconcile.Change{Drain: []string{"x"}}, reconcile.ErrNoSuchNode},
		{reconcile.Change{Remove: []string{"x"}}, reconcile.ErrNoSuchNode},
		{reconcile.Change{Add: []placement.Node{plainNode("a1", "a")}}, reconcile.ErrTaken},
		{reconcile.Change{Models: []reconcile.Wanted{{Name: "o"}}}, reconcile.ErrTaken},
	} {
		if _, err := s.WhatIf(tt.change); !errors.Is(err, tt.want) {
			t.Errorf("%+v: %v; want %v", tt.change, err, tt.want)
		}
	}
}

// Each replica is asked about as if it were not there, and one more beside it.
func TestExplain(t *testing.T) {
	nodes := []placement.Node{plainNode("a1", "a"), plainNode("a2", "a"), plainNode("b1", "b")}
	gang := reconcile.ModelView{Name: "g", Wanted: 1, Wish: gangWish("g", 2)}
	s := snapshotOf(nodes, []reconcile.ModelView{gang, {Name: "p", Wanted: 1, Problem: "3 cards over 2 ranks"}}, map[string][]string{"g1": {"a1", "a2"}})
	e, known := s.Explain("g", 0)
	if !known || len(e.Placed) != 1 || !e.Placed[0].Same || e.Placed[0].Today == nil {
		t.Fatalf("%+v, %t; want one replica where it would go today", e, known)
	}
	if e.Next.Placed || len(e.Next.Rejected) != 3 || len(e.Next.Fabrics) != 2 || !e.Next.CouldEver {
		t.Errorf("one more: %s", e.Next.Explain())
	}
	if e, known := s.Explain("p", 0); !known || e.Next != nil {
		t.Errorf("%+v, %t; want a model that is not asked about", e, known)
	}
	if _, known := s.Explain("x", 0); known {
		t.Error("a model that there is not is known")
	}
}

// Each replica is asked about as things are without it, and with all the others.
func TestExplainSeveral(t *testing.T) {
	nodes := []placement.Node{plainNode("a1", "a"), plainNode("a2", "a"), plainNode("b1", "b"), plainNode("b2", "b")}
	gang := reconcile.ModelView{Name: "g", Wanted: 2, Wish: gangWish("g", 2)}
	s := snapshotOf(nodes, []reconcile.ModelView{gang}, map[string][]string{"g1": {"a1", "a2"}, "g2": {"b1", "b2"}})
	e, known := s.Explain("g", 0)
	if !known || len(e.Placed) != 2 {
		t.Fatalf("%+v, %t; want two replicas", e, known)
	}
	for _, r := range e.Placed {
		if !r.Same {
			t.Errorf("%s would go to %v; the other one is elsewhere, so it has its own place alone", r.Replica.ID, r.Today.Shards)
		}
	}
	if e.Next.Placed {
		t.Errorf("one more: %s; want no place", e.Next.Explain())
	}
	if e, _ := s.Explain("g", 1); len(e.Placed) != 2 || e.Placed[0].Today == nil || e.Placed[1].Today != nil {
		t.Errorf("%+v; want both, and one of them asked about", e.Placed)
	}
}

// A model with a hundred replicas of two nodes each, in a fleet of a thousand nodes:
// all of them are asked for, and as many as a page shows.
func BenchmarkExplain(b *testing.B) {
	var nodes []placement.Node
	at := map[string][]string{}
	for i := range 1000 {
		n := plainNode(fmt.Sprintf("n%04d", i), fmt.Sprintf("f%d", i/16))
		nodes = append(nodes, n)
		if i < 200 {
			id := fmt.Sprintf("g%03d", i/2)
			at[id] = append(at[id], n.ID)
		}
	}
	s := snapshotOf(nodes, []reconcile.ModelView{{Name: "g", Wanted: 100, Wish: gangWish("g", 2)}}, at)
	for _, most := range []int{0, 20} {
		b.Run(fmt.Sprintf("most=%d", most), func(b *testing.B) {
			for b.Loop() {
				s.Explain("g", most)
			}
		})
	}
}

// Idle is a replica for as long as nothing shows that it works, and one that nobody
// has seen work is not idle.
func TestIdle(t *testing.T) {
	w := newWorld(t, 1)
	w.nodes("a", 1, 8)
	w.setModels(simModel("one", 1, 1, 1))
	w.busy = false
	w.startPlane()
	w.until(60, "it serves", func() bool { return w.serves("one") == 1 })
	idle := func() engines.Opt[time.Duration] {
		w.pass()
		return w.core.View().Replicas[0].Idle
	}
	if d := idle(); d != (engines.Opt[time.Duration]{}) {
		t.Errorf("nobody has seen it work: idle %v", d)
	}
	w.busy = true
	w.pass()
	if d := idle(); !d.Is(0) {
		t.Errorf("it works: idle %v; want 0", d)
	}
	w.busy = false
	last := time.Duration(0)
	for range 5 {
		d, known := idle().Get()
		if !known || d < last {
			t.Fatalf("idle %v, %t after %v; want more", d, known, last)
		}
		last = d
	}
	if last < 3*time.Second || last > 7*time.Second {
		t.Errorf("after 5 s idle %v", last)
	}
}
