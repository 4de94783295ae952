package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

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
		u             storage.Usage
		latency       int64
		ttft          *int64
		status, tries int32
		start         *time.Time
		source        string
		key, period   *string
	)
	err := r.Scan(&u.RequestID, &u.KeyID, &u.Owner, &u.Asked, &u.Model, &u.Endpoint, &u.Provider, &u.Path, &u.Router, &u.Stream, &u.At,
		&latency, &ttft, &status, &u.Result, &u.Code, &tries, &u.Tokens.Input, &u.Tokens.CachedInput, &u.Tokens.Output,
		&u.Tokens.Reasoning, &source, &u.CostNanos, &key, &period, &start)
	if err != nil {
		return u, err
	}
	u.At, u.Latency, u.TTFT, u.Status, u.Retries = rows.Time(u.At), time.Duration(latency), (*time.Duration)(ttft), int(status), int(tries)
	if err := u.Source.UnmarshalText([]byte(source)); err != nil {
		return u, backend.Damaged("usage row %s: %v", u.RequestID, err)
	}
	if key != nil && period != nil && start != nil {
		u.Charged = &storage.BudgetPeriod{KeyID: *key, Start: rows.Time(*start)}
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
	err = s.update(ctx, op, func(ctx context.Context, tx pgx.Tx) error {
		fresh, err := insertUsage(ctx, tx, sorted)
		inserted = len(fresh)
		if err != nil || len(fresh) == 0 {
			return err
		}
		// All transactions take rows, hours, days and budgets in this order, and
		// each sorted, so that none waits for another in a circle.
		var b pgx.Batch
		hours := rows.Rollups(storage.GrainHour, fresh)
		addSums(&b, storage.GrainHour, hours)
		addSums(&b, storage.GrainDay, rows.Days(hours))
		addSpent(&b, rows.Spending(fresh))
		return tx.SendBatch(ctx, &b).Close()
	})
	if err != nil {
		inserted = 0
	}
	return inserted, err
}

// insertUsage keeps the rows that are not there and returns them. One that
// another transaction is about to insert is waited for.
func insertUsage(ctx context.Context, tx pgx.Tx, batch []*storage.Usage) ([]*storage.Usage, error) {
	n := len(batch)
	var (
		ids, keys, owners, asked, models    = make([]string, n), make([]string, n), make([]string, n), make([]string, n), make([]string, n)
		endpoints, providers, paths, routes = make([]string, n), make([]string, n), make([]string, n), make([]string, n)
		results, codes, sources             = make([]string, n), make([]string, n), make([]string, n)
		streams                             = make([]bool, n)
		at                                  = make([]time.Time, n)
		latency                             = make([]int64, n)
		status, retries                     = make([]int32, n), make([]int32, n)
		ttft, input, cached, output, costs  = make([]*int64, n), make([]*int64, n), make([]*int64, n), make([]*int64, n), make([]*int64, n)
		reasoning                           = make([]*int64, n)
		chargedKeys, chargedPeriods         = make([]*string, n), make([]*string, n)
		chargedStarts                       = make([]*time.Time, n)
	)
	for i, u := range batch {
		ids[i], keys[i], owners[i], asked[i], models[i] = u.RequestID, u.KeyID, u.Owner, u.Asked, u.Model
		endpoints[i], providers[i], paths[i], routes[i] = u.Endpoint, u.Provider, u.Path, u.Router
		results[i], codes[i], sources[i] = u.Result, u.Code, u.Source.String()
		streams[i], at[i], latency[i], ttft[i] = u.Stream, rows.Time(u.At), int64(u.Latency), (*int64)(u.TTFT)
		status[i], retries[i] = int32(u.Status), int32(u.Retries) //nolint:gosec // validated
		input[i], cached[i], output[i], reasoning[i] = u.Tokens.Input, u.Tokens.CachedInput, u.Tokens.Output, u.Tokens.Reasoning
		costs[i] = u.CostNanos
		if c := u.Charged; c != nil {
			period, start := c.Period.String(), rows.Time(c.Start)
			chargedKeys[i], chargedPeriods[i], chargedStarts[i] = &c.KeyID, &period, &start
		}
	}
	scan := func(r scanner) (id string, err error) { return id, r.Scan(&id) }
	there := make(map[string]bool, n)
	err := each(ctx, tx, scan, func(id string) error { there[id] = true; return nil }, `INSERT INTO usage (`+usageColumns+`)
SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[],
$10::boolean[], $11::timestamptz[], $12::bigint[], $13::bigint[], $14::integer[], $15::text[], $16::text[], $17::integer[],
$18::bigint[], $19::bigint[], $20::bigint[], $21::bigint[], $22::text[], $23::bigint[], $24::text[], $25::text[], $26::timestamptz[])
ON CONFLICT DO NOTHING RETURNING request_id`,
		ids, keys, owners, asked, models, endpoints, providers, paths, routes, streams, at, latency, ttft, status, results, codes, retries,
		input, cached, output, reasoning, sources, costs, chargedKeys, chargedPeriods, chargedStarts)
	if err != nil || len(there) == n {
		return batch, err
	}
	fresh := make([]*storage.Usage, 0, len(there))
	for _, u := range batch {
		if there[u.RequestID] {
			fresh = append(fresh, u)
		}
	}
	return fresh, nil
}

// addSums adds roll-ups to those that are there, in their order.
func addSums(b *pgx.Batch, g storage.Grain, sums []storage.Rollup) {
	n := len(sums)
	if n == 0 {
		return
	}
	start := make([]time.Time, n)
	keys, owners, models := make([]string, n), make([]string, n), make([]string, n)
	figures := make([][]int64, 7)
	for i := range figures {
		figures[i] = make([]int64, n)
	}
	for i, r := range sums {
		start[i], keys[i], owners[i], models[i] = r.Start, r.KeyID, r.Owner, r.Model
		for j, v := range []int64{r.Requests, r.Failed, r.Input, r.CachedInput, r.Output, r.Reasoning, r.CostNanos} {
			figures[j][i] = v
		}
	}
	b.Queue(`INSERT INTO `+sumTable(g)+` AS t (`+sumColumns+`) SELECT * FROM unnest($1::timestamptz[], $2::text[], $3::text[], $4::text[],
$5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[])
ON CONFLICT (start, key_id, owner, model) DO UPDATE SET requests = t.requests + excluded.requests, failed = t.failed + excluded.failed,
input = t.input + excluded.input, cached_input = t.cached_input + excluded.cached_input, output = t.output + excluded.output,
reasoning = t.reasoning + excluded.reasoning, cost_nanos = t.cost_nanos + excluded.cost_nanos`,
		start, keys, owners, models, figures[0], figures[1], figures[2], figures[3], figures[4], figures[5], figures[6])
}

// addSpent adds costs to what is spent of budgets, in their order.
func addSpent(b *pgx.Batch, sums []rows.Spent) {
	if len(sums) == 0 {
		return
	}
	n := len(sums)
	keys, periods, starts, nanos := make([]string, n), make([]string, n), make([]time.Time, n), make([]int64, n)
	for i, sp := range sums {
		keys[i], periods[i], starts[i], nanos[i] = sp.Budget.KeyID, sp.Budget.Period.String(), sp.Budget.Start, sp.Nanos
	}
	b.Queue(`INSERT INTO budgets AS t (key_id, period, start, granted, settled, spent)
SELECT key_id, period, start, 0, 0, spent FROM unnest($1::text[], $2::text[], $3::timestamptz[], $4::bigint[]) AS new (key_id, period, start, spent)
ON CONFLICT (key_id, period, start) DO UPDATE SET spent = t.spent + excluded.spent`, keys, periods, starts, nanos)
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
		list: rows.Usages, texts: 1, after: "(at, seq) > (?, ?::bigint)",
		cursor: func(p *placed) (time.Time, []string) { return p.At, []string{p.seq} },
	}, `SELECT `+usageColumns+`, seq::text AS place FROM usage`, w, `ORDER BY at, seq`, scan)
	if err != nil {
		return nil, "", err
	}
	out := make([]storage.Usage, len(page))
	for i := range page {
		out[i] = page[i].Usage
	}
	return out, next, nil
}

// with scans one column more than it is asked for.
type with struct {
	scanner
	last any
}

func (w with) Scan(dest ...any) error { return w.scanner.Scan(append(dest, w.last)...) }

func scanSum(r scanner) (sum storage.Rollup, err error) {
	err = r.Scan(&sum.Start, &sum.KeyID, &sum.Owner, &sum.Model, &sum.Requests, &sum.Failed, &sum.Input, &sum.CachedInput, &sum.Output,
		&sum.Reasoning, &sum.CostNanos)
	sum.Start = rows.Time(sum.Start)
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
	err = s.update(ctx, op, func(ctx context.Context, tx pgx.Tx) error {
		deleted, more = 0, false
		for _, p := range []struct {
			mark   string
			before time.Time
			query  string
		}{
			{"rows", r.Rows, `DELETE FROM usage WHERE ctid = ANY (ARRAY (SELECT ctid FROM usage WHERE at < $1 ORDER BY at LIMIT $2 FOR UPDATE))`},
			{"hours", r.Hours, `DELETE FROM usage_hours WHERE ctid = ANY (ARRAY (SELECT ctid FROM usage_hours WHERE start < $1 ORDER BY start, key_id, owner, model LIMIT $2 FOR UPDATE))`},
			{"days", r.Days, `DELETE FROM usage_days WHERE ctid = ANY (ARRAY (SELECT ctid FROM usage_days WHERE start < $1 ORDER BY start, key_id, owner, model LIMIT $2 FOR UPDATE))`},
		} {
			if p.before.IsZero() {
				continue
			}
			n, full, err := prune(ctx, tx, p.mark, rows.Ceil(p.before), r.Most, p.query)
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
	return deleted, more, nil
}

// prune deletes at most most rows and notes up to when it did. query's
// parameters are before and most. full says that there may be more: as many were
// deleted as were allowed.
func prune(ctx context.Context, tx pgx.Tx, mark string, before time.Time, most int, query string) (n int, full bool, err error) {
	if _, err := tx.Exec(ctx, `INSERT INTO marks AS t (name, at) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET at = greatest(t.at, excluded.at)`, mark, before); err != nil {
		return 0, false, err
	}
	tag, err := tx.Exec(ctx, query, before, most)
	n = int(tag.RowsAffected())
	return n, n == most, err
}
