package server

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestPercentFor(t *testing.T) {
	for live, want := range map[uint64]int{
		0: gcPercent, 1 << 20: gcPercent, 12 << 20: gcPercent, 24 << 20: 200, 48 << 20: 100, 96 << 20: 50, 192 << 20: leastPercent, 1 << 40: leastPercent,
	} {
		if got := percentFor(live); got != want {
			t.Errorf("%d MiB: %d; want %d", live>>20, got, want)
		}
	}
}

// The pace follows what is live, and is not touched for little.
func TestPacer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var live atomic.Uint64
		var set []int
		p := &pacer{live: live.Load, set: func(n int) int { set = append(set, n); return 0 }, now: gcPercent}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- p.run(ctx) }()
		for _, mib := range []uint64{1, 12, 48, 49, 47, 1000, 1001, 190, 2} {
			live.Store(mib << 20)
			time.Sleep(paceEvery)
			synctest.Wait()
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if want := []int{100, leastPercent, gcPercent}; !slices.Equal(set, want) {
			t.Errorf("set %v; want %v", set, want)
		}
	})
}

func TestLiveBytes(t *testing.T) {
	if n := liveBytes(); n == 0 {
		t.Error("nothing is live")
	}
}

func TestPacerLeavesTheEnvironment(t *testing.T) {
	t.Setenv("GOGC", "80")
	if newPacer() != nil {
		t.Error("it would set another pace than GOGC")
	}
}
