package prefix

import (
	"math/bits"
	"slices"
)

// exactBlock is who holds a block.
type exactBlock struct {
	count int32
	few   [3]uint32 // slots, while there are at most so many
	many  slotSet   // else
}

// add reports whether slot did not hold the block yet.
func (b *exactBlock) add(slot uint32) bool {
	if b.many == nil {
		n := int(b.count)
		if slices.Contains(b.few[:n], slot) {
			return false
		}
		if n < len(b.few) {
			b.few[n] = slot
			b.count++
			return true
		}
		for _, s := range b.few {
			b.many.add(s)
		}
	}
	if !b.many.add(slot) {
		return false
	}
	b.count++
	return true
}

func (b *exactBlock) remove(slot uint32) {
	if b.many != nil {
		if b.many.remove(slot) {
			b.count--
		}
		return
	}
	for i, s := range b.few[:b.count] {
		if s == slot {
			b.count--
			b.few[i] = b.few[b.count]
			return
		}
	}
}

// and puts into dst the slots of set that hold the block; dst is as long as set.
func (b *exactBlock) and(dst, set slotSet) {
	if b.many != nil {
		n := min(len(dst), len(b.many))
		for i := range n {
			dst[i] = set[i] & b.many[i]
		}
		clear(dst[n:])
		return
	}
	clear(dst)
	for _, s := range b.few[:b.count] {
		if w := int(s >> 6); w < len(dst) {
			dst[w] |= set[w] & (1 << (s & 63))
		}
	}
}

// slotSet has a bit for each slot.
type slotSet []uint64

// add reports whether slot was not in the set.
func (s *slotSet) add(slot uint32) bool {
	w, bit := int(slot>>6), uint64(1)<<(slot&63)
	for len(*s) <= w {
		*s = append(*s, 0)
	}
	was := (*s)[w]&bit != 0
	(*s)[w] |= bit
	return !was
}

// remove reports whether slot was in the set.
func (s slotSet) remove(slot uint32) bool {
	w, bit := int(slot>>6), uint64(1)<<(slot&63)
	if w >= len(s) || s[w]&bit == 0 {
		return false
	}
	s[w] &^= bit
	return true
}

// Lookup finds who holds the first blocks of p, and puts them into r, where
// Match.Bytes is 0 and Match.Trust 1. Those that hold least come first, of equal
// ones by slot. It costs O(blocks × endpoints/64) for each size of blocks in use
// and allocates only to grow r.
func (x *Exact) Lookup(p Prompt, r *Result) {
	x.Peek(p, r)
	x.metrics.lookups.Add(1)
	if len(r.Matches) > 0 {
		x.metrics.hits.Add(1)
	}
}

// Peek is Lookup for who only wants to know: it does not show in the metrics.
func (x *Exact) Peek(p Prompt, r *Result) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	r.reset(0, len(x.all))
	// Sizes come in no order, but no endpoint is in two.
	for size, class := range x.sizes {
		x.lookupSize(p, size, class.slots, r)
	}
	if len(x.sizes) > 1 {
		r.sort()
	}
}

func (x *Exact) lookupSize(p Prompt, size int, slots slotSet, r *Result) {
	r.now = append(r.now[:0], slots...)
	r.next = append(r.next[:0], slots...)
	key, n := p.Root, 0
	for ; (n+1)*size <= len(p.Tokens); n++ {
		extra := ""
		if p.Extra != nil {
			extra = p.Extra(n*size, (n+1)*size)
		}
		key = blockKey(key, p.Tokens[n*size:(n+1)*size], extra)
		b := x.blocks[key]
		if b == nil {
			break
		}
		b.and(r.next, r.now)
		var left uint64
		for w := range r.now {
			left |= r.next[w]
			if gone := r.now[w] &^ r.next[w]; gone != 0 && n > 0 {
				x.match(r, w, gone, n*size)
			}
		}
		r.now, r.next = r.next, r.now
		if left == 0 {
			return
		}
	}
	if n > 0 {
		for w, set := range r.now {
			x.match(r, w, set, n*size)
		}
	}
}

// match adds the endpoints of one word of slots.
func (x *Exact) match(r *Result, w int, set uint64, tokens int) {
	for ; set != 0; set &= set - 1 {
		slot := uint32(w<<6 + bits.TrailingZeros64(set))
		r.Matches = append(r.Matches, Match{ID: ID{slot, x.all[slot].life}, Tokens: tokens, Seen: 1, Trust: 1})
		r.at[slot] = int32(len(r.Matches))
	}
}
