package dump

import (
	"fmt"

	"github.com/llmgw/llmgw/storage"
	"github.com/llmgw/llmgw/storage/internal/rows"
)

// Provider is a provider's record. Its credential is as sealed as in the store.
type Provider struct {
	ID            string                  `json:"id"`
	Name          string                  `json:"name"`
	BaseURL       string                  `json:"base_url"`
	Kind          storage.ProviderKind    `json:"kind"`
	Vendor        string                  `json:"vendor,omitempty"`
	Node          string                  `json:"node,omitempty"`
	Engine        string                  `json:"engine,omitempty"`
	Principal     string                  `json:"principal,omitempty"`
	Credential    []byte                  `json:"credential,omitempty"` // sealed
	CredentialKey string                  `json:"credential_key,omitempty"`
	DegradedAt    *int64                  `json:"degraded_at,omitempty"`
	Reason        string                  `json:"degraded_reason,omitempty"`
	Models        []storage.ProviderModel `json:"models,omitempty"`
	CreatedAt     int64                   `json:"created_at"`
	ChangedAt     int64                   `json:"changed_at"`
	Revision      int64                   `json:"revision"`
}

// FromProvider is p as a line.
func FromProvider(p storage.Provider) Record {
	return Record{Provider: &Provider{
		p.ID, p.Name, p.BaseURL, p.Kind, p.Vendor, p.Node, p.Engine, p.Principal, p.Credential, p.CredentialKey, micros(p.DegradedAt), p.DegradedReason,
		p.Models, p.CreatedAt.UnixMicro(), p.ChangedAt.UnixMicro(), p.Revision,
	}}
}

// Storage is the provider, or ErrInvalid.
func (p *Provider) Storage() (storage.Provider, error) {
	out := storage.Provider{
		ID: p.ID, Name: p.Name, BaseURL: p.BaseURL, Kind: p.Kind, Vendor: p.Vendor, Node: p.Node, Engine: p.Engine, Principal: p.Principal,
		Credential: p.Credential, CredentialKey: p.CredentialKey, DegradedAt: fromMicros(p.DegradedAt), DegradedReason: p.Reason, Models: p.Models,
		CreatedAt: rows.FromMicros(p.CreatedAt), ChangedAt: rows.FromMicros(p.ChangedAt), Revision: p.Revision,
	}
	if p.Revision < 1 {
		return out, invalid(fmt.Sprintf("provider %q: revision %d", p.ID, p.Revision))
	}
	return rows.Provider(out), out.Validate()
}
