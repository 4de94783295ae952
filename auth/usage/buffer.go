package usage

import (
	"sync"

	"github.com/llmgw/llmgw/storage"
)

// buffer is a bounded queue of rows. What is taken from it stays in it until it
// is dropped from its front, so that the bound holds for rows under way, too.
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

// front copies the first rows into dst, at most its capacity.
func (b *buffer) front(dst []storage.Usage) []storage.Usage {
	b.mu.Lock()
	defer b.mu.Unlock()
	dst = dst[:0]
	for i := range min(b.n, cap(dst)) {
		dst = append(dst, b.rows[(b.first+i)%len(b.rows)])
	}
	return dst
}

// drop forgets the first n rows and what they hold on to.
func (b *buffer) drop(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for range n {
		b.rows[b.first] = storage.Usage{}
		b.first = (b.first + 1) % len(b.rows)
	}
	b.n -= n
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
