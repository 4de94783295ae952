package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/llmgw/llmgw/storage"
	"github.com/llmgw/llmgw/storage/internal/backend"
	"github.com/llmgw/llmgw/storage/internal/rows"
)

const grantColumns = `id, key_id, period, start, router, nanos, at, returned_at`

// budgetValues are the columns key_id, period, start.
func budgetValues(b storage.BudgetPeriod) []any {
	return []any{b.KeyID, b.Period.String(), rows.Time(b.Start)}
}

// kept is a grant with what only the store knows of it.
type kept struct {
	storage.Grant
	at, returned time.Time
}

func scanGrant(r scanner) (g kept, err error) {
	var (
		period   string
		returned *time.Time
	)
	if err = r.Scan(&g.ID, &g.Budget.KeyID, &period, &g.Budget.Start, &g.Router, &g.Nanos, &g.at, &returned); err != nil {
		return g, err
	}
	g.Budget.Start, g.at, g.returned = rows.Time(g.Budget.Start), rows.Time(g.at), orZero(returned)
	if err := g.Budget.Period.UnmarshalText([]byte(period)); err != nil {
		return g, backend.Damaged("grant %s: %v", g.ID, err)
	}
	return g, nil
}

// grantByID reads a grant. lock is empty or FOR UPDATE.
func grantByID(ctx context.Context, tx pgx.Tx, id, lock string) (g kept, err error) {
	err = pgx.ErrNoRows
	if rows.Keepable(id) {
		g, err = scanGrant(tx.QueryRow(ctx, `SELECT `+grantColumns+` FROM grants WHERE id = $1 `+lock, id))
	}
	if missing(err) {
		err = fmt.Errorf("%w: grant %q", storage.ErrNotFound, id)
	}
	return g, err
}

// GrantBudget implements [storage.Budgets].
func (s *Store) GrantBudget(ctx context.Context, r storage.GrantRequest) (g storage.Grant, err error) {
	const op = "grant budget"
	if err := r.Validate(); err != nil {
		return g, fail(ctx, op, err)
	}
	r.Budget.Start = rows.Time(r.Budget.Start)
	budget := budgetValues(r.Budget)
	err = s.update(ctx, op, func(ctx context.Context, tx pgx.Tx) error {
		// The budget's row is locked until the end, so that those who ask for the
		// same one take turns, and each sees what the one before was granted.
		if _, err := tx.Exec(ctx, `INSERT INTO budgets (key_id, period, start, granted, settled, spent) VALUES ($1, $2, $3, 0, 0, 0) ON CONFLICT DO NOTHING`, budget...); err != nil {
			return err
		}
		var granted int64
		if err := tx.QueryRow(ctx, `SELECT granted FROM budgets WHERE key_id = $1 AND period = $2 AND start = $3 FOR UPDATE`, budget...).Scan(&granted); err != nil {
			return err // if it is missing it was forgotten at this moment
		}
		there, err := grantByID(ctx, tx, r.ID, "")
		switch {
		case err == nil && there.Budget == r.Budget && there.Router == r.Router:
			g = there.Grant
			return nil
		case err == nil:
			return fmt.Errorf("%w: grant %q, of another budget or router", storage.ErrExists, r.ID)
		case !errors.Is(err, storage.ErrNotFound):
			return err
		}
		left := r.LimitNanos - granted
		if left < r.LeastNanos {
			return fmt.Errorf("%w: %d of %d nanos of key %s are left", storage.ErrBudgetSpent, max(left, 0), r.LimitNanos, r.Budget.KeyID)
		}
		g = storage.Grant{ID: r.ID, Budget: r.Budget, Router: r.Router, Nanos: min(r.WantNanos, left)}
		if _, err := tx.Exec(ctx, `UPDATE budgets SET granted = granted + $4 WHERE key_id = $1 AND period = $2 AND start = $3`, append(budget[:3:3], g.Nanos)...); err != nil {
			return err
		}
		return insertGrant(ctx, tx, kept{Grant: g, at: rows.Time(r.At)})
	})
	if err != nil {
		g = storage.Grant{}
	}
	return g, err
}

func insertGrant(ctx context.Context, tx pgx.Tx, g kept) error {
	_, err := tx.Exec(ctx, `INSERT INTO grants (`+grantColumns+`) VALUES (`+marks(8)+`)`,
		g.ID, g.Budget.KeyID, g.Budget.Period.String(), g.Budget.Start, g.Router, g.Nanos, g.at, orNull(g.returned))
	return err
}

// ReturnBudget implements [storage.Budgets].
func (s *Store) ReturnBudget(ctx context.Context, grantID string, unspentNanos int64, at time.Time) error {
	const op = "return budget"
	if at.IsZero() {
		return fail(ctx, op, fmt.Errorf("%w: the time is zero", storage.ErrInvalid))
	}
	return s.update(ctx, op, func(ctx context.Context, tx pgx.Tx) error {
		g, err := grantByID(ctx, tx, grantID, "FOR UPDATE")
		if err != nil {
			return err
		}
		if !g.returned.IsZero() {
			return nil
		}
		if unspentNanos < 0 || unspentNanos > g.Nanos {
			return fmt.Errorf("%w: %d nanos come back of grant %q of %d", storage.ErrInvalid, unspentNanos, grantID, g.Nanos)
		}
		if _, err := tx.Exec(ctx, `UPDATE grants SET returned_at = $2 WHERE id = $1`, grantID, rows.Time(at)); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `UPDATE budgets SET granted = granted - $4, settled = settled + $5 WHERE key_id = $1 AND period = $2 AND start = $3`,
			append(budgetValues(g.Budget), unspentNanos, g.Nanos-unspentNanos)...)
		return err
	})
}

// Budget implements [storage.Budgets].
func (s *Store) Budget(ctx context.Context, b storage.BudgetPeriod) (st storage.BudgetState, err error) {
	const op = "budget"
	if err := b.Validate(); err != nil {
		return st, fail(ctx, op, err)
	}
	err = s.view(ctx, op, func(ctx context.Context, q querier) error {
		err := q.QueryRow(ctx, `SELECT granted, spent FROM budgets WHERE key_id = $1 AND period = $2 AND start = $3`, budgetValues(b)...).
			Scan(&st.GrantedNanos, &st.SpentNanos)
		if missing(err) {
			return nil
		}
		return err
	})
	return st, err
}

// ListGrants implements [storage.Budgets].
func (s *Store) ListGrants(ctx context.Context, b storage.BudgetPeriod) (out []storage.Grant, err error) {
	const op = "list grants"
	if err := b.Validate(); err != nil {
		return nil, fail(ctx, op, err)
	}
	err = s.view(ctx, op, func(ctx context.Context, q querier) error {
		out = nil
		return each(ctx, q, scanGrant, func(g kept) error { out = append(out, g.Grant); return nil },
			`SELECT `+grantColumns+` FROM grants WHERE key_id = $1 AND period = $2 AND start = $3 AND returned_at IS NULL ORDER BY at, id`, budgetValues(b)...)
	})
	return out, err
}

// PruneBudgets implements [storage.Budgets].
func (s *Store) PruneBudgets(ctx context.Context, before time.Time, most int) (deleted int, more bool, err error) {
	const op = "prune budgets"
	if most < 1 || before.IsZero() {
		return 0, false, fail(ctx, op, fmt.Errorf("%w: before %v, %d at most; want a time and a positive number", storage.ErrInvalid, before, most))
	}
	cut := rows.Ceil(before)
	err = s.update(ctx, op, func(ctx context.Context, tx pgx.Tx) error {
		// Grants go before the budgets that they belong to.
		if deleted, more, err = prune(ctx, tx, "budgets", cut, most,
			`DELETE FROM grants WHERE id IN (SELECT id FROM grants WHERE (period <> 'total' AND start < $1) OR returned_at < $1 LIMIT $2 FOR UPDATE)`); err != nil || more {
			return err
		}
		n, full, err := prune(ctx, tx, "budgets", cut, most-deleted,
			`DELETE FROM budgets b WHERE (key_id, period, start) IN (SELECT key_id, period, start FROM budgets WHERE period <> 'total' AND start < $1 LIMIT $2 FOR UPDATE)
AND NOT EXISTS (SELECT 1 FROM grants g WHERE (g.key_id, g.period, g.start) = (b.key_id, b.period, b.start))`)
		deleted += n
		more = full
		return err
	})
	if err != nil {
		return 0, false, err
	}
	return deleted, more, nil
}
