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

const providerColumns = `id, name, base_url, kind, vendor, node, engine, principal, credential, credential_key, degraded_at, degraded_reason, models, created_at, changed_at, revision`

func scanProvider(r scanner) (p storage.Provider, err error) {
	var (
		kind             string
		models           *string
		degraded         *int64
		created, changed int64
	)
	err = r.Scan(&p.ID, &p.Name, &p.BaseURL, &kind, &p.Vendor, &p.Node, &p.Engine, &p.Principal, &p.Credential, &p.CredentialKey, &degraded,
		&p.DegradedReason, &models, &created, &changed, &p.Revision)
	if err != nil {
		return p, err
	}
	if err := rows.IntoProvider(kind, models, &p); err != nil {
		return p, backend.Damaged("provider %s: %v", p.ID, err)
	}
	p.DegradedAt, p.CreatedAt, p.ChangedAt = fromMicros(degraded), rows.FromMicros(created), rows.FromMicros(changed)
	return p, nil
}

func insertProvider(ctx context.Context, tx *sql.Tx, p storage.Provider) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO providers (`+providerColumns+`) VALUES (`+marks(16)+`)`, p.ID, p.Name, p.BaseURL, p.Kind.String(), p.Vendor, p.Node,
		p.Engine, p.Principal, p.Credential, p.CredentialKey, micros(p.DegradedAt), p.DegradedReason, rows.ModelsColumn(p.Models),
		p.CreatedAt.UnixMicro(), p.ChangedAt.UnixMicro(), p.Revision)
	return err
}

func providerBy(ctx context.Context, q querier, column, value string) (storage.Provider, error) {
	p, err := scanProvider(q.QueryRowContext(ctx, `SELECT `+providerColumns+` FROM providers WHERE `+column+` = ?`, value))
	if missing(err) {
		err = fmt.Errorf("%w: provider %q", storage.ErrNotFound, value)
	}
	return p, err
}

// changeProvider validates a provider and its audit row and returns both as they are
// kept.
func changeProvider(p storage.Provider, why storage.Audit) (storage.Provider, storage.Audit, error) {
	if err := p.Validate(); err != nil {
		return p, why, err
	}
	if err := why.Validate(); err != nil {
		return p, why, err
	}
	return rows.Provider(p), rows.Audit(why), nil
}

// CreateProvider implements [storage.Providers].
func (s *Store) CreateProvider(ctx context.Context, f storage.Fence, p storage.Provider, why storage.Audit) error {
	const op = "create provider"
	p, why, err := changeProvider(p, why)
	if err != nil {
		return fail(ctx, op, err)
	}
	p.Revision = 1
	return s.fenced(ctx, op, f, func(tx *sql.Tx) error {
		if done, err := auditKept(ctx, tx, why); done || err != nil {
			return err
		}
		if err := insertProvider(ctx, tx, p); err != nil {
			return err
		}
		return appendAudit(ctx, tx, why)
	})
}

func (s *Store) provider(ctx context.Context, op, column, value string) (p storage.Provider, err error) {
	err = s.view(ctx, op, func(q *sql.DB) error {
		p, err = providerBy(ctx, q, column, value)
		return err
	})
	return p, err
}

// Provider implements [storage.Providers].
func (s *Store) Provider(ctx context.Context, id string) (storage.Provider, error) {
	return s.provider(ctx, "provider", "id", id)
}

// ProviderByName implements [storage.Providers].
func (s *Store) ProviderByName(ctx context.Context, name string) (storage.Provider, error) {
	return s.provider(ctx, "provider by name", "name", name)
}

// ProviderByBaseURL implements [storage.Providers].
func (s *Store) ProviderByBaseURL(ctx context.Context, baseURL string) (storage.Provider, error) {
	return s.provider(ctx, "provider by address", "base_url", baseURL)
}

// ListProviders implements [storage.Providers].
func (s *Store) ListProviders(ctx context.Context, q storage.ProviderQuery) ([]storage.Provider, string, error) {
	var w where
	if q.Kind != 0 {
		w.and("kind = ?", q.Kind.String())
	}
	return list(ctx, s, "list providers", q.Page, place[storage.Provider]{
		list: rows.Providers, texts: 1, after: "name > ?", byText: true,
		cursor: func(p *storage.Provider) (time.Time, []string) { return time.Time{}, []string{p.Name} },
	}, `SELECT `+providerColumns+` FROM providers`, w, `ORDER BY name`, scanProvider)
}

// UpdateProvider implements [storage.Providers].
func (s *Store) UpdateProvider(ctx context.Context, f storage.Fence, p storage.Provider, why storage.Audit) error {
	const op = "update provider"
	p, why, err := changeProvider(p, why)
	if err != nil {
		return fail(ctx, op, err)
	}
	return s.fenced(ctx, op, f, func(tx *sql.Tx) error {
		if done, err := auditKept(ctx, tx, why); done || err != nil {
			return err
		}
		old, err := providerBy(ctx, tx, "id", p.ID)
		if err != nil {
			return err
		}
		kept, err := rows.ChangedProvider(old, p)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `UPDATE providers SET name = ?, kind = ?, vendor = ?, node = ?, engine = ?, principal = ?, credential = ?,
credential_key = ?, degraded_at = ?, degraded_reason = ?, changed_at = ?, revision = ? WHERE id = ?`, kept.Name, kept.Kind.String(), kept.Vendor, kept.Node,
			kept.Engine, kept.Principal, kept.Credential, kept.CredentialKey, micros(kept.DegradedAt), kept.DegradedReason, kept.ChangedAt.UnixMicro(),
			kept.Revision, kept.ID); err != nil {
			return err
		}
		return appendAudit(ctx, tx, why)
	})
}

// SeeProviders implements [storage.Providers].
func (s *Store) SeeProviders(ctx context.Context, f storage.Fence, seen []storage.ProviderSeen) error {
	const op = "see providers"
	for i := range seen {
		if err := seen[i].Validate(); err != nil {
			return fail(ctx, op, err)
		}
	}
	return s.fenced(ctx, op, f, func(tx *sql.Tx) error {
		for _, p := range seen {
			if _, err := tx.ExecContext(ctx, `UPDATE providers SET degraded_at = ?, degraded_reason = ?, models = ? WHERE id = ?`,
				micros(p.DegradedAt), p.DegradedReason, rows.ModelsColumn(p.Models), p.ID); err != nil {
				return err
			}
		}
		return nil
	})
}

// DeleteProvider implements [storage.Providers].
func (s *Store) DeleteProvider(ctx context.Context, f storage.Fence, id string, revision int64, why storage.Audit) error {
	const op = "delete provider"
	if err := why.Validate(); err != nil {
		return fail(ctx, op, err)
	}
	return s.fenced(ctx, op, f, func(tx *sql.Tx) error {
		if done, err := auditKept(ctx, tx, rows.Audit(why)); done || err != nil {
			return err
		}
		old, err := providerBy(ctx, tx, "id", id)
		if err != nil {
			return err
		}
		if err := rows.ProviderRevision(old, revision); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM providers WHERE id = ?`, id); err != nil {
			return err
		}
		return appendAudit(ctx, tx, rows.Audit(why))
	})
}
