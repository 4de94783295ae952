package dump

import (
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/llmgw/llmgw/storage"
	"github.com/llmgw/llmgw/storage/internal/rows"
)

// Account is a person's record. Sessions are in no dump.
type Account struct {
	ID         string               `json:"id"`
	Address    string               `json:"address"`
	Password   string               `json:"password"` // its hash
	State      storage.AccountState `json:"state"`
	Admin      bool                 `json:"admin,omitempty"`
	Allowance  storage.Allowance    `json:"allowance"`
	CreatedAt  int64                `json:"created_at"`
	ApprovedAt *int64               `json:"approved_at,omitempty"`
	SignedInAt *int64               `json:"signed_in_at,omitempty"`
	Revision   int64                `json:"revision"`
}

// FromAccount is a as a line.
func FromAccount(a storage.Account) Record {
	return Record{Account: &Account{
		a.ID, a.Address, a.Password, a.State, a.Admin, a.Allowance, a.CreatedAt.UnixMicro(), micros(a.ApprovedAt), micros(a.SignedInAt), a.Revision,
	}}
}

// Storage is the account, or ErrInvalid.
func (a *Account) Storage() (storage.Account, error) {
	out := storage.Account{
		ID: a.ID, Address: a.Address, Password: a.Password, State: a.State, Admin: a.Admin, Allowance: a.Allowance,
		CreatedAt: rows.FromMicros(a.CreatedAt), ApprovedAt: fromMicros(a.ApprovedAt), SignedInAt: fromMicros(a.SignedInAt), Revision: a.Revision,
	}
	if a.Revision < 1 {
		return out, invalid(fmt.Sprintf("account %q: revision %d", a.ID, a.Revision))
	}
	return out, out.Validate()
}

// Link is a link that opens once.
type Link struct {
	ID        string           `json:"id"`
	Hash      string           `json:"hash"`
	Kind      storage.LinkKind `json:"kind"`
	Spec      json.RawMessage  `json:"spec,omitempty"`
	Account   string           `json:"account,omitempty"`
	CreatedAt int64            `json:"created_at"`
	ExpiresAt int64            `json:"expires_at"`
	UsedAt    *int64           `json:"used_at,omitempty"`
	Key       string           `json:"key,omitempty"` // that it made
}

// FromLink is l as a line.
func FromLink(l storage.Link) Record {
	return Record{Link: &Link{
		l.ID, hex.EncodeToString(l.Hash[:]), l.Kind, l.Spec, l.Account, l.CreatedAt.UnixMicro(), l.ExpiresAt.UnixMicro(), micros(l.UsedAt), l.Key,
	}}
}

// Storage is the link, or ErrInvalid.
func (l *Link) Storage() (storage.Link, error) {
	out := storage.Link{
		ID: l.ID, Kind: l.Kind, Spec: l.Spec, Account: l.Account, CreatedAt: rows.FromMicros(l.CreatedAt), ExpiresAt: rows.FromMicros(l.ExpiresAt),
		UsedAt: fromMicros(l.UsedAt), Key: l.Key,
	}
	if err := unhex(out.Hash[:], l.Hash); err != nil {
		return out, invalid(fmt.Sprintf("link %q: %v", l.ID, err))
	}
	return rows.Link(out), out.Validate()
}

// unhex reads a hash of as many bytes as out has.
func unhex(out []byte, text string) error {
	if len(text) != 2*len(out) {
		return fmt.Errorf("its hash is not %d digits", 2*len(out))
	}
	if _, err := hex.Decode(out, []byte(text)); err != nil {
		return fmt.Errorf("its hash is not %d digits", 2*len(out))
	}
	return nil
}
