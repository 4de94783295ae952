package placement

import (
	"strings"
	"sync"

	"github.com/llmgw/llmgw/engines"
)

// topology is how far the cards of a node are apart. Nodes that are built alike
// share one, and with it what was found out. It may be used concurrently.
type topology struct {
	cards int
	apart []uint8 // of each pair, row by row
	// even: all pairs are equally far apart, so that any set is as close as
	// another.
	even bool

	mu   sync.Mutex
	best map[string]pick // guarded by mu; by the places asked about and how many
}

// pick is a set of cards, by their places, and how far apart they are: the sum
// over all pairs.
type pick struct {
	cards    []int
	distance int
}

// mostPicks bounds what a topology remembers.
const mostPicks = 4096

func newTopology(apart []uint8, cards int) *topology {
	t := &topology{cards: cards, apart: apart, even: true, best: make(map[string]pick)}
	for i := range cards {
		for j := range i {
			t.even = t.even && t.distance(i, j) == t.distance(1, 0)
		}
	}
	return t
}

func (t *topology) distance(i, j int) int { return int(t.apart[i*t.cards+j]) }

// closest returns n of the cards at the given places, ascending: those that are
// closest together; of equally close ones those that leave the rest closest
// together; of these the first. n is from 0 to len(from). The answer is shared.
func (t *topology) closest(from []int, n int) pick {
	if t.even || n == len(from) || n == 0 {
		// Of sets that are all alike the first is what a search would find.
		return pick{cards: from[:n:n], distance: t.within(from[:n])}
	}
	key := make([]byte, 0, 64)
	for _, place := range from {
		key = append(key, byte(place), byte(place>>8))
	}
	key = append(key, byte(n), byte(n>>8))
	t.mu.Lock()
	defer t.mu.Unlock()
	if found, ok := t.best[string(key)]; ok {
		return found
	}
	found := t.search(from, n)
	if len(t.best) >= mostPicks {
		clear(t.best)
	}
	t.best[string(key)] = found
	return found
}

// mostSets bounds how many sets of cards are compared: all of 8 out of 16.
const mostSets = 12870

func (t *topology) search(from []int, n int) pick {
	if sets(len(from), n, mostSets) > mostSets {
		return t.grow(from, n)
	}
	var best pick
	bestRest := 0
	rest := make([]int, 0, len(from)-n)
	each(len(from), n, func(chosen []int) {
		cards := make([]int, n)
		for i, at := range chosen {
			cards[i] = from[at]
		}
		distance := t.within(cards)
		if best.cards != nil && distance > best.distance {
			return
		}
		rest = rest[:0]
		for at, next := 0, 0; at < len(from); at++ {
			if next < n && chosen[next] == at {
				next++
				continue
			}
			rest = append(rest, from[at])
		}
		left := t.within(rest)
		if best.cards == nil || distance < best.distance || left < bestRest {
			best, bestRest = pick{cards: cards, distance: distance}, left
		}
	})
	return best
}

// grow finds a set of which no card can be said to be the wrong one to have
// added: from each card on, the nearest is added until there are enough. It need
// not be the closest.
func (t *topology) grow(from []int, n int) pick {
	var best pick
	for first := range from {
		in := make([]bool, len(from))
		in[first] = true
		distance := 0
		for range n - 1 {
			nearest, least := -1, 0
			for at := range from {
				if in[at] {
					continue
				}
				sum := 0
				for other := range from {
					if in[other] {
						sum += t.distance(from[at], from[other])
					}
				}
				if nearest < 0 || sum < least {
					nearest, least = at, sum
				}
			}
			in[nearest] = true
			distance += least
		}
		if best.cards != nil && distance >= best.distance {
			continue
		}
		best = pick{distance: distance}
		for at := range from {
			if in[at] {
				best.cards = append(best.cards, from[at])
			}
		}
	}
	return best
}

// within returns the sum of the distances of all pairs.
func (t *topology) within(cards []int) int {
	sum := 0
	for i := range cards {
		for j := range i {
			sum += t.distance(cards[i], cards[j])
		}
	}
	return sum
}

// sets returns how many sets of k there are out of n, or more than most.
func sets(n, k, most int) int {
	out := 1
	for i := 1; i <= k; i++ {
		out = out * (n - k + i) / i
		if out > most {
			return most + 1
		}
	}
	return out
}

// each calls f with every ascending choice of k out of 0 to n-1, the first in
// order first. f must not keep it.
func each(n, k int, f func(chosen []int)) {
	chosen := make([]int, k)
	for i := range chosen {
		chosen[i] = i
	}
	for {
		f(chosen)
		i := k - 1
		for i >= 0 && chosen[i] == n-k+i {
			i--
		}
		if i < 0 {
			return
		}
		chosen[i]++
		for j := i + 1; j < k; j++ {
			chosen[j] = chosen[j-1] + 1
		}
	}
}

// The distances between two cards, by the ways of nvidia-smi.
const (
	overNVLink     = 0 // also XGMI, and parts of one card
	overSwitch     = 1 // PIX: one PCI bridge
	overSwitches   = 2 // PXB: several bridges
	overHostBridge = 3 // PHB
	overNUMANode   = 4 // NODE: several host bridges of one memory node
	overSockets    = 5 // SYS, or not known
)

// apartOf returns the distance of each pair of a node's cards, row by row.
func apartOf(n *Node) []uint8 {
	out := make([]uint8, len(n.Cards)*len(n.Cards))
	for i := range n.Cards {
		for j := range n.Cards {
			if i != j {
				// What the table says of one direction goes for both: the nearer one,
				// if it says two things.
				out[i*len(n.Cards)+j] = min(wayOf(n, i, j), wayOf(n, j, i))
			}
		}
	}
	return out
}

func wayOf(n *Node, i, j int) uint8 {
	word := ""
	if i < len(n.Links) && j < len(n.Links[i]) {
		word = n.Links[i][j]
	}
	switch {
	case word == "X" || word == "XGMI" || strings.HasPrefix(word, "NV"):
		return overNVLink
	case word == "PIX":
		return overSwitch
	case word == "PXB":
		return overSwitches
	case word == "PHB":
		return overHostBridge
	case word == "NODE":
		return overNUMANode
	case word == "SYS":
		return overSockets
	}
	a, b := &n.Cards[i], &n.Cards[j]
	shared := engines.SharedBridges(a.PCIPath, b.PCIPath)
	memory, known := a.NUMA.Get()
	switch {
	case shared > 0 && shared == len(a.PCIPath) && shared == len(b.PCIPath):
		return overSwitch
	case shared > 0:
		return overSwitches
	case known && b.NUMA.Is(memory):
		return overNUMANode
	}
	return overSockets
}
