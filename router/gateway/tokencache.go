package gateway

import (
	"slices"
)

// tokenized is a prompt's tokens. They never change.
type tokenized struct {
	sum    uint64
	tokens []uint32
	by     *tokenizer
}

// tokenizedBytes is what an entry takes besides its tokens.
const tokenizedBytes = 200

// get returns the tokens of a prompt, false if they are not known.
func (t *tokens) get(sum uint64) (*tokenized, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e, ok := t.known[sum]
	if !ok {
		return nil, false
	}
	t.recent.MoveToFront(e)
	return e.Value.(*tokenized), true
}

// longest returns the tokens of the longest beginning, of those with the sums, the
// longest last, that is known, and its place in sums.
func (t *tokens) longest(sums []turnEnd) (*tokenized, int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := len(sums) - 1; i >= 0; i-- {
		if e, ok := t.known[sums[i].sum]; ok {
			t.recent.MoveToFront(e)
			return e.Value.(*tokenized), i
		}
	}
	return nil, 0
}

// peek is get and, where a prompt is not known, longest, for who only wants to
// know: nothing is kept for it. at is -1 for the whole prompt.
func (t *tokens) peek(sum uint64, turns []turnEnd) (z *tokenized, at int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e, ok := t.known[sum]; ok {
		return e.Value.(*tokenized), -1
	}
	for i, turn := range slices.Backward(turns) {
		if e, ok := t.known[turn.sum]; ok {
			return e.Value.(*tokenized), i
		}
	}
	return nil, 0
}

// put remembers the tokens of a prompt.
func (t *tokens) put(z *tokenized) {
	size := int64(4*cap(z.tokens)) + tokenizedBytes
	t.mu.Lock()
	defer t.mu.Unlock()
	if size > t.max {
		return
	}
	t.drop(z.sum)
	t.known[z.sum] = t.recent.PushFront(z)
	t.bytes += size
	for t.bytes > t.max {
		t.drop(t.recent.Back().Value.(*tokenized).sum)
	}
}

// drop forgets a prompt's tokens. It holds mu.
func (t *tokens) drop(sum uint64) {
	if e, ok := t.known[sum]; ok {
		z := t.recent.Remove(e).(*tokenized)
		delete(t.known, sum)
		t.bytes -= int64(4*cap(z.tokens)) + tokenizedBytes
	}
}

// used returns how much memory is in use.
func (t *tokens) used() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.bytes
}
