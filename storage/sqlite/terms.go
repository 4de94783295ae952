package sqlite

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/llmgw/llmgw/storage"
	"github.com/llmgw/llmgw/storage/internal/rows"
)

const termColumns = `cluster, number, holder, begun_at`

func scanTerm(r scanner) (t storage.Term, err error) {
	var begun int64
	err = r.Scan(&t.Cluster, &t.Number, &t.Holder, &begun)
	t.BegunAt = rows.FromMicros(begun)
	return t, err
}

// lastTerm is the zero value before the first.
func lastTerm(ctx context.Context, q querier) (storage.Term, error) {
	t, err := scanTerm(q.QueryRowContext(ctx, `SELECT `+termColumns+` FROM term`))
	if missing(err) {
		return storage.Term{}, nil
	}
	return t, err
}

func insertTerm(ctx context.Context, tx *sql.Tx, t storage.Term) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO term (one, cluster, number, holder, begun_at) VALUES (1, ?, ?, ?, ?)`,
		t.Cluster, int64(t.Number), t.Holder, t.BegunAt.UnixMicro()) //nolint:gosec // at most MaxTerm
	return err
}

// BeginTerm implements [storage.Terms].
func (s *Store) BeginTerm(ctx context.Context, r storage.TermRequest) (t storage.Term, err error) {
	const op = "begin term"
	if err := r.Validate(); err != nil {
		return t, fail(ctx, op, err)
	}
	err = s.update(ctx, op, func(tx *sql.Tx) error {
		last, err := lastTerm(ctx, tx)
		if err != nil {
			return err
		}
		if t, err = rows.NextTerm(last, r); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM term`); err != nil {
			return err
		}
		return insertTerm(ctx, tx, t)
	})
	if err != nil {
		return storage.Term{}, err
	}
	return t, nil
}

// Term implements [storage.Terms].
func (s *Store) Term(ctx context.Context) (t storage.Term, err error) {
	err = s.view(ctx, "term", func(q *sql.DB) error {
		if t, err = lastTerm(ctx, q); err == nil && t.Number == 0 {
			err = fmt.Errorf("%w: no term has begun", storage.ErrNotFound)
		}
		return err
	})
	return t, err
}

// fenced runs f in a transaction of a leader's. The transaction holds the write
// lock, so no term begins before it ends.
func (s *Store) fenced(ctx context.Context, op string, fence storage.Fence, f func(tx *sql.Tx) error) error {
	if err := fence.Validate(); err != nil {
		return fail(ctx, op, err)
	}
	return s.update(ctx, op, func(tx *sql.Tx) error {
		last, err := lastTerm(ctx, tx)
		if err != nil {
			return err
		}
		if err := rows.CheckFence(fence, last); err != nil {
			return err
		}
		return f(tx)
	})
}
