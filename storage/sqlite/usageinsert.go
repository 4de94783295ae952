package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"maps"
	"slices"
	"sync"

	"github.com/llmgw/llmgw/storage"
)

// usageStatements insert usage, prepared once for the connection that writes: to
// parse them for every batch would take a tenth of it.
type usageStatements struct {
	pack, common, hours, days, spent *sql.Stmt
	ids                              idStatements
}

// each calls f with where each statement is kept, and its text.
func (s *usageStatements) each(f func(to **sql.Stmt, text string) error) error {
	for _, p := range []struct {
		to   **sql.Stmt
		text string
	}{
		{&s.pack, `INSERT INTO usage_packs (first, last, rows) VALUES (?, ?, ?)`},
		{&s.common, `INSERT INTO usage_common (day, text) VALUES (?, ?) ON CONFLICT DO UPDATE SET day = day RETURNING id`},
		{&s.hours, addSum(storage.GrainHour)},
		{&s.days, addSum(storage.GrainDay)},
		{&s.spent, `INSERT INTO budgets (key_id, period, start, granted, settled, spent) VALUES (?, ?, ?, 0, 0, ?)
ON CONFLICT DO UPDATE SET spent = spent + excluded.spent`},
		{&s.ids.read, readIDs},
		{&s.ids.write, writeIDs},
		{&s.ids.clear, clearIDs},
		{&s.ids.add, addID},
		{&s.ids.drop, dropID},
	} {
		if err := f(p.to, p.text); err != nil {
			return err
		}
	}
	return nil
}

func prepareUsage(ctx context.Context, db *sql.DB) (s usageStatements, err error) {
	return s, s.each(func(to **sql.Stmt, text string) (err error) {
		*to, err = db.PrepareContext(ctx, text)
		return err
	})
}

// in returns the statements in a transaction, with which they end.
func (s usageStatements) in(ctx context.Context, tx *sql.Tx) usageStatements {
	_ = s.each(func(to **sql.Stmt, _ string) error { *to = tx.StmtContext(ctx, *to); return nil })
	return s
}

// commons remembers where what rows have in common stands. It holds for days that
// PruneUsage has not reached: in them nothing of it is ever changed or deleted, by
// whichever process.
type commons[K comparable] struct {
	mu  sync.Mutex
	ids map[K]int64 // guarded by mu
}

// mostCommons bounds commons, which begins anew when it is full.
const mostCommons = 10_000

func (c *commons[K]) get(key K) (id int64, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	id, ok = c.ids[key]
	return id, ok
}

// put remembers what a transaction that was committed has found or made.
func (c *commons[K]) put(ids map[K]int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ids == nil || len(c.ids)+len(ids) > mostCommons {
		c.ids = make(map[K]int64)
	}
	if len(ids) <= mostCommons {
		maps.Copy(c.ids, ids)
	}
}

// seeker finds commons in one transaction.
type seeker[K comparable] struct {
	known *commons[K]
	fresh map[K]int64 // found or made in this transaction
	// What was found last: rows often have the same as one of the rows before, and to
	// compare takes less than to look up, by so many texts.
	last [8]struct {
		key K
		id  int64 // 0: none
	}
	next int
}

func (s *seeker[K]) find(key *K, trusted bool, place func() (int64, error)) (int64, error) {
	for i := range s.last {
		if l := &s.last[i]; l.id != 0 && l.key == *key {
			return l.id, nil
		}
	}
	id, ok := s.fresh[*key]
	if !ok && trusted {
		id, ok = s.known.get(*key)
	}
	if !ok {
		var err error
		if id, err = place(); err != nil {
			return 0, err
		}
		if s.fresh == nil {
			s.fresh = make(map[K]int64)
		}
		s.fresh[*key] = id
	}
	l := &s.last[s.next%len(s.last)]
	l.key, l.id = *key, id
	s.next++
	return id, nil
}

// usageInserter keeps rows in one transaction. Its memory is used again.
type usageInserter struct {
	st      usageStatements
	pruned  int64 // days before this may have been pruned
	callers seeker[usageCaller]
	kinds   seeker[usageKind]
	packer  packer
}

func (db *database) inserter(ctx context.Context, tx *sql.Tx) (*usageInserter, error) {
	gone, err := mark(ctx, tx, "rows")
	if err != nil {
		return nil, err
	}
	in := &usageInserter{st: db.usage.in(ctx, tx), pruned: gone / microsPerDay}
	in.callers.known, in.kinds.known = &db.callers, &db.kinds
	return in, nil
}

// committed is to be called once the transaction is.
func (in *usageInserter) committed() {
	in.callers.known.put(in.callers.fresh)
	in.kinds.known.put(in.kinds.fresh)
}

// newRow is a row that is not kept yet.
type newRow struct {
	at  int64 // microseconds
	row int   // of the batch
}

// keep keeps the rows that are not there, of a batch sorted by identity, each once,
// and returns them.
func (in *usageInserter) keep(ctx context.Context, batch []*storage.Usage) ([]*storage.Usage, error) {
	ids, isNew := make([]requestID, len(batch)), make([]bool, len(batch))
	for i, u := range batch {
		ids[i] = parseID(u.RequestID)
	}
	if err := in.st.ids.newIDs(ctx, ids, isNew); err != nil {
		return nil, err
	}
	fresh, out := make([]newRow, 0, len(batch)), make([]*storage.Usage, 0, len(batch))
	for i, u := range batch {
		if isNew[i] {
			fresh, out = append(fresh, newRow{u.At.UnixMicro(), i}), append(out, u)
		}
	}
	slices.SortFunc(fresh, func(a, b newRow) int { return cmp.Or(cmp.Compare(a.at, b.at), a.row-b.row) })
	for len(fresh) > 0 {
		n := onePack(fresh)
		in.packer.begin()
		for _, f := range fresh[:n] {
			caller, kind, err := in.common(ctx, batch[f.row], f.at)
			if err != nil {
				return nil, err
			}
			in.packer.add(batch[f.row], f.at, &ids[f.row], caller, kind)
		}
		if err := in.put(ctx); err != nil {
			return nil, err
		}
		fresh = fresh[n:]
	}
	return out, nil
}

// onePack is how many of rows, sorted by time, may stand in a pack.
func onePack(rows []newRow) int {
	end := rows[0].at - rows[0].at%microsPerMinute + microsPerMinute
	for i := range rows {
		if i == mostPacked || rows[i].at >= end {
			return i
		}
	}
	return len(rows)
}

const microsPerMinute = 60_000_000

// put inserts what the packer has.
func (in *usageInserter) put(ctx context.Context) error {
	_, err := in.st.pack.ExecContext(ctx, in.packer.first, in.packer.last, in.packer.blob())
	return err
}

// common returns where what a row has in common with others stands, and puts there
// what is not.
func (in *usageInserter) common(ctx context.Context, u *storage.Usage, at int64) (caller, kind int64, err error) {
	day := at / microsPerDay
	trusted := day >= in.pruned
	c, k := callerOf(u, day), kindOf(u, day)
	caller, err = in.callers.find(&c, trusted, func() (int64, error) { return in.place(ctx, day, c.text(nil)) })
	if err != nil {
		return 0, 0, err
	}
	kind, err = in.kinds.find(&k, trusted, func() (int64, error) { return in.place(ctx, day, k.text(nil)) })
	return caller, kind, err
}

func (in *usageInserter) place(ctx context.Context, day int64, text array) (id int64, err error) {
	return id, in.st.common.QueryRowContext(ctx, day, string(text)).Scan(&id)
}
