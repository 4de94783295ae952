package auth

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/llmgw/llmgw/storage"
)

// Custody says whose a new key is and how it is kept, where that is not simply
// [KeyStore]'s CreateKey.
type Custody struct {
	// Account is the ID of the account whose key it is, which is its lineage, too, so
	// that what bounds the account's keys is counted together. Empty: nobody's.
	Account string
	// Keep keeps the key and its audit row, and returns what CreateKey does. It is
	// called once more where it wraps storage.ErrUnavailable, unless Once says not to.
	Keep func(ctx context.Context, k storage.Key, why storage.Audit) error
	Once bool
}

// CreateIn makes a key, as Create does, into custody. Errors of Keep are wrapped.
func (s *Issuer) CreateIn(ctx context.Context, spec Spec, in Custody, by By) (Issued, error) {
	k, warnings, err := s.Check(spec)
	if err != nil {
		return Issued{}, err
	}
	k.Account, k.Lineage = in.Account, in.Account
	return s.mint(ctx, k, warnings, "key.create", by, in)
}

// Check returns the record of the key that Create would make now, without what makes
// it one: ID, hash and hint. It changes nothing. Errors and warnings are Create's.
func (s *Issuer) Check(spec Spec) (k storage.Key, warnings []string, err error) {
	return spec.record(s.now(), s.deps.Bands, s.models())
}

// Preview returns what Update would make of a key, which need not be kept anywhere.
// It changes nothing. Errors wrap ErrInvalid.
func (s *Issuer) Preview(k storage.Key, what Change) (after storage.Key, warnings []string, err error) {
	return s.changed(k, &what)
}

// Models returns the catalog as it is; zero where none is at hand.
func (s *Issuer) Models() Models { return s.models() }

func (s *Issuer) models() Models {
	if s.deps.Models == nil {
		return Models{}
	}
	return s.deps.Models()
}

// RevokeIn ends a key of an account. end is what ends it: it returns
// storage.ErrNotFound if the account has no key of that ID, which RevokeIn returns,
// too. Otherwise it is as Revoke, but for a store that is away nothing is kept, and
// whoever is told is told of no key that is not known to be the account's.
func (s *Issuer) RevokeIn(ctx context.Context, account, id string,
	end func(ctx context.Context, at time.Time, why storage.Audit) (storage.Key, error), by By,
) (storage.Key, error) {
	at := s.now()
	before, err := s.deps.Keys.Key(ctx, id)
	if err == nil && (account == "" || before.Account != account) {
		err = fmt.Errorf("key %s of account %s: %w", id, account, storage.ErrNotFound)
	}
	if err != nil {
		return storage.Key{}, fmt.Errorf("revoke key: %w", err)
	}
	k, err := s.revokeBy(ctx, before, at, end, by)
	if s.deps.Told != nil && (err == nil || errors.Is(err, storage.ErrUnavailable)) {
		s.deps.Told.Revoke(id)
	}
	if err != nil {
		return storage.Key{}, fmt.Errorf("revoke key: %w", err)
	}
	return k, nil
}
