package router

import "testing"

// Large buffers are used again, and no more of them are kept than the bound.
func TestLargeBuffersAreKeptWithinBounds(t *testing.T) {
	m := bodyMemory{limit: 1 << 30}
	first := m.buffer(1 << 20)
	m.recycle(first)
	if again := m.buffer(1 << 20); again != first {
		t.Error("a large buffer was not used again")
	}
	for range 1000 {
		b := make([]byte, 0, 1<<20)
		m.recycle(&b)
	}
	if m.large.bytes > largeKept || len(m.large.kept) > largeCount {
		t.Errorf("%d buffers of %d bytes are kept", len(m.large.kept), m.large.bytes)
	}
}
