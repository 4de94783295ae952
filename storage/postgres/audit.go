package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/llmgw/llmgw/storage"
	"github.com/llmgw/llmgw/storage/internal/rows"
)

const auditColumns = `id, at, actor, action, target, before, after, request_id`

func scanAudit(r scanner) (storage.Audit, error) {
	var (
		a             storage.Audit
		at            time.Time
		before, after *string
	)
	err := r.Scan(&a.ID, &at, &a.Actor, &a.Action, &a.Target, &before, &after, &a.RequestID)
	a.At = rows.Time(at)
	if before != nil {
		a.Before = json.RawMessage(*before)
	}
	if after != nil {
		a.After = json.RawMessage(*after)
	}
	return a, err
}

// auditKept reports whether a row is there already; another one of its ID is
// ErrExists.
func auditKept(ctx context.Context, tx pgx.Tx, a storage.Audit) (bool, error) {
	there, err := scanAudit(tx.QueryRow(ctx, `SELECT `+auditColumns+` FROM audit WHERE id = $1`, a.ID))
	switch {
	case missing(err):
		return false, nil
	case err != nil:
		return false, err
	case !rows.SameAudit(there, a):
		return false, fmt.Errorf("%w: audit row %q, of something else", storage.ErrExists, a.ID)
	}
	return true, nil
}

// appendAudit keeps a row as it is to be kept.
func appendAudit(ctx context.Context, tx pgx.Tx, a storage.Audit) error {
	tag, err := tx.Exec(ctx, `INSERT INTO audit (`+auditColumns+`) VALUES (`+marks(8)+`) ON CONFLICT DO NOTHING`,
		a.ID, a.At, a.Actor, a.Action, a.Target, text(a.Before), text(a.After), a.RequestID)
	if err != nil || tag.RowsAffected() == 1 {
		return err
	}
	_, err = auditKept(ctx, tx, a)
	return err
}

func text(raw json.RawMessage) any {
	if raw == nil {
		return nil
	}
	return string(raw)
}

// AppendAudit implements [storage.AuditLog].
func (s *Store) AppendAudit(ctx context.Context, a storage.Audit) error {
	const op = "append audit row"
	if err := a.Validate(); err != nil {
		return fail(ctx, op, err)
	}
	return s.update(ctx, op, func(ctx context.Context, tx pgx.Tx) error { return appendAudit(ctx, tx, rows.Audit(a)) })
}

// ListAudit implements [storage.AuditLog].
func (s *Store) ListAudit(ctx context.Context, q storage.AuditQuery) ([]storage.Audit, string, error) {
	var w where
	w.between("at", q.From, q.To)
	w.equal("actor", q.Actor)
	w.equal("action", q.Action)
	w.equal("target", q.Target)
	return list(ctx, s, "list audit rows", q.Page, place[storage.Audit]{
		list: rows.AuditAt, texts: 1, after: "(at, id) < (?, ?)",
		cursor: func(a *storage.Audit) (time.Time, []string) { return a.At, []string{a.ID} },
	}, `SELECT `+auditColumns+` FROM audit`, w, `ORDER BY at DESC, id DESC`, scanAudit)
}
