package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5"

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
	if err = r.Scan(&b.budget.KeyID, &period, &b.budget.Start, &b.granted, &b.settled, &b.spent); err != nil {
		return b, err
	}
	b.budget.Start = rows.Time(b.budget.Start)
	if err := b.budget.Period.UnmarshalText([]byte(period)); err != nil {
		return b, backend.Damaged("budget of key %s: %v", b.budget.KeyID, err)
	}
	return b, nil
}

// Export implements [storage.Transferer].
func (s *Store) Export(ctx context.Context, w io.Writer) error {
	return s.snapshot(ctx, "export", func(ctx context.Context, tx pgx.Tx) error {
		texts, err := steps()
		if err != nil {
			return err
		}
		d, err := dump.NewWriter(w, len(texts))
		if err != nil {
			return err
		}
		scanMark := func(r scanner) (m dump.Mark, err error) {
			var at time.Time
			err = r.Scan(&m.Name, &at)
			m.At = at.UnixMicro()
			return m, err
		}
		err = errors.Join(
			each(ctx, tx, scanMark, func(m dump.Mark) error { return d.Put(dump.Record{Mark: &m}) }, `SELECT name, at FROM marks ORDER BY name`),
			each(ctx, tx, scanAccount, func(a storage.Account) error { return d.Put(dump.FromAccount(a)) }, `SELECT `+accountColumns+` FROM accounts ORDER BY id`),
			each(ctx, tx, scanKey, func(k storage.Key) error { return d.Put(dump.FromKey(k)) }, `SELECT `+keyAnswer+keySource+` ORDER BY id`),
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

// Import implements [storage.Transferer].
func (s *Store) Import(ctx context.Context, r io.Reader) error {
	const op = "import"
	d, err := dump.NewReader(r)
	if err != nil {
		return fail(ctx, op, err)
	}
	return s.long(ctx, op, pgx.TxOptions{}, func(ctx context.Context, tx pgx.Tx) error {
		// Nobody else writes until it is done.
		if _, err := tx.Exec(ctx, `LOCK TABLE marks, keys, audit, budgets, grants, usage, usage_hours, usage_days, term, nodes, cordons, replicas, models, accounts, links, providers IN EXCLUSIVE MODE`); err != nil {
			return err
		}
		var there bool
		err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM keys) OR EXISTS (SELECT 1 FROM audit) OR EXISTS (SELECT 1 FROM budgets)
OR EXISTS (SELECT 1 FROM usage) OR EXISTS (SELECT 1 FROM usage_hours) OR EXISTS (SELECT 1 FROM usage_days) OR EXISTS (SELECT 1 FROM marks)
OR EXISTS (SELECT 1 FROM term) OR EXISTS (SELECT 1 FROM nodes) OR EXISTS (SELECT 1 FROM cordons) OR EXISTS (SELECT 1 FROM replicas)
OR EXISTS (SELECT 1 FROM models) OR EXISTS (SELECT 1 FROM accounts) OR EXISTS (SELECT 1 FROM links)
OR EXISTS (SELECT 1 FROM providers)`).Scan(&there)
		if err != nil {
			return err
		}
		if there {
			return fmt.Errorf("%w: the store is not empty; import into a new one", storage.ErrExists)
		}
		p := putter{tx: tx}
		for {
			rec, err := d.Next()
			if errors.Is(err, io.EOF) {
				return backend.FromDump(p.flush(ctx), class)
			}
			if err != nil {
				return err
			}
			if err := p.put(ctx, rec); err != nil {
				return backend.FromDump(err, class)
			}
		}
	})
}

// putter keeps the records of a dump, usage rows and sums many at once.
type putter struct {
	tx    pgx.Tx
	usage []*storage.Usage
	hours []storage.Rollup
	days  []storage.Rollup
}

// together is how many rows a statement inserts.
const together = 1000

// put keeps one record, some time before flush.
func (p *putter) put(ctx context.Context, rec dump.Record) error {
	switch {
	case rec.Mark != nil:
		_, err := p.tx.Exec(ctx, `INSERT INTO marks (name, at) VALUES ($1, $2)`, rec.Mark.Name, rows.FromMicros(rec.Mark.At))
		return err
	case rec.Key != nil:
		k, err := rec.Key.Storage()
		if err != nil {
			return err
		}
		kept, err := insertKey(ctx, p.tx, k)
		if err == nil && !kept {
			err = fmt.Errorf("%w: key %q", storage.ErrExists, k.ID)
		}
		return err
	case rec.Audit != nil:
		a, err := rec.Audit.Storage()
		if err != nil {
			return err
		}
		return appendAudit(ctx, p.tx, a)
	case rec.Budget != nil:
		b, err := rec.Budget.Storage()
		if err != nil {
			return err
		}
		_, err = p.tx.Exec(ctx, `INSERT INTO budgets (key_id, period, start, granted, settled, spent) VALUES ($1, $2, $3, $4, $5, $6)`,
			append(budgetValues(b), rec.Budget.Granted, rec.Budget.Settled, rec.Budget.Spent)...)
		return err
	case rec.Grant != nil:
		g, at, returned, err := rec.Grant.Storage()
		if err != nil {
			return err
		}
		return insertGrant(ctx, p.tx, kept{g, at, returned})
	case rec.Usage != nil:
		u, err := rec.Usage.Storage()
		if err != nil {
			return err
		}
		p.usage = append(p.usage, &u)
	case rec.Hour != nil:
		r, err := rec.Hour.Storage()
		if err != nil {
			return err
		}
		p.hours = append(p.hours, r)
	case rec.Day == nil:
		return putOther(ctx, p.tx, rec)
	default:
		r, err := rec.Day.Storage()
		if err != nil {
			return err
		}
		p.days = append(p.days, r)
	}
	if len(p.usage)+len(p.hours)+len(p.days) >= together {
		return p.flush(ctx)
	}
	return nil
}

// putOther keeps one record of the fleet's, a model, an account, a link or a provider.
func putOther(ctx context.Context, tx pgx.Tx, rec dump.Record) error {
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
		kept, err := insertAccount(ctx, tx, a)
		if err == nil && !kept {
			err = accountTaken(a)
		}
		return err
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
		kept, err := insertLink(ctx, tx, l)
		if err == nil && !kept {
			err = fmt.Errorf("%w: link %q", storage.ErrExists, l.ID)
		}
		return err
	}
}

func (p *putter) flush(ctx context.Context) error {
	if len(p.usage) > 0 {
		fresh, err := insertUsage(ctx, p.tx, p.usage)
		if err != nil {
			return err
		}
		if len(fresh) < len(p.usage) {
			return fmt.Errorf("%w: a usage row is there twice", storage.ErrExists)
		}
	}
	var b pgx.Batch
	addSums(&b, storage.GrainHour, p.hours)
	addSums(&b, storage.GrainDay, p.days)
	p.usage, p.hours, p.days = p.usage[:0], p.hours[:0], p.days[:0]
	return p.tx.SendBatch(ctx, &b).Close()
}
