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

const (
	accountColumns = `accounts.id, accounts.address, accounts.password, ` + accountRest
	accountRest    = `accounts.state, accounts.admin, accounts.allowance, accounts.created_at, accounts.approved_at, accounts.signed_in_at, accounts.revision`
)

// accountRow is an account as its columns have it.
type accountRow struct {
	a                  storage.Account
	state, allowance   string
	created            time.Time
	approved, signedIn *time.Time
}

// dest is where the columns go.
func (r *accountRow) dest() []any {
	return []any{&r.a.ID, &r.a.Address, &r.a.Password, &r.state, &r.a.Admin, &r.allowance, &r.created, &r.approved, &r.signedIn, &r.a.Revision}
}

func (r *accountRow) account() (storage.Account, error) {
	if err := rows.IntoAccount(r.state, r.allowance, &r.a); err != nil {
		return r.a, backend.Damaged("account %s: %v", r.a.ID, err)
	}
	r.a.CreatedAt, r.a.ApprovedAt, r.a.SignedInAt = rows.Time(r.created), orZero(r.approved), orZero(r.signedIn)
	return r.a, nil
}

func scanAccount(s scanner) (storage.Account, error) {
	var r accountRow
	if err := s.Scan(r.dest()...); err != nil {
		return r.a, err
	}
	return r.account()
}

func scanListing(s scanner) (l storage.AccountListing, err error) {
	var r accountRow
	if err := s.Scan(append(r.dest(), &l.Keys)...); err != nil {
		return l, err
	}
	l.Account, err = r.account()
	return l, err
}

// insertAccount keeps a new account. kept is false if its ID or address is taken.
func insertAccount(ctx context.Context, tx pgx.Tx, a storage.Account) (kept bool, err error) {
	tag, err := tx.Exec(ctx, `INSERT INTO accounts (id, address, password, state, admin, allowance, created_at, approved_at, signed_in_at, revision)
VALUES (`+marks(10)+`) ON CONFLICT DO NOTHING`, a.ID, a.Address, a.Password, a.State.String(), a.Admin, rows.Allowance(a), a.CreatedAt, orNull(a.ApprovedAt),
		orNull(a.SignedInAt), a.Revision)
	return tag.RowsAffected() == 1, err
}

// accountBy reads an account. lock is empty or forChange.
func accountBy(ctx context.Context, q querier, column, value, lock string) (a storage.Account, err error) {
	err = pgx.ErrNoRows
	if rows.Keepable(value) {
		a, err = scanAccount(q.QueryRow(ctx, `SELECT `+accountColumns+` FROM accounts WHERE `+column+` = $1 `+lock, value))
	}
	if missing(err) {
		err = noAccount(value)
	}
	return a, err
}

// forChange locks an account for who changes it, or what it has, in turns. That keys
// and sessions refer to it needs no turn.
const forChange = "FOR NO KEY UPDATE"

func noAccount(name string) error { return fmt.Errorf("%w: account %q", storage.ErrNotFound, name) }

// changeAccount validates an account and its audit row and returns both as they are
// kept.
func changeAccount(a storage.Account, why storage.Audit) (storage.Account, storage.Audit, error) {
	if err := a.Validate(); err != nil {
		return a, why, err
	}
	if err := why.Validate(); err != nil {
		return a, why, err
	}
	return rows.Account(a), rows.Audit(why), nil
}

// CreateAccount implements [storage.Accounts].
func (s *Store) CreateAccount(ctx context.Context, a storage.Account, mostPending int, why storage.Audit) error {
	const op = "create account"
	a, why, err := changeAccount(a, why)
	if err != nil {
		return fail(ctx, op, err)
	}
	a.Revision = 1
	return s.update(ctx, op, func(ctx context.Context, tx pgx.Tx) error {
		if a.State == storage.AccountPending {
			// They take turns, so that each sees how many there are.
			if err := s.turn(ctx, tx, "pending accounts"); err != nil {
				return err
			}
		}
		there, taken := accountThere(ctx, tx, a)
		if there || taken != nil && !errors.Is(taken, storage.ErrExists) {
			return taken
		}
		if a.State == storage.AccountPending {
			var pending int
			if err := tx.QueryRow(ctx, `SELECT count(*) FROM accounts WHERE state = 'pending'`).Scan(&pending); err != nil {
				return err
			}
			if pending >= mostPending {
				return fmt.Errorf("%w: %d accounts are pending, of %d", storage.ErrFull, pending, mostPending)
			}
		}
		if taken != nil {
			return taken
		}
		kept, err := insertAccount(ctx, tx, a)
		if err != nil {
			return err
		}
		if kept {
			return appendAudit(ctx, tx, why)
		}
		if there, err := accountThere(ctx, tx, a); there || err != nil {
			return err
		}
		return accountTaken(a) // and gone meanwhile
	})
}

// accountThere reports whether a new account is there already, by an earlier try;
// another one of its ID or address is ErrExists.
func accountThere(ctx context.Context, tx pgx.Tx, a storage.Account) (bool, error) {
	there, err := all(ctx, tx, scanAccount, `SELECT `+accountColumns+` FROM accounts WHERE id = $1 OR address = $2`, a.ID, a.Address)
	if err != nil || len(there) == 0 {
		return false, err
	}
	if len(there) == 1 && rows.SameAccount(there[0], a) {
		return true, nil
	}
	return false, accountTaken(a)
}

func accountTaken(a storage.Account) error {
	return fmt.Errorf("%w: account %q, or one of its address", storage.ErrExists, a.ID)
}

// Account implements [storage.Accounts].
func (s *Store) Account(ctx context.Context, id string) (a storage.Account, err error) {
	err = s.view(ctx, "account", func(ctx context.Context, q querier) error {
		a, err = accountBy(ctx, q, "id", id, "")
		return err
	})
	return a, err
}

// AccountByAddress implements [storage.Accounts].
func (s *Store) AccountByAddress(ctx context.Context, address string) (a storage.Account, err error) {
	err = s.view(ctx, "account by address", func(ctx context.Context, q querier) error {
		a, err = accountBy(ctx, q, "address", address, "")
		return err
	})
	return a, err
}

// ListAccounts implements [storage.Accounts].
func (s *Store) ListAccounts(ctx context.Context, q storage.AccountQuery, now time.Time) ([]storage.AccountListing, string, error) {
	w := where{args: []any{rows.Time(now)}}
	if q.State != 0 {
		w.and("state = ?", q.State.String())
	}
	return list(ctx, s, "list accounts", q.Page, place[storage.AccountListing]{
		list: rows.Accounts, texts: 1, after: "address > ?", byText: true,
		cursor: func(l *storage.AccountListing) (time.Time, []string) { return time.Time{}, []string{l.Address} },
	}, `SELECT accounts.id, accounts.address, '', `+accountRest+`, CASE state WHEN 'approved' THEN
(SELECT count(*) FROM keys WHERE keys.account = accounts.id AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > $1)) ELSE 0 END FROM accounts`, w, `ORDER BY address`, scanListing)
}

// UpdateAccount implements [storage.Accounts].
func (s *Store) UpdateAccount(ctx context.Context, a storage.Account, why storage.Audit) error {
	const op = "update account"
	a, why, err := changeAccount(a, why)
	if err != nil {
		return fail(ctx, op, err)
	}
	return s.update(ctx, op, func(ctx context.Context, tx pgx.Tx) error {
		old, err := accountBy(ctx, tx, "id", a.ID, forChange)
		if err != nil {
			return err
		}
		if done, err := auditKept(ctx, tx, why); done || err != nil {
			return err
		}
		if old.Revision != a.Revision {
			return fmt.Errorf("%w: account %q has revision %d, not %d", storage.ErrConflict, a.ID, old.Revision, a.Revision)
		}
		kept, over := rows.ChangedAccount(old, a)
		if err := replaceAccount(ctx, tx, kept, over); err != nil {
			return err
		}
		if kept.Password != old.Password {
			if err := endLinks(ctx, tx, a.ID, why.At); err != nil {
				return err
			}
		}
		return appendAudit(ctx, tx, why)
	})
}

// replaceAccount keeps a changed account, and ends its sessions if they are over.
func replaceAccount(ctx context.Context, tx pgx.Tx, a storage.Account, over bool) error {
	_, err := tx.Exec(ctx, `UPDATE accounts SET password = $1, state = $2, admin = $3, allowance = $4, approved_at = $5, revision = $6 WHERE id = $7`,
		a.Password, a.State.String(), a.Admin, rows.Allowance(a), orNull(a.ApprovedAt), a.Revision, a.ID)
	if err == nil && over {
		_, err = tx.Exec(ctx, `DELETE FROM sessions WHERE account = $1`, a.ID)
	}
	return err
}

// endLinks takes back the links that would set an account's password: who has one is not
// who has just set it.
func endLinks(ctx context.Context, tx pgx.Tx, account string, at time.Time) error {
	_, err := tx.Exec(ctx, `UPDATE links SET used_at = $1 WHERE account = $2 AND used_at IS NULL`, at, account)
	return err
}

// RehashAccount implements [storage.Accounts].
func (s *Store) RehashAccount(ctx context.Context, id, from, to string) error {
	const op = "rehash account"
	if err := storage.ValidatePassword(to); err != nil {
		return fail(ctx, op, err)
	}
	if !rows.Keepable(id) || !rows.Keepable(from) {
		return nil // no account is such
	}
	return s.update(ctx, op, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE accounts SET password = $1, revision = revision + 1 WHERE id = $2 AND password = $3`, to, id, from)
		return err
	})
}

// CreateAccountKey implements [storage.Accounts].
func (s *Store) CreateAccountKey(ctx context.Context, k storage.Key, most int, why storage.Audit) error {
	const op = "create account key"
	k, why, err := change(k, why)
	if err == nil && k.Account == "" {
		err = fmt.Errorf("%w: key %q has no account", storage.ErrInvalid, k.ID)
	}
	if err != nil {
		return fail(ctx, op, err)
	}
	k.Revision = 1
	return s.update(ctx, op, func(ctx context.Context, tx pgx.Tx) error {
		// Who makes keys of one account takes turns, so that each sees how many it has.
		a, absent := accountBy(ctx, tx, "id", k.Account, forChange)
		if absent != nil && !errors.Is(absent, storage.ErrNotFound) {
			return absent
		}
		if there, err := keyThere(ctx, tx, k); there || err != nil {
			return err
		}
		if absent != nil {
			return absent
		}
		var has int
		if err := tx.QueryRow(ctx, `SELECT count(*) FROM keys WHERE account = $1 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > $2)`,
			k.Account, k.CreatedAt).Scan(&has); err != nil {
			return err
		}
		if err := rows.MayHaveKey(a.ID, a.State, has, most); err != nil {
			return err
		}
		return createKey(ctx, tx, k, why)
	})
}

// RevokeAccountKey implements [storage.Accounts].
func (s *Store) RevokeAccountKey(ctx context.Context, account, id string, at time.Time, why storage.Audit) (storage.Key, error) {
	return s.revokeKey(ctx, "revoke account key", id, at, why, func(k storage.Key) bool { return k.Account != "" && k.Account == account })
}
