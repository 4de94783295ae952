package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/llmgw/llmgw/storage"
	"github.com/llmgw/llmgw/storage/internal/backend"
	"github.com/llmgw/llmgw/storage/internal/rows"
)

const linkColumns = `id, hash, kind, spec, account, created_at, expires_at, used_at, key_id`

func scanLink(r scanner) (l storage.Link, err error) {
	var (
		parts            rows.LinkParts
		created, expires time.Time
		used             *time.Time
	)
	if err := r.Scan(&l.ID, &parts.Hash, &parts.Kind, &parts.Spec, &parts.Account, &created, &expires, &used, &l.Key); err != nil {
		return l, err
	}
	if err := parts.Into(&l); err != nil {
		return l, backend.Damaged("link %s: %v", l.ID, err)
	}
	l.CreatedAt, l.ExpiresAt, l.UsedAt = rows.Time(created), rows.Time(expires), orZero(used)
	return l, nil
}

// insertLink keeps a new link. kept is false if its ID or hash is taken.
func insertLink(ctx context.Context, tx pgx.Tx, l storage.Link) (kept bool, err error) {
	p := rows.PartsOfLink(&l)
	tag, err := tx.Exec(ctx, `INSERT INTO links (`+linkColumns+`) VALUES (`+marks(9)+`) ON CONFLICT DO NOTHING`,
		l.ID, p.Hash, p.Kind, p.Spec, p.Account, l.CreatedAt, l.ExpiresAt, orNull(l.UsedAt), l.Key)
	return tag.RowsAffected() == 1, err
}

// linkByHash reads a link. lock is empty or FOR UPDATE.
func linkByHash(ctx context.Context, q querier, h storage.TokenHash, lock string) (storage.Link, error) {
	l, err := scanLink(q.QueryRow(ctx, `SELECT `+linkColumns+` FROM links WHERE hash = $1 `+lock, h[:]))
	if missing(err) {
		err = rows.NoLink()
	}
	return l, err
}

// useLink keeps that a link was used, and the key that it made.
func useLink(ctx context.Context, tx pgx.Tx, l storage.Link) error {
	_, err := tx.Exec(ctx, `UPDATE links SET used_at = $1, key_id = $2 WHERE id = $3`, l.UsedAt, l.Key, l.ID)
	return err
}

// CreateLink implements [storage.Accounts].
func (s *Store) CreateLink(ctx context.Context, l storage.Link, why storage.Audit) error {
	const op = "create link"
	if err := errors.Join(l.Validate(), why.Validate()); err != nil {
		return fail(ctx, op, err)
	}
	l, why = rows.Link(l), rows.Audit(why)
	return s.update(ctx, op, func(ctx context.Context, tx pgx.Tx) error {
		kept, err := insertLink(ctx, tx, l)
		if err != nil {
			return err
		}
		if kept {
			return appendAudit(ctx, tx, why)
		}
		there, err := all(ctx, tx, scanLink, `SELECT `+linkColumns+` FROM links WHERE id = $1 OR hash = $2`, l.ID, l.Hash[:])
		if err != nil {
			return err
		}
		if len(there) == 1 && rows.SameLink(there[0], l) {
			return nil // by an earlier try
		}
		return fmt.Errorf("%w: link %q, or one of its hash", storage.ErrExists, l.ID)
	})
}

// Link implements [storage.Accounts].
func (s *Store) Link(ctx context.Context, h storage.TokenHash) (l storage.Link, err error) {
	err = s.view(ctx, "link", func(ctx context.Context, q querier) error {
		l, err = linkByHash(ctx, q, h, "")
		return err
	})
	return l, err
}

// RedeemKeyLink implements [storage.Accounts].
func (s *Store) RedeemKeyLink(ctx context.Context, h storage.TokenHash, at time.Time, k storage.Key, why storage.Audit) error {
	const op = "redeem key link"
	k, why, err := change(k, why)
	if err != nil {
		return fail(ctx, op, err)
	}
	if at, err = rows.At(at); err != nil {
		return fail(ctx, op, err)
	}
	k.Revision = 1
	return s.update(ctx, op, func(ctx context.Context, tx pgx.Tx) error {
		l, err := linkByHash(ctx, tx, h, "FOR UPDATE")
		if err != nil {
			return err
		}
		if l, err = rows.Redeem(l, storage.LinkKey, at); err != nil {
			return err
		}
		kept, err := insertKey(ctx, tx, k)
		if err == nil && !kept {
			err = taken(k)
		}
		if err != nil {
			return err
		}
		l.Key = k.ID
		if err := useLink(ctx, tx, l); err != nil {
			return err
		}
		return appendAudit(ctx, tx, why)
	})
}

// RedeemResetLink implements [storage.Accounts].
func (s *Store) RedeemResetLink(ctx context.Context, h storage.TokenHash, at time.Time, password string, why storage.Audit) (a storage.Account, err error) {
	const op = "redeem reset link"
	if err := errors.Join(storage.ValidatePassword(password), why.Validate()); err != nil {
		return a, fail(ctx, op, err)
	}
	if at, err = rows.At(at); err != nil {
		return a, fail(ctx, op, err)
	}
	err = s.update(ctx, op, func(ctx context.Context, tx pgx.Tx) error {
		l, err := linkByHash(ctx, tx, h, "")
		if err == nil && l.Kind != storage.LinkReset {
			err = rows.NoLink()
		}
		if err != nil {
			return err
		}
		// The account comes first: who opens another link of it waits here, and not for
		// a link that waits for the account.
		if a, err = accountBy(ctx, tx, "id", l.Account, forChange); err != nil {
			return err
		}
		if l, err = linkByHash(ctx, tx, h, "FOR UPDATE"); err != nil {
			return err
		}
		if _, err = rows.Redeem(l, storage.LinkReset, at); err != nil {
			return err
		}
		a.Password = password
		a.Revision++
		if err := replaceAccount(ctx, tx, a, true); err != nil {
			return err
		}
		if err := endLinks(ctx, tx, a.ID, at); err != nil {
			return err
		}
		return appendAudit(ctx, tx, rows.Audit(why))
	})
	if err != nil {
		return storage.Account{}, err
	}
	return a, nil
}

// RevokeLink implements [storage.Accounts].
func (s *Store) RevokeLink(ctx context.Context, id string, at time.Time, why storage.Audit) (l storage.Link, err error) {
	const op = "revoke link"
	if err := why.Validate(); err != nil {
		return l, fail(ctx, op, err)
	}
	if at, err = rows.At(at); err != nil {
		return l, fail(ctx, op, err)
	}
	err = s.update(ctx, op, func(ctx context.Context, tx pgx.Tx) error {
		err := pgx.ErrNoRows
		if rows.Keepable(id) {
			l, err = scanLink(tx.QueryRow(ctx, `SELECT `+linkColumns+` FROM links WHERE id = $1 FOR UPDATE`, id))
		}
		switch {
		case missing(err):
			return fmt.Errorf("%w: link %q", storage.ErrNotFound, id)
		case err != nil:
			return err
		case !l.UsedAt.IsZero():
			return nil
		}
		l.UsedAt = at
		if err := useLink(ctx, tx, l); err != nil {
			return err
		}
		return appendAudit(ctx, tx, rows.Audit(why))
	})
	if err != nil {
		return storage.Link{}, err
	}
	return l, nil
}
