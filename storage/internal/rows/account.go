package rows

import (
	"fmt"
	"slices"
	"time"

	"github.com/llmgw/llmgw/storage"
)

// Account is a as it is kept, in memory of its own. Revision is left as it is.
func Account(a storage.Account) storage.Account {
	a.Allowance = allowance(a.Allowance)
	a.CreatedAt, a.ApprovedAt, a.SignedInAt = Time(a.CreatedAt), Time(a.ApprovedAt), Time(a.SignedInAt)
	return a
}

func allowance(a storage.Allowance) storage.Allowance {
	a.Models = slices.Clone(a.Models)
	a.Limits.RequestsPerMinute = clone(a.Limits.RequestsPerMinute)
	a.Limits.TokensPerMinute = clone(a.Limits.TokensPerMinute)
	a.Limits.Concurrency = clone(a.Limits.Concurrency)
	a.Budget = clone(a.Budget)
	return a
}

// SameAccount reports whether two accounts as they are kept are the same record. When
// one signed in last is no part of it.
func SameAccount(a, b storage.Account) bool {
	return a.ID == b.ID && a.Address == b.Address && a.Password == b.Password && a.State == b.State && a.Admin == b.Admin &&
		Allowance(a) == Allowance(b) && a.CreatedAt.Equal(b.CreatedAt) && a.ApprovedAt.Equal(b.ApprovedAt) && a.Revision == b.Revision
}

// ChangedAccount is a as it is kept after it replaces old, and whether old's sessions
// end with that.
func ChangedAccount(old, a storage.Account) (storage.Account, bool) {
	a = Account(a)
	a.ID, a.Address, a.CreatedAt, a.SignedInAt = old.ID, old.Address, old.CreatedAt, old.SignedInAt
	a.Revision = old.Revision + 1
	return a, a.State != storage.AccountApproved || a.Password != old.Password
}

// Allowance is the column of an account's allowance.
func Allowance(a storage.Account) string { return *marshal(a.Allowance) }

// IntoAccount sets what stands in columns in another form, or says what cannot be such.
func IntoAccount(state, allowance string, a *storage.Account) error {
	if err := a.State.UnmarshalText([]byte(state)); err != nil {
		return err
	}
	if err := unmarshal(&allowance, &a.Allowance); err != nil {
		return fmt.Errorf("allowance: %w", err)
	}
	return nil
}

// Session is s as it is kept.
func Session(s storage.Session) storage.Session {
	s.CreatedAt, s.SeenAt, s.ExpiresAt = Time(s.CreatedAt), Time(s.SeenAt), Time(s.ExpiresAt)
	return s
}

// SameSession reports whether two sessions as they are kept are the same record. When
// one was used last is no part of it.
func SameSession(a, b storage.Session) bool {
	a.SeenAt = b.SeenAt
	return a == b
}

// IntoSession sets the hashes that stand in columns, or says what cannot be one.
func IntoSession(hash, form []byte, s *storage.Session) error {
	if len(hash) != len(s.Hash) || len(form) != len(s.Form) {
		return fmt.Errorf("its hashes have %d and %d bytes", len(hash), len(form))
	}
	copy(s.Hash[:], hash)
	copy(s.Form[:], form)
	return nil
}

// Link is l as it is kept: its JSON without spaces.
func Link(l storage.Link) storage.Link {
	l.Spec = compact(l.Spec)
	l.CreatedAt, l.ExpiresAt, l.UsedAt = Time(l.CreatedAt), Time(l.ExpiresAt), Time(l.UsedAt)
	return l
}

// SameLink reports whether two links as they are kept are the same record.
func SameLink(a, b storage.Link) bool {
	return a.ID == b.ID && a.Hash == b.Hash && a.Kind == b.Kind && string(a.Spec) == string(b.Spec) && a.Account == b.Account &&
		a.CreatedAt.Equal(b.CreatedAt) && a.ExpiresAt.Equal(b.ExpiresAt) && a.UsedAt.Equal(b.UsedAt) && a.Key == b.Key
}

// LinkParts are the columns of a link that are not its fields as they stand.
type LinkParts struct {
	Hash    []byte
	Kind    string
	Spec    *string // nil for none
	Account *string // likewise
}

// PartsOfLink is a link's columns.
func PartsOfLink(l *storage.Link) LinkParts {
	p := LinkParts{Hash: l.Hash[:], Kind: l.Kind.String()}
	if l.Spec != nil {
		p.Spec = new(string(l.Spec))
	}
	if l.Account != "" {
		p.Account = &l.Account
	}
	return p
}

// Into sets the link's fields, or says what cannot be one.
func (p LinkParts) Into(l *storage.Link) error {
	if len(p.Hash) != len(l.Hash) {
		return fmt.Errorf("its hash has %d bytes", len(p.Hash))
	}
	copy(l.Hash[:], p.Hash)
	if p.Spec != nil {
		l.Spec = []byte(*p.Spec)
	}
	if p.Account != nil {
		l.Account = *p.Account
	}
	return l.Kind.UnmarshalText([]byte(p.Kind))
}

// Redeem is l after it was opened at that time, an error if it cannot be.
func Redeem(l storage.Link, kind storage.LinkKind, at time.Time) (storage.Link, error) {
	switch {
	case l.Kind != kind:
		return l, NoLink()
	case !l.UsedAt.IsZero():
		return l, fmt.Errorf("%w: link %s was used", storage.ErrConflict, l.ID)
	case !at.Before(l.ExpiresAt):
		return l, fmt.Errorf("%w: link %s has expired", storage.ErrConflict, l.ID)
	}
	l.UsedAt = at
	return l, nil
}

// NoLink says that no link has that hash.
func NoLink() error { return fmt.Errorf("%w: no link of that hash", storage.ErrNotFound) }

// At is the time of a change as it is kept; zero is invalid.
func At(at time.Time) (time.Time, error) {
	if at = Time(at); at.IsZero() {
		return at, fmt.Errorf("%w: the time is zero", storage.ErrInvalid)
	}
	return at, nil
}

// Most wants at least one of what may be there.
func Most(what string, most int) error {
	if most < 1 {
		return fmt.Errorf("%w: %d %s at most; want a positive number", storage.ErrInvalid, most, what)
	}
	return nil
}

// MayHaveKey says whether an account may be given one more key.
func MayHaveKey(id string, state storage.AccountState, has, most int) error {
	switch {
	case state != storage.AccountApproved:
		return fmt.Errorf("%w: account %q is %v", storage.ErrNotFound, id, state)
	case has >= most:
		return fmt.Errorf("%w: account %q has %d keys, of %d", storage.ErrFull, id, has, most)
	}
	return nil
}
