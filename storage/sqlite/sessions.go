package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/llmgw/llmgw/storage"
	"github.com/llmgw/llmgw/storage/internal/backend"
	"github.com/llmgw/llmgw/storage/internal/rows"
)

const sessionColumns = `sessions.id, sessions.hash, sessions.form, sessions.account, sessions.agent, sessions.came_from, sessions.created_at, sessions.seen_at, sessions.expires_at`

// sessionRow is a session as its columns have it.
type sessionRow struct {
	s                      storage.Session
	hash, form             []byte
	created, seen, expires int64
}

// dest is where the columns go.
func (r *sessionRow) dest() []any {
	return []any{&r.s.ID, &r.hash, &r.form, &r.s.Account, &r.s.Agent, &r.s.From, &r.created, &r.seen, &r.expires}
}

func (r *sessionRow) session() (storage.Session, error) {
	if err := rows.IntoSession(r.hash, r.form, &r.s); err != nil {
		return r.s, backend.Damaged("session %s: %v", r.s.ID, err)
	}
	r.s.CreatedAt, r.s.SeenAt, r.s.ExpiresAt = rows.FromMicros(r.created), rows.FromMicros(r.seen), rows.FromMicros(r.expires)
	return r.s, nil
}

func scanSession(s scanner) (storage.Session, error) {
	var r sessionRow
	if err := s.Scan(r.dest()...); err != nil {
		return r.s, err
	}
	return r.session()
}

// live chooses the sessions that have not ended by a time and were used since
// another.
const live = `sessions.expires_at > ? AND sessions.seen_at >= ?`

func liveAt(now, idle time.Time) []any {
	return []any{rows.Time(now).UnixMicro(), rows.Ceil(idle).UnixMicro()}
}

// CreateSession implements [storage.Accounts].
func (s *Store) CreateSession(ctx context.Context, n storage.Session, most int) error {
	const op = "create session"
	if err := errors.Join(n.Validate(), rows.Most("sessions", most)); err != nil {
		return fail(ctx, op, err)
	}
	n = rows.Session(n)
	return s.update(ctx, op, func(tx *sql.Tx) error {
		a, err := accountBy(ctx, tx, "id", n.Account)
		if err != nil {
			return err
		}
		if a.State != storage.AccountApproved {
			return fmt.Errorf("%w: account %q is %v", storage.ErrNotFound, a.ID, a.State)
		}
		there, err := all(ctx, tx, scanSession, `SELECT `+sessionColumns+` FROM sessions WHERE id = ? OR hash = ?`, n.ID, n.Hash[:])
		switch {
		case err != nil:
			return err
		case len(there) == 1 && rows.SameSession(there[0], n):
			return nil // by an earlier try
		case len(there) > 0:
			return fmt.Errorf("%w: session %q, or one of its hash", storage.ErrExists, n.ID)
		}
		// The new one stays, whatever its time.
		if _, err := tx.ExecContext(ctx, `DELETE FROM sessions WHERE id IN (SELECT id FROM sessions WHERE account = ?
ORDER BY created_at DESC, id DESC LIMIT -1 OFFSET ?)`, n.Account, most-1); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `INSERT INTO sessions (id, hash, form, account, agent, came_from, created_at, seen_at, expires_at) VALUES (`+marks(9)+`)`,
			n.ID, n.Hash[:], n.Form[:], n.Account, n.Agent, n.From, n.CreatedAt.UnixMicro(), n.SeenAt.UnixMicro(), n.ExpiresAt.UnixMicro()); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `UPDATE accounts SET signed_in_at = ? WHERE id = ?`, n.CreatedAt.UnixMicro(), n.Account)
		return err
	})
}

// Session implements [storage.Accounts].
func (s *Store) Session(ctx context.Context, h storage.TokenHash, now, idle time.Time) (n storage.Session, a storage.Account, err error) {
	err = s.view(ctx, "session", func(q *sql.DB) error {
		var sr sessionRow
		var ar accountRow
		err := q.QueryRowContext(ctx, `SELECT `+sessionColumns+`, `+accountColumns+` FROM sessions JOIN accounts ON accounts.id = sessions.account
WHERE sessions.hash = ? AND `+live+` AND accounts.state = 'approved'`, append([]any{h[:]}, liveAt(now, idle)...)...).Scan(append(sr.dest(), ar.dest()...)...)
		if missing(err) {
			return fmt.Errorf("%w: no session of that hash", storage.ErrNotFound)
		}
		if err != nil {
			return err
		}
		if n, err = sr.session(); err == nil {
			a, err = ar.account()
		}
		return err
	})
	if err != nil {
		return storage.Session{}, storage.Account{}, err
	}
	return n, a, nil
}

// TouchSession implements [storage.Accounts].
func (s *Store) TouchSession(ctx context.Context, id string, at time.Time) error {
	const op = "touch session"
	at, err := rows.At(at)
	if err != nil {
		return fail(ctx, op, err)
	}
	return s.update(ctx, op, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE sessions SET seen_at = ?1 WHERE id = ?2 AND seen_at < ?1`, at.UnixMicro(), id)
		return err
	})
}

// ListSessions implements [storage.Accounts].
func (s *Store) ListSessions(ctx context.Context, account string, now, idle time.Time) (out []storage.Session, err error) {
	err = s.view(ctx, "list sessions", func(q *sql.DB) error {
		out, err = all(ctx, q, scanSession, `SELECT `+sessionColumns+` FROM sessions JOIN accounts ON accounts.id = sessions.account
WHERE sessions.account = ? AND `+live+` AND accounts.state = 'approved' ORDER BY sessions.created_at DESC, sessions.id DESC`,
			append([]any{account}, liveAt(now, idle)...)...)
		return err
	})
	return out, err
}

// EndSession implements [storage.Accounts].
func (s *Store) EndSession(ctx context.Context, account, id string) error {
	return s.update(ctx, "end session", func(tx *sql.Tx) error {
		n, err := affected(tx.ExecContext(ctx, `DELETE FROM sessions WHERE id = ? AND account = ?`, id, account))
		if err == nil && n == 0 {
			err = fmt.Errorf("%w: session %q of account %q", storage.ErrNotFound, id, account)
		}
		return err
	})
}

// EndSessions implements [storage.Accounts].
func (s *Store) EndSessions(ctx context.Context, account, except string) (n int, err error) {
	err = s.update(ctx, "end sessions", func(tx *sql.Tx) error {
		n, err = affected(tx.ExecContext(ctx, `DELETE FROM sessions WHERE account = ? AND id <> ?`, account, except))
		return err
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

// affected is how many rows a statement changed.
func affected(res sql.Result, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	n, err := res.RowsAffected()
	return int(n), err
}
