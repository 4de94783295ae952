package shared

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/llmgw/llmgw/auth/limit"
	"github.com/llmgw/llmgw/storage"
)

// Budgets keeps what is granted of budgets. A storage.Store does.
type Budgets interface {
	GrantBudget(ctx context.Context, r storage.GrantRequest) (storage.Grant, error)
	ReturnBudget(ctx context.Context, grantID string, unspentNanos int64, at time.Time) error
}

// Slices returns a source of slices of the budgets that a store keeps, for the
// router of that ID. One store serves many routers; nothing of it is in Redis.
func Slices(b Budgets, routerID string) limit.Source { return &source{b, routerID} }

type source struct {
	budgets Budgets
	router  string
}

// Fund implements [limit.Source].
func (s *source) Fund(ctx context.Context, a limit.Ask) (limit.Funds, error) {
	// The periods of both have the same numbers, as a test says.
	g, err := s.budgets.GrantBudget(ctx, storage.GrantRequest{
		ID:         a.GrantID,
		Budget:     storage.BudgetPeriod{KeyID: a.Budget.Subject, Period: storage.Period(a.Budget.Period), Start: a.Budget.Start},
		Router:     s.router,
		LimitNanos: a.LimitNanos, WantNanos: a.WantNanos, LeastNanos: a.LeastNanos,
		At: a.At,
	})
	if errors.Is(err, storage.ErrBudgetSpent) {
		return limit.Funds{}, fmt.Errorf("%w: %w", limit.ErrSpent, err)
	}
	if err != nil {
		return limit.Funds{}, err
	}
	return limit.Funds{GrantedNanos: g.Nanos}, nil
}

// Return implements [limit.Source].
func (s *source) Return(ctx context.Context, r limit.Return) error {
	err := s.budgets.ReturnBudget(ctx, r.GrantID, r.UnspentNanos, r.At)
	if errors.Is(err, storage.ErrNotFound) {
		return nil // its period is over and was forgotten
	}
	return err
}
