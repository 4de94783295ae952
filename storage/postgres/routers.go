package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/llmgw/llmgw/storage"
	"github.com/llmgw/llmgw/storage/internal/rows"
)

// RenewRouter implements [storage.Routers]. The store's clock is the server's.
func (s *Store) RenewRouter(ctx context.Context, id string, ttl time.Duration) (live int, err error) {
	const op = "renew router"
	if id == "" || len(id) > 128 || !rows.Keepable(id) || ttl < time.Millisecond || ttl > 24*time.Hour {
		return 0, fail(ctx, op, fmt.Errorf("%w: router %q, %v; want 1 to 128 bytes of UTF-8, and 1ms to 24h", storage.ErrInvalid, id, ttl))
	}
	err = s.update(ctx, op, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `INSERT INTO routers (id, renewed_at) VALUES ($1, clock_timestamp()) ON CONFLICT (id) DO UPDATE SET renewed_at = clock_timestamp()`, id); err != nil {
			return err
		}
		// A clock that was set back leaves rows of the future: they are no more
		// alive than those as far in the past. Rows that others hold stay for now.
		if _, err := tx.Exec(ctx, `DELETE FROM routers WHERE id IN (SELECT id FROM routers
WHERE renewed_at NOT BETWEEN clock_timestamp() - interval '1 day' AND clock_timestamp() + interval '1 day' FOR UPDATE SKIP LOCKED)`); err != nil {
			return err
		}
		return tx.QueryRow(ctx, `SELECT count(*) FROM routers WHERE id = $1 OR renewed_at BETWEEN clock_timestamp() - $2::interval AND clock_timestamp() + $2::interval`, id, ttl).Scan(&live)
	})
	return live, err
}

// RemoveRouter implements [storage.Routers].
func (s *Store) RemoveRouter(ctx context.Context, id string) error {
	if !rows.Keepable(id) {
		return nil // there is none
	}
	return s.update(ctx, "remove router", func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `DELETE FROM routers WHERE id = $1`, id)
		return err
	})
}
