package shared

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/llmgw/llmgw/auth/limit"
	"github.com/llmgw/llmgw/storage"
)

// budgets is a store of budgets in memory that fails before and after the fact.
type budgets struct {
	mu      sync.Mutex
	rng     *rand.Rand // nil: it never fails
	granted map[storage.BudgetPeriod]int64
	open    map[string]storage.Grant
	known   map[string]storage.Grant
}

func newBudgets() *budgets {
	return &budgets{granted: make(map[storage.BudgetPeriod]int64), open: make(map[string]storage.Grant), known: make(map[string]storage.Grant)}
}

func (b *budgets) fails() error {
	if b.rng != nil && b.rng.IntN(5) == 0 {
		return fmt.Errorf("a test: %w", storage.ErrUnavailable)
	}
	return nil
}

func (b *budgets) GrantBudget(_ context.Context, r storage.GrantRequest) (storage.Grant, error) {
	if err := r.Validate(); err != nil {
		return storage.Grant{}, err // as every store does
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.fails(); err != nil {
		return storage.Grant{}, err
	}
	g, ok := b.known[r.ID]
	if !ok {
		n := min(r.WantNanos, r.LimitNanos-b.granted[r.Budget])
		if n < r.LeastNanos {
			return storage.Grant{}, fmt.Errorf("a test: %w", storage.ErrBudgetSpent)
		}
		g = storage.Grant{ID: r.ID, Budget: r.Budget, Router: r.Router, Nanos: n}
		b.known[r.ID], b.open[r.ID] = g, g
		b.granted[r.Budget] += n
	}
	return g, b.fails()
}

func (b *budgets) ReturnBudget(_ context.Context, id string, unspent int64, _ time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.fails(); err != nil {
		return err
	}
	if g, ok := b.open[id]; ok {
		delete(b.open, id)
		b.granted[g.Budget] -= unspent
	} else if _, known := b.known[id]; !known {
		return fmt.Errorf("a test: %w", storage.ErrNotFound)
	}
	return b.fails()
}

// Three routers spend of one budget, of a store that fails one call in five, and
// one of them is killed: never is more spent than the budget, what is lost is
// what the dead one had, and what is left when the others have ended is nothing.
func TestRoutersShareABudget(t *testing.T) {
	const total, cost = int64(1_000_000), int64(1000)
	store := newBudgets()
	store.rng = rand.New(rand.NewPCG(1, 2))
	b, err := limit.NewBudget(total, limit.PeriodTotal, "")
	if err != nil {
		t.Fatal(err)
	}
	sub := &limit.Subject{ID: "k", Budget: b}
	var spent, lost int64
	var mu sync.Mutex
	var wg sync.WaitGroup
	var stops []func()
	for _, id := range []string{"a", "b", "c"} {
		cfg := DefaultConfig()
		cfg.Memory.FundPause = time.Millisecond
		l, err := New(cfg, Deps{RouterID: id, Source: Slices(store, id)})
		if err != nil {
			t.Fatal(err)
		}
		if id != "c" {
			stops = append(stops, run(t, l)) // c dies without an end
		}
		for w := range 4 {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(w), 3))
				for range 1000 {
					res, err := l.Acquire(t.Context(), time.Now(), sub, limit.Request{CostNanos: cost})
					switch {
					case err == nil:
						n := rng.Int64N(cost + 1)
						mu.Lock()
						spent += n
						if id == "c" {
							lost += cost - n
						}
						mu.Unlock()
						res.Settle(time.Now(), limit.Actual{CostNanos: n})
					case errors.Is(err, limit.ErrUnavailable):
						time.Sleep(100 * time.Microsecond) //nolint:forbidigo // as a client would
					case !errors.Is(err, limit.ErrLimited):
						t.Error(err)
					}
				}
			})
		}
	}
	wg.Wait()
	for _, stop := range stops {
		store.mu.Lock()
		store.rng = nil
		store.mu.Unlock()
		stop()
	}
	id := storage.BudgetPeriod{KeyID: "k", Period: storage.PeriodTotal}
	granted := store.granted[id]
	if spent > total || granted < spent || granted > total {
		t.Errorf("%d spent, %d granted of %d", spent, granted, total)
	}
	var dead int64
	for _, g := range store.open {
		if g.Router != "c" {
			t.Errorf("%+v was not given back", g)
		}
		dead += g.Nanos
	}
	// What the dead router had: one part in a hundred of the budget, what its
	// four requests could cost, and what one Ask without an answer had granted.
	if stranded, most := granted-spent, 2*(total/100+4*cost); stranded > most || stranded > dead {
		t.Errorf("%d are stranded; want at most %d, and of what the dead one had, %d", stranded, most, dead)
	}
	if _, err := Slices(store, "a").Fund(t.Context(), limit.Ask{}); !errors.Is(err, storage.ErrInvalid) {
		t.Errorf("a budget without a period: %v", err)
	}
	if err := Slices(store, "a").Return(t.Context(), limit.Return{GrantID: "long gone"}); err != nil {
		t.Errorf("a grant whose period was pruned: %v", err)
	}
}

// Periods have the same numbers here and in stores, so that one is the other.
func TestPeriodsAgree(t *testing.T) {
	for p := limit.PeriodDay; p <= limit.PeriodTotal+1; p++ {
		if kept := storage.Period(p); (kept.String() == p.String()) != (p <= limit.PeriodTotal) {
			t.Errorf("%d is %v here and %v in stores", p, p, kept)
		}
	}
}
