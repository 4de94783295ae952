package prefix

import "math"

// Observe corrects the index by what the engine said of a prompt that was sent.
// c is the chain that Send was given. An answer is worth one call, at its end:
// from then on the engine may free the prompt, as its last used.
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
	if e.clears != s.clears {
		return // what it says is of a cache that is gone
	}
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
	// had is in chunks. A prompt's own ratio says best where in it the engine's cache ended. It
	// ends with a block, and text has not the same ratio everywhere.
	had := int32(float64(cached) / float64(u.PromptTokens) * float64(c.bytes) / ChunkBytes)
	slack := s.before/8 + 8
	if had < s.before-slack {
		x.lost(e, s, had)
		return
	}
	e.misses = 0
	if had > s.before+slack {
		// It was sent by another router, or is an answer of the engine's own,
		// or was forgotten here too early.
		if int(s.before) < len(c.hashes) && e.ghosts.has(c.hashes[s.before]) {
			e.widen(4 * e.tokens(int64(had-s.before)))
		}
	} else if s.n > 0 {
		kept := e.tokens(int64(s.stamp - s.marks[s.n-1].stamp))
		if e.reach = math.Max(e.reach, kept); kept > e.capacity/2 {
			e.widen(e.capacity / 32) // what it is taken to lose next may well be there
		}
	}
}

// widen estimates the capacity higher by some tokens, if what is there is at its
// limit and has not been told to be the most.
func (e *endpoint) widen(by float64) {
	if !e.full {
		return
	}
	most := float64(maxCapacityTokens)
	if e.told > 0 {
		most = e.told
	}
	e.capacity = math.Min(e.capacity+math.Min(by, e.capacity/4), math.Max(most, e.capacity))
}

// clearedAfter is how many answers in a row have to deny what was certain until
// the cache is taken to be cleared.
const clearedAfter = 3

// lost: the engine had only so many chunks of what s believed. Engines
// free what was used last at the end, so all that was used before the lost part
// is lost too, and there is room for no more than what was used since.
func (x *Index) lost(e *endpoint, s *Sent, had int32) {
	i := 0
	for i < s.n-1 && s.marks[i].end <= had {
		i++
	}
	m := s.marks[i]
	if !m.ready {
		return // it was sent, but perhaps not computed yet
	}
	since := e.tokens(int64(s.stamp - m.stamp))
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
	e.full = true
	e.reach = math.Min(e.reach, since)
	held := math.Min(e.tokens(e.chunks), e.capacity)
	// Between what it surely kept and what it surely did not, but no more than
	// a quarter down at a time.
	e.capacity = math.Max(math.Max((e.reach+held)/2, held*3/4), minCapacityTokens)
	x.trim(e)
}

// confirm notes that what was sent has been computed, and used until now.
func (x *Index) confirm(e *endpoint, s *Sent, c *Chain) {
	x.path = x.tree.walk(x.path[:0], c)
	x.use(e, s.id.slot, c, x.held(s.id.slot), true)
}
