package prefix

import (
	"cmp"
	"slices"
	"sort"
)

// node is a run of chunks that some endpoint holds. Its children are found
// through the tree's map, by the hash that follows.
type node struct {
	start int32    // chunks before label
	label []uint64 // at least one
	holds []ref    // by slot; at least one
}

// ref is one hold of a node.
type ref struct {
	slot uint32
	hold int32
}

// hold is what one endpoint holds of one node: the first chunks of its label.
// It holds all of a node below which it holds another.
type hold struct {
	node   int32
	slot   uint32
	chunks int32
	seen   uint32 // how often a prompt through here was sent there
	stamp  uint64 // the endpoint's clock at the last such
	ready  bool   // an answer has shown that it was computed
	links  [2]link2
}

// What memory things take, counted in steps as the allocator hands it out. The
// map has 17 bytes a slot and is between 7/16 and 7/8 full.
const (
	nodeBytes = 64 + 40 + 4
	holdBytes = 56 + 4
	refBytes  = 8
	hashBytes = 8
)

// labelBytes is what a label takes: size classes are at most an eighth apart.
func labelBytes(n int) int64 { return int64(n) * hashBytes * 9 / 8 }

// tree is the radix tree of all prompts on all endpoints. It is not safe for
// concurrent use; lookups may be concurrent with each other.
type tree struct {
	first  map[uint64]int32 // the first hash of each label, unique as it stands for all before
	nodes  slab[node]
	holds  slab[hold]
	oldest list // of all holds
	bytes  int64
}

// step is one node on the way of a chain, with how much of its label matches.
type step struct {
	node    int32
	matched int32
}

// walk appends the nodes that begin as c does, from the root on. All but the
// last match in full.
func (t *tree) walk(path []step, c *Chain) []step {
	for pos := 0; pos < len(c.hashes); {
		i, ok := t.first[c.hashes[pos]]
		if !ok {
			break
		}
		label := t.nodes.at(i).label
		m := common(label, c.hashes[pos:])
		path = append(path, step{i, int32(m)})
		if m < len(label) {
			break
		}
		pos += m
	}
	return path
}

// common is how many hashes a and b begin with alike. A hash stands for all
// before it, so they are alike up to some place and different from there on.
func common(a, b []uint64) int {
	n := min(len(a), len(b))
	if n > 0 && a[n-1] == b[n-1] {
		return n
	}
	return sort.Search(n, func(i int) bool { return a[i] != b[i] })
}

// find returns the hold of slot on n, 0 for none.
func (n *node) find(slot uint32) int32 {
	if i, ok := n.search(slot); ok {
		return n.holds[i].hold
	}
	return 0
}

func (n *node) search(slot uint32) (int, bool) {
	return slices.BinarySearchFunc(n.holds, slot, func(r ref, s uint32) int { return cmp.Compare(r.slot, s) })
}

// add makes a node without holds; the caller gives it one.
func (t *tree) add(start int, hashes []uint64) int32 {
	i := t.nodes.take()
	n := t.nodes.at(i)
	n.start, n.label = int32(start), slices.Clone(hashes)
	t.first[n.label[0]] = i
	t.bytes += nodeBytes + labelBytes(len(n.label))
	return i
}

// split cuts the label of node i after k chunks, 0 < k < its length. The node
// keeps the head; a new one has the tail.
func (t *tree) split(i int32, k int, es *endpoints) {
	n := t.nodes.at(i)
	head, tail := n.label[:k], n.label[k:]
	lower := t.add(int(n.start)+k, tail)
	// Copied, since a slice would keep the whole array.
	t.bytes -= labelBytes(len(n.label))
	n.label = slices.Clone(head)
	t.bytes += labelBytes(k)
	low := t.nodes.at(lower)
	for _, r := range n.holds {
		h := t.holds.at(r.hold)
		if h.chunks <= int32(k) {
			continue
		}
		j := t.hold(low, lower, r.slot)
		below := t.holds.at(j)
		below.chunks, below.seen, below.stamp, below.ready = h.chunks-int32(k), h.seen, h.stamp, h.ready
		h.chunks = int32(k)
		// Right behind, so that it goes before what it depends on.
		es.at(r.slot).oldest.insertBehind(t, byEndpoint, j, r.hold)
		t.oldest.insertBehind(t, byAll, j, r.hold)
	}
	if len(low.holds) == 0 {
		t.dropNode(lower)
	}
}

// hold makes an empty hold of slot on n, number i, that is in no list.
func (t *tree) hold(n *node, i int32, slot uint32) int32 {
	j := t.holds.take()
	h := t.holds.at(j)
	h.node, h.slot = i, slot
	at, _ := n.search(slot)
	before := cap(n.holds)
	n.holds = slices.Insert(n.holds, at, ref{slot, j})
	t.bytes += holdBytes + int64(cap(n.holds)-before)*refBytes
	return j
}

// drop takes hold j out of the tree and all lists, and its node if it was the
// last there.
func (t *tree) drop(j int32, e *endpoint) {
	h := t.holds.at(j)
	e.chunks -= int64(h.chunks)
	e.oldest.remove(t, byEndpoint, j)
	t.oldest.remove(t, byAll, j)
	n := t.nodes.at(h.node)
	if at, ok := n.search(h.slot); ok {
		n.holds = slices.Delete(n.holds, at, at+1)
	}
	if len(n.holds) == 0 {
		t.dropNode(h.node)
	}
	t.holds.give(j)
	t.bytes -= holdBytes
}

func (t *tree) dropNode(i int32) {
	n := t.nodes.at(i)
	delete(t.first, n.label[0])
	t.bytes -= nodeBytes + labelBytes(len(n.label)) + int64(cap(n.holds))*refBytes
	t.nodes.give(i)
}
