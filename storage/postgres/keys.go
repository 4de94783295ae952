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

const keyColumns = `id, hash, hint, name, owner, models, band, rpm, tpm, concurrency, budget_nanos, budget_period, budget_zone, tags, created_at, expires_at, revoked_at, replaces, lineage, may_explain, revision, account`

// What is read of a key, and from where: that of an account which may do nothing now is
// suspended. A join, since PostgreSQL takes a subquery for each key for so much work
// that it compiles the statement first, half a second long.
const (
	keyAnswer = keyColumns + `, ` + suspended
	keySource = ` FROM keys LEFT JOIN (SELECT id AS account_id, state AS account_state FROM accounts) AS whose ON account_id = account`
	suspended = `(account IS NOT NULL AND account_state IS DISTINCT FROM 'approved')`
)

// unended chooses the keys that have not ended by a time.
const unended = `revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ?)`

func scanKey(r scanner) (storage.Key, error) {
	var (
		k                storage.Key
		parts            rows.KeyParts
		created          time.Time
		expires, revoked *time.Time
	)
	err := r.Scan(&k.ID, &parts.Hash, &k.Hint, &k.Name, &k.Owner, &parts.Models, &k.Band, &k.Limits.RequestsPerMinute, &k.Limits.TokensPerMinute,
		&k.Limits.Concurrency, &parts.Budget, &parts.Period, &parts.Zone, &parts.Tags, &created, &expires, &revoked, &k.Replaces, &k.Lineage,
		&k.MayExplain, &k.Revision, &parts.Account, &k.Suspended)
	if err != nil {
		return k, err
	}
	if err := parts.Into(&k); err != nil {
		return k, backend.Damaged("key %s: %v", k.ID, err)
	}
	k.CreatedAt, k.ExpiresAt, k.RevokedAt = rows.Time(created), orZero(expires), orZero(revoked)
	return k, nil
}

func keyValues(k storage.Key) []any {
	parts := rows.PartsOf(&k)
	return []any{
		k.ID, parts.Hash, k.Hint, k.Name, k.Owner, parts.Models, k.Band, k.Limits.RequestsPerMinute, k.Limits.TokensPerMinute,
		k.Limits.Concurrency, parts.Budget, parts.Period, parts.Zone, parts.Tags, k.CreatedAt, orNull(k.ExpiresAt), orNull(k.RevokedAt),
		k.Replaces, k.Lineage, k.MayExplain, k.Revision, parts.Account,
	}
}

// insertKey keeps a new key. kept is false if its ID or hash is taken.
func insertKey(ctx context.Context, tx pgx.Tx, k storage.Key) (kept bool, err error) {
	tag, err := tx.Exec(ctx, `INSERT INTO keys (`+keyColumns+`) VALUES (`+marks(22)+`) ON CONFLICT DO NOTHING`, keyValues(k)...)
	return tag.RowsAffected() == 1, err
}

// keyByID reads a key. lock is empty or FOR UPDATE OF keys.
func keyByID(ctx context.Context, q querier, id, lock string) (k storage.Key, err error) {
	err = pgx.ErrNoRows
	if rows.Keepable(id) {
		k, err = scanKey(q.QueryRow(ctx, `SELECT `+keyAnswer+keySource+` WHERE id = $1 `+lock, id))
	}
	if missing(err) {
		err = noKey(id)
	}
	return k, err
}

func noKey(id string) error { return fmt.Errorf("%w: key %q", storage.ErrNotFound, id) }

// CreateKey implements [storage.Keys].
func (s *Store) CreateKey(ctx context.Context, k storage.Key, why storage.Audit) error {
	const op = "create key"
	k, why, err := change(k, why)
	if err != nil {
		return fail(ctx, op, err)
	}
	k.Revision = 1
	return s.update(ctx, op, func(ctx context.Context, tx pgx.Tx) error {
		return createKey(ctx, tx, k, why)
	})
}

// createKey keeps a new key and its audit row, or does nothing if it is there by an
// earlier try.
func createKey(ctx context.Context, tx pgx.Tx, k storage.Key, why storage.Audit) error {
	kept, err := insertKey(ctx, tx, k)
	if err != nil {
		return err
	}
	if kept {
		return appendAudit(ctx, tx, why)
	}
	if there, err := keyThere(ctx, tx, k); there || err != nil {
		return err
	}
	return taken(k) // and gone meanwhile, which keys never are
}

// keyThere reports whether a new key is there already; another one of its ID or hash
// is ErrExists.
func keyThere(ctx context.Context, tx pgx.Tx, k storage.Key) (bool, error) {
	there, err := all(ctx, tx, scanKey, `SELECT `+keyAnswer+keySource+` WHERE id = $1 OR hash = $2`, k.ID, k.Hash[:])
	if err != nil || len(there) == 0 {
		return false, err
	}
	if len(there) == 1 && rows.SameKey(there[0], k) {
		return true, nil
	}
	return false, taken(k)
}

func taken(k storage.Key) error {
	return fmt.Errorf("%w: key %q, or one of its hash", storage.ErrExists, k.ID)
}

// change validates a key and its audit row and returns both as they are kept.
func change(k storage.Key, why storage.Audit) (storage.Key, storage.Audit, error) {
	if err := k.Validate(); err != nil {
		return k, why, err
	}
	if err := why.Validate(); err != nil {
		return k, why, err
	}
	return rows.Key(k), rows.Audit(why), nil
}

// KeyByHash implements [storage.Keys].
func (s *Store) KeyByHash(ctx context.Context, h storage.KeyHash) (k storage.Key, err error) {
	err = s.view(ctx, "key by hash", func(ctx context.Context, q querier) error {
		k, err = scanKey(q.QueryRow(ctx, `SELECT `+keyAnswer+keySource+` WHERE hash = $1`, h[:]))
		if missing(err) {
			return fmt.Errorf("%w: no key of that hash", storage.ErrNotFound)
		}
		return err
	})
	return k, err
}

// Key implements [storage.Keys].
func (s *Store) Key(ctx context.Context, id string) (k storage.Key, err error) {
	err = s.view(ctx, "key", func(ctx context.Context, q querier) error {
		k, err = keyByID(ctx, q, id, "")
		return err
	})
	return k, err
}

// ListKeys implements [storage.Keys].
func (s *Store) ListKeys(ctx context.Context, q storage.KeyQuery) ([]storage.Key, string, error) {
	var w where
	w.equal("owner", q.Owner)
	w.equal("account", q.Account)
	if !q.Usable.IsZero() {
		w.and("NOT "+suspended+" AND "+unended, rows.Time(q.Usable))
	}
	return list(ctx, s, "list keys", q.Page, place[storage.Key]{
		list: rows.Keys, texts: 1, after: "(created_at, id) < (?, ?)",
		cursor: func(k *storage.Key) (time.Time, []string) { return k.CreatedAt, []string{k.ID} },
	}, `SELECT `+keyAnswer+keySource, w, `ORDER BY created_at DESC, id DESC`, scanKey)
}

// UpdateKey implements [storage.Keys].
func (s *Store) UpdateKey(ctx context.Context, k storage.Key, why storage.Audit) error {
	const op = "update key"
	k, why, err := change(k, why)
	if err != nil {
		return fail(ctx, op, err)
	}
	return s.update(ctx, op, func(ctx context.Context, tx pgx.Tx) error {
		old, err := keyByID(ctx, tx, k.ID, "FOR UPDATE OF keys")
		if err != nil {
			return err
		}
		if done, err := auditKept(ctx, tx, why); done || err != nil {
			return err
		}
		if old.Revision != k.Revision {
			return fmt.Errorf("%w: key %q has revision %d, not %d", storage.ErrConflict, k.ID, old.Revision, k.Revision)
		}
		if err := replaceKey(ctx, tx, rows.Changed(old, k)); err != nil {
			return err
		}
		return appendAudit(ctx, tx, why)
	})
}

func replaceKey(ctx context.Context, tx pgx.Tx, k storage.Key) error {
	_, err := tx.Exec(ctx, `UPDATE keys SET (`+keyColumns+`) = (`+marks(22)+`) WHERE id = $1`, keyValues(k)...)
	return err
}

// RevokeKey implements [storage.Keys].
func (s *Store) RevokeKey(ctx context.Context, id string, at time.Time, why storage.Audit) (storage.Key, error) {
	return s.revokeKey(ctx, "revoke key", id, at, why, func(storage.Key) bool { return true })
}

// revokeKey ends a key if it is one of those that may be ended; another is as if it
// were not there.
func (s *Store) revokeKey(ctx context.Context, op, id string, at time.Time, why storage.Audit, may func(storage.Key) bool) (k storage.Key, err error) {
	if err := why.Validate(); err != nil {
		return k, fail(ctx, op, err)
	}
	if at, err = rows.At(at); err != nil {
		return k, fail(ctx, op, err)
	}
	err = s.update(ctx, op, func(ctx context.Context, tx pgx.Tx) error {
		old, err := keyByID(ctx, tx, id, "FOR UPDATE OF keys")
		if err == nil && !may(old) {
			err = noKey(id)
		}
		if err != nil {
			return err
		}
		if k = old; !old.RevokedAt.IsZero() {
			return nil
		}
		k = rows.Changed(old, old)
		k.RevokedAt = at
		if err := k.Validate(); err != nil {
			return err
		}
		if err := replaceKey(ctx, tx, k); err != nil {
			return err
		}
		return appendAudit(ctx, tx, rows.Audit(why))
	})
	if err != nil {
		k = storage.Key{}
	}
	return k, err
}
