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

const replicaColumns = `id, model, command, generation, state, reason, shards, detail, created_at, changed_at`

func scanReplica(r scanner) (v storage.Replica, err error) {
	var (
		shards string
		detail *string
	)
	err = r.Scan(&v.ID, &v.Model, &v.Command, &v.Generation, &v.State, &v.Reason, &shards, &detail, &v.CreatedAt, &v.ChangedAt)
	if err != nil {
		return v, err
	}
	if err := rows.IntoShards(shards, &v); err != nil {
		return v, backend.Damaged("replica %s: %v", v.ID, err)
	}
	rows.IntoDetail(detail, &v)
	v.CreatedAt, v.ChangedAt = rows.Time(v.CreatedAt), rows.Time(v.ChangedAt)
	return v, nil
}

func insertReplica(ctx context.Context, tx pgx.Tx, r storage.Replica) error {
	_, err := tx.Exec(ctx, `INSERT INTO replicas (`+replicaColumns+`) VALUES (`+marks(10)+`)`, r.ID, r.Model, r.Command,
		int64(r.Generation), r.State, r.Reason, rows.Shards(&r), rows.Detail(&r), r.CreatedAt, r.ChangedAt) //nolint:gosec // at most MaxTerm
	return err
}

// replicaByID is nil for a replica that is not there. lock is empty or FOR UPDATE.
func replicaByID(ctx context.Context, q querier, id, lock string) (*storage.Replica, error) {
	if !rows.Keepable(id) {
		return nil, nil //nolint:nilnil // absent
	}
	r, err := scanReplica(q.QueryRow(ctx, `SELECT `+replicaColumns+` FROM replicas WHERE id = $1 `+lock, id))
	if missing(err) {
		return nil, nil //nolint:nilnil // absent
	}
	return &r, err
}

// PutReplica implements [storage.Replicas].
func (s *Store) PutReplica(ctx context.Context, f storage.Fence, r storage.Replica) error {
	const op = "put replica"
	if err := r.Validate(); err != nil {
		return fail(ctx, op, err)
	}
	return s.fenced(ctx, op, f, func(ctx context.Context, tx pgx.Tx) error {
		old, err := replicaByID(ctx, tx, r.ID, "FOR UPDATE")
		if err != nil {
			return err
		}
		kept, err := rows.Replica(r, old)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `DELETE FROM replicas WHERE id = $1`, r.ID); err != nil {
			return err
		}
		return insertReplica(ctx, tx, kept)
	})
}

// Replica implements [storage.Replicas].
func (s *Store) Replica(ctx context.Context, id string) (r storage.Replica, err error) {
	err = s.view(ctx, "replica", func(ctx context.Context, q querier) error {
		there, err := replicaByID(ctx, q, id, "")
		if err != nil {
			return err
		}
		if there == nil {
			return fmt.Errorf("%w: replica %q", storage.ErrNotFound, id)
		}
		r = *there
		return nil
	})
	return r, err
}

// ListReplicas implements [storage.Replicas].
func (s *Store) ListReplicas(ctx context.Context, q storage.ReplicaQuery) ([]storage.Replica, string, error) {
	var w where
	w.equal("model", q.Model)
	return list(ctx, s, "list replicas", q.Page, place[storage.Replica]{
		list: rows.Replicas, texts: 1, after: "(created_at, id) > (?, ?)",
		cursor: func(r *storage.Replica) (time.Time, []string) { return r.CreatedAt, []string{r.ID} },
	}, `SELECT `+replicaColumns+` FROM replicas`, w, `ORDER BY created_at, id`, scanReplica)
}

// RemoveReplica implements [storage.Replicas].
func (s *Store) RemoveReplica(ctx context.Context, f storage.Fence, id string, generation uint64) error {
	return s.fenced(ctx, "remove replica", f, func(ctx context.Context, tx pgx.Tx) error {
		old, err := replicaByID(ctx, tx, id, "FOR UPDATE")
		if old == nil || err != nil {
			return err
		}
		if err := rows.CheckGeneration(*old, generation); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `DELETE FROM replicas WHERE id = $1`, id)
		return err
	})
}
