package sqlite

import (
	"context"
	"database/sql"
	"time"

	"github.com/llmgw/llmgw/storage"
	"github.com/llmgw/llmgw/storage/internal/rows"
)

// TakeAttempt implements [storage.Accounts].
func (s *Store) TakeAttempt(ctx context.Context, bucket uint32, now time.Time, t storage.Throttle) (wait time.Duration, err error) {
	const op = "take attempt"
	if err := t.Validate(); err != nil {
		return 0, fail(ctx, op, err)
	}
	if now, err = rows.At(now); err != nil {
		return 0, fail(ctx, op, err)
	}
	err = s.update(ctx, op, func(tx *sql.Tx) error {
		var a storage.Attempts
		var last int64
		err := tx.QueryRowContext(ctx, `SELECT count, last FROM attempts WHERE bucket = ?`, bucket).Scan(&a.Count, &last)
		if err != nil && !missing(err) {
			return err
		}
		a.Last = rows.FromMicros(last)
		var next storage.Attempts
		if next, wait = t.Take(a, now); next == a {
			return nil
		}
		_, err = tx.ExecContext(ctx, `REPLACE INTO attempts (bucket, count, last) VALUES (?, ?, ?)`, bucket, next.Count, next.Last.UnixMicro())
		return err
	})
	if err != nil {
		return 0, err
	}
	return wait, nil
}

// ForgiveAttempts implements [storage.Accounts].
func (s *Store) ForgiveAttempts(ctx context.Context, bucket uint32) error {
	return s.update(ctx, "forgive attempts", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `DELETE FROM attempts WHERE bucket = ?`, bucket)
		return err
	})
}

// PruneAccounts implements [storage.Accounts].
func (s *Store) PruneAccounts(ctx context.Context, old storage.StaleAccounts) (deleted int, more bool, err error) {
	const op = "prune accounts"
	if err := old.Validate(); err != nil {
		return 0, false, fail(ctx, op, err)
	}
	err = s.update(ctx, op, func(tx *sql.Tx) error {
		for _, p := range []struct {
			before           time.Time
			table, id, stale string
		}{
			// What goes with a pending account is what it was sent.
			{old.Pending, "accounts", "id", `state = 'pending' AND created_at < ? AND NOT EXISTS (SELECT 1 FROM keys WHERE keys.account = accounts.id)`},
			{old.Sessions, "sessions", "id", `expires_at < ?`},
			{old.Idle, "sessions", "id", `seen_at < ?`},
			{old.Links, "links", "id", `expires_at < ?`},
			{old.Attempts, "attempts", "bucket", `last < ?`},
		} {
			if p.before.IsZero() {
				continue
			}
			n, err := affected(tx.ExecContext(ctx, `DELETE FROM `+p.table+` WHERE `+p.id+` IN (SELECT `+p.id+` FROM `+p.table+` WHERE `+p.stale+` LIMIT ?)`,
				rows.Ceil(p.before).UnixMicro(), old.Most))
			if err != nil {
				return err
			}
			deleted += n
			more = more || n == old.Most
		}
		return nil
	})
	if err != nil {
		return 0, false, err
	}
	return deleted, more, nil
}
