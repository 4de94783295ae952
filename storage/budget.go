package storage

import (
	"context"
	"time"
)

// BudgetPeriod is one period of one key's budget, which the keys that follow it
// share. It travels with every charge, so that what was reserved before midnight
// is settled where it was reserved.
type BudgetPeriod struct {
	// KeyID is the key's Lineage.
	KeyID  string
	Period Period
	// Start is when the period begins; zero for PeriodTotal.
	Start time.Time
}

// Grant is a slice of a budget that a router may spend without asking again.
// What is granted counts as spent until it is given back. A router that dies
// takes its slices along: never more than one for each budget and router, and
// nothing is ever spent twice.
type Grant struct {
	// ID is the grant's identity: granting twice under one ID grants once.
	ID     string
	Budget BudgetPeriod
	Router string
	Nanos  int64
}

// GrantRequest asks for a slice.
type GrantRequest struct {
	ID     string
	Budget BudgetPeriod
	Router string
	// LimitNanos is the budget as the key has it now.
	LimitNanos int64
	// WantNanos is how much would be good, at least LeastNanos.
	WantNanos int64
	// LeastNanos is how little is of use. Positive.
	LeastNanos int64
	At         time.Time
}

// BudgetState is where a budget stands. Nothing was ever asked of one whose
// fields are all zero.
type BudgetState struct {
	// GrantedNanos is what routers have been given and have not given back: what
	// is spent and what may yet be. It never exceeds the limit at the time of the
	// last grant.
	GrantedNanos int64
	// SpentNanos is the cost of the usage rows that were kept.
	SpentNanos int64
}

// Budgets keeps what is granted of budgets, across processes.
type Budgets interface {
	// GrantBudget adds to what is granted of a budget as much as is wanted, or all
	// that is left of the limit, and returns it. If less than LeastNanos is left it
	// grants nothing and returns ErrBudgetSpent. Under an ID that was granted
	// before, to the same router of the same budget, it returns that grant; else
	// ErrExists.
	GrantBudget(ctx context.Context, r GrantRequest) (Grant, error)
	// ReturnBudget gives back what is left of a grant, once: a second call for the
	// same grant changes nothing. unspent is at most what was granted, else
	// ErrInvalid; ErrNotFound if there is no such grant, or no longer.
	ReturnBudget(ctx context.Context, grantID string, unspentNanos int64, at time.Time) error
	// Budget returns where a budget stands; all zero for one never asked for.
	Budget(ctx context.Context, b BudgetPeriod) (BudgetState, error)
	// ListGrants returns the grants of a budget that were not given back, the
	// oldest first.
	ListGrants(ctx context.Context, b BudgetPeriod) ([]Grant, error)
	// PruneBudgets forgets periods that began before a time, and their grants,
	// but never a PeriodTotal; of any budget it forgets grants that were given back
	// before that time. It deletes most rows at most, which is positive; more says
	// that it may have left some.
	PruneBudgets(ctx context.Context, before time.Time, most int) (deleted int, more bool, err error)
}

// Routers knows which routers live, by rows that they renew.
type Routers interface {
	// RenewRouter says that a router lives, and returns how many do: those whose
	// row was renewed within ttl, by the store's clock, this one among them. ttl is
	// from a millisecond to a day; rows older than a day are forgotten.
	RenewRouter(ctx context.Context, id string, ttl time.Duration) (live int, err error)
	// RemoveRouter says that a router has ended in good order. One that is not
	// there is no error.
	RemoveRouter(ctx context.Context, id string) error
}
