package placement

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// The assignment is the best of all, and misses no more rows than it must.
func TestAssignIsTheBest(t *testing.T) {
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(2, seed))
		rows, columns := 1+rng.IntN(5), rng.IntN(6)
		costs := make([][]*Score, rows)
		for i := range costs {
			costs[i] = make([]*Score, columns)
			for j := range costs[i] {
				if rng.IntN(4) > 0 {
					costs[i][j] = &Score{int32(rng.IntN(2)), int32(rng.IntN(3)), int32(rng.IntN(5))}
				}
			}
		}
		var best *Score
		most := 0
		tryAll(costs, nil, Score{}, 0, func(seated int, sum Score) {
			most = max(most, seated)
			if seated == rows && (best == nil || sum.Compare(best) < 0) {
				best = &sum
			}
		})
		seats, short := assign(rows, columns, func(row, column int) *Score { return costs[row][column] })
		if short != rows-most {
			t.Fatalf("seed %d: %d short, want %d of %d", seed, short, rows-most, rows)
		}
		if short > 0 {
			continue
		}
		var sum Score
		for row, column := range seats {
			if slices.Contains(seats[:row], column) {
				t.Fatalf("seed %d: column %d twice", seed, column)
			}
			sum.add(costs[row][column])
		}
		if sum != *best {
			t.Fatalf("seed %d: %v costs %v, and the best %v", seed, seats, sum, *best)
		}
	}
}

// tryAll calls f with every way to seat the rows from that of len(taken) on, or to
// leave them out.
func tryAll(costs [][]*Score, taken []int, sum Score, seated int, f func(seated int, sum Score)) {
	row := len(taken)
	if row == len(costs) {
		f(seated, sum)
		return
	}
	tryAll(costs, append(slices.Clone(taken), -1), sum, seated, f)
	for column, cost := range costs[row] {
		if cost == nil || slices.Contains(taken, column) {
			continue
		}
		next := sum
		next.add(cost)
		tryAll(costs, append(slices.Clone(taken), column), next, seated+1, f)
	}
}

// randomTopology returns cards at random distances, the same both ways.
func randomTopology(rng *rand.Rand, cards, farthest int) *topology {
	apart := make([]uint8, cards*cards)
	for i := range cards {
		for j := range i {
			d := uint8(rng.IntN(farthest + 1))
			apart[i*cards+j], apart[j*cards+i] = d, d
		}
	}
	return newTopology(apart, cards)
}

// The set is the closest, of these the one that leaves the closest, of these the
// first.
func TestClosestSet(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(3, seed))
		topology := randomTopology(rng, 1+rng.IntN(8), rng.IntN(6))
		var from []int
		for i := range topology.cards {
			if rng.IntN(4) > 0 {
				from = append(from, i)
			}
		}
		for n := range len(from) + 1 {
			var want []int
			var least, left int
			for set := range 1 << len(from) {
				var in, out []int
				for i, card := range from {
					if set>>(len(from)-1-i)&1 == 1 {
						in = append(in, card)
					} else {
						out = append(out, card)
					}
				}
				if len(in) != n {
					continue
				}
				d, rest := topology.within(in), topology.within(out)
				if want == nil || d < least || d == least && (rest < left || rest == left && slices.Compare(in, want) < 0) {
					want, least, left = slices.Concat([]int{}, in), d, rest
				}
			}
			for range 2 { // the second answer is remembered
				got := topology.closest(from, n)
				if !slices.Equal(got.cards, want) || got.distance != least {
					t.Fatalf("seed %d: %d of %v: %v, %d apart; want %v, %d apart", seed, n, from, got.cards, got.distance, want, least)
				}
			}
		}
	}
}

// Where there are too many sets to compare, what is found is a set, and a close
// one where cards stand in groups.
func TestClosestOfMany(t *testing.T) {
	const cards = 56 // eight cards in seven parts each
	apart := make([]uint8, cards*cards)
	for i := range cards {
		for j := range cards {
			if i%8 != j%8 {
				apart[i*cards+j] = overSockets
			}
		}
	}
	topology := newTopology(apart, cards)
	var from []int
	for i := 3; i < cards; i++ {
		from = append(from, i)
	}
	got := topology.closest(from, 7)
	if want := []int{3, 11, 19, 27, 35, 43, 51}; !slices.Equal(got.cards, want) || got.distance != 0 {
		t.Errorf("%v, %d apart, want %v", got.cards, got.distance, want)
	}
	if got = topology.closest(from, 40); len(got.cards) != 40 || !slices.IsSorted(got.cards) || got.distance != topology.within(got.cards) {
		t.Errorf("%+v is no set of 40", got)
	}
}

// What is remembered is bounded.
func TestMemoryOfTopologies(t *testing.T) {
	topology := randomTopology(rand.New(rand.NewPCG(4, 4)), 16, 5)
	for set := range mostPicks + 100 {
		var from []int
		for i := range 16 {
			if set>>i&1 == 1 {
				from = append(from, i)
			}
		}
		if len(from) > 1 {
			topology.closest(from, 1)
		}
	}
	if len(topology.best) > mostPicks || len(topology.best) == 0 {
		t.Errorf("%d sets are remembered, want at most %d", len(topology.best), mostPicks)
	}
	c := new(Cluster)
	for i := range mostAlike + 10 {
		n := Node{ID: "n", State: Ready, Connected: true, Cards: make([]Card, 10), Links: make([][]string, 10)}
		for j := range n.Cards {
			n.Cards[j].ID = fmt.Sprint(j)
			n.Links[j] = make([]string, 10)
			for k := range j {
				if i>>(j-1)&1 == 1 && k == 0 {
					n.Links[j][k] = "NV1"
				}
			}
		}
		c.SetNode(n)
	}
	if len(c.alike) > mostAlike || len(c.alike) == 0 {
		t.Errorf("%d topologies are remembered, want at most %d", len(c.alike), mostAlike)
	}
}

func TestEnumsHaveWords(t *testing.T) {
	words := make(map[string]bool)
	for _, k := range Kinds() {
		words[k.String()] = true
	}
	for _, c := range Criteria() {
		words[c.String()] = true
	}
	if want := kinds - 1 + criteria; len(words) != want || words[""] || words["unset"] {
		t.Errorf("%d different words for %d constants", len(words), want)
	}
	for _, s := range []fmt.Stringer{Kind(0), Kind(kinds), Criterion(criteria), NodeState(9), Cordon(9)} {
		if s.String() == "" {
			t.Errorf("%T has no word for what is none", s)
		}
	}
	for s, want := range map[fmt.Stringer]string{Unheard: "not heard yet", Ready: "ready", Lost: "lost", NoCordon: "none", Cordoned: "cordoned", Draining: "draining"} {
		if s.String() != want {
			t.Errorf("%q, want %q", s, want)
		}
	}
}
