package usage

import (
	"sync"

	"github.com/llmgw/llmgw/storage"
)

// buffer is a bounded queue of rows. What is taken from it stays in it until it
// is dropped from its front, so that the bound holds for rows under way, too, and
// none is copied for the store.
type buffer struct {
	mu     sync.Mutex
	rows   []storage.Usage // guarded by mu; a ring, its size the bound
	first  int             // guarded by mu
	n      int             // guarded by mu
	closed bool            // guarded by mu: nobody takes rows any more
}

// put appends a row and returns how many there are then; false if it is full or
// closed.
func (b *buffer) put(u *storage.Usage) (n int, open, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || b.n == len(b.rows) {
		return b.n, !b.closed, false
	}
	b.rows[(b.first+b.n)%len(b.rows)] = *u
	b.n++
	return b.n, true, true
}

// front returns the first rows, at most most; fewer where they stand at the end of the
// ring. They are the caller's to read until it drops them.
func (b *buffer) front(most int) []storage.Usage {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := min(b.n, most, len(b.rows)-b.first)
	return b.rows[b.first : b.first+n : b.first+n]
}

// drop forgets the first n rows and what they hold on to.
func (b *buffer) drop(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for n > 0 {
		some := min(n, len(b.rows)-b.first)
		clear(b.rows[b.first : b.first+some])
		b.first = (b.first + some) % len(b.rows)
		b.n -= some
		n -= some
	}
}

func (b *buffer) len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.n
}

// end takes no more rows and forgets those that are left; it returns how many.
func (b *buffer) end() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := b.n
	b.closed, b.n = true, 0
	clear(b.rows)
	return n
}
