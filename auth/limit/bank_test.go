package limit_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/llmgw/llmgw/auth/limit"
)

var errDown = errors.New("the store is down")

// bank hands out slices as a store does, and fails as a store does: before
// anything was done, or after it.
type bank struct {
	mu      sync.Mutex
	granted map[limit.BudgetID]int64 // and not given back
	grants  map[string]int64
	back    map[string]int64 // by GrantID; what was given back
	asked   int

	// fail says what becomes of a call; nil is all well. before: it fails and
	// nothing was done. after: it was done and the answer is lost.
	fail func() (before, after bool)
	// gate, if not nil, is received from before an Ask is answered.
	gate chan struct{}
	// takes is how long an Ask takes.
	takes time.Duration
}

func newBank() *bank {
	return &bank{granted: make(map[limit.BudgetID]int64), grants: make(map[string]int64), back: make(map[string]int64)}
}

func (b *bank) outcome() (before, after bool) {
	if b.fail == nil {
		return false, false
	}
	return b.fail()
}

func (b *bank) Fund(ctx context.Context, a limit.Ask) (limit.Funds, error) {
	if b.gate != nil {
		select {
		case <-b.gate:
		case <-ctx.Done():
			return limit.Funds{}, context.Cause(ctx)
		}
	}
	time.Sleep(b.takes) //nolint:forbidigo // virtual time
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked++
	if a.LeastNanos < 1 || a.WantNanos < a.LeastNanos || a.GrantID == "" {
		panic(fmt.Sprintf("a bad ask: %+v", a))
	}
	before, after := b.outcome()
	if before {
		return limit.Funds{}, errDown
	}
	n, old := b.grants[a.GrantID]
	if !old {
		if n = min(a.WantNanos, a.LimitNanos-b.granted[a.Budget]); n < a.LeastNanos {
			if after {
				return limit.Funds{}, errDown
			}
			return limit.Funds{}, fmt.Errorf("bank: %w", limit.ErrSpent)
		}
		b.grants[a.GrantID] = n
		b.granted[a.Budget] += n
	}
	if after {
		return limit.Funds{}, errDown
	}
	return limit.Funds{GrantedNanos: n}, nil
}

func (b *bank) Return(_ context.Context, r limit.Return) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	before, after := b.outcome()
	if before {
		return errDown
	}
	if _, again := b.back[r.GrantID]; !again {
		if n, known := b.grants[r.GrantID]; !known || r.UnspentNanos < 0 || r.UnspentNanos > n {
			panic(fmt.Sprintf("a bad return: %+v of %d", r, n))
		}
		b.back[r.GrantID] = r.UnspentNanos
		b.granted[r.Budget] -= r.UnspentNanos
	}
	if after {
		return errDown
	}
	return nil
}

// open returns how many slices were not given back.
func (b *bank) open() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.grants) - len(b.back)
}

func (b *bank) out(id limit.BudgetID) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.granted[id]
}

func newLimiter(t testing.TB, src limit.Source) *limit.Limiter {
	t.Helper()
	l, err := limit.New(limit.DefaultConfig(), limit.Deps{Source: src})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// monday is a time to begin with.
func monday() time.Time { return time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC) }

// reason returns why a request was refused: that of a LimitedError, or 0.
func reason(err error) limit.Reason {
	if e, ok := errors.AsType[*limit.LimitedError](err); ok {
		return e.Reason
	}
	return 0
}
