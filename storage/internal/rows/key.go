package rows

import (
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/llmgw/llmgw/storage"
)

// KeyParts are the columns of a key that are not its fields as they stand.
type KeyParts struct {
	Hash         []byte
	Models, Tags *string // JSON; nil for every model, and for no tags
	Budget       *int64  // nil, like the next two, for none
	Period, Zone *string
	Account      *string // nil for none
}

// PartsOf is a key's columns.
func PartsOf(k *storage.Key) KeyParts {
	p := KeyParts{Hash: k.Hash[:]}
	if k.Models != nil {
		p.Models = marshal(k.Models)
	}
	if len(k.Tags) > 0 {
		p.Tags = marshal(k.Tags)
	}
	if k.Account != "" {
		p.Account = &k.Account
	}
	if b := k.Budget; b != nil {
		p.Budget, p.Period, p.Zone = &b.Nanos, new(b.Period.String()), &b.Zone
	}
	return p
}

// Into sets the key's fields, or says what cannot be one. A key that a program of
// before lineages has kept is its own.
func (p KeyParts) Into(k *storage.Key) error {
	if p.Account != nil {
		k.Account = *p.Account
	}
	k.Lineage = cmp.Or(k.Lineage, k.Account, k.ID)
	if len(p.Hash) != len(k.Hash) {
		return fmt.Errorf("its hash has %d bytes", len(p.Hash))
	}
	copy(k.Hash[:], p.Hash)
	if err := unmarshal(p.Models, &k.Models); err != nil {
		return fmt.Errorf("models: %w", err)
	}
	if err := unmarshal(p.Tags, &k.Tags); err != nil {
		return fmt.Errorf("tags: %w", err)
	}
	if p.Budget == nil || p.Period == nil || p.Zone == nil {
		return nil
	}
	k.Budget = &storage.Budget{Nanos: *p.Budget, Zone: *p.Zone}
	if err := k.Budget.Period.UnmarshalText([]byte(*p.Period)); err != nil {
		return fmt.Errorf("budget: %w", err)
	}
	return nil
}

func marshal(v any) *string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings always marshal
	}
	return new(string(b))
}

func unmarshal(text *string, v any) error {
	if text == nil {
		return nil
	}
	return json.Unmarshal([]byte(*text), v)
}
