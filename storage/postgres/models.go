package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/llmgw/llmgw/storage"
	"github.com/llmgw/llmgw/storage/internal/rows"
)

const modelColumns = `name, definition, actor, created_at, changed_at, revision`

func scanModel(r scanner) (m storage.Model, err error) {
	err = r.Scan(&m.Name, &m.Definition, &m.Actor, &m.CreatedAt, &m.ChangedAt, &m.Revision)
	m.CreatedAt, m.ChangedAt = rows.Time(m.CreatedAt), rows.Time(m.ChangedAt)
	return m, err
}

func insertModel(ctx context.Context, tx pgx.Tx, m storage.Model) error {
	_, err := tx.Exec(ctx, `INSERT INTO models (`+modelColumns+`) VALUES (`+marks(6)+`)`,
		m.Name, m.Definition, m.Actor, m.CreatedAt, m.ChangedAt, m.Revision)
	return err
}

// modelByName is nil for a model that is not there.
func modelByName(ctx context.Context, q querier, name string) (*storage.Model, error) {
	if !rows.Keepable(name) {
		return nil, nil //nolint:nilnil // absent
	}
	m, err := scanModel(q.QueryRow(ctx, `SELECT `+modelColumns+` FROM models WHERE name = $1`, name))
	if missing(err) {
		return nil, nil //nolint:nilnil // absent
	}
	return &m, err
}

// oneChange lets one change of models follow another, so that a new name is looked
// for while nobody else adds it.
func oneChange(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, `LOCK TABLE models IN SHARE ROW EXCLUSIVE MODE`)
	return err
}

// PutModels implements [storage.Models].
func (s *Store) PutModels(ctx context.Context, changes []storage.ModelChange) error {
	const op = "put models"
	changes, err := rows.Changes(changes)
	if err != nil {
		return fail(ctx, op, err)
	}
	return s.update(ctx, op, func(ctx context.Context, tx pgx.Tx) error {
		if err := oneChange(ctx, tx); err != nil {
			return err
		}
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
			if _, err := tx.Exec(ctx, `DELETE FROM models WHERE name = $1`, kept.Name); err != nil {
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
	return s.update(ctx, op, func(ctx context.Context, tx pgx.Tx) error {
		if err := oneChange(ctx, tx); err != nil {
			return err
		}
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
		if _, err := tx.Exec(ctx, `DELETE FROM models WHERE name = $1`, name); err != nil {
			return err
		}
		return appendAudit(ctx, tx, rows.Audit(why))
	})
}

// ListModels implements [storage.Models].
func (s *Store) ListModels(ctx context.Context) (models []storage.Model, err error) {
	err = s.view(ctx, "list models", func(ctx context.Context, q querier) error {
		models, err = all(ctx, q, scanModel, `SELECT `+modelColumns+` FROM models ORDER BY created_at, name`)
		return err
	})
	return models, err
}
