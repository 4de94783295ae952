package sqlite

import (
	"context"
	"database/sql"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/llmgw/llmgw/storage"
	"github.com/llmgw/llmgw/storage/internal/backend"
	"github.com/llmgw/llmgw/storage/internal/rows"
)

// checkUsage reads every row: that it can be read and is in its place, that its
// identity is kept, that roll-ups and what is spent of budgets are the sums of rows,
// after what was forgotten.
func checkUsage(ctx context.Context, tx *sql.Tx) error {
	r := newUsageReader(ctx, tx)
	if err := checkIDs(ctx, tx, r); err != nil {
		return err
	}
	hours := sumCheck{table: "usage_hours", length: time.Hour}
	days := sumCheck{table: "usage_days", length: 24 * time.Hour}
	var err error
	if hours.after, err = marked(ctx, tx, hours.length, "rows", "hours"); err != nil {
		return err
	}
	if days.after, err = marked(ctx, tx, days.length, "rows", "days"); err != nil {
		return err
	}
	spent := make(map[storage.BudgetPeriod]int64)
	for row, err := range r.rows(0, math.MaxInt64, byID) {
		if err != nil {
			return err
		}
		u, err := r.usage(row)
		if err != nil {
			return err
		}
		if err := hours.add(ctx, tx, row.at, &u); err != nil {
			return err
		}
		if err := days.add(ctx, tx, row.at, &u); err != nil {
			return err
		}
		if u.Charged != nil && u.CostNanos != nil {
			spent[*u.Charged] += *u.CostNanos
		}
	}
	for _, c := range []*sumCheck{&hours, &days} {
		if err := c.end(ctx, tx); err != nil {
			return err
		}
	}
	return checkSpent(ctx, tx, spent)
}

// checkIDs compares the identities of all rows with those that are kept.
func checkIDs(ctx context.Context, tx *sql.Tx, r *usageReader) error {
	var rows, kept int64
	for p, err := range r.packs(0, math.MaxInt64) {
		if err != nil {
			return err
		}
		bucket, there := int64(-1), []byte(nil) // of the row before: the next is often of the same
		for before := p.row.at; ; before = p.row.at {
			more, err := p.advance()
			if err != nil {
				return damagedPack(p.seq, err)
			}
			if !more {
				break
			}
			if p.row.at < before || p.row.at/microsPerMinute != before/microsPerMinute {
				return damagedPack(p.seq, errPack)
			}
			rows++
			id := &p.row.id
			found := false
			if id.form == idOther {
				err = tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM usage_other_ids WHERE id = ?)`, id.text).Scan(&found)
			} else {
				if b := id.bucket(); b != bucket {
					bucket, there = b, nil
					if err = tx.QueryRowContext(ctx, readIDs, b).Scan(&there); missing(err) {
						err = nil
					}
				}
				if len(there)%idSize == 0 {
					e := id.entry()
					_, found = findID(there, e[:])
				}
			}
			if err != nil {
				return err
			}
			if !found {
				return backend.Damaged("usage row %s: its identity is not kept", id)
			}
		}
	}
	err := tx.QueryRowContext(ctx, `SELECT (SELECT coalesce(sum(length(ids)), 0) FROM usage_ids) / ? + (SELECT count(*) FROM usage_other_ids)`, idSize).Scan(&kept)
	if err == nil && kept != rows {
		err = backend.Damaged("%d usage rows and %d identities", rows, kept)
	}
	return err
}

// sumCheck compares roll-ups with rows, which come in the order of their time.
type sumCheck struct {
	table  string
	length time.Duration
	after  int64 // what is before was forgotten, in part

	next int64 // what is before was compared
	at   int64 // the hour or day of sums
	sums map[sumOf]*storage.Rollup
}

type sumOf struct{ key, owner, model string }

func (c *sumCheck) add(ctx context.Context, tx *sql.Tx, at int64, u *storage.Usage) error {
	if at < c.after {
		return nil
	}
	if start := at - at%c.length.Microseconds(); start != c.at || c.sums == nil {
		if err := c.compare(ctx, tx); err != nil {
			return err
		}
		c.at, c.sums = start, make(map[sumOf]*storage.Rollup)
	}
	of := sumOf{u.KeyID, u.Owner, u.Model}
	s := c.sums[of]
	if s == nil {
		s = &storage.Rollup{Start: rows.FromMicros(c.at), KeyID: u.KeyID, Owner: u.Owner, Model: u.Model}
		c.sums[of] = s
	}
	rows.Add(s, u)
	return nil
}

// compare compares the sums with those that are kept up to their end.
func (c *sumCheck) compare(ctx context.Context, tx *sql.Tx) error {
	if c.sums == nil {
		return nil
	}
	return c.until(ctx, tx, c.at+c.length.Microseconds())
}

// end compares what is left.
func (c *sumCheck) end(ctx context.Context, tx *sql.Tx) error {
	if err := c.compare(ctx, tx); err != nil {
		return err
	}
	c.sums = nil
	return c.until(ctx, tx, math.MaxInt64)
}

func (c *sumCheck) until(ctx context.Context, tx *sql.Tx, end int64) error {
	kept, err := all(ctx, tx, scanSum, `SELECT `+sumColumns+` FROM `+c.table+` WHERE start >= ? AND start < ? ORDER BY start, key_id, owner, model LIMIT ?`,
		max(c.after, c.next), end, len(c.sums)+1)
	if err != nil {
		return err
	}
	c.next = end
	want := make([]storage.Rollup, 0, len(c.sums))
	for s := range maps.Values(c.sums) {
		want = append(want, *s)
	}
	slices.SortFunc(want, rows.CompareRollups)
	for i := range max(len(kept), len(want)) {
		switch {
		case i == len(kept):
			return damagedSum(c.table, "usage", want[i])
		case i == len(want) || kept[i] != want[i]:
			return damagedSum(c.table, "usage", kept[i])
		}
	}
	return nil
}

// checkSpent compares what is spent with the rows that were charged.
func checkSpent(ctx context.Context, tx *sql.Tx, spent map[storage.BudgetPeriod]int64) error {
	rowsGone, err := mark(ctx, tx, "rows")
	if err != nil {
		return err
	}
	budgetsGone, err := mark(ctx, tx, "budgets")
	if err != nil {
		return err
	}
	// A row may be a little older than the period that it is charged to.
	whole := rowsGone
	if rowsGone > 0 {
		whole += time.Hour.Microseconds()
	}
	gone := func(b storage.BudgetPeriod) bool {
		return b.Period != storage.PeriodTotal && b.Start.UnixMicro() < budgetsGone
	}
	err = each(ctx, tx, scanBudget, func(b standing) error {
		sum := spent[b.budget]
		delete(spent, b.budget)
		all := b.budget.Start.UnixMicro() >= whole // its rows are there still
		if b.budget.Period == storage.PeriodTotal {
			all = rowsGone == 0
		}
		if !gone(b.budget) && (b.spent < sum || b.spent > sum && all) {
			return damagedBudget(b.budget, "what is spent is not the sum of the rows")
		}
		return nil
	}, `SELECT key_id, period, start, granted, settled, spent FROM budgets`)
	if err != nil {
		return err
	}
	for b := range spent {
		if !gone(b) {
			return damagedBudget(b, "rows are charged to one that is not there")
		}
	}
	return nil
}
