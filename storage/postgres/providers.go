package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/llmgw/llmgw/storage"
	"github.com/llmgw/llmgw/storage/internal/backend"
	"github.com/llmgw/llmgw/storage/internal/rows"
)

const providerColumns = `id, name, base_url, kind, vendor, node, engine, principal, credential, credential_key, degraded_at, degraded_reason, models, created_at, changed_at, revision`

func scanProvider(r scanner) (p storage.Provider, err error) {
	var (
		kind     string
		models   *string
		degraded *time.Time
	)
	err = r.Scan(&p.ID, &p.Name, &p.BaseURL, &kind, &p.Vendor, &p.Node, &p.Engine, &p.Principal, &p.Credential, &p.CredentialKey, &degraded,
		&p.DegradedReason, &models, &p.CreatedAt, &p.ChangedAt, &p.Revision)
	if err != nil {
		return p, err
	}
	if err := rows.IntoProvider(kind, models, &p); err != nil {
		return p, backend.Damaged("provider %s: %v", p.ID, err)
	}
	p.DegradedAt, p.CreatedAt, p.ChangedAt = orZero(degraded), rows.Time(p.CreatedAt), rows.Time(p.ChangedAt)
	return p, nil
}

func insertProvider(ctx context.Context, tx pgx.Tx, p storage.Provider) error {
	_, err := tx.Exec(ctx, `INSERT INTO providers (`+providerColumns+`) VALUES (`+marks(16)+`)`, p.ID, p.Name, p.BaseURL, p.Kind.String(), p.Vendor, p.Node,
		p.Engine, p.Principal, p.Credential, p.CredentialKey, orNull(p.DegradedAt), p.DegradedReason, rows.ModelsColumn(p.Models),
		p.CreatedAt, p.ChangedAt, p.Revision)
	return err
}

// providerBy reads a provider. lock is empty or forChange.
func providerBy(ctx context.Context, q querier, column, value, lock string) (p storage.Provider, err error) {
	err = pgx.ErrNoRows
	if rows.Keepable(value) {
		p, err = scanProvider(q.QueryRow(ctx, `SELECT `+providerColumns+` FROM providers WHERE `+column+` = $1 `+lock, value))
	}
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
	return s.fenced(ctx, op, f, func(ctx context.Context, tx pgx.Tx) error {
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
	err = s.view(ctx, op, func(ctx context.Context, q querier) error {
		p, err = providerBy(ctx, q, column, value, "")
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
	return s.fenced(ctx, op, f, func(ctx context.Context, tx pgx.Tx) error {
		if done, err := auditKept(ctx, tx, why); done || err != nil {
			return err
		}
		old, err := providerBy(ctx, tx, "id", p.ID, forChange)
		if err != nil {
			return err
		}
		kept, err := rows.ChangedProvider(old, p)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `UPDATE providers SET name = $1, kind = $2, vendor = $3, node = $4, engine = $5, principal = $6, credential = $7,
credential_key = $8, degraded_at = $9, degraded_reason = $10, changed_at = $11, revision = $12 WHERE id = $13`, kept.Name, kept.Kind.String(), kept.Vendor, kept.Node,
			kept.Engine, kept.Principal, kept.Credential, kept.CredentialKey, orNull(kept.DegradedAt), kept.DegradedReason, kept.ChangedAt,
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
	// In one order, so that two at once do not wait for each other in a circle.
	seen = slices.SortedFunc(slices.Values(seen), func(a, b storage.ProviderSeen) int { return strings.Compare(a.ID, b.ID) })
	return s.fenced(ctx, op, f, func(ctx context.Context, tx pgx.Tx) error {
		for _, p := range seen {
			if _, err := tx.Exec(ctx, `UPDATE providers SET degraded_at = $1, degraded_reason = $2, models = $3 WHERE id = $4`,
				orNull(p.DegradedAt), p.DegradedReason, rows.ModelsColumn(p.Models), p.ID); err != nil {
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
	return s.fenced(ctx, op, f, func(ctx context.Context, tx pgx.Tx) error {
		if done, err := auditKept(ctx, tx, rows.Audit(why)); done || err != nil {
			return err
		}
		old, err := providerBy(ctx, tx, "id", id, "FOR UPDATE")
		if err != nil {
			return err
		}
		if err := rows.ProviderRevision(old, revision); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `DELETE FROM providers WHERE id = $1`, id); err != nil {
			return err
		}
		return appendAudit(ctx, tx, rows.Audit(why))
	})
}
