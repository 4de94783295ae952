package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/llmgw/llmgw/storage"
	"github.com/llmgw/llmgw/storage/internal/backend"
	"github.com/llmgw/llmgw/storage/internal/rows"
)

const keyColumns = `id, hash, hint, name, owner, models, band, rpm, tpm, concurrency, budget_nanos, budget_period, budget_zone, tags, created_at, expires_at, revoked_at, replaces, lineage, may_explain, revision, account`

// What is read of a key, and from where: that of an account which may do nothing now is
// suspended.
const (
	keyAnswer = keyColumns + `, ` + suspended
	keySource = ` FROM keys LEFT JOIN (SELECT id AS account_id, state AS account_state FROM accounts) AS whose ON account_id = account`
	suspended = `(account IS NOT NULL AND account_state IS NOT 'approved')`
)

// unended chooses the keys that have not ended by a time.
const unended = `revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ?)`

type scanner interface{ Scan(dest ...any) error }

func scanKey(r scanner) (storage.Key, error) {
	var (
		k                storage.Key
		parts            rows.KeyParts
		created          int64
		expires, revoked *int64
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
	k.CreatedAt, k.ExpiresAt, k.RevokedAt = rows.FromMicros(created), fromMicros(expires), fromMicros(revoked)
	return k, nil
}

func keyValues(k storage.Key) []any {
	parts := rows.PartsOf(&k)
	return []any{
		k.ID, parts.Hash, k.Hint, k.Name, k.Owner, parts.Models, k.Band, k.Limits.RequestsPerMinute, k.Limits.TokensPerMinute,
		k.Limits.Concurrency, parts.Budget, parts.Period, parts.Zone, parts.Tags, k.CreatedAt.UnixMicro(), micros(k.ExpiresAt), micros(k.RevokedAt),
		k.Replaces, k.Lineage, k.MayExplain, k.Revision, parts.Account,
	}
}

func insertKey(ctx context.Context, tx *sql.Tx, k storage.Key) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO keys (`+keyColumns+`) VALUES (`+marks(22)+`)`, keyValues(k)...)
	return err
}

func keyByID(ctx context.Context, q querier, id string) (storage.Key, error) {
	k, err := scanKey(q.QueryRowContext(ctx, `SELECT `+keyAnswer+keySource+` WHERE id = ?`, id))
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
	return s.update(ctx, op, func(tx *sql.Tx) error {
		if there, err := keyThere(ctx, tx, k); there || err != nil {
			return err
		}
		if err := insertKey(ctx, tx, k); err != nil {
			return err
		}
		return appendAudit(ctx, tx, why)
	})
}

// keyThere reports whether a new key is there already, by an earlier try; another one
// of its ID or hash is ErrExists.
func keyThere(ctx context.Context, tx *sql.Tx, k storage.Key) (bool, error) {
	there, err := scanKey(tx.QueryRowContext(ctx, `SELECT `+keyAnswer+keySource+` WHERE id = ? OR hash = ?`, k.ID, k.Hash[:]))
	switch {
	case err == nil && rows.SameKey(there, k):
		return true, nil
	case err == nil:
		return false, fmt.Errorf("%w: key %q, or one of its hash", storage.ErrExists, k.ID)
	case !missing(err):
		return false, err
	}
	return false, nil
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
	err = s.view(ctx, "key by hash", func(q *sql.DB) error {
		k, err = scanKey(q.QueryRowContext(ctx, `SELECT `+keyAnswer+keySource+` WHERE hash = ?`, h[:]))
		if missing(err) {
			return fmt.Errorf("%w: no key of that hash", storage.ErrNotFound)
		}
		return err
	})
	return k, err
}

// Key implements [storage.Keys].
func (s *Store) Key(ctx context.Context, id string) (k storage.Key, err error) {
	err = s.view(ctx, "key", func(q *sql.DB) error {
		k, err = keyByID(ctx, q, id)
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
		w.and("NOT "+suspended+" AND "+unended, q.Usable.UnixMicro())
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
	return s.update(ctx, op, func(tx *sql.Tx) error {
		old, err := keyByID(ctx, tx, k.ID)
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

func replaceKey(ctx context.Context, tx *sql.Tx, k storage.Key) error {
	_, err := tx.ExecContext(ctx, `REPLACE INTO keys (`+keyColumns+`) VALUES (`+marks(22)+`)`, keyValues(k)...)
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
	err = s.update(ctx, op, func(tx *sql.Tx) error {
		old, err := keyByID(ctx, tx, id)
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
