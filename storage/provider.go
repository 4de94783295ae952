package storage

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// Provider is an address at which somebody else runs an engine.
type Provider struct {
	// ID names the provider in audit rows. It is never used again. 1 to 64 bytes.
	ID string
	// Name is what people and catalog targets call it. No two providers have the same.
	// 1 to 256 bytes.
	Name string
	// BaseURL is where its API is, as provider.ParseBaseURL writes it. No two providers
	// have the same. 1 to 512 bytes.
	BaseURL string
	Kind    ProviderKind
	// Vendor is the entry of the cloud catalogue which says how the provider is asked;
	// empty for an engine that is asked as OpenAI is. At most 64 bytes.
	Vendor string
	// Node and Engine are what who registered it says of it. At most 256 bytes each.
	Node, Engine string
	// Principal is the ID of the key's owner or account who registered it; empty for
	// one that an operator added. At most 256 bytes.
	Principal string
	// Credential is what the provider asks of its callers, sealed; nil for none. A
	// store never sees it open. At most 16 KiB.
	Credential []byte
	// CredentialKey is the ID of the key it is sealed with; empty without one. At most
	// 64 bytes.
	CredentialKey string
	// DegradedAt is when it failed first since it was last well; zero while it is well.
	DegradedAt time.Time
	// DegradedReason says why, for people; empty while it is well. At most 256 bytes.
	DegradedReason string
	// Models are what it was seen to serve, by name. At most 4096.
	Models []ProviderModel

	CreatedAt, ChangedAt time.Time
	// Revision is 1 for a new provider and one more after each change but those of
	// [Providers.SeeProviders]. Stores set it.
	Revision int64
}

// ProviderModel is a model that a provider was seen to serve.
type ProviderModel struct {
	// Name is what the provider calls it. 1 to 256 bytes.
	Name string `json:"name"`
	// OwnedBy is what the provider says of whose it is. At most 256 bytes.
	OwnedBy string `json:"owned_by,omitempty"`
	// ContextTokens is the longest context that the provider says it takes; nil if it
	// says none. Positive.
	ContextTokens *int64 `json:"context_tokens,omitempty"`
	// FirstSeen is when it was seen first.
	FirstSeen time.Time `json:"first_seen"`
	// GoneAt is since when it is not served; zero if it was when the provider answered
	// last.
	GoneAt time.Time `json:"gone_at,omitzero"`
}

// ProviderKind is how a provider came and how long it stays. The zero value is none.
type ProviderKind uint8

// The kinds, with the text that stands for them in stores, JSON and commands.
const (
	ProviderDynamic ProviderKind = iota + 1 // "dynamic": an agent registers it, on a lease
	ProviderStatic                          // "static": an operator added it; it stays
	ProviderCloud                           // "cloud": a vendor's API; it stays
)

// Bounds of a provider's parts.
const (
	maxBaseURL        = 512
	maxCredential     = 16 << 10
	maxProviderModels = 4096
)

// ProviderQuery chooses providers. The zero value means all.
type ProviderQuery struct {
	Kind ProviderKind // zero: any
	Page
}

// ProviderSeen is what was seen of a provider: what changes without anybody's doing.
type ProviderSeen struct {
	// ID is the provider's.
	ID string
	// DegradedAt and DegradedReason are as the provider's.
	DegradedAt     time.Time
	DegradedReason string
	// Models take the place of those that are kept.
	Models []ProviderModel
}

// Providers keeps the providers. How long a lease lives is not kept: it is renewed too
// often, and who starts anew gives every provider the time to renew it.
//
// Whoever changes something leads: each method that does returns ErrFenced if the fence
// is not the latest term's.
type Providers interface {
	// CreateProvider keeps a new provider and its audit row. ErrExists if its ID, name
	// or address is taken. One whose audit row is there already was done.
	CreateProvider(ctx context.Context, f Fence, p Provider, why Audit) error
	// Provider returns the provider with that ID, or ErrNotFound.
	Provider(ctx context.Context, id string) (Provider, error)
	// ProviderByName returns the provider with that name, or ErrNotFound.
	ProviderByName(ctx context.Context, name string) (Provider, error)
	// ProviderByBaseURL returns the provider at that address, or ErrNotFound.
	ProviderByBaseURL(ctx context.Context, baseURL string) (Provider, error)
	// ListProviders returns providers by name and the cursor of the next page, empty
	// after the last.
	ListProviders(ctx context.Context, q ProviderQuery) (list []Provider, next string, err error)
	// UpdateProvider takes the place of the provider that has this revision and keeps an
	// audit row. ID, BaseURL, Models and CreatedAt stay. ErrNotFound; ErrConflict if it
	// has another revision; ErrExists if the name is another one's. One whose audit row
	// is there already was done.
	UpdateProvider(ctx context.Context, f Fence, p Provider, why Audit) error
	// SeeProviders keeps what was seen of providers, in one step and without audit
	// rows. Those that are not there are left out, which is no error.
	SeeProviders(ctx context.Context, f Fence, seen []ProviderSeen) error
	// DeleteProvider forgets the provider that has this revision, its credential too,
	// and keeps an audit row. ErrNotFound, or ErrConflict. One whose audit row is there
	// already was done.
	DeleteProvider(ctx context.Context, f Fence, id string, revision int64, why Audit) error
}

// Validate reports every fault of a provider, joined. Each wraps ErrInvalid. Stores ask
// it.
func (p *Provider) Validate() error {
	f := faults{what: "provider"}
	f.text("ID", p.ID, 1, maxID)
	f.text("Name", p.Name, 1, maxText)
	f.text("BaseURL", p.BaseURL, 1, maxBaseURL)
	if p.Kind < ProviderDynamic || p.Kind > ProviderCloud {
		f.add("Kind", p.Kind, "dynamic, static or cloud")
	}
	f.text("Vendor", p.Vendor, 0, maxID)
	f.text("Node", p.Node, 0, maxText)
	f.text("Engine", p.Engine, 0, maxText)
	f.text("Principal", p.Principal, 0, maxText)
	if p.Credential == nil {
		f.text("CredentialKey", p.CredentialKey, 0, 0)
	} else {
		f.text("CredentialKey", p.CredentialKey, 1, maxID)
		if len(p.Credential) < 1 || len(p.Credential) > maxCredential {
			f.add("Credential", fmt.Sprintf("%d bytes", len(p.Credential)), fmt.Sprintf("nil for none, or 1 to %d", maxCredential))
		}
	}
	f.degraded(p.DegradedAt, p.DegradedReason)
	f.providerModels(p.Models)
	f.time("CreatedAt", p.CreatedAt)
	f.time("ChangedAt", p.ChangedAt)
	return f.err()
}

// Validate reports every fault of what was seen, joined. Each wraps ErrInvalid. Stores
// ask it.
func (s *ProviderSeen) Validate() error {
	f := faults{what: "provider"}
	f.text("ID", s.ID, 1, maxID)
	f.degraded(s.DegradedAt, s.DegradedReason)
	f.providerModels(s.Models)
	return f.err()
}

func (f *faults) degraded(at time.Time, reason string) {
	f.timeOrZero("DegradedAt", at)
	if at.IsZero() {
		f.text("DegradedReason", reason, 0, 0)
	} else {
		f.text("DegradedReason", reason, 1, maxText)
	}
}

func (f *faults) providerModels(models []ProviderModel) {
	if len(models) > maxProviderModels {
		f.add("Models", len(models), fmt.Sprintf("at most %d", maxProviderModels))
		return
	}
	for i, m := range models {
		f.text("Models.Name", m.Name, 1, maxText)
		f.text("Models.OwnedBy", m.OwnedBy, 0, maxText)
		f.optional("Models.ContextTokens", m.ContextTokens, 1, MaxTokens)
		f.time("Models.FirstSeen", m.FirstSeen)
		f.timeOrZero("Models.GoneAt", m.GoneAt)
		if i > 0 && models[i-1].Name >= m.Name {
			f.add("Models", fmt.Sprintf("%q after %q", m.Name, models[i-1].Name), "each once, by name")
		}
	}
}

// Audited is what an audit row has of a provider: without its credential, of which it
// has the key's ID alone, and without its models.
func (p *Provider) Audited() json.RawMessage {
	type audited struct {
		ID            string       `json:"id"`
		Name          string       `json:"name"`
		BaseURL       string       `json:"base_url"`
		Kind          ProviderKind `json:"kind"`
		Vendor        string       `json:"vendor,omitempty"`
		Node          string       `json:"node,omitempty"`
		Engine        string       `json:"engine,omitempty"`
		Principal     string       `json:"principal,omitempty"`
		CredentialKey string       `json:"credential_key,omitempty"`
		DegradedAt    time.Time    `json:"degraded_at,omitzero"`
		Reason        string       `json:"degraded_reason,omitempty"`
	}
	b, err := json.Marshal(audited{
		p.ID, p.Name, p.BaseURL, p.Kind, p.Vendor, p.Node, p.Engine, p.Principal, p.CredentialKey, p.DegradedAt, p.DegradedReason,
	})
	if err != nil {
		return nil // a kind that no store keeps either
	}
	return b
}
