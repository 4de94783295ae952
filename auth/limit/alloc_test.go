//go:build !race

package limit_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/llmgw/llmgw/auth/limit"
)

// One allocation, the reservation, with every limit; a window that moves on
// needs none.
func TestAllocs(t *testing.T) {
	l, s, now := newLimiter(t, nil), everyLimit(t, new(limit.Zones), "k"), time.Now()
	n := testing.AllocsPerRun(1000, func() {
		acquireSettle(t, l, s, now)
		now = now.Add(100 * time.Millisecond)
	})
	if n > 1 {
		t.Errorf("%v allocations; want 1", n)
	}
}

// What 10,000 keys with every limit take.
func TestAllocsOfKeys(t *testing.T) {
	l, now := newLimiter(t, nil), time.Now()
	var zones limit.Zones
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range 10_000 {
		s := everyLimit(t, &zones, fmt.Sprint("key-", i))
		for range 3 {
			acquireSettle(t, l, s, now)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	per := int64(after.HeapAlloc-before.HeapAlloc) / 10_000
	t.Logf("%d bytes a key", per)
	if per > 4096 {
		t.Errorf("%d bytes a key; want at most 4096", per)
	}
	runtime.KeepAlive(l)
}
