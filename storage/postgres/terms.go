package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/llmgw/llmgw/storage"
	"github.com/llmgw/llmgw/storage/internal/rows"
)

const termColumns = `cluster, number, holder, begun_at`

func scanTerm(r scanner) (t storage.Term, err error) {
	err = r.Scan(&t.Cluster, &t.Number, &t.Holder, &t.BegunAt)
	return rows.Term(t), err
}

// lastTerm is the zero value before the first. lock is empty or FOR SHARE.
func lastTerm(ctx context.Context, q querier, lock string) (storage.Term, error) {
	t, err := scanTerm(q.QueryRow(ctx, `SELECT `+termColumns+` FROM term `+lock))
	if missing(err) {
		return storage.Term{}, nil
	}
	return t, err
}

func insertTerm(ctx context.Context, tx pgx.Tx, t storage.Term) error {
	_, err := tx.Exec(ctx, `INSERT INTO term (one, cluster, number, holder, begun_at) VALUES (1, $1, $2, $3, $4)`,
		t.Cluster, int64(t.Number), t.Holder, t.BegunAt) //nolint:gosec // at most MaxTerm
	return err
}

// BeginTerm implements [storage.Terms].
func (s *Store) BeginTerm(ctx context.Context, r storage.TermRequest) (t storage.Term, err error) {
	const op = "begin term"
	if err := r.Validate(); err != nil {
		return t, fail(ctx, op, err)
	}
	err = s.update(ctx, op, func(ctx context.Context, tx pgx.Tx) error {
		// Two that begin a term take turns, and what was written in the last one is
		// done before.
		if _, err := tx.Exec(ctx, `LOCK TABLE term IN EXCLUSIVE MODE`); err != nil {
			return err
		}
		last, err := lastTerm(ctx, tx, "")
		if err != nil {
			return err
		}
		if t, err = rows.NextTerm(last, r); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `DELETE FROM term`); err != nil {
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
	err = s.view(ctx, "term", func(ctx context.Context, q querier) error {
		if t, err = lastTerm(ctx, q, ""); err == nil && t.Number == 0 {
			err = fmt.Errorf("%w: no term has begun", storage.ErrNotFound)
		}
		return err
	})
	return t, err
}

// fenced runs f in a transaction of a leader's. The transaction holds the row of
// the term, so none begins before it ends.
func (s *Store) fenced(ctx context.Context, op string, fence storage.Fence, f func(ctx context.Context, tx pgx.Tx) error) error {
	if err := fence.Validate(); err != nil {
		return fail(ctx, op, err)
	}
	return s.update(ctx, op, func(ctx context.Context, tx pgx.Tx) error {
		last, err := lastTerm(ctx, tx, "FOR SHARE")
		if err != nil {
			return err
		}
		if err := rows.CheckFence(fence, last); err != nil {
			return err
		}
		return f(ctx, tx)
	})
}
