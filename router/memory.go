package router

import (
	"math"
	"math/bits"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
)

// bodyMemory bounds the request bodies that are held at a time and keeps their
// buffers for the next ones.
type bodyMemory struct {
	limit int64
	held  atomic.Int64
	free  [bodyClasses]sync.Pool // of *[]byte, by size class
	large largeBuffers
}

const (
	smallestBody = 4 << 10
	bodyClasses  = 15 // 4 KiB to 64 MiB
)

// defaultBodyMemory is what Config.BodyMemoryBytes of 0 means.
func defaultBodyMemory() int64 {
	if limit := debug.SetMemoryLimit(-1); limit < math.MaxInt64 {
		return max(limit/4, 64<<20)
	}
	return 1 << 30
}

// take counts n further bytes, or reports that they are too many.
func (m *bodyMemory) take(n int64) bool {
	if m.held.Add(n) > m.limit {
		m.held.Add(-n)
		return false
	}
	return true
}

func (m *bodyMemory) give(n int64) { m.held.Add(-n) }

// class returns the size class that holds n bytes, and whether there is one.
func class(n int) (int, bool) {
	c := max(bits.Len(uint(max(n, 1)-1))-12, 0)
	return c, c < bodyClasses
}

// room is the capacity of the buffer for n bytes: that of its class, unless so
// much would never be granted.
func (m *bodyMemory) room(n int) int {
	if c, ok := class(n); ok && int64(smallestBody)<<c <= m.limit {
		return smallestBody << c
	}
	return n
}

// buffer returns an empty buffer with room for n bytes, of capacity room(n).
func (m *bodyMemory) buffer(n int) *[]byte {
	c, ok := class(n)
	if !ok || m.room(n) != smallestBody<<c {
		b := make([]byte, 0, n)
		return &b
	}
	if b, ok := m.free[c].Get().(*[]byte); ok {
		*b = (*b)[:0]
		return b
	}
	if b := m.large.take(smallestBody << c); b != nil {
		*b = (*b)[:0]
		return b
	}
	b := make([]byte, 0, smallestBody<<c)
	return &b
}

// recycle keeps b for another body. Nobody may hold a part of it.
func (m *bodyMemory) recycle(b *[]byte) {
	if c, ok := class(cap(*b)); ok && cap(*b) == smallestBody<<c && !m.large.keep(b) {
		m.free[c].Put(b)
	}
}

const (
	largeBody  = 256 << 10 // from here on a new buffer costs more than its bytes' copying
	largeKept  = 32 << 20  // bytes of large buffers that are kept
	largeCount = 64        // and their number
)

// largeBuffers keeps a few large buffers across garbage collections, which empty
// a sync.Pool: to clear and to fault in a new megabyte costs as much as relaying
// it.
type largeBuffers struct {
	mu    sync.Mutex
	kept  []*[]byte // guarded by mu
	bytes int       // guarded by mu
}

// take returns a kept buffer of exactly n bytes' capacity, or nil.
func (l *largeBuffers) take(n int) *[]byte {
	if n < largeBody {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := len(l.kept) - 1; i >= 0; i-- {
		if b := l.kept[i]; cap(*b) == n {
			l.kept = slices.Delete(l.kept, i, i+1)
			l.bytes -= n
			return b
		}
	}
	return nil
}

// keep reports whether b is kept.
func (l *largeBuffers) keep(b *[]byte) bool {
	n := cap(*b)
	if n < largeBody {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.kept) >= largeCount || l.bytes+n > largeKept {
		return false
	}
	l.kept = append(l.kept, b)
	l.bytes += n
	return true
}
