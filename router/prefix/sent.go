package prefix

import (
	"math"
	"slices"
)

// Sent is one prompt on its way to an endpoint: what Send believed, to be
// compared with the engine's answer. The zero Sent is of none.
type Sent struct {
	id ID
	// Predicted is how many tokens of the prompt the endpoint was believed to
	// hold, before it was sent this one.
	Predicted int

	clears uint32 // of the endpoint, until then
	before int32  // Predicted in chunks
	stamp  uint64 // of this Send
	n      int
	marks  [maxMarks]mark // what was held, from the root on
}

// maxMarks bounds what a Sent remembers of the nodes on its way. Beyond, the
// last stands for all deeper ones.
const maxMarks = 10

// mark says when what was held up to a chunk had last been used.
type mark struct {
	end   int32
	ready bool
	stamp uint64
}

// Usage is what an engine said of a prompt.
type Usage struct {
	// PromptTokens is the prompt's length, cached tokens included; 0: unknown.
	PromptTokens int64
	// CachedTokens is how many of these were in the cache.
	CachedTokens int64
	// CachedKnown is whether the engine said CachedTokens.
	CachedKnown bool
}

// Send records that the prompt c was sent to an endpoint, the one that was
// picked in the end. From here on it is believed to hold c: another prompt that
// begins alike finds it there though the first is still being computed. Hand
// the result to Observe, or to Failed.
func (x *Index) Send(id ID, c *Chain) (s Sent) {
	x.mu.Lock()
	defer x.mu.Unlock()
	e := x.es.get(id)
	if e == nil {
		return s
	}
	s.id, s.clears = id, e.clears
	x.path = x.tree.walk(x.path[:0], c)
	x.believe(&s)
	s.Predicted = int(e.tokens(int64(s.before)))
	x.metrics.sends++
	if s.before > 0 {
		x.metrics.sendHits++
	}
	s.stamp = x.use(e, id.slot, c, int(s.before), false)
	x.trim(e)
	x.bound()
	return s
}

// use makes e hold all of c, whose way in the tree is x.path, as the last thing
// it used, and returns the stamp of that. Of c, e held the first before chunks. An
// answer shows that it was computed, and is not another time that it was seen.
func (x *Index) use(e *endpoint, slot uint32, c *Chain, before int, answer bool) uint64 {
	e.clock += uint64(len(c.hashes)-before) + 1
	x.grow(c)
	// From the end: then what depends on a node is always older than it.
	for _, p := range slices.Backward(x.path) {
		x.touch(e, slot, p, answer)
	}
	return e.clock
}

// believe fills s with what the endpoint holds on x.path.
func (x *Index) believe(s *Sent) {
	for _, p := range x.path {
		n := x.tree.nodes.at(p.node)
		j := n.find(s.id.slot)
		if j == 0 {
			return
		}
		h := x.tree.holds.at(j)
		s.before = n.start + min(p.matched, h.chunks)
		s.n = min(s.n+1, maxMarks)
		m := &s.marks[s.n-1]
		if s.n == maxMarks && m.end > 0 { // one that stands for several: the older, which is the deeper
			m.ready = m.ready && h.ready
		} else {
			m.ready = h.ready
		}
		m.end, m.stamp = s.before, h.stamp
	}
}

// held returns how many chunks of x.path the endpoint holds.
func (x *Index) held(slot uint32) int {
	chunks := int32(0)
	for _, p := range x.path {
		n := x.tree.nodes.at(p.node)
		j := n.find(slot)
		if j == 0 {
			break
		}
		chunks = n.start + min(p.matched, x.tree.holds.at(j).chunks)
	}
	return int(chunks)
}

// grow makes the nodes that c, matched on x.path, needs beyond.
func (x *Index) grow(c *Chain) {
	t := &x.tree
	pos := 0
	if k := len(x.path); k > 0 {
		last := x.path[k-1]
		n := t.nodes.at(last.node)
		pos = int(n.start + last.matched)
		if int(last.matched) < len(n.label) { // also where c ends: what is used is exact then
			t.split(last.node, int(last.matched), &x.es)
		}
	}
	if pos < len(c.hashes) {
		x.path = append(x.path, step{t.add(pos, c.hashes[pos:]), int32(len(c.hashes) - pos)})
	}
}

// touch makes e hold what p matches, as the last thing it used.
func (x *Index) touch(e *endpoint, slot uint32, p step, answer bool) {
	t := &x.tree
	n := t.nodes.at(p.node)
	j := n.find(slot)
	if j == 0 {
		j = t.hold(n, p.node, slot)
		e.oldest.pushNewest(t, byEndpoint, j)
		t.oldest.pushNewest(t, byAll, j)
	} else {
		e.oldest.bump(t, byEndpoint, j)
		t.oldest.bump(t, byAll, j)
	}
	h := t.holds.at(j)
	if p.matched > h.chunks {
		e.chunks += int64(p.matched - h.chunks)
		h.chunks, h.ready = p.matched, false
	}
	h.stamp = e.clock
	if answer {
		h.ready = true
	} else if h.seen < math.MaxUint32 {
		h.seen++
	}
	h.seen = max(h.seen, 1) // where it came back
}

// Failed takes back what Send recorded, for a prompt that the engine did not
// compute. What was used in the meantime stays.
func (x *Index) Failed(s Sent, c *Chain) {
	x.mu.Lock()
	defer x.mu.Unlock()
	e := x.es.get(s.id)
	if e == nil || e.clears != s.clears {
		return
	}
	x.path = x.tree.walk(x.path[:0], c)
	for _, p := range slices.Backward(x.path) {
		n := x.tree.nodes.at(p.node)
		j := n.find(s.id.slot)
		if j == 0 {
			continue
		}
		h := x.tree.holds.at(j)
		if h.stamp != s.stamp || h.ready {
			return // another was sent after it
		}
		switch keep := s.before - n.start; {
		case keep <= 0:
			x.tree.drop(j, e)
		case keep < h.chunks:
			e.chunks -= int64(h.chunks - keep)
			h.chunks = keep
			return
		default:
			return
		}
	}
}
