package sqlite

import (
	"context"
	"database/sql"

	"github.com/llmgw/llmgw/storage"
	"github.com/llmgw/llmgw/storage/internal/rows"
)

const modelColumns = `name, definition, actor, created_at, changed_at, revision`

func scanModel(r scanner) (m storage.Model, err error) {
	var created, changed int64
	err = r.Scan(&m.Name, &m.Definition, &m.Actor, &created, &changed, &m.Revision)
	m.CreatedAt, m.ChangedAt = rows.FromMicros(created), rows.FromMicros(changed)
	return m, err
}

func insertModel(ctx context.Context, tx *sql.Tx, m storage.Model) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO models (`+modelColumns+`) VALUES (`+marks(6)+`)`,
		m.Name, m.Definition, m.Actor, m.CreatedAt.UnixMicro(), m.ChangedAt.UnixMicro(), m.Revision)
	return err
}

// modelByName is nil for a model that is not there.
func modelByName(ctx context.Context, q querier, name string) (*storage.Model, error) {
	m, err := scanModel(q.QueryRowContext(ctx, `SELECT `+modelColumns+` FROM models WHERE name = ?`, name))
	if missing(err) {
		return nil, nil //nolint:nilnil // absent
	}
	return &m, err
}

// PutModels implements [storage.Models].
func (s *Store) PutModels(ctx context.Context, changes []storage.ModelChange) error {
	const op = "put models"
	changes, err := rows.Changes(changes)
	if err != nil {
		return fail(ctx, op, err)
	}
	return s.update(ctx, op, func(tx *sql.Tx) error {
		for _, c := range changes {
			if done, err := auditKept(ctx, tx, c.Why); err != nil {
				return err
			} else if done {
				continue
			}
			old, err := modelByName(ctx, tx, c.Model.Name)
			if err != nil {
				return err
			}
			kept, err := rows.Model(c.Model, old)
			if err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, `DELETE FROM models WHERE name = ?`, kept.Name); err != nil {
				return err
			}
			if err := insertModel(ctx, tx, kept); err != nil {
				return err
			}
			if err := appendAudit(ctx, tx, c.Why); err != nil {
				return err
			}
		}
		return nil
	})
}

// RemoveModel implements [storage.Models].
func (s *Store) RemoveModel(ctx context.Context, name string, revision int64, why storage.Audit) error {
	const op = "remove model"
	if err := why.Validate(); err != nil {
		return fail(ctx, op, err)
	}
	return s.update(ctx, op, func(tx *sql.Tx) error {
		if done, err := auditKept(ctx, tx, rows.Audit(why)); done || err != nil {
			return err
		}
		old, err := modelByName(ctx, tx, name)
		if err != nil {
			return err
		}
		if err := rows.CheckRevision(name, revision, old); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM models WHERE name = ?`, name); err != nil {
			return err
		}
		return appendAudit(ctx, tx, rows.Audit(why))
	})
}

// ListModels implements [storage.Models].
func (s *Store) ListModels(ctx context.Context) (models []storage.Model, err error) {
	err = s.view(ctx, "list models", func(q *sql.DB) error {
		models, err = all(ctx, q, scanModel, `SELECT `+modelColumns+` FROM models ORDER BY created_at, name`)
		return err
	})
	return models, err
}
