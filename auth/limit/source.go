package limit

import (
	"context"
	"time"
)

// BudgetID is one period of one subject's budget. It travels with every
// reservation, so that what was reserved before midnight is settled where it
// was reserved.
type BudgetID struct {
	Subject string
	Period  Period
	// Start is when the period begins, in UTC; zero for PeriodTotal.
	Start time.Time
}

// Ask asks what may be spent of a budget.
type Ask struct {
	// GrantID is the identity of what is granted. An Ask whose outcome is not
	// known is asked again under the same one.
	GrantID string
	Budget  BudgetID
	// LimitNanos is the budget as the subject has it now.
	LimitNanos int64
	// WantNanos is how much would be good, at least LeastNanos.
	WantNanos int64
	// LeastNanos is how little is of use. Positive.
	LeastNanos int64
	At         time.Time
}

// Funds is what may be spent of a budget. There are two kinds of answer.
type Funds struct {
	// Whole says that nobody but this limiter spends of the budget: it may spend
	// up to the limit, of which SpentNanos was spent before. It does not ask for
	// that period again.
	Whole      bool
	SpentNanos int64
	// GrantedNanos is a slice, where several limiters spend of one budget: this
	// one may spend so much, and asks again when that is not enough. LeastNanos
	// at least, or what was granted under that GrantID before.
	GrantedNanos int64
}

// Return gives back what is left of a slice. A slice that was used up is given
// back too, with nothing, so that it is not taken for one that is in use.
type Return struct {
	GrantID      string
	Budget       BudgetID
	UnspentNanos int64
	At           time.Time
}

// Source is who keeps budgets. Calls may overlap, but not for one budget.
type Source interface {
	// Fund answers an Ask, with an error that wraps ErrSpent if less than
	// LeastNanos is left. After any other error it is taken for unknown whether
	// something was granted, and asked again under the same GrantID. It blocks
	// for about as long as a database takes; requests wait for it.
	Fund(ctx context.Context, a Ask) (Funds, error)
	// Return takes back what is left of a slice, once: a second call for the same
	// GrantID changes nothing. It is not called for what is Whole.
	Return(ctx context.Context, r Return) error
}

// Restore returns a Source for a limiter that alone spends of its budgets:
// spent says what is already spent of one, as the store has it.
func Restore(spent func(ctx context.Context, b BudgetID) (nanos int64, err error)) Source {
	return restore(spent)
}

type restore func(context.Context, BudgetID) (int64, error)

func (r restore) Fund(ctx context.Context, a Ask) (Funds, error) {
	n, err := r(ctx, a.Budget)
	return Funds{Whole: true, SpentNanos: n}, err
}

func (restore) Return(context.Context, Return) error { return nil }
