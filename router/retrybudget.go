package router

import (
	"sync/atomic"
	"time"
)

// budgetSlots and budgetSlot make the sliding window of a retryBudget: 10 s.
const (
	budgetSlots = 10
	budgetSlot  = time.Second
)

// retryBudget bounds retries to a share of the requests of the last ten seconds.
// When most of a fleet is sick, retries that each look reasonable multiply the
// load on what is left. Source of the scheme: Finagle's retry budget.
//
// It may be used concurrently; a request that races with a slot's turn can be
// counted in either, which no bound depends on.
type retryBudget struct {
	ratio float64
	least int64
	slots [budgetSlots]budgetCell
}

type budgetCell struct {
	at       atomic.Int64 // number of the slot since the epoch
	requests atomic.Int64
	retries  atomic.Int64
}

func newRetryBudget(ratio float64, least int) *retryBudget {
	return &retryBudget{ratio: ratio, least: int64(least)}
}

// cell returns the slot of now, emptied if it held an older one.
func (b *retryBudget) cell(now time.Time) *budgetCell {
	n := now.UnixNano() / int64(budgetSlot)
	c := &b.slots[n%budgetSlots]
	if at := c.at.Load(); at != n && c.at.CompareAndSwap(at, n) {
		c.requests.Store(0)
		c.retries.Store(0)
	}
	return c
}

// request counts one request.
func (b *retryBudget) request(now time.Time) { b.cell(now).requests.Add(1) }

// retry reports whether one more retry is within the budget, and counts it if
// so.
func (b *retryBudget) retry(now time.Time) bool {
	c := b.cell(now)
	c.retries.Add(1) // first, so that many at once cannot all see the last one left
	requests, retries := b.sum(c.at.Load())
	if retries > b.allowed(requests) {
		c.retries.Add(-1)
		return false
	}
	return true
}

// left returns how many more retries the budget has at now. It counts nothing.
func (b *retryBudget) left(now time.Time) int {
	mine := now.UnixNano() / int64(budgetSlot)
	requests, retries := b.sum(mine)
	return int(max(0, b.allowed(requests)-retries))
}

// sum returns what was counted in the ten slots up to mine.
func (b *retryBudget) sum(mine int64) (requests, retries int64) {
	for i := range b.slots {
		s := &b.slots[i]
		if at := s.at.Load(); at > mine-budgetSlots && at <= mine {
			requests += s.requests.Load()
			retries += s.retries.Load()
		}
	}
	return requests, retries
}

func (b *retryBudget) allowed(requests int64) int64 {
	return max(b.least, int64(b.ratio*float64(requests)))
}
