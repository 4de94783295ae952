package rows

import (
	"fmt"
	"slices"

	"github.com/llmgw/llmgw/storage"
)

// Provider is p as it is kept, in memory of its own. Revision is left as it is.
func Provider(p storage.Provider) storage.Provider {
	p.Credential = slices.Clone(p.Credential)
	p.Models = ProviderModels(p.Models)
	p.DegradedAt, p.CreatedAt, p.ChangedAt = Time(p.DegradedAt), Time(p.CreatedAt), Time(p.ChangedAt)
	return p
}

// ProviderModels are models as they are kept, nil for none.
func ProviderModels(models []storage.ProviderModel) []storage.ProviderModel {
	if len(models) == 0 {
		return nil
	}
	models = slices.Clone(models)
	for i := range models {
		m := &models[i]
		m.ContextTokens, m.FirstSeen, m.GoneAt = clone(m.ContextTokens), Time(m.FirstSeen), Time(m.GoneAt)
	}
	return models
}

// ChangedProvider is p as it is kept in place of old.
func ChangedProvider(old, p storage.Provider) (storage.Provider, error) {
	if err := ProviderRevision(old, p.Revision); err != nil {
		return p, err
	}
	p = Provider(p)
	p.ID, p.BaseURL, p.Models, p.CreatedAt = old.ID, old.BaseURL, old.Models, old.CreatedAt
	p.Revision++
	return p, nil
}

// ProviderRevision is an error unless a provider has that revision.
func ProviderRevision(p storage.Provider, revision int64) error {
	if p.Revision != revision {
		return fmt.Errorf("%w: provider %q has revision %d, not %d", storage.ErrConflict, p.ID, p.Revision, revision)
	}
	return nil
}

// ModelsColumn is the column of a provider's models: JSON, or nil for none.
func ModelsColumn(models []storage.ProviderModel) *string {
	if len(models) == 0 {
		return nil
	}
	return marshal(ProviderModels(models))
}

// IntoProvider sets what stands in columns in another form, or says what cannot be
// such.
func IntoProvider(kind string, models *string, p *storage.Provider) error {
	if err := p.Kind.UnmarshalText([]byte(kind)); err != nil {
		return err
	}
	if err := unmarshal(models, &p.Models); err != nil {
		return fmt.Errorf("models: %w", err)
	}
	p.Models = ProviderModels(p.Models)
	return nil
}
