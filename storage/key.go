package storage

import (
	"context"
	"crypto/sha256"
	"time"
)

// KeyHash is what a key is found by: the SHA-256 of all its text. Keys have 256
// random bits, so a fast hash without a salt is right for them.
type KeyHash [sha256.Size]byte

// Key is the record of an API key. The key itself is in no store.
type Key struct {
	// ID names the key in listings, logs, usage and audit rows. It is public and
	// never used again. 1 to 64 bytes.
	ID string
	// Hash is what the key is found by. No two keys have the same.
	Hash KeyHash
	// Hint is what may be shown of the key, as its beginning and its last four
	// characters. At most 32 bytes.
	Hint string
	// Name is what its owner calls it. At most 256 bytes.
	Name string
	// Owner is who pays: a person or a team. At most 256 bytes.
	Owner string
	// Models are patterns of the models that it may use; nil is every model. Not
	// nil and empty is invalid.
	Models []string
	// Band is its priority class; empty is the default band.
	Band string
	// Limits bound what it does in a minute and at once.
	Limits Limits
	// Budget bounds what it spends; nil is no bound.
	Budget *Budget
	// MayExplain: its requests may learn which endpoints there are and how one is
	// chosen.
	MayExplain bool
	// Tags are the operator's own. At most 32, of 128 bytes each, name and value.
	Tags map[string]string

	CreatedAt time.Time
	// ExpiresAt is when it ends by itself; zero is never.
	ExpiresAt time.Time
	// RevokedAt is when it was ended; zero if it was not.
	RevokedAt time.Time
	// Replaces is the ID of the key that this one was made to follow; empty if
	// none.
	Replaces string
	// Lineage is the ID of the first of the keys that were made to follow each
	// other up to this one; its own if it follows none. What its limits and its
	// budget bound is counted by it, so that nothing begins anew when a key is
	// replaced. Empty in a new key means its account's ID, or its own if it has none;
	// stores keep that.
	Lineage string
	// Account is the ID of the account whose key it is, which is its Lineage, too;
	// empty if it is an operator's. It never changes.
	Account string
	// Suspended: its account may do nothing now, and so may the key. Stores set it.
	Suspended bool
	// Revision is 1 for a new key and one more after each change. Stores set it.
	Revision int64
}

// Usable reports whether the key opens anything at now.
func (k *Key) Usable(now time.Time) bool {
	return k.RevokedAt.IsZero() && !k.Suspended && (k.ExpiresAt.IsZero() || now.Before(k.ExpiresAt))
}

// Limits bound the rate of a key. Nil is no bound; each is positive.
type Limits struct {
	RequestsPerMinute *int64 `json:"requests_per_minute,omitempty"`
	TokensPerMinute   *int64 `json:"tokens_per_minute,omitempty"`
	Concurrency       *int64 `json:"concurrency,omitempty"` // requests at once
}

// Budget bounds what a key spends in a period.
type Budget struct {
	// Nanos is the amount in 10^-9 of the currency unit, positive.
	Nanos int64 `json:"nanos"`
	// Period is how often it begins anew.
	Period Period `json:"period"`
	// Zone is the IANA time zone in which days, weeks and months begin; empty is
	// UTC.
	Zone string `json:"zone,omitempty"`
}

// Period is how often a budget begins anew. The zero value is none.
type Period uint8

// The periods, with the text that stands for them in stores, JSON and commands.
const (
	PeriodDay   Period = iota + 1 // "day": from midnight to midnight
	PeriodWeek                    // "week": from Monday's midnight, as ISO 8601 has it
	PeriodMonth                   // "month": from midnight of the first
	PeriodTotal                   // "total": once, for the key's whole life
)

// KeyQuery chooses keys. The zero value means all.
type KeyQuery struct {
	Owner string // empty: any
	// Account is the ID of whose they are; empty: any, and nobody's.
	Account string
	// Usable leaves out what is revoked or suspended, or has expired by that time; zero
	// leaves out nothing.
	Usable time.Time
	Page
}

// Keys keeps API keys.
type Keys interface {
	// CreateKey keeps a new key and its audit row. It returns ErrExists if the ID
	// or the hash is taken by another record, ErrInvalid if a field is out of its
	// range or there is no such account; a key that is there just so already is no error, and keeps no second
	// audit row.
	CreateKey(ctx context.Context, k Key, why Audit) error
	// KeyByHash returns the key with that hash, revoked and expired ones too, or
	// ErrNotFound.
	KeyByHash(ctx context.Context, h KeyHash) (Key, error)
	// Key returns the key with that ID, or ErrNotFound.
	Key(ctx context.Context, id string) (Key, error)
	// ListKeys returns keys, the newest first, and the cursor of the next page,
	// empty after the last.
	ListKeys(ctx context.Context, q KeyQuery) (keys []Key, next string, err error)
	// UpdateKey replaces all of a key but ID, Hash, Hint, CreatedAt, Replaces,
	// Lineage, Account and Suspended, and keeps an audit row. It returns ErrNotFound, or ErrConflict if
	// k.Revision is not the one that is kept. An update whose audit row is there
	// already was done and is not done again, so that it can be repeated.
	UpdateKey(ctx context.Context, k Key, why Audit) error
	// RevokeKey ends a key at that time and keeps an audit row, in one step. It
	// returns the key as it is then. One that was revoked before stays as it was
	// and keeps no second audit row, which is no error; ErrNotFound if there is
	// none.
	RevokeKey(ctx context.Context, id string, at time.Time, why Audit) (Key, error)
}

// Page is a part of a list.
type Page struct {
	// After is the cursor that the page before ended with; empty is the beginning.
	// One that no store gave out is ErrInvalid.
	After string
	// Limit is how many at most, 1 to 10000; 0 is 1000.
	Limit int
}
