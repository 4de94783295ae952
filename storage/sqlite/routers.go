package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/llmgw/llmgw/storage"
	"github.com/llmgw/llmgw/storage/internal/rows"
)

// RenewRouter implements [storage.Routers]. The store's clock is that of the
// machine, which all who open the file are on.
func (s *Store) RenewRouter(ctx context.Context, id string, ttl time.Duration) (live int, err error) {
	const op = "renew router"
	if id == "" || len(id) > 128 || !rows.Keepable(id) || ttl < time.Millisecond || ttl > 24*time.Hour {
		return 0, fail(ctx, op, fmt.Errorf("%w: router %q, %v; want 1 to 128 bytes of UTF-8, and 1ms to 24h", storage.ErrInvalid, id, ttl))
	}
	err = s.update(ctx, op, func(tx *sql.Tx) error {
		now := time.Now().UnixMicro()
		if _, err := tx.ExecContext(ctx, `INSERT INTO routers (id, renewed_at) VALUES (?, ?) ON CONFLICT DO UPDATE SET renewed_at = excluded.renewed_at`, id, now); err != nil {
			return err
		}
		// A clock that was set back leaves rows of the future: they are no more
		// alive than those as far in the past.
		day := (24 * time.Hour).Microseconds()
		if _, err := tx.ExecContext(ctx, `DELETE FROM routers WHERE renewed_at NOT BETWEEN ? AND ?`, now-day, now+day); err != nil {
			return err
		}
		return tx.QueryRowContext(ctx, `SELECT count(*) FROM routers WHERE renewed_at BETWEEN ? AND ?`, now-ttl.Microseconds(), now+ttl.Microseconds()).Scan(&live)
	})
	return live, err
}

// RemoveRouter implements [storage.Routers].
func (s *Store) RemoveRouter(ctx context.Context, id string) error {
	return s.update(ctx, "remove router", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `DELETE FROM routers WHERE id = ?`, id)
		return err
	})
}
