package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/llmgw/llmgw/storage"
	"github.com/llmgw/llmgw/storage/internal/rows"
)

// PruneUsage implements [storage.UsageLog].
func (s *Store) PruneUsage(ctx context.Context, r storage.Retention) (deleted int, more bool, err error) {
	const op = "prune usage"
	if r.Most < 1 {
		return 0, false, fail(ctx, op, fmt.Errorf("%w: Most: %d; want a positive number", storage.ErrInvalid, r.Most))
	}
	err = s.updateIn(ctx, op, func(db *database, tx *sql.Tx) error {
		if !r.Rows.IsZero() {
			before := rows.Ceil(r.Rows).UnixMicro()
			if err := forgotten(ctx, tx, "rows", before); err != nil {
				return err
			}
			if deleted, err = pruneRows(ctx, tx, db.usage.in(ctx, tx).ids, before, r.Most); err != nil {
				return err
			}
			more = deleted == r.Most
		}
		for _, p := range []struct {
			mark   string
			before time.Time
			query  string
		}{
			{"hours", r.Hours, `DELETE FROM usage_hours WHERE (start, key_id, owner, model) IN (SELECT start, key_id, owner, model FROM usage_hours WHERE start < ? ORDER BY start LIMIT ?)`},
			{"days", r.Days, `DELETE FROM usage_days WHERE (start, key_id, owner, model) IN (SELECT start, key_id, owner, model FROM usage_days WHERE start < ? ORDER BY start LIMIT ?)`},
		} {
			if p.before.IsZero() {
				continue
			}
			before := rows.Ceil(p.before).UnixMicro()
			if p.mark == "hours" {
				// Rows of a key are found by the hours that have sums of it.
				if before, err = noRowBefore(ctx, tx, before); err != nil {
					return err
				}
			}
			n, full, err := prune(ctx, tx, p.mark, before, r.Most, p.query, before)
			if err != nil {
				return err
			}
			deleted += n
			more = more || full
		}
		full, err := pruneCommon(ctx, tx, 2*r.Most)
		more = more || full
		return err
	})
	if err != nil {
		return 0, false, err
	}
	if deleted > 0 {
		// As many pages as these rows may have filled; Run does the rest, and what
		// fails here.
		if _, err := s.vacuum(ctx, min(deleted, pagesAtOnce)); err != nil {
			s.log.WarnContext(ctx, "the store's file could not be tidied", "err", err)
		}
	}
	return deleted, more, nil
}

// pruneCommon forgets what rows had in common on days that are over for PruneUsage:
// before its mark, and before the first row that is left. full says that there may
// be more than most of it.
func pruneCommon(ctx context.Context, tx *sql.Tx, most int) (full bool, err error) {
	gone, err := mark(ctx, tx, "rows")
	if err != nil {
		return false, err
	}
	var first *int64
	if err := tx.QueryRowContext(ctx, `SELECT min(first) FROM usage_packs`).Scan(&first); err != nil {
		return false, err
	}
	if first != nil {
		gone = min(gone, *first)
	}
	res, err := tx.ExecContext(ctx, `DELETE FROM usage_common WHERE id IN (SELECT id FROM usage_common WHERE day < ? ORDER BY day LIMIT ?)`, gone/microsPerDay, most)
	if err != nil {
		return false, err
	}
	n, err := res.RowsAffected()
	return int(n) == most, err
}

// noRowBefore is the first hour with rows, or before if that is earlier.
func noRowBefore(ctx context.Context, tx *sql.Tx, before int64) (int64, error) {
	var oldest *int64
	if err := tx.QueryRowContext(ctx, `SELECT min(first) FROM usage_packs`).Scan(&oldest); err != nil || oldest == nil {
		return before, err
	}
	return min(before, *oldest-*oldest%time.Hour.Microseconds()), nil
}

// forgotten notes up to when something may be missing.
func forgotten(ctx context.Context, tx *sql.Tx, mark string, before int64) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO marks (name, at) VALUES (?, ?) ON CONFLICT DO UPDATE SET at = max(at, excluded.at)`, mark, before)
	return err
}

// pruneRows deletes at most most rows that came before a time, and returns how many.
// A pack that has others, too, keeps them.
func pruneRows(ctx context.Context, tx *sql.Tx, st idStatements, before int64, most int) (n int, err error) {
	var ids []requestID
	for p, err := range newUsageReader(ctx, tx).packs(0, before) {
		if err != nil {
			return 0, err
		}
		again := *p
		gone, all := 0, p.left
		for gone < all && n < most {
			if _, err := p.advance(); err != nil {
				return 0, damagedPack(p.seq, err)
			}
			if p.row.at >= before {
				break
			}
			ids = append(ids, p.row.id)
			gone++
			n++
		}
		if gone == all {
			_, err = tx.ExecContext(ctx, `DELETE FROM usage_packs WHERE seq = ?`, p.seq)
		} else if gone > 0 {
			err = shorten(ctx, tx, &again, gone)
		}
		if err != nil {
			return 0, err
		}
		if n == most {
			break
		}
	}
	return n, st.forget(ctx, ids)
}

// shorten leaves the first n rows out of a pack.
func shorten(ctx context.Context, tx *sql.Tx, p *packed, n int) error {
	blob, first, err := p.without(n)
	if err != nil {
		return damagedPack(p.seq, err)
	}
	_, err = tx.ExecContext(ctx, `UPDATE usage_packs SET first = ?, rows = ? WHERE seq = ?`, first, blob, p.seq)
	return err
}

// prune deletes at most most rows and notes up to when it did. query's last
// parameter is how many. full says that there may be more: as many were deleted
// as were allowed.
func prune(ctx context.Context, tx *sql.Tx, mark string, before int64, most int, query string, args ...any) (n int, full bool, err error) {
	if err := forgotten(ctx, tx, mark, before); err != nil {
		return 0, false, err
	}
	res, err := tx.ExecContext(ctx, query, append(args, most)...)
	if err != nil {
		return 0, false, err
	}
	count, err := res.RowsAffected()
	return int(count), int(count) == most, err
}
