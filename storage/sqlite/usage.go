package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/llmgw/llmgw/storage"
	"github.com/llmgw/llmgw/storage/internal/backend"
	"github.com/llmgw/llmgw/storage/internal/rows"
)

const (
	usageColumns = `request_id, key_id, owner, asked, model, endpoint, provider, path, router, stream, at, latency_ns, ttft_ns, status, result, code, retries, input, cached_input, output, reasoning, source, cost_nanos, charged_key, charged_period, charged_start`
	sumColumns   = `start, key_id, owner, model, requests, failed, input, cached_input, output, reasoning, cost_nanos`
)

func scanUsage(r scanner) (storage.Usage, error) {
	var (
		u           storage.Usage
		at          int64
		ttft, start *int64
		source      string
		key, period *string
	)
	err := r.Scan(&u.RequestID, &u.KeyID, &u.Owner, &u.Asked, &u.Model, &u.Endpoint, &u.Provider, &u.Path, &u.Router, &u.Stream, &at,
		&u.Latency, &ttft, &u.Status, &u.Result, &u.Code, &u.Retries, &u.Tokens.Input, &u.Tokens.CachedInput, &u.Tokens.Output,
		&u.Tokens.Reasoning, &source, &u.CostNanos, &key, &period, &start)
	if err != nil {
		return u, err
	}
	u.At, u.TTFT = rows.FromMicros(at), (*time.Duration)(ttft)
	if err := u.Source.UnmarshalText([]byte(source)); err != nil {
		return u, backend.Damaged("usage row %s: %v", u.RequestID, err)
	}
	if key != nil && period != nil && start != nil {
		u.Charged = &storage.BudgetPeriod{KeyID: *key, Start: rows.FromMicros(*start)}
		if err := u.Charged.Period.UnmarshalText([]byte(*period)); err != nil {
			return u, backend.Damaged("usage row %s: %v", u.RequestID, err)
		}
	}
	return u, nil
}

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
	insert := insertMany
	if len(sorted) < rowsAtOnce {
		insert = insertEach
	}
	keep := func(tx *sql.Tx) error {
		// The transaction ends with ctx. Its statements are too many and too short
		// for the goroutine that the driver starts for each that may be cancelled.
		ctx := context.WithoutCancel(ctx)
		fresh, err := insert(ctx, tx, sorted)
		if err != nil {
			return err
		}
		hours := rows.Rollups(storage.GrainHour, fresh)
		if err := addSums(ctx, tx, storage.GrainHour, hours); err != nil {
			return err
		}
		if err := addSums(ctx, tx, storage.GrainDay, rows.Days(hours)); err != nil {
			return err
		}
		inserted = len(fresh)
		return addSpent(ctx, tx, rows.Spending(fresh))
	}
	err = s.update(ctx, op, keep)
	if errors.Is(err, errSomeThere) {
		insert = insertEach
		err = s.update(ctx, op, keep)
	}
	if err != nil {
		inserted = 0
	}
	return inserted, err
}

func addSums(ctx context.Context, tx *sql.Tx, g storage.Grain, sums []storage.Rollup) error {
	add, err := tx.PrepareContext(ctx, `INSERT INTO `+sumTable(g)+` (`+sumColumns+`) VALUES (`+marks(11)+`)
ON CONFLICT DO UPDATE SET requests = requests + excluded.requests, failed = failed + excluded.failed, input = input + excluded.input,
cached_input = cached_input + excluded.cached_input, output = output + excluded.output, reasoning = reasoning + excluded.reasoning,
cost_nanos = cost_nanos + excluded.cost_nanos`)
	if err != nil {
		return err
	}
	defer add.Close()
	for _, r := range sums {
		if _, err := add.ExecContext(ctx, r.Start.UnixMicro(), r.KeyID, r.Owner, r.Model, r.Requests, r.Failed, r.Input, r.CachedInput,
			r.Output, r.Reasoning, r.CostNanos); err != nil {
			return err
		}
	}
	return nil
}

func addSpent(ctx context.Context, tx *sql.Tx, sums []rows.Spent) error {
	if len(sums) == 0 {
		return nil
	}
	add, err := tx.PrepareContext(ctx, `INSERT INTO budgets (key_id, period, start, granted, settled, spent) VALUES (?, ?, ?, 0, 0, ?)
ON CONFLICT DO UPDATE SET spent = spent + excluded.spent`)
	if err != nil {
		return err
	}
	defer add.Close()
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
func (s *Store) ListUsage(ctx context.Context, q storage.UsageQuery) ([]storage.Usage, string, error) {
	var w where
	w.between("at", q.From, q.To)
	w.equal("key_id", q.KeyID)
	w.lineage(q.Lineage)
	w.equal("owner", q.Owner)
	w.equal("model", q.Model)
	type placed struct {
		storage.Usage
		seq string
	}
	scan := func(r scanner) (p placed, err error) {
		p.Usage, err = scanUsage(with{r, &p.seq})
		return p, err
	}
	page, next, err := list(ctx, s, "list usage", q.Page, place[placed]{
		list: rows.Usages, texts: 1, after: "(at, seq) > (?, CAST(? AS INTEGER))",
		cursor: func(p *placed) (time.Time, []string) { return p.At, []string{p.seq} },
		parts:  hoursOf(q),
	}, `SELECT `+usageColumns+`, seq FROM usage`, w, `ORDER BY at, seq`, scan)
	if err != nil {
		return nil, "", err
	}
	out := make([]storage.Usage, len(page))
	for i := range page {
		out[i] = page[i].Usage
	}
	return out, next, nil
}

// hoursOf divides a list of the rows of some keys, owners or models into the hours
// in which they have any: there is no index of rows by key, which would cost every
// request more than this costs who asks.
func hoursOf(u storage.UsageQuery) func(context.Context, querier, where, time.Time) ([]where, error) {
	var of where
	of.equal("key_id", u.KeyID)
	of.lineage(u.Lineage)
	of.equal("owner", u.Owner)
	of.equal("model", u.Model)
	if len(of.conditions) == 0 {
		return nil
	}
	return func(ctx context.Context, q querier, w where, after time.Time) ([]where, error) {
		first, end := max(0, after.UnixMicro(), u.From.UnixMicro()), int64(math.MaxInt64)
		if !u.To.IsZero() {
			end = rows.Ceil(u.To).UnixMicro()
		}
		gone, err := mark(ctx, q, "hours")
		if err != nil {
			return nil, err
		}
		var unknown bool
		if err := q.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM usage_rows WHERE at >= ? AND at < ?)`, first, min(gone, end)).Scan(&unknown); err != nil {
			return nil, err
		}
		if unknown { // there are rows whose sums may be forgotten
			return []where{w}, nil
		}
		of := of.with("start > ? AND start < ?", first-time.Hour.Microseconds(), end)
		var parts []where
		scan := func(r scanner) (start int64, err error) { return start, r.Scan(&start) }
		err = each(ctx, q, scan, func(start int64) error {
			parts = append(parts, w.with("at >= ? AND at < ?", start, start+time.Hour.Microseconds()))
			return nil
		}, `SELECT DISTINCT start FROM usage_hours`+of.String()+` ORDER BY start`, of.args...)
		return parts, err
	}
}

// with scans one column more than it is asked for.
type with struct {
	scanner
	last any
}

func (w with) Scan(dest ...any) error { return w.scanner.Scan(append(dest, w.last)...) }

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

// PruneUsage implements [storage.UsageLog].
func (s *Store) PruneUsage(ctx context.Context, r storage.Retention) (deleted int, more bool, err error) {
	const op = "prune usage"
	if r.Most < 1 {
		return 0, false, fail(ctx, op, fmt.Errorf("%w: Most: %d; want a positive number", storage.ErrInvalid, r.Most))
	}
	err = s.update(ctx, op, func(tx *sql.Tx) error {
		for _, p := range []struct {
			mark   string
			before time.Time
			query  string
		}{
			{"rows", r.Rows, `DELETE FROM usage_rows WHERE seq IN (SELECT seq FROM usage_rows WHERE at < ? ORDER BY at LIMIT ?)`},
			{"hours", r.Hours, `DELETE FROM usage_hours WHERE (start, key_id, owner, model) IN (SELECT start, key_id, owner, model FROM usage_hours WHERE start < ? ORDER BY start LIMIT ?)`},
			{"days", r.Days, `DELETE FROM usage_days WHERE (start, key_id, owner, model) IN (SELECT start, key_id, owner, model FROM usage_days WHERE start < ? ORDER BY start LIMIT ?)`},
		} {
			if p.before.IsZero() {
				continue
			}
			before := rows.Ceil(p.before).UnixMicro()
			if p.mark == "hours" {
				// Rows of a key are found by the hours that have sums of it.
				if before, err = noRowBefore(ctx, tx, before); err != nil {
					return err
				}
			}
			n, full, err := prune(ctx, tx, p.mark, before, r.Most, p.query, before)
			if err != nil {
				return err
			}
			deleted += n
			more = more || full
		}
		return nil
	})
	if err != nil {
		return 0, false, err
	}
	if deleted > 0 {
		// As many pages as these rows may have filled; Run does the rest, and what
		// fails here.
		if _, err := s.vacuum(ctx, min(deleted, pagesAtOnce)); err != nil {
			s.log.WarnContext(ctx, "the store's file could not be tidied", "err", err)
		}
	}
	return deleted, more, nil
}

// noRowBefore is the first hour with rows, or before if that is earlier.
func noRowBefore(ctx context.Context, tx *sql.Tx, before int64) (int64, error) {
	var oldest *int64
	if err := tx.QueryRowContext(ctx, `SELECT min(at) FROM usage_rows`).Scan(&oldest); err != nil || oldest == nil {
		return before, err
	}
	return min(before, *oldest-*oldest%time.Hour.Microseconds()), nil
}

// prune deletes at most most rows and notes up to when it did. query's last
// parameter is how many. full says that there may be more: as many were deleted
// as were allowed.
func prune(ctx context.Context, tx *sql.Tx, mark string, before int64, most int, query string, args ...any) (n int, full bool, err error) {
	if _, err := tx.ExecContext(ctx, `INSERT INTO marks (name, at) VALUES (?, ?) ON CONFLICT DO UPDATE SET at = max(at, excluded.at)`, mark, before); err != nil {
		return 0, false, err
	}
	res, err := tx.ExecContext(ctx, query, append(args, most)...)
	if err != nil {
		return 0, false, err
	}
	count, err := res.RowsAffected()
	return int(count), int(count) == most, err
}
