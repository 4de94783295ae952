package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"math"

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
			each(ctx, tx, scanAccount, func(a storage.Account) error { return d.Put(dump.FromAccount(a)) }, `SELECT `+accountColumns+` FROM accounts ORDER BY id`),
			each(ctx, tx, scanKey, func(k storage.Key) error { return d.Put(dump.FromKey(k)) }, `SELECT `+keyAnswer+keySource+` ORDER BY id`),
			each(ctx, tx, scanAudit, func(a storage.Audit) error { return d.Put(dump.FromAudit(a)) }, `SELECT `+auditColumns+` FROM audit ORDER BY at, id`),
			each(ctx, tx, scanBudget, func(b standing) error {
				return d.Put(dump.FromBudget(b.budget, b.settled, b.granted, b.spent))
			}, `SELECT key_id, period, start, granted, settled, spent FROM budgets ORDER BY key_id, period, start`),
			each(ctx, tx, scanGrant, func(g kept) error { return d.Put(dump.FromGrant(g.Grant, g.at, g.returned)) }, `SELECT `+grantColumns+` FROM grants ORDER BY id`),
			exportUsage(ctx, tx, d),
		)
		for _, g := range []storage.Grain{storage.GrainHour, storage.GrainDay} {
			err = errors.Join(err, each(ctx, tx, scanSum, func(r storage.Rollup) error { return d.Put(dump.FromRollup(g, r)) },
				`SELECT `+sumColumns+` FROM `+sumTable(g)+` ORDER BY start, key_id, owner, model`))
		}
		err = errors.Join(err,
			each(ctx, tx, scanTerm, func(t storage.Term) error { return d.Put(dump.FromTerm(t)) }, `SELECT `+termColumns+` FROM term`),
			each(ctx, tx, scanNode, func(n storage.Node) error { return d.Put(dump.FromNode(n)) }, `SELECT `+nodeColumns+` FROM nodes ORDER BY first_seen, id`),
			each(ctx, tx, scanCordon, func(c storage.Cordon) error { return d.Put(dump.FromCordon(c)) }, `SELECT `+cordonColumns+` FROM cordons ORDER BY node`),
			each(ctx, tx, scanReplica, func(r storage.Replica) error { return d.Put(dump.FromReplica(r)) }, `SELECT `+replicaColumns+` FROM replicas ORDER BY created_at, id`),
			each(ctx, tx, scanModel, func(m storage.Model) error { return d.Put(dump.FromModel(m)) }, `SELECT `+modelColumns+` FROM models ORDER BY name`),
			each(ctx, tx, scanLink, func(l storage.Link) error { return d.Put(dump.FromLink(l)) }, `SELECT `+linkColumns+` FROM links ORDER BY id`),
			each(ctx, tx, scanProvider, func(p storage.Provider) error { return d.Put(dump.FromProvider(p)) }, `SELECT `+providerColumns+` FROM providers ORDER BY id`),
		)
		if err != nil {
			return err
		}
		return d.Close()
	})
}

func exportUsage(ctx context.Context, tx *sql.Tx, d *dump.Writer) error {
	r := newUsageReader(ctx, tx)
	for row, err := range r.rows(0, math.MaxInt64, byID) {
		if err != nil {
			return err
		}
		u, err := r.usage(row)
		if err != nil {
			return err
		}
		if err := d.Put(dump.FromUsage(u)); err != nil {
			return err
		}
	}
	return nil
}

// Import implements [storage.Transferer].
func (s *Store) Import(ctx context.Context, r io.Reader) error {
	const op = "import"
	d, err := dump.NewReader(r)
	if err != nil {
		return fail(ctx, op, err)
	}
	var in *usageInserter
	err = s.updateIn(ctx, op, func(db *database, tx *sql.Tx) error {
		var there bool
		err := tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM keys) OR EXISTS (SELECT 1 FROM audit) OR EXISTS (SELECT 1 FROM budgets)
OR EXISTS (SELECT 1 FROM usage_packs) OR EXISTS (SELECT 1 FROM usage_hours) OR EXISTS (SELECT 1 FROM usage_days) OR EXISTS (SELECT 1 FROM marks)
OR EXISTS (SELECT 1 FROM term) OR EXISTS (SELECT 1 FROM nodes) OR EXISTS (SELECT 1 FROM cordons) OR EXISTS (SELECT 1 FROM replicas)
OR EXISTS (SELECT 1 FROM models) OR EXISTS (SELECT 1 FROM accounts) OR EXISTS (SELECT 1 FROM links)
OR EXISTS (SELECT 1 FROM providers)`).Scan(&there)
		if err != nil {
			return err
		}
		if there {
			return fmt.Errorf("%w: the store is not empty; import into a new one", storage.ErrExists)
		}
		if in, err = db.inserter(ctx, tx); err != nil {
			return err
		}
		var waiting []storage.Usage // rows for as full a pack as may be
		for {
			rec, err := d.Next()
			if err != nil && !errors.Is(err, io.EOF) {
				return err
			}
			end := err != nil
			if !end {
				err = put(ctx, tx, in, rec, &waiting)
			}
			if end || err == nil && len(waiting) == mostPacked {
				err = importUsage(ctx, in, waiting)
				waiting = waiting[:0]
			}
			if err != nil {
				return backend.FromDump(err, class)
			}
			if end {
				return nil
			}
		}
	})
	if err == nil {
		in.committed()
	}
	return err
}

// importUsage keeps rows, none of which may be there.
func importUsage(ctx context.Context, in *usageInserter, batch []storage.Usage) error {
	sorted, err := rows.Usage(batch)
	if err != nil {
		return err
	}
	fresh, err := in.keep(ctx, sorted)
	if err != nil || len(fresh) == len(batch) {
		return err
	}
	left := make(map[*storage.Usage]bool, len(fresh))
	for _, u := range fresh {
		left[u] = true
	}
	i := 0
	for left[&batch[i]] {
		i++
	}
	return fmt.Errorf("%w: usage row %q", storage.ErrExists, batch[i].RequestID)
}

// put keeps one record of a dump; a row of usage waits for others.
func put(ctx context.Context, tx *sql.Tx, in *usageInserter, rec dump.Record, waiting *[]storage.Usage) error {
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
		*waiting = append(*waiting, u)
		return nil
	case rec.Hour != nil:
		return putSum(ctx, in.st.hours, rec.Hour)
	case rec.Day == nil:
		return putOther(ctx, tx, rec)
	default:
		return putSum(ctx, in.st.days, rec.Day)
	}
}

// putOther keeps one record of the fleet's, a model, an account, a link or a provider.
func putOther(ctx context.Context, tx *sql.Tx, rec dump.Record) error {
	switch {
	case rec.Term != nil:
		t, err := rec.Term.Storage()
		if err != nil {
			return err
		}
		return insertTerm(ctx, tx, t)
	case rec.Node != nil:
		n, err := rec.Node.Storage()
		if err != nil {
			return err
		}
		return insertNode(ctx, tx, n)
	case rec.Cordon != nil:
		c, err := rec.Cordon.Storage()
		if err != nil {
			return err
		}
		return insertCordon(ctx, tx, c)
	case rec.Replica != nil:
		r, err := rec.Replica.Storage()
		if err != nil {
			return err
		}
		return insertReplica(ctx, tx, r)
	case rec.Model != nil:
		m, err := rec.Model.Storage()
		if err != nil {
			return err
		}
		return insertModel(ctx, tx, m)
	case rec.Account != nil:
		a, err := rec.Account.Storage()
		if err != nil {
			return err
		}
		return insertAccount(ctx, tx, a)
	case rec.Provider != nil:
		p, err := rec.Provider.Storage()
		if err != nil {
			return err
		}
		return insertProvider(ctx, tx, p)
	default:
		l, err := rec.Link.Storage()
		if err != nil {
			return err
		}
		return insertLink(ctx, tx, l)
	}
}

func putSum(ctx context.Context, add *sql.Stmt, line *dump.Rollup) error {
	r, err := line.Storage()
	if err != nil {
		return err
	}
	return addSums(ctx, add, []storage.Rollup{r})
}
