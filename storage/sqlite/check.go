package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	driver "modernc.org/sqlite"

	"github.com/llmgw/llmgw/storage/internal/backend"
)

// Check implements [storage.Store]. What is not sound is [storage.ErrSchema].
// It reads the whole file, as of one moment, and nobody waits for it.
func (s *Store) Check(ctx context.Context) error {
	return s.view(ctx, "check", func(db *sql.DB) error {
		tx, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
		if err != nil {
			return err
		}
		defer tx.Rollback()
		for _, check := range []func(context.Context, *sql.Tx) error{checkPages, checkSchema, checkSums, checkBudgets} {
			if err := check(ctx, tx); err != nil {
				return err
			}
		}
		return nil
	})
}

// checkPages asks SQLite itself.
func checkPages(ctx context.Context, tx *sql.Tx) error {
	scan := func(r scanner) (line string, err error) { return line, r.Scan(&line) }
	lines, err := all(ctx, tx, scan, `PRAGMA integrity_check(10)`)
	if err != nil {
		return err
	}
	if len(lines) != 1 || lines[0] != "ok" {
		return backend.Damaged("SQLite's integrity check: %s", strings.Join(lines, "; "))
	}
	orphan := func(r scanner) (table string, err error) {
		var row, parent, key any
		return table, r.Scan(&table, &row, &parent, &key)
	}
	tables, err := all(ctx, tx, orphan, `PRAGMA foreign_key_check`)
	if err == nil && len(tables) > 0 {
		err = backend.Damaged("%d rows of %s refer to nothing", len(tables), tables[0])
	}
	return err
}

// checkSchema compares tables and indexes with those of a new file.
func checkSchema(ctx context.Context, tx *sql.Tx) error {
	c, err := driver.NewConnector("file::memory:")
	if err != nil {
		return err
	}
	fresh := sql.OpenDB(c)
	defer fresh.Close()
	fresh.SetMaxOpenConns(1)
	texts, err := steps()
	if err != nil {
		return err
	}
	for _, text := range texts {
		if _, err := fresh.ExecContext(ctx, text); err != nil {
			return err
		}
	}
	const query = `SELECT name, coalesce(sql, '') FROM sqlite_schema ORDER BY name`
	type object struct{ name, text string }
	scan := func(r scanner) (o object, err error) { return o, r.Scan(&o.name, &o.text) }
	want, err := all(ctx, fresh, scan, query)
	if err != nil {
		return err
	}
	there := make(map[string]string)
	// What others added (sqlite_stat1 by ANALYZE, a view) harms nobody.
	if err := each(ctx, tx, scan, func(o object) error { there[o.name] = o.text; return nil }, query); err != nil {
		return err
	}
	for _, o := range want {
		if text, ok := there[o.name]; !ok {
			return backend.Damaged("%s is missing", o.name)
		} else if text != o.text {
			return backend.Damaged("%s is not what this program makes", o.name)
		}
	}
	return nil
}

// checkSums compares roll-ups with the rows that they are sums of, after what
// was forgotten, and those by day with those by hour.
func checkSums(ctx context.Context, tx *sql.Tx) error {
	rowsGone, err := mark(ctx, tx, "rows")
	if err != nil {
		return err
	}
	hoursGone, err := mark(ctx, tx, "hours")
	if err != nil {
		return err
	}
	daysGone, err := mark(ctx, tx, "days")
	if err != nil {
		return err
	}
	const (
		fromRows = `SELECT at - at % %[1]d AS start, key_id, owner, model, count(*), sum(status NOT BETWEEN 200 AND 299), coalesce(sum(input), 0),
coalesce(sum(cached_input), 0), coalesce(sum(output), 0), coalesce(sum(reasoning), 0), coalesce(sum(cost_nanos), 0)
FROM usage WHERE at >= %[2]d GROUP BY 1, 2, 3, 4`
		fromHours = `SELECT start - start % %[1]d AS start, key_id, owner, model, sum(requests), sum(failed), sum(input), sum(cached_input), sum(output),
sum(reasoning), sum(cost_nanos) FROM usage_hours WHERE start >= %[2]d GROUP BY 1, 2, 3, 4`
	)
	for _, c := range []struct {
		table, of, query string
		length           time.Duration
		after            int64
	}{
		{"usage_hours", "usage", fromRows, time.Hour, max(rowsGone, hoursGone)},
		{"usage_days", "usage", fromRows, 24 * time.Hour, max(rowsGone, daysGone)},
		{"usage_days", "usage_hours", fromHours, 24 * time.Hour, max(hoursGone, daysGone)},
	} {
		us := c.length.Microseconds()
		after := (c.after + us - 1) / us * us
		sums := fmt.Sprintf(strings.ReplaceAll(c.query, "% %", "%% %"), us, after)
		kept := fmt.Sprintf(`SELECT %s FROM %s WHERE start >= %d`, sumColumns, c.table, after)
		for _, q := range []string{sums + " EXCEPT " + kept, kept + " EXCEPT " + sums} {
			wrong, err := all(ctx, tx, scanSum, "SELECT * FROM ("+q+") LIMIT 1")
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
func checkBudgets(ctx context.Context, tx *sql.Tx) error {
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
	scan := func(r scanner) (b string, err error) {
		var key, period string
		var start int64
		err = r.Scan(&key, &period, &start)
		return fmt.Sprintf("of key %s, the %s of %d", key, period, start), err
	}
	for _, c := range []struct {
		what, query string
		args        []any
	}{
		{"what is granted is not the sum of the grants", `SELECT key_id, period, start FROM budgets b WHERE granted <> settled +
(SELECT coalesce(sum(nanos), 0) FROM grants g WHERE g.key_id = b.key_id AND g.period = b.period AND g.start = b.start AND returned_at IS NULL) LIMIT 1`, nil},
		{"what is spent is not the sum of the rows", `WITH rows AS (SELECT charged_key, charged_period, charged_start, sum(cost_nanos) AS cost FROM usage
WHERE charged_key IS NOT NULL AND cost_nanos IS NOT NULL GROUP BY 1, 2, 3)
SELECT key_id, period, start FROM budgets LEFT JOIN rows ON key_id = charged_key AND period = charged_period AND start = charged_start
WHERE (period = 'total' OR start >= ?) AND (spent < coalesce(cost, 0)
OR spent > coalesce(cost, 0) AND CASE period WHEN 'total' THEN ? = 0 ELSE start >= ? END) LIMIT 1`, []any{budgetsGone, rowsGone, whole}},
		{"rows are charged to one that is not there", `SELECT charged_key, charged_period, charged_start FROM usage WHERE charged_key IS NOT NULL
AND cost_nanos IS NOT NULL AND (charged_period = 'total' OR charged_start >= ?) AND NOT EXISTS (SELECT 1 FROM budgets
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

// mark is up to when something was forgotten, 0 for never.
func mark(ctx context.Context, q querier, name string) (at int64, err error) {
	err = q.QueryRowContext(ctx, `SELECT at FROM marks WHERE name = ?`, name).Scan(&at)
	if missing(err) {
		return 0, nil
	}
	return at, err
}
