package portal_test

import (
	"context"

	"github.com/llmgw/llmgw/storage"
)

// spent is what is spent of every budget.
type spent int64

func (s spent) Budget(context.Context, storage.BudgetPeriod) (storage.BudgetState, error) {
	return storage.BudgetState{SpentNanos: int64(s)}, nil
}
