package postgres

import (
	"context"
	_ "embed"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/llmgw/llmgw/storage/internal/backend"
)

// schemaText lists the columns and indexes of the newest schema, one a line. A
// test keeps it true.
//
//go:embed schema.txt
var schemaText string

// Check implements [storage.Store]. What is not sound is [storage.ErrSchema]. It
// reads all tables, as of one moment, and nobody waits for it. Whether pages on
// disk are sound PostgreSQL itself knows, if its checksums are on.
func (s *Store) Check(ctx context.Context) error {
	return s.snapshot(ctx, "check", func(ctx context.Context, tx pgx.Tx) error {
		for _, check := range []func(context.Context, pgx.Tx) error{s.checkSchema, checkSums, checkBudgets, checkAccounts} {
			if err := check(ctx, tx); err != nil {
				return err
			}
		}
		return nil
	})
}

// describe lists the columns and indexes that are there.
func describe(ctx context.Context, q querier, schema string) ([]string, error) {
	scan := func(r scanner) (line string, err error) { return line, r.Scan(&line) }
	return all(ctx, q, scan, `SELECT line FROM (SELECT c.relname || '.' || a.attname || ' ' || format_type(a.atttypid, a.atttypmod) ||
CASE WHEN a.attnotnull THEN ' NOT NULL' ELSE '' END AS line
FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped
UNION ALL SELECT 'index ' || i.relname || CASE WHEN x.indisunique THEN ' unique' ELSE '' END || CASE WHEN x.indisvalid THEN '' ELSE ' invalid' END
FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid JOIN pg_namespace n ON n.oid = i.relnamespace WHERE n.nspname = $1
UNION ALL SELECT 'constraint ' || conname FROM pg_constraint k JOIN pg_namespace n ON n.oid = k.connamespace WHERE n.nspname = $1 AND contype <> 'n') lines
ORDER BY line COLLATE "C"`, schema)
}

// checkSchema finds what is missing or another. What others added harms nobody.
func (s *Store) checkSchema(ctx context.Context, tx pgx.Tx) error {
	lines, err := describe(ctx, tx, s.cfg.Schema)
	if err != nil {
		return err
	}
	there := make(map[string]bool)
	for _, line := range lines {
		there[line] = true
	}
	for want := range strings.Lines(schemaText) {
		if want = strings.TrimSpace(want); !there[want] {
			return backend.Damaged("%s is missing or another", want)
		}
	}
	return nil
}

// checkSums compares roll-ups with the rows that they are sums of, after what
// was forgotten, and those by day with those by hour.
func checkSums(ctx context.Context, tx pgx.Tx) error {
	const (
		fromRows = `SELECT date_trunc('%[1]s', at, 'UTC') AS start, key_id, owner, model, count(*), count(*) FILTER (WHERE status NOT BETWEEN 200 AND 299),
coalesce(sum(input), 0)::bigint, coalesce(sum(cached_input), 0)::bigint, coalesce(sum(output), 0)::bigint, coalesce(sum(reasoning), 0)::bigint,
coalesce(sum(cost_nanos), 0)::bigint FROM usage WHERE at >= $1 GROUP BY 1, 2, 3, 4`
		fromHours = `SELECT date_trunc('%[1]s', start, 'UTC') AS start, key_id, owner, model, sum(requests)::bigint, sum(failed)::bigint, sum(input)::bigint,
sum(cached_input)::bigint, sum(output)::bigint, sum(reasoning)::bigint, sum(cost_nanos)::bigint FROM usage_hours WHERE start >= $1 GROUP BY 1, 2, 3, 4`
	)
	for _, c := range []struct {
		table, of, query, unit string
		length                 time.Duration
		marks                  []string
	}{
		{"usage_hours", "usage", fromRows, "hour", time.Hour, []string{"rows", "hours"}},
		{"usage_days", "usage", fromRows, "day", 24 * time.Hour, []string{"rows", "days"}},
		{"usage_days", "usage_hours", fromHours, "day", 24 * time.Hour, []string{"hours", "days"}},
	} {
		after, err := mark(ctx, tx, c.marks...)
		if err != nil {
			return err
		}
		if whole := after.Truncate(c.length); whole.Before(after) {
			after = whole.Add(c.length)
		}
		sums, kept := fmt.Sprintf(c.query, c.unit), fmt.Sprintf(`SELECT %s FROM %s WHERE start >= $1`, sumColumns, c.table)
		for _, q := range []string{sums + " EXCEPT " + kept, kept + " EXCEPT " + sums} {
			wrong, err := all(ctx, tx, scanSum, "SELECT * FROM ("+q+") wrong LIMIT 1", after)
			if err != nil {
				return err
			}
			if len(wrong) > 0 {
				r := wrong[0]
				return backend.Damaged("%s is not the sum of %s at %s, key %q, owner %q, model %q", c.table, c.of, r.Start.Format(time.RFC3339), r.KeyID, r.Owner, r.Model)
			}
		}
	}
	return nil
}

// checkBudgets compares what is granted with the grants, and what is spent with
// the rows that were charged.
func checkBudgets(ctx context.Context, tx pgx.Tx) error {
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
	if !rowsGone.IsZero() {
		whole = whole.Add(time.Hour)
	}
	scan := func(r scanner) (b string, err error) {
		var key, period string
		var start time.Time
		err = r.Scan(&key, &period, &start)
		return fmt.Sprintf("of key %s, the %s of %s", key, period, start.UTC().Format(time.RFC3339)), err
	}
	for _, c := range []struct {
		what, query string
		args        []any
	}{
		{"what is granted is not the sum of the grants", `SELECT key_id, period, start FROM budgets b WHERE granted <> settled +
(SELECT coalesce(sum(nanos), 0) FROM grants g WHERE g.key_id = b.key_id AND g.period = b.period AND g.start = b.start AND returned_at IS NULL) LIMIT 1`, nil},
		{"what is spent is not the sum of the rows", `WITH charged AS (SELECT charged_key, charged_period, charged_start, sum(cost_nanos) AS cost FROM usage
WHERE charged_key IS NOT NULL AND cost_nanos IS NOT NULL GROUP BY 1, 2, 3)
SELECT key_id, period, start FROM budgets LEFT JOIN charged ON key_id = charged_key AND period = charged_period AND start = charged_start
WHERE (period = 'total' OR start >= $1) AND (spent < coalesce(cost, 0)
OR spent > coalesce(cost, 0) AND CASE period WHEN 'total' THEN $2 ELSE start >= $3 END) LIMIT 1`, []any{budgetsGone, rowsGone.IsZero(), whole}},
		{"rows are charged to one that is not there", `SELECT charged_key, charged_period, charged_start FROM usage WHERE charged_key IS NOT NULL
AND cost_nanos IS NOT NULL AND (charged_period = 'total' OR charged_start >= $1) AND NOT EXISTS (SELECT 1 FROM budgets
WHERE key_id = charged_key AND period = charged_period AND start = charged_start) LIMIT 1`, []any{budgetsGone}},
	} {
		wrong, err := all(ctx, tx, scan, c.query, c.args...)
		if err != nil {
			return err
		}
		if len(wrong) > 0 {
			return backend.Damaged("budget %s: %s", wrong[0], c.what)
		}
	}
	return nil
}

// checkAccounts finds keys, sessions and links of accounts that are not there, keys
// that are counted with others than their account's, and links that made a key which is
// not there.
func checkAccounts(ctx context.Context, tx pgx.Tx) error {
	scan := func(r scanner) (id string, err error) { return id, r.Scan(&id) }
	const gone = ` IS NOT NULL AND NOT EXISTS (SELECT 1 FROM accounts WHERE accounts.id = account) LIMIT 1`
	for _, c := range []struct{ query, what string }{
		{`SELECT id FROM keys WHERE account` + gone, "key %q refers to an account that is not there"},
		{`SELECT id FROM sessions WHERE account` + gone, "session %q refers to an account that is not there"},
		{`SELECT id FROM links WHERE account` + gone, "link %q refers to an account that is not there"},
		{`SELECT id FROM keys WHERE account IS NOT NULL AND lineage <> account LIMIT 1`, "key %q is of an account and not counted with it"},
		{`SELECT id FROM links WHERE key_id <> '' AND NOT EXISTS (SELECT 1 FROM keys WHERE keys.id = key_id) LIMIT 1`, "link %q made a key that is not there"},
	} {
		wrong, err := all(ctx, tx, scan, c.query)
		if err != nil {
			return err
		}
		if len(wrong) > 0 {
			return backend.Damaged(c.what, wrong[0])
		}
	}
	return nil
}

// mark is the latest time up to which something was forgotten, zero for never.
func mark(ctx context.Context, tx pgx.Tx, names ...string) (time.Time, error) {
	var at *time.Time
	err := tx.QueryRow(ctx, `SELECT max(at) FROM marks WHERE name = ANY ($1)`, names).Scan(&at)
	return orZero(at), err
}
