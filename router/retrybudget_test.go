package router

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestRetryBudgetSlides(t *testing.T) {
	now := time.Unix(1000, 0)
	b := newRetryBudget(0.2, 0)
	if b.retry(now) {
		t.Error("a retry without a request")
	}
	for range 10 {
		b.request(now)
	}
	for i, want := range []bool{true, true, false} {
		if got := b.retry(now.Add(time.Second)); got != want {
			t.Errorf("retry %d: %v", i, got)
		}
	}
	// The requests are out of the window after ten seconds, the retries a
	// second later.
	if b.retry(now.Add(10 * time.Second)) {
		t.Error("old requests count")
	}
	for range 15 {
		b.request(now.Add(10 * time.Second))
	}
	for i, want := range []bool{true, false} { // 3, of which 2 were made
		if got := b.retry(now.Add(10 * time.Second)); got != want {
			t.Errorf("retry %d: %v", i, got)
		}
	}
	if !b.retry(now.Add(11 * time.Second)) {
		t.Error("old retries count")
	}
}

func TestRetryBudgetHasALeast(t *testing.T) {
	b := newRetryBudget(0, 3)
	now := time.Unix(1000, 0)
	for i := range 3 {
		if !b.retry(now) {
			t.Errorf("retry %d is not made", i)
		}
	}
	if b.retry(now.Add(9 * time.Second)) {
		t.Error("a fourth retry in ten seconds")
	}
	if !b.retry(now.Add(10 * time.Second)) {
		t.Error("no retry after ten seconds")
	}
	if newRetryBudget(0, 0).retry(now) {
		t.Error("a retry with no budget at all")
	}
}

// However many ask at once, there are no more than the budget has.
func TestRetryBudgetHoldsUnderConcurrency(t *testing.T) {
	b := newRetryBudget(0.2, 0)
	now := time.Unix(1000, 0)
	for range 1000 {
		b.request(now)
	}
	var made atomic.Int64
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 200 {
				if b.retry(now) {
					made.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if n := made.Load(); n > 200 || n < 180 {
		t.Errorf("%d retries of 200", n)
	}
}

// In any ten seconds retries stay within the share of the requests of about
// that time.
func TestRetryBudgetProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ratio := rapid.Float64Range(0, 1).Draw(t, "ratio")
		least := rapid.IntRange(0, 5).Draw(t, "least")
		b := newRetryBudget(ratio, least)
		now := time.Unix(5000, 0)
		var requests, retries []time.Time
		within := func(list []time.Time, from, to time.Time) (n int) {
			for _, at := range list {
				if !at.Before(from) && !at.After(to) {
					n++
				}
			}
			return n
		}
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 3000).Draw(t, "ms")) * time.Millisecond)
			if rapid.Bool().Draw(t, "request") {
				b.request(now)
				requests = append(requests, now)
				continue
			}
			if !b.retry(now) {
				continue
			}
			retries = append(retries, now)
			// The window is 9 to 10 seconds long, by the slots.
			got, may := within(retries, now.Add(-9*time.Second), now), within(requests, now.Add(-10*time.Second), now)
			if got > max(least, int(ratio*float64(may))) {
				t.Fatalf("%d retries for %d requests", got, may)
			}
		}
	})
}
