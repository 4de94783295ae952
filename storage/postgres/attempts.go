package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

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
	err = s.update(ctx, op, func(ctx context.Context, tx pgx.Tx) error {
		var a storage.Attempts
		// None counted is none, and the row is there to be locked.
		err := tx.QueryRow(ctx, `INSERT INTO attempts AS a (bucket, count, last) VALUES ($1, 0, $2)
ON CONFLICT (bucket) DO UPDATE SET count = a.count RETURNING count, last`, int64(bucket), now).Scan(&a.Count, &a.Last)
		if err != nil {
			return err
		}
		a.Last = rows.Time(a.Last)
		var next storage.Attempts
		if next, wait = t.Take(a, now); next == a {
			return nil
		}
		_, err = tx.Exec(ctx, `UPDATE attempts SET count = $2, last = $3 WHERE bucket = $1`, int64(bucket), next.Count, next.Last)
		return err
	})
	if err != nil {
		return 0, err
	}
	return wait, nil
}

// ForgiveAttempts implements [storage.Accounts].
func (s *Store) ForgiveAttempts(ctx context.Context, bucket uint32) error {
	return s.update(ctx, "forgive attempts", func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `DELETE FROM attempts WHERE bucket = $1`, int64(bucket))
		return err
	})
}

// PruneAccounts implements [storage.Accounts].
func (s *Store) PruneAccounts(ctx context.Context, old storage.StaleAccounts) (deleted int, more bool, err error) {
	const op = "prune accounts"
	if err := old.Validate(); err != nil {
		return 0, false, fail(ctx, op, err)
	}
	err = s.update(ctx, op, func(ctx context.Context, tx pgx.Tx) error {
		for _, p := range []struct {
			before           time.Time
			table, id, stale string
		}{
			// What goes with a pending account is what it was sent.
			{old.Pending, "accounts", "id", `state = 'pending' AND created_at < $1 AND NOT EXISTS (SELECT 1 FROM keys WHERE keys.account = accounts.id)`},
			{old.Sessions, "sessions", "id", `expires_at < $1`},
			{old.Idle, "sessions", "id", `seen_at < $1`},
			{old.Links, "links", "id", `expires_at < $1`},
			{old.Attempts, "attempts", "bucket", `last < $1`},
		} {
			if p.before.IsZero() {
				continue
			}
			// What became another since it was chosen stays.
			n, err := affected(tx.Exec(ctx, `DELETE FROM `+p.table+` WHERE `+p.id+` IN (SELECT `+p.id+` FROM `+p.table+` WHERE `+p.stale+` LIMIT $2) AND `+p.stale,
				rows.Ceil(p.before), old.Most))
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
