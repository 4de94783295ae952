package placement_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/placement"
)

// draws throws dice that are fair, which rapid's own numbers are not: these lean
// to small ones, and most fleets would have no place for anything.
func draws(t *rapid.T) dice {
	return rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)).IntN
}

// A place breaks no rule, and each node is used, or would have done, or is
// rejected with a reason.
func TestEveryNodeIsAccountedFor(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := drawFleet(draws(t), 8)
		d := f.cluster().Place(f.wish)
		var seen []string
		for _, s := range d.Shards {
			seen = append(seen, s.Node)
		}
		seen = append(seen, d.Others...)
		for _, r := range d.Rejected {
			seen = append(seen, r.Node)
			if len(r.Reasons) == 0 {
				t.Errorf("%s is rejected without a reason", r.Node)
			}
			if !slices.IsSortedFunc(r.Reasons, func(a, b placement.Reason) int { return int(a.Kind) - int(b.Kind) }) {
				t.Errorf("reasons out of order: %s", r)
			}
			for _, reason := range r.Reasons {
				if reason.Kind.String() == "unset" || reason.String() == "" || reason.String() == "unset" {
					t.Errorf("%s: no words for %+v", r.Node, reason)
				}
			}
		}
		var want []string
		for _, n := range f.nodes {
			want = append(want, n.ID)
		}
		slices.Sort(seen)
		if !slices.Equal(seen, want) {
			t.Errorf("nodes %v were accounted for, of %v\n%s", seen, want, d.Explain())
		}
		if !d.Placed {
			if d.Shards != nil || d.Others != nil || d.Runners != nil {
				t.Errorf("not placed, and yet: %+v", d)
			}
			return
		}
		for _, fault := range f.faults(d) {
			t.Errorf("%s\n%s", fault, d.Explain())
		}
		for i := 1; i < len(d.Runners); i++ {
			if d.Runners[i].Score.Compare(&d.Runners[i-1].Score) < 0 {
				t.Errorf("runners out of order\n%s", d.Explain())
			}
		}
		if len(d.Runners) > 0 && d.Runners[0].Score.Compare(&d.Score) < 0 {
			t.Errorf("a runner is better\n%s", d.Explain())
		}
	})
}

// The same snapshot gives the same decision, whatever the order of what it was
// made of; and being asked changes nothing.
func TestSameSnapshotSameDecision(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := draws(t)
		f := drawFleet(d, 8)
		c := f.cluster()
		first := c.Place(f.wish)
		again := c.Place(f.wish)
		other := f.shuffled(d).cluster().Place(f.wish)
		for name, got := range map[string]placement.Decision{"asked again": again, "in another order": other} {
			if !reflect.DeepEqual(first, got) || first.Explain() != got.Explain() {
				t.Errorf("%s:\n%s\nwas:\n%s", name, got.Explain(), first.Explain())
			}
		}
	})
}

// A cluster that was changed step by step answers as one that is made of what
// came of it, and a clone's changes are its own.
func TestStepsAmountToAFreshCluster(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := draws(t)
		f := drawFleet(d, 6)
		c := f.cluster()
		nodes, claims := make(map[string]placement.Node), make(map[string]placement.Claim)
		for _, n := range f.nodes {
			nodes[n.ID] = n
		}
		for _, claim := range f.claims {
			claims[claim.Replica] = claim
		}
		type aside struct {
			cluster *placement.Cluster
			was     string
		}
		var kept []aside
		answers := func(c *placement.Cluster) string {
			return c.Place(f.wish).Explain() + fmt.Sprintf("%+v %v", c.Capacity(), c.Fits(f.wish))
		}
		for range d(12) {
			id := fmt.Sprintf("n%d", d(7))
			switch d(6) {
			case 0:
				nodes[id] = drawNode(d, id)
				c.SetNode(nodes[id])
			case 1:
				delete(nodes, id)
				c.RemoveNode(id)
			case 2:
				for _, claim := range drawClaims(d, f.nodes) {
					claims[claim.Replica] = claim
					c.Claim(claim)
				}
			case 3:
				replica := fmt.Sprintf("r%d", d(8))
				delete(claims, replica)
				c.Release(replica)
			case 4:
				if got := c.Place(f.wish); got.Placed {
					claims[f.wish.Replica] = f.wish.Claim(got)
					c.Claim(claims[f.wish.Replica])
				}
			case 5:
				kept = append(kept, aside{c, answers(c)})
				c = c.Clone()
			}
		}
		fresh := placement.NewCluster(slices.Collect(maps.Values(nodes)), slices.Collect(maps.Values(claims)))
		if got, want := answers(c), answers(fresh); got != want {
			t.Errorf("step by step:\n%s\nat once:\n%s", got, want)
		}
		for _, k := range kept {
			if got := answers(k.cluster); got != k.was {
				t.Errorf("a clone changed it:\n%s\nwas:\n%s", got, k.was)
			}
		}
	})
}

// What is claimed and released again leaves things as they were.
func TestClaimAndRelease(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := drawFleet(draws(t), 6)
		c := f.cluster()
		before := c.Place(f.wish)
		if !before.Placed {
			return
		}
		c.Claim(f.wish.Claim(before))
		for i, s := range before.Shards {
			after := c.Place(f.wish)
			if len(s.Cards) > 0 && after.Placed && slices.ContainsFunc(after.Shards, func(o placement.ShardPlace) bool {
				return o.Node == s.Node && slices.ContainsFunc(o.Cards, func(id string) bool { return slices.Contains(s.Cards, id) })
			}) {
				t.Errorf("cards of rank %d were given twice\n%s", i, after.Explain())
			}
		}
		c.Release(f.wish.Replica)
		if after := c.Place(f.wish); !reflect.DeepEqual(before, after) {
			t.Errorf("after:\n%s\nbefore:\n%s", after.Explain(), before.Explain())
		}
	})
}

// So many nodes as a fabric is said to be short of, and no fewer, make the gang
// fit in it.
func TestShortfall(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := drawFleet(draws(t), 6)
		if len(f.wish.Need.Ranks) < 2 {
			return
		}
		f.wish.Apart = nil
		for class, of := range f.wish.Need.ByClass {
			of.Never = "" // no number of nodes with such cards would do
			f.wish.Need.ByClass[class] = of
		}
		for _, standing := range f.cluster().Place(f.wish).Fabrics {
			for extra := range standing.Short + 1 {
				in := f
				// No other fabric is to help out.
				in.nodes = slices.Clone(f.nodes)
				for i := range in.nodes {
					in.nodes[i].Fabrics = slices.DeleteFunc(slices.Clone(in.nodes[i].Fabrics), func(m placement.FabricMember) bool { return m.Name != standing.Fabric })
				}
				for i := range extra {
					n := goodNode(f.wish, fmt.Sprintf("extra%d", i), standing)
					in.nodes = append(in.nodes, n)
					if len(f.wish.Nodes) > 0 {
						in.wish.Nodes = append(slices.Clone(in.wish.Nodes), n.ID)
					}
				}
				if got := in.cluster().Place(in.wish); got.Placed != (extra == standing.Short) {
					t.Errorf("%s: placed with %d more: %v\n%s", standing, extra, got.Placed, got.Explain())
				}
			}
		}
	})
}

// goodNode returns a node on which any rank of the wish can be, in a gang as it
// stands.
func goodNode(w placement.Wish, id string, s placement.Standing) placement.Node {
	n := placement.Node{
		ID: id, State: placement.Ready, Connected: true, Labels: w.Labels,
		Fabrics: []placement.FabricMember{{Name: s.Fabric, Verdict: engines.Confirmed}},
	}
	class := s.Class
	if class == "" && len(w.Need.Classes) > 0 {
		class = w.Need.Classes[0]
	}
	for i := range 3 {
		n.Cards = append(n.Cards, placement.Card{ID: fmt.Sprintf("c%d", i), Index: i, Class: class})
	}
	return n
}

// A wish fits an empty fleet if and only if it is placed on the fleet with all
// nodes well and nothing claimed.
func TestFitsIsAPlaceOnAnEmptyFleet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := drawFleet(draws(t), 6)
		err := f.cluster().Fits(f.wish)
		if errors.Is(err, placement.ErrNotKnownYet) {
			return // what it says is tested by scenarios
		}
		if refused, is := errors.AsType[*placement.UnfitError](err); err != nil && (!is || len(refused.Rejected) != len(f.nodes)) {
			t.Errorf("an error that does not reject each node: %v", err)
		}
		d := f.cluster().Place(f.wish)
		if d.Placed && err != nil {
			t.Errorf("placed, and does not fit: %v\n%s", err, d.Explain())
		}
		if d.CouldEver != (err == nil) {
			t.Errorf("could ever: %v, and fits: %v", d.CouldEver, err)
		}
		well := fleet{nodes: slices.Clone(f.nodes), wish: f.wish}
		for i := range well.nodes {
			heal(&well.nodes[i])
		}
		if d := well.cluster().Place(f.wish); d.Placed != (err == nil) {
			t.Errorf("fits: %v; on an empty fleet:\n%s", err, d.Explain())
		}
	})
}

// As many as the fleet is said to hold can be placed on it one after the other once
// all is well, and no more.
func TestMostIsPlacedOneByOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := drawFleet(draws(t), 6)
		well := fleet{nodes: slices.Clone(f.nodes), wish: f.wish}
		for i := range well.nodes {
			heal(&well.nodes[i])
		}
		empty, n := well.cluster(), 0
		for w := f.wish; n < 10; n++ {
			w.Replica = fmt.Sprint("r", n)
			d := empty.Place(w)
			if !d.Placed {
				break
			}
			empty.Claim(w.Claim(d))
		}
		if got := f.cluster().Most(f.wish, 10); got != n {
			t.Errorf("it is said to hold %d, and %d are placed", got, n)
		}
	})
}

// heal takes away all that passes.
func heal(n *placement.Node) {
	n.State, n.Connected, n.Cordon = placement.Ready, true, placement.NoCordon
	n.FreePorts, n.HostFreeBytes = engines.Opt[int]{}, n.HostBytes
	n.Cards, n.Fabrics = slices.Clone(n.Cards), slices.Clone(n.Fabrics)
	for i := range n.Cards {
		n.Cards[i].Problem, n.Cards[i].Foreign, n.Cards[i].FreeBytes = "", nil, n.Cards[i].MemoryBytes
	}
	for i := range n.Fabrics {
		n.Fabrics[i].Verdict = engines.Confirmed
	}
	n.Engines = maps.Clone(n.Engines)
	for name := range n.Engines {
		n.Engines[name] = ""
	}
}

// Each card is one thing, and none is free twice.
func TestCapacityAddsUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := drawFleet(draws(t), 8)
		c := f.cluster().Capacity()
		cards := make(map[string]int)
		whole := 0
		for i := range f.nodes {
			n := &f.nodes[i]
			for _, card := range n.Cards {
				cards[card.Class]++
			}
			if f.isWhole(n) && n.State == placement.Ready && n.Connected && n.Cordon == placement.NoCordon {
				whole++
			}
		}
		if c.WholeFree != whole || len(c.Classes) != len(cards) {
			t.Errorf("%+v, want %d whole nodes and classes %v", c, whole, cards)
		}
		for _, class := range c.Classes {
			if sum := class.Unusable + class.Taken + class.Away + class.Occupied + class.Free; sum != class.Total || sum != cards[class.Class] {
				t.Errorf("%+v adds up to %d, want %d", class, sum, cards[class.Class])
			}
		}
		for _, fabric := range c.Fabrics {
			if want := f.wholeIn(fabric.Fabric); fabric.WholeFree != want {
				t.Errorf("%+v, want %d", fabric, want)
			}
		}
	})
}
