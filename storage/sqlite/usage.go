package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"time"

	"github.com/llmgw/llmgw/storage"
	"github.com/llmgw/llmgw/storage/internal/rows"
)

const sumColumns = `start, key_id, owner, model, requests, failed, input, cached_input, output, reasoning, cost_nanos`

// InsertUsage implements [storage.UsageLog].
func (s *Store) InsertUsage(ctx context.Context, batch []storage.Usage) (inserted int, err error) {
	const op = "insert usage"
	sorted, err := rows.Usage(batch)
	if err != nil {
		return 0, fail(ctx, op, err)
	}
	if len(sorted) == 0 {
		return 0, nil
	}
	var in *usageInserter
	err = s.updateIn(ctx, op, func(db *database, tx *sql.Tx) (err error) {
		// The transaction ends with ctx. Its statements are too many and too short
		// for the goroutine that the driver starts for each that may be cancelled.
		ctx := context.WithoutCancel(ctx)
		if in, err = db.inserter(ctx, tx); err != nil {
			return err
		}
		fresh, err := in.keep(ctx, sorted)
		if err != nil {
			return err
		}
		hours := rows.Rollups(storage.GrainHour, fresh)
		if err := addSums(ctx, in.st.hours, hours); err != nil {
			return err
		}
		if err := addSums(ctx, in.st.days, rows.Days(hours)); err != nil {
			return err
		}
		inserted = len(fresh)
		return addSpent(ctx, in.st.spent, rows.Spending(fresh))
	})
	if err != nil {
		return 0, err
	}
	in.committed()
	return inserted, nil
}

// addSum is the statement that adds to a roll-up.
func addSum(g storage.Grain) string {
	return `INSERT INTO ` + sumTable(g) + ` (` + sumColumns + `) VALUES (` + marks(11) + `)
ON CONFLICT DO UPDATE SET requests = requests + excluded.requests, failed = failed + excluded.failed, input = input + excluded.input,
cached_input = cached_input + excluded.cached_input, output = output + excluded.output, reasoning = reasoning + excluded.reasoning,
cost_nanos = cost_nanos + excluded.cost_nanos`
}

func addSums(ctx context.Context, add *sql.Stmt, sums []storage.Rollup) error {
	for _, r := range sums {
		if _, err := add.ExecContext(ctx, r.Start.UnixMicro(), r.KeyID, r.Owner, r.Model, r.Requests, r.Failed, r.Input, r.CachedInput,
			r.Output, r.Reasoning, r.CostNanos); err != nil {
			return err
		}
	}
	return nil
}

func addSpent(ctx context.Context, add *sql.Stmt, sums []rows.Spent) error {
	for _, sp := range sums {
		if _, err := add.ExecContext(ctx, append(budgetValues(sp.Budget), sp.Nanos)...); err != nil {
			return err
		}
	}
	return nil
}

func sumTable(g storage.Grain) string {
	if g == storage.GrainDay {
		return "usage_days"
	}
	return "usage_hours"
}

// ListUsage implements [storage.UsageLog].
func (s *Store) ListUsage(ctx context.Context, q storage.UsageQuery) (out []storage.Usage, next string, err error) {
	const op = "list usage"
	limit, err := rows.Limit(q.Page)
	if err != nil {
		return nil, "", fail(ctx, op, err)
	}
	afterAt, afterSeq := int64(-1), int64(0)
	if q.After != "" {
		at, texts, err := rows.ParseCursor(rows.Usages, q.After, 1)
		if err != nil {
			return nil, "", fail(ctx, op, err)
		}
		if afterAt = at.UnixMicro(); afterAt < 0 {
			return nil, "", fail(ctx, op, errCursor)
		}
		if afterSeq, err = strconv.ParseInt(texts[0], 10, 64); err != nil {
			return nil, "", fail(ctx, op, errCursor)
		}
	}
	err = s.reading(ctx, op, func(tx *sql.Tx) error {
		want, err := choose(ctx, tx, q)
		if err != nil {
			return err
		}
		spans, err := spansOf(ctx, tx, q, max(from(q), afterAt), until(q))
		if err != nil {
			return err
		}
		r := newUsageReader(ctx, tx)
		out = []storage.Usage{}
		var last packedRow
		for _, sp := range spans {
			for row, err := range r.rows(sp.from, sp.to, bySeq) {
				if err != nil {
					return err
				}
				if row.at == afterAt && row.seq <= afterSeq {
					continue
				}
				if ok, err := want.wants(r, row); err != nil {
					return err
				} else if !ok {
					continue
				}
				if len(out) == limit { // there is a next page
					next = rows.Cursor(rows.Usages, rows.FromMicros(last.at), strconv.FormatInt(last.seq, 10))
					return nil
				}
				u, err := r.usage(row)
				if err != nil {
					return err
				}
				out, last = append(out, u), *row
			}
		}
		return nil
	})
	if err != nil {
		return nil, "", err
	}
	return out, next, nil
}

// span is a time from which, and up to which, rows came; in microseconds.
type span struct{ from, to int64 }

// spansOf divides a list of the rows of some keys, owners or models into the hours
// in which they have any: there is no index of rows by key, which would cost every
// request more than this costs who asks.
func spansOf(ctx context.Context, q querier, u storage.UsageQuery, from, to int64) ([]span, error) {
	whole := []span{{from, to}}
	var of where
	of.equal("key_id", u.KeyID)
	of.lineage(u.Lineage)
	of.equal("owner", u.Owner)
	of.equal("model", u.Model)
	if len(of.conditions) == 0 {
		return whole, nil
	}
	gone, err := mark(ctx, q, "hours")
	if err != nil {
		return nil, err
	}
	var unknown bool
	if err := q.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM usage_packs WHERE first < ? AND last >= ?)`, min(gone, to), from).Scan(&unknown); err != nil {
		return nil, err
	}
	if unknown { // there are rows whose sums may be forgotten
		return whole, nil
	}
	of.and("start > ? AND start < ?", from-time.Hour.Microseconds(), to)
	scan := func(r scanner) (sp span, err error) {
		err = r.Scan(&sp.from)
		sp.to = min(to, sp.from+time.Hour.Microseconds())
		sp.from = max(from, sp.from)
		return sp, err
	}
	return all(ctx, q, scan, `SELECT DISTINCT start FROM usage_hours`+of.String()+` ORDER BY start`, of.args...)
}

func scanSum(r scanner) (sum storage.Rollup, err error) {
	var start int64
	err = r.Scan(&start, &sum.KeyID, &sum.Owner, &sum.Model, &sum.Requests, &sum.Failed, &sum.Input, &sum.CachedInput, &sum.Output,
		&sum.Reasoning, &sum.CostNanos)
	sum.Start = rows.FromMicros(start)
	return sum, err
}

// ListRollups implements [storage.UsageLog].
func (s *Store) ListRollups(ctx context.Context, q storage.RollupQuery) ([]storage.Rollup, string, error) {
	const op = "list roll-ups"
	if q.Grain != storage.GrainHour && q.Grain != storage.GrainDay {
		return nil, "", fail(ctx, op, fmt.Errorf("%w: Grain: %v; want hour or day", storage.ErrInvalid, q.Grain))
	}
	var w where
	w.between("start", q.From, q.To)
	w.equal("key_id", q.KeyID)
	w.lineage(q.Lineage)
	w.equal("owner", q.Owner)
	w.equal("model", q.Model)
	return list(ctx, s, op, q.Page, place[storage.Rollup]{
		list: rows.Sums, texts: 3, after: "(start, key_id, owner, model) > (?, ?, ?, ?)",
		cursor: func(r *storage.Rollup) (time.Time, []string) { return r.Start, []string{r.KeyID, r.Owner, r.Model} },
	}, `SELECT `+sumColumns+` FROM `+sumTable(q.Grain), w, `ORDER BY start, key_id, owner, model`, scanSum)
}
