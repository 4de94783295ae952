package sqlite

import (
	"context"
	"database/sql"
	"strings"
	"sync"
	"time"

	driver "modernc.org/sqlite"

	"github.com/llmgw/llmgw/storage"
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
		for _, check := range []func(context.Context, *sql.Tx) error{checkPages, checkSchema, checkUsage, checkDays, checkGrants, checkAccounts} {
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

// object is a table, an index or what else a schema has, with the text that made it.
type object struct{ name, text string }

func schemaObjects(ctx context.Context, q querier) ([]object, error) {
	scan := func(r scanner) (o object, err error) { return o, r.Scan(&o.name, &o.text) }
	return all(ctx, q, scan, `SELECT name, coalesce(sql, '') FROM sqlite_schema ORDER BY name`)
}

// newObjects are those of a new file. All files' are the same, and making them is
// most of what checking a small file costs, so they are made once a process.
var newObjects = sync.OnceValues(func() ([]object, error) { //nolint:gochecknoglobals // a constant
	ctx := context.Background() // no caller's: the next one wants the answer, too
	c, err := driver.NewConnector("file::memory:")
	if err != nil {
		return nil, err
	}
	fresh := sql.OpenDB(c)
	defer fresh.Close()
	fresh.SetMaxOpenConns(1)
	texts, err := steps()
	if err != nil {
		return nil, err
	}
	for _, text := range texts {
		if _, err := fresh.ExecContext(ctx, text); err != nil {
			return nil, err
		}
	}
	return schemaObjects(ctx, fresh)
})

// checkSchema compares tables and indexes with those of a new file.
func checkSchema(ctx context.Context, tx *sql.Tx) error {
	want, err := newObjects()
	if err != nil {
		return err
	}
	have, err := schemaObjects(ctx, tx)
	if err != nil {
		return err
	}
	there := make(map[string]string)
	for _, o := range have {
		there[o.name] = o.text
	}
	// What others added (sqlite_stat1 by ANALYZE, a view) harms nobody.
	for _, o := range want {
		if text, ok := there[o.name]; !ok {
			return backend.Damaged("%s is missing", o.name)
		} else if text != o.text {
			return backend.Damaged("%s is not what this program makes", o.name)
		}
	}
	return nil
}

// checkGrants compares what is granted of budgets with the grants.
func checkGrants(ctx context.Context, tx *sql.Tx) error {
	wrong, err := all(ctx, tx, scanBudget, `SELECT key_id, period, start, granted, settled, spent FROM budgets b WHERE granted <> settled +
(SELECT coalesce(sum(nanos), 0) FROM grants g WHERE g.key_id = b.key_id AND g.period = b.period AND g.start = b.start AND returned_at IS NULL) LIMIT 1`)
	if err == nil && len(wrong) > 0 {
		err = damagedBudget(wrong[0].budget, "what is granted is not the sum of the grants")
	}
	return err
}

// checkAccounts finds keys that are counted with others than their account's, and
// links that made a key which is not there. That accounts are there which sessions,
// links and keys name, checkPages has found out.
func checkAccounts(ctx context.Context, tx *sql.Tx) error {
	scan := func(r scanner) (id string, err error) { return id, r.Scan(&id) }
	for _, c := range []struct{ query, what string }{
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

func damagedBudget(b storage.BudgetPeriod, what string) error {
	return backend.Damaged("budget of key %s, the %s of %s: %s", b.KeyID, b.Period, b.Start.Format(time.RFC3339), what)
}

// checkDays compares roll-ups by day with those by hour, after what was forgotten.
func checkDays(ctx context.Context, tx *sql.Tx) error {
	after, err := marked(ctx, tx, 24*time.Hour, "hours", "days")
	if err != nil {
		return err
	}
	const (
		sums = `SELECT start - start % 86400000000 AS start, key_id, owner, model, sum(requests), sum(failed), sum(input), sum(cached_input), sum(output),
sum(reasoning), sum(cost_nanos) FROM usage_hours WHERE start >= ? GROUP BY 1, 2, 3, 4`
		kept = `SELECT ` + sumColumns + ` FROM usage_days WHERE start >= ?`
	)
	for _, q := range []string{sums + " EXCEPT " + kept, kept + " EXCEPT " + sums} {
		wrong, err := all(ctx, tx, scanSum, "SELECT * FROM ("+q+") LIMIT 1", after, after)
		if err != nil {
			return err
		}
		if len(wrong) > 0 {
			return damagedSum("usage_days", "usage_hours", wrong[0])
		}
	}
	return nil
}

func damagedSum(table, of string, r storage.Rollup) error {
	return backend.Damaged("%s is not the sum of %s at %s, key %q, owner %q, model %q", table, of, r.Start.Format(time.RFC3339), r.KeyID, r.Owner, r.Model)
}

// marked is the first hour or day of which nothing was forgotten, by two marks.
func marked(ctx context.Context, q querier, length time.Duration, a, b string) (int64, error) {
	at, err := mark(ctx, q, a)
	if err != nil {
		return 0, err
	}
	other, err := mark(ctx, q, b)
	us := length.Microseconds()
	return (max(at, other) + us - 1) / us * us, err
}

// mark is up to when something was forgotten, 0 for never.
func mark(ctx context.Context, q querier, name string) (at int64, err error) {
	err = q.QueryRowContext(ctx, `SELECT at FROM marks WHERE name = ?`, name).Scan(&at)
	if missing(err) {
		return 0, nil
	}
	return at, err
}
