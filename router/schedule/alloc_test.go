//go:build !race

// The race detector makes pools forget; these tests run without it.

package schedule_test

import (
	"testing"
	"time"

	"github.com/llmgw/llmgw/router/schedule"
)

func TestDecideAllocates(t *testing.T) {
	for _, endpoints := range []int{100, 1000} {
		testDecideAllocates(t, endpoints)
	}
}

func testDecideAllocates(t *testing.T, endpoints int) {
	t.Helper()
	now := time.Now()
	pool := newPool(t, endpoints, now)
	s := newScheduler(t, schedule.Deps{Prefixes: holdingOf(pool, 8)})
	prompt := "p"
	req := &schedule.Request{Model: "m", Tenant: "t", Band: "b", Session: "s", Prompt: &prompt, Now: now, PoolVersion: 3}
	var rec schedule.Decision
	for _, r := range []*schedule.Decision{nil, &rec} {
		allocs := testing.AllocsPerRun(200, func() {
			_, held, err := s.Decide("", req, pool, nil, r)
			if err != nil {
				t.Fatal(err)
			}
			held.Release()
		})
		if allocs > 1 { // a collection may empty the pool of records
			t.Errorf("%d endpoints: %v allocations, record kept %t", endpoints, allocs, r != nil)
		}
	}
}
