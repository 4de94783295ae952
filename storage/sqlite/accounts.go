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

const (
	accountColumns = `accounts.id, accounts.address, accounts.password, ` + accountRest
	accountRest    = `accounts.state, accounts.admin, accounts.allowance, accounts.created_at, accounts.approved_at, accounts.signed_in_at, accounts.revision`
)

// accountRow is an account as its columns have it.
type accountRow struct {
	a                  storage.Account
	state, allowance   string
	created            int64
	approved, signedIn *int64
}

// dest is where the columns go.
func (r *accountRow) dest() []any {
	return []any{&r.a.ID, &r.a.Address, &r.a.Password, &r.state, &r.a.Admin, &r.allowance, &r.created, &r.approved, &r.signedIn, &r.a.Revision}
}

func (r *accountRow) account() (storage.Account, error) {
	if err := rows.IntoAccount(r.state, r.allowance, &r.a); err != nil {
		return r.a, backend.Damaged("account %s: %v", r.a.ID, err)
	}
	r.a.CreatedAt, r.a.ApprovedAt, r.a.SignedInAt = rows.FromMicros(r.created), fromMicros(r.approved), fromMicros(r.signedIn)
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

func insertAccount(ctx context.Context, tx *sql.Tx, a storage.Account) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO accounts (id, address, password, state, admin, allowance, created_at, approved_at, signed_in_at, revision)
VALUES (`+marks(10)+`)`, a.ID, a.Address, a.Password, a.State.String(), a.Admin, rows.Allowance(a), a.CreatedAt.UnixMicro(), micros(a.ApprovedAt),
		micros(a.SignedInAt), a.Revision)
	return err
}

func accountBy(ctx context.Context, q querier, column, value string) (storage.Account, error) {
	a, err := scanAccount(q.QueryRowContext(ctx, `SELECT `+accountColumns+` FROM accounts WHERE `+column+` = ?`, value))
	if missing(err) {
		err = noAccount(value)
	}
	return a, err
}

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
	return s.update(ctx, op, func(tx *sql.Tx) error {
		there, err := all(ctx, tx, scanAccount, `SELECT `+accountColumns+` FROM accounts WHERE id = ? OR address = ?`, a.ID, a.Address)
		switch {
		case err != nil:
			return err
		case len(there) == 1 && rows.SameAccount(there[0], a):
			return nil // by an earlier try
		}
		if a.State == storage.AccountPending {
			var pending int
			if err := tx.QueryRowContext(ctx, `SELECT count(*) FROM accounts WHERE state = 'pending'`).Scan(&pending); err != nil {
				return err
			}
			if pending >= mostPending {
				return fmt.Errorf("%w: %d accounts are pending, of %d", storage.ErrFull, pending, mostPending)
			}
		}
		if len(there) > 0 {
			return fmt.Errorf("%w: account %q, or one of its address", storage.ErrExists, a.ID)
		}
		if err := insertAccount(ctx, tx, a); err != nil {
			return err
		}
		return appendAudit(ctx, tx, why)
	})
}

// Account implements [storage.Accounts].
func (s *Store) Account(ctx context.Context, id string) (a storage.Account, err error) {
	err = s.view(ctx, "account", func(q *sql.DB) error {
		a, err = accountBy(ctx, q, "id", id)
		return err
	})
	return a, err
}

// AccountByAddress implements [storage.Accounts].
func (s *Store) AccountByAddress(ctx context.Context, address string) (a storage.Account, err error) {
	err = s.view(ctx, "account by address", func(q *sql.DB) error {
		a, err = accountBy(ctx, q, "address", address)
		return err
	})
	return a, err
}

// ListAccounts implements [storage.Accounts].
func (s *Store) ListAccounts(ctx context.Context, q storage.AccountQuery, now time.Time) ([]storage.AccountListing, string, error) {
	w := where{args: []any{rows.Time(now).UnixMicro()}}
	if q.State != 0 {
		w.and("state = ?", q.State.String())
	}
	return list(ctx, s, "list accounts", q.Page, place[storage.AccountListing]{
		list: rows.Accounts, texts: 1, after: "address > ?", byText: true,
		cursor: func(l *storage.AccountListing) (time.Time, []string) { return time.Time{}, []string{l.Address} },
	}, `SELECT accounts.id, accounts.address, '', `+accountRest+`, iif(state = 'approved',
(SELECT count(*) FROM keys WHERE keys.account = accounts.id AND `+unended+`), 0) FROM accounts`, w, `ORDER BY address`, scanListing)
}

// UpdateAccount implements [storage.Accounts].
func (s *Store) UpdateAccount(ctx context.Context, a storage.Account, why storage.Audit) error {
	const op = "update account"
	a, why, err := changeAccount(a, why)
	if err != nil {
		return fail(ctx, op, err)
	}
	return s.update(ctx, op, func(tx *sql.Tx) error {
		old, err := accountBy(ctx, tx, "id", a.ID)
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
func replaceAccount(ctx context.Context, tx *sql.Tx, a storage.Account, over bool) error {
	_, err := tx.ExecContext(ctx, `UPDATE accounts SET password = ?, state = ?, admin = ?, allowance = ?, approved_at = ?, revision = ? WHERE id = ?`,
		a.Password, a.State.String(), a.Admin, rows.Allowance(a), micros(a.ApprovedAt), a.Revision, a.ID)
	if err == nil && over {
		_, err = tx.ExecContext(ctx, `DELETE FROM sessions WHERE account = ?`, a.ID)
	}
	return err
}

// endLinks takes back the links that would set an account's password: who has one is not
// who has just set it.
func endLinks(ctx context.Context, tx *sql.Tx, account string, at time.Time) error {
	_, err := tx.ExecContext(ctx, `UPDATE links SET used_at = ? WHERE account = ? AND used_at IS NULL`, micros(at), account)
	return err
}

// RehashAccount implements [storage.Accounts].
func (s *Store) RehashAccount(ctx context.Context, id, from, to string) error {
	const op = "rehash account"
	if err := storage.ValidatePassword(to); err != nil {
		return fail(ctx, op, err)
	}
	return s.update(ctx, op, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE accounts SET password = ?, revision = revision + 1 WHERE id = ? AND password = ?`, to, id, from)
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
	return s.update(ctx, op, func(tx *sql.Tx) error {
		if there, err := keyThere(ctx, tx, k); there || err != nil {
			return err
		}
		a, err := accountBy(ctx, tx, "id", k.Account)
		if err != nil {
			return err
		}
		var has int
		if err := tx.QueryRowContext(ctx, `SELECT count(*) FROM keys WHERE account = ? AND `+unended, k.Account, k.CreatedAt.UnixMicro()).Scan(&has); err != nil {
			return err
		}
		if err := rows.MayHaveKey(a.ID, a.State, has, most); err != nil {
			return err
		}
		if err := insertKey(ctx, tx, k); err != nil {
			return err
		}
		return appendAudit(ctx, tx, why)
	})
}

// RevokeAccountKey implements [storage.Accounts].
func (s *Store) RevokeAccountKey(ctx context.Context, account, id string, at time.Time, why storage.Audit) (storage.Key, error) {
	return s.revokeKey(ctx, "revoke account key", id, at, why, func(k storage.Key) bool { return k.Account != "" && k.Account == account })
}
