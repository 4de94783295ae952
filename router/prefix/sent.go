package prefix

import "math"

// Sent is one prompt on its way to an endpoint: what Send believed, to be
// compared with the engine's answer. The zero Sent is of none.
type Sent struct {
	id ID
	// Predicted is how many tokens of the prompt the endpoint was believed to
	// hold, before it was sent this one.
	Predicted int

	before int32  // the same in chunks
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
func (x *Index) Send(id ID, c *Chain) Sent {
	x.mu.Lock()
	defer x.mu.Unlock()
	e := x.es.get(id)
	if e == nil {
		return Sent{}
	}
	s := Sent{id: id}
	t := &x.tree
	x.path = t.walk(x.path[:0], c)
	x.believe(&s)
	s.Predicted = int(float64(s.before) * ChunkBytes * e.model.tokens / e.model.bytes)
	x.metrics.sends.Add(1)
	if s.before > 0 {
		x.metrics.sendHits.Add(1)
	}
	s.stamp = x.use(e, id.slot, c, int(s.before), 1)
	x.trim(e)
	x.bound()
	return s
}

// use makes e hold all of c, whose way in the tree is x.path, as the last thing
// it used, and returns the stamp of that. Of c, e held the first before chunks.
func (x *Index) use(e *endpoint, slot uint32, c *Chain, before int, seen uint32) uint64 {
	e.clock += uint64(len(c.hashes)-before) + 1
	x.grow(c)
	// From the end: then what depends on a node is always older than it.
	for i := len(x.path) - 1; i >= 0; i-- {
		x.touch(e, slot, x.path[i], seen)
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
func (x *Index) touch(e *endpoint, slot uint32, p step, seen uint32) {
	t := &x.tree
	n := t.nodes.at(p.node)
	j := n.find(slot)
	if j == 0 {
		j = t.hold(n, p.node, slot)
	} else {
		e.oldest.remove(t, byEndpoint, j)
		t.oldest.remove(t, byAll, j)
	}
	e.oldest.pushNewest(t, byEndpoint, j)
	t.oldest.pushNewest(t, byAll, j)
	h := t.holds.at(j)
	if p.matched > h.chunks {
		e.chunks += int64(p.matched - h.chunks)
		h.chunks, h.ready = p.matched, false
	}
	h.stamp = e.clock
	h.seen = max(h.seen, h.seen+seen, 1) // no wrap; 1 where it came back
}

// Observe corrects the index by what the engine said of a prompt that was sent.
// c is the chain that Send was given. An answer is worth one call.
func (x *Index) Observe(s Sent, c *Chain, u Usage) {
	if u.PromptTokens < 1 || s.id == (ID{}) {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	e := x.es.get(s.id)
	if e == nil {
		return
	}
	e.model.learn(float64(c.bytes), float64(u.PromptTokens))
	if u.CachedKnown {
		x.compare(e, &s, c, u)
	}
	x.confirm(e, &s, c)
	x.trim(e)
	x.bound()
}

// compare corrects what is believed of e by what it said of one prompt.
func (x *Index) compare(e *endpoint, s *Sent, c *Chain, u Usage) {
	cached := min(max(u.CachedTokens, 0), u.PromptTokens)
	x.metrics.observe(int64(s.Predicted), cached)
	e.test(float64(s.Predicted), float64(cached))
	// A prompt's own ratio says best where in it the engine's cache ended.
	real := int32(float64(cached) / float64(u.PromptTokens) * float64(c.bytes) / ChunkBytes)
	if s.n > 0 && real > s.marks[s.n-1].end-8 {
		since := float64(s.stamp-s.marks[s.n-1].stamp) * ChunkBytes * e.model.tokens / e.model.bytes
		e.reach = math.Max(e.reach, since)
	}
	switch slack := s.before/8 + 8; {
	case real < s.before-slack:
		x.lost(e, s, real)
	case real > s.before+slack:
		e.misses = 0
		if e.full {
			more := float64(real-s.before) * ChunkBytes * e.model.tokens / e.model.bytes
			e.capacity += math.Min(4*more, e.capacity/4)
			if e.told > 0 {
				e.capacity = math.Min(e.capacity, e.told)
			}
			e.capacity = math.Min(e.capacity, maxCapacityTokens)
		}
	default:
		e.misses = 0
	}
}

// confirm notes that what was sent has been computed. Engines keep a prompt's
// blocks while it runs and count them as used when it ends.
func (x *Index) confirm(e *endpoint, s *Sent, c *Chain) {
	x.path = x.tree.walk(x.path[:0], c)
	var now Sent
	now.id = s.id
	x.believe(&now)
	x.use(e, s.id.slot, c, int(now.before), 0)
	for _, p := range x.path {
		x.tree.holds.at(x.tree.nodes.at(p.node).find(s.id.slot)).ready = true
	}
}

// clearedAfter is how many answers in a row have to deny what was certain until
// the cache is taken to be cleared.
const clearedAfter = 3

// lost: the engine had only real chunks of what s believed. An engine frees
// what was used last at the end, so all used before the lost part is lost too,
// and there is room for no more than what was used since.
func (x *Index) lost(e *endpoint, s *Sent, real int32) {
	i := 0
	for i < s.n-1 && s.marks[i].end <= real {
		i++
	}
	m := s.marks[i]
	if !m.ready {
		return // it was sent, but perhaps not computed yet
	}
	since := float64(s.stamp-m.stamp) * ChunkBytes * e.model.tokens / e.model.bytes
	if since < e.capacity/8 {
		// Too recent to have been pushed out. Either it was something else,
		// or everything is gone.
		if e.misses++; e.misses >= clearedAfter {
			e.misses = 0
			x.forget(e, m.stamp)
		}
		return
	}
	x.forget(e, m.stamp)
	held := math.Min(float64(e.chunks)*ChunkBytes*e.model.tokens/e.model.bytes, e.capacity)
	e.reach = math.Min(e.reach, since)
	// Between what it surely kept and what it surely did not, but no more than a
	// quarter down at a time.
	e.capacity = math.Max(math.Max((e.reach+held)/2, held*3/4), minCapacityTokens)
	e.full = true
	x.trim(e)
}

// Failed takes back what Send recorded, for a prompt that the engine did not
// compute. What was used in the meantime stays.
func (x *Index) Failed(s Sent, c *Chain) {
	x.mu.Lock()
	defer x.mu.Unlock()
	e := x.es.get(s.id)
	if e == nil {
		return
	}
	x.path = x.tree.walk(x.path[:0], c)
	for i := len(x.path) - 1; i >= 0; i-- {
		n := x.tree.nodes.at(x.path[i].node)
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
