package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"

	"github.com/llmgw/llmgw/storage"
	"github.com/llmgw/llmgw/storage/internal/backend"
	"github.com/llmgw/llmgw/storage/internal/dump"
	"github.com/llmgw/llmgw/storage/internal/rows"
)

// standing is where a budget stands, with what only the store knows of it.
type standing struct {
	budget                  storage.BudgetPeriod
	granted, settled, spent int64
}

func scanBudget(r scanner) (b standing, err error) {
	var period string
	var start int64
	if err = r.Scan(&b.budget.KeyID, &period, &start, &b.granted, &b.settled, &b.spent); err != nil {
		return b, err
	}
	b.budget.Start = rows.FromMicros(start)
	if err := b.budget.Period.UnmarshalText([]byte(period)); err != nil {
		return b, backend.Damaged("budget of key %s: %v", b.budget.KeyID, err)
	}
	return b, nil
}

// Export implements [storage.Transferer].
func (s *Store) Export(ctx context.Context, w io.Writer) error {
	return s.view(ctx, "export", func(db *sql.DB) error {
		tx, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
		if err != nil {
			return err
		}
		defer tx.Rollback()
		texts, err := steps()
		if err != nil {
			return err
		}
		d, err := dump.NewWriter(w, len(texts))
		if err != nil {
			return err
		}
		scanMark := func(r scanner) (m dump.Mark, err error) { return m, r.Scan(&m.Name, &m.At) }
		err = errors.Join(
			each(ctx, tx, scanMark, func(m dump.Mark) error { return d.Put(dump.Record{Mark: &m}) }, `SELECT name, at FROM marks ORDER BY name`),
			each(ctx, tx, scanKey, func(k storage.Key) error { return d.Put(dump.FromKey(k)) }, `SELECT `+keyColumns+` FROM keys ORDER BY id`),
			each(ctx, tx, scanAudit, func(a storage.Audit) error { return d.Put(dump.FromAudit(a)) }, `SELECT `+auditColumns+` FROM audit ORDER BY at, id`),
			each(ctx, tx, scanBudget, func(b standing) error {
				return d.Put(dump.FromBudget(b.budget, b.settled, b.granted, b.spent))
			}, `SELECT key_id, period, start, granted, settled, spent FROM budgets ORDER BY key_id, period, start`),
			each(ctx, tx, scanGrant, func(g kept) error { return d.Put(dump.FromGrant(g.Grant, g.at, g.returned)) }, `SELECT `+grantColumns+` FROM grants ORDER BY id`),
			each(ctx, tx, scanUsage, func(u storage.Usage) error { return d.Put(dump.FromUsage(u)) }, `SELECT `+usageColumns+` FROM usage ORDER BY at, request_id`),
		)
		for _, g := range []storage.Grain{storage.GrainHour, storage.GrainDay} {
			err = errors.Join(err, each(ctx, tx, scanSum, func(r storage.Rollup) error { return d.Put(dump.FromRollup(g, r)) },
				`SELECT `+sumColumns+` FROM `+sumTable(g)+` ORDER BY start, key_id, owner, model`))
		}
		if err != nil {
			return err
		}
		return d.Close()
	})
}

// Import implements [storage.Transferer].
func (s *Store) Import(ctx context.Context, r io.Reader) error {
	const op = "import"
	d, err := dump.NewReader(r)
	if err != nil {
		return fail(ctx, op, err)
	}
	return s.update(ctx, op, func(tx *sql.Tx) error {
		var there bool
		err := tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM keys) OR EXISTS (SELECT 1 FROM audit) OR EXISTS (SELECT 1 FROM budgets)
OR EXISTS (SELECT 1 FROM usage) OR EXISTS (SELECT 1 FROM usage_hours) OR EXISTS (SELECT 1 FROM usage_days) OR EXISTS (SELECT 1 FROM marks)`).Scan(&there)
		if err != nil {
			return err
		}
		if there {
			return fmt.Errorf("%w: the store is not empty; import into a new one", storage.ErrExists)
		}
		for {
			rec, err := d.Next()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			if err := put(ctx, tx, rec); err != nil {
				return backend.FromDump(err, class)
			}
		}
	})
}

// put keeps one record of a dump.
func put(ctx context.Context, tx *sql.Tx, rec dump.Record) error {
	switch {
	case rec.Mark != nil:
		_, err := tx.ExecContext(ctx, `INSERT INTO marks (name, at) VALUES (?, ?)`, rec.Mark.Name, rec.Mark.At)
		return err
	case rec.Key != nil:
		k, err := rec.Key.Storage()
		if err != nil {
			return err
		}
		return insertKey(ctx, tx, k)
	case rec.Audit != nil:
		a, err := rec.Audit.Storage()
		if err != nil {
			return err
		}
		return appendAudit(ctx, tx, a)
	case rec.Budget != nil:
		b, err := rec.Budget.Storage()
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO budgets (key_id, period, start, granted, settled, spent) VALUES (?, ?, ?, ?, ?, ?)`,
			append(budgetValues(b), rec.Budget.Granted, rec.Budget.Settled, rec.Budget.Spent)...)
		return err
	case rec.Grant != nil:
		g, at, returned, err := rec.Grant.Storage()
		if err != nil {
			return err
		}
		return insertGrant(ctx, tx, kept{g, at, returned})
	case rec.Usage != nil:
		u, err := rec.Usage.Storage()
		if err != nil {
			return err
		}
		fresh, err := insertEach(ctx, tx, []*storage.Usage{&u})
		if err == nil && len(fresh) == 0 {
			err = fmt.Errorf("%w: usage row %q", storage.ErrExists, u.RequestID)
		}
		return err
	case rec.Hour != nil:
		return putSum(ctx, tx, storage.GrainHour, rec.Hour)
	default:
		return putSum(ctx, tx, storage.GrainDay, rec.Day)
	}
}

func putSum(ctx context.Context, tx *sql.Tx, g storage.Grain, line *dump.Rollup) error {
	r, err := line.Storage()
	if err != nil {
		return err
	}
	return addSums(ctx, tx, g, []storage.Rollup{r})
}
