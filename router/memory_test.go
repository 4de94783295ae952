package router

import (
	"math/rand/v2"
	"sync"
	"testing"
)

func TestRoomForBodies(t *testing.T) {
	m := &bodyMemory{limit: 100_000}
	for n, want := range map[int]int{
		0: 4096, 1: 4096, 4096: 4096, 4097: 8192, 65_000: 65_536, 65_537: 65_537, 99_999: 99_999,
	} {
		if got := m.room(n); got != want {
			t.Errorf("%d bytes get room for %d, want %d", n, got, want)
		}
		b := m.buffer(n)
		if cap(*b) != want || len(*b) != 0 {
			t.Errorf("%d bytes get a buffer of %d", n, cap(*b))
		}
		m.recycle(b)
	}
	large := &bodyMemory{limit: 1 << 40}
	if got := large.room(64 << 20); got != 64<<20 {
		t.Errorf("got %d", got)
	}
	if got := large.room(64<<20 + 1); got != 64<<20+1 { // above the largest class
		t.Errorf("got %d", got)
	}
}

// The bound holds whoever grows what at the same time, and everything comes
// back.
func TestBodyMemoryHolds(t *testing.T) {
	m := &bodyMemory{limit: 1 << 20}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(i)))
			for range 2000 {
				b := body{mem: m}
				n := 1
				for range rng.IntN(6) {
					n += rng.IntN(200_000)
					if !b.grow(n) {
						break
					}
					if held := m.held.Load(); held > m.limit+8*(1<<18) {
						t.Errorf("%d bytes are held", held)
					}
					*b.buf = append((*b.buf)[:0], 1)
				}
				if rng.IntN(3) == 0 {
					b.forget()
				}
				b.release()
				b.release()
			}
		})
	}
	wg.Wait()
	if held := m.held.Load(); held != 0 {
		t.Errorf("%d bytes are held by nobody", held)
	}
}

func TestGrowKeepsWhatIsThere(t *testing.T) {
	m := &bodyMemory{limit: 1 << 20}
	b := body{mem: m}
	if !b.grow(10) {
		t.Fatal("no room for ten bytes")
	}
	*b.buf = append(*b.buf, "0123456789"...)
	if !b.grow(5000) || string(*b.buf) != "0123456789" || m.held.Load() != 8192 {
		t.Errorf("%q, %d held", *b.buf, m.held.Load())
	}
	if b.grow(2<<20) || string(*b.buf) != "0123456789" || m.held.Load() != 8192 {
		t.Errorf("what does not fit changed what is there: %q, %d held", *b.buf, m.held.Load())
	}
	b.release()
	if m.held.Load() != 0 {
		t.Errorf("%d held", m.held.Load())
	}
}
