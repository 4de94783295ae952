package router

import (
	"math"
	"math/bits"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// bodyMemory bounds the request bodies that are held at a time and keeps their
// buffers for the next ones.
type bodyMemory struct {
	limit int64
	held  atomic.Int64
	free  [bodyClasses]sync.Pool // of *[]byte, by size class
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
	b := make([]byte, 0, smallestBody<<c)
	return &b
}

// recycle keeps b for another body. Nobody may hold a part of it.
func (m *bodyMemory) recycle(b *[]byte) {
	if c, ok := class(cap(*b)); ok && cap(*b) == smallestBody<<c {
		m.free[c].Put(b)
	}
}
