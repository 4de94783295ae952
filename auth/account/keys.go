package account

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/llmgw/llmgw/auth"
	"github.com/llmgw/llmgw/storage"
)

const (
	// keyPage is how many keys or roll-ups are read at once.
	keyPage = 1000
	// mostEnded is how many keys of an account that are good for nothing any more are
	// listed.
	mostEnded = 100
	// mostRollups bounds what is held in memory to show somebody his usage.
	mostRollups = 50_000
)

// KeySpec is what a person says of a new key. The rest the account's allowance says.
type KeySpec struct {
	// Name is what its owner calls it. At most 256 bytes of printable text.
	Name string
	// Models are as [auth.Spec]'s; each has to lie within what the account may use.
	// Empty: all of that.
	Models []string
	// Expires is as [auth.ParseExpiry] reads it; empty is never.
	Expires string
}

// Keys returns the keys of the visitor's account, the newest first: all that are good
// for something, and the hundred newest others. Their hashes are left out.
func (s *Service) Keys(ctx context.Context, v *Visitor) ([]storage.Key, error) {
	if v.Account.ID == "" {
		return nil, fmt.Errorf("list keys: %w", ErrNoSession) // they would be everybody's
	}
	usable, err := s.usable(ctx, v.Account.ID)
	if err != nil {
		return nil, fmt.Errorf("list keys: %w", err)
	}
	good := make(map[string]bool, len(usable))
	for _, k := range usable {
		good[k.ID] = true
	}
	newest, _, err := s.deps.Store.ListKeys(ctx, storage.KeyQuery{Account: v.Account.ID, Page: storage.Page{Limit: keyPage}})
	if err != nil {
		return nil, fmt.Errorf("list keys: %w", err)
	}
	ended := 0
	for _, k := range newest {
		if !good[k.ID] && ended < mostEnded {
			usable = append(usable, k)
			ended++
		}
	}
	slices.SortStableFunc(usable, func(a, b storage.Key) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), strings.Compare(b.ID, a.ID))
	})
	for i := range usable {
		usable[i].Hash = storage.KeyHash{}
	}
	return usable, nil
}

// usable returns the keys of an account that are good for something.
func (s *Service) usable(ctx context.Context, account string) ([]storage.Key, error) {
	return s.keysOf(ctx, storage.KeyQuery{Account: account, Usable: s.now()})
}

func (s *Service) keysOf(ctx context.Context, q storage.KeyQuery) (all []storage.Key, err error) {
	q.Limit = keyPage
	for {
		keys, next, err := s.deps.Store.ListKeys(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, k := range keys {
			if k.Account == q.Account { // what is wrong here would be somebody else's
				all = append(all, k)
			}
		}
		if next == "" {
			return all, nil
		}
		q.After = next
	}
}

// CreateKey makes a key of the visitor's account, with the band, limits and budget of
// its allowance. Its secret is in what is returned and nowhere else. Errors:
// [*InvalidError] of the field that cannot be; ErrFull: the account has as many keys as
// it may; ErrSuspended: just now.
func (s *Service) CreateKey(ctx context.Context, v *Visitor, spec KeySpec) (auth.Issued, error) {
	a, err := s.deps.Store.Account(ctx, v.Account.ID)
	switch {
	case err != nil && !errors.Is(err, storage.ErrNotFound):
		return auth.Issued{}, fmt.Errorf("create key: %w", err)
	case err != nil || a.State != storage.AccountApproved:
		return auth.Issued{}, ErrSuspended
	}
	// What the person typed is checked apart: the rest is no fault of his, and what is
	// wrong with it is not for him to see.
	if _, _, err := s.deps.Issuer.Check(auth.Spec{Name: spec.Name, Expires: spec.Expires}); err != nil {
		return auth.Issued{}, invalid("key", err)
	}
	models, err := auth.Narrow(spec.Models, a.Allowance.Models, s.deps.Issuer.Models())
	if err != nil {
		return auth.Issued{}, invalid("models", err)
	}
	full := auth.Spec{
		Name: spec.Name, Owner: a.Address, Models: models, AllowUnknownModels: true, Band: a.Allowance.Band,
		Limits: a.Allowance.Limits, Expires: spec.Expires,
	}
	if b := a.Allowance.Budget; b != nil {
		full.Budget = auth.FormatBudget(*b)
	}
	if _, _, err := s.deps.Issuer.Check(full); err != nil {
		s.deps.Logger.ErrorContext(ctx, "what an account may use cannot be given to a key any more; approve it with other words", "account", a.ID, "err", err)
		return auth.Issued{}, &InvalidError{Field: "allowance", Problem: "cannot be given to a key any more; ask whoever runs this server"}
	}
	issued, err := s.deps.Issuer.CreateIn(ctx, full, auth.Custody{
		Account: a.ID,
		Keep: func(ctx context.Context, k storage.Key, why storage.Audit) error {
			return s.deps.Store.CreateAccountKey(ctx, k, a.Allowance.Keys, why)
		},
	}, v.by())
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return auth.Issued{}, ErrSuspended
	case err != nil:
		return auth.Issued{}, err
	}
	// What the issuer warns of names models that are none of the account's business.
	issued.Warnings = nil
	s.metrics.keys.Add(1)
	s.deps.Logger.InfoContext(ctx, "an account made a key", "account", a.ID, "key", issued.Key.ID)
	if err := s.catchUp(ctx, &a, &issued.Key, v.by()); err != nil {
		s.deps.Logger.ErrorContext(ctx, "what an account may use was changed while it made a key, which may use what was allowed before; approve it again",
			"account", a.ID, "key", issued.Key.ID, "err", err)
	}
	return issued, nil
}

// catchUp gives a key that was just made what its account may use, if that was changed
// meanwhile: who changed it may not have seen the key.
func (s *Service) catchUp(ctx context.Context, was *storage.Account, k *storage.Key, by auth.By) error {
	is, err := s.deps.Store.Account(ctx, was.ID)
	if err != nil || is.Revision == was.Revision || reflect.DeepEqual(is.Allowance, was.Allowance) {
		return err
	}
	_, err = s.fit(ctx, k, was.Allowance, is.Allowance, by)
	return err
}

// RevokeKey ends a key of the visitor's account. storage.ErrNotFound: the account has
// none of that ID, whoever else may.
func (s *Service) RevokeKey(ctx context.Context, v *Visitor, id string) (storage.Key, error) {
	k, err := s.deps.Issuer.RevokeIn(ctx, v.Account.ID, id, func(ctx context.Context, at time.Time, why storage.Audit) (storage.Key, error) {
		return s.deps.Store.RevokeAccountKey(ctx, v.Account.ID, id, at, why)
	}, v.by())
	if err != nil {
		return storage.Key{}, err
	}
	k.Hash = storage.KeyHash{}
	s.deps.Logger.InfoContext(ctx, "an account revoked a key", "account", v.Account.ID, "key", id)
	return k, nil
}

// Usage returns roll-ups of all keys of the visitor's account, ended ones too, with
// Start in [from, to). What is more than 50000 of them is ErrInvalid: ask for less.
func (s *Service) Usage(ctx context.Context, v *Visitor, from, to time.Time, grain storage.Grain) ([]storage.Rollup, error) {
	q := storage.RollupQuery{Grain: grain, From: from, To: to, Lineage: v.Account.ID, Page: storage.Page{Limit: keyPage}}
	if q.Lineage == "" {
		return nil, fmt.Errorf("usage: %w", ErrNoSession) // it would be everybody's
	}
	var all []storage.Rollup
	for {
		sums, next, err := s.deps.Store.ListRollups(ctx, q)
		if err != nil {
			return nil, fmt.Errorf("usage: %w", err)
		}
		all = append(all, sums...)
		switch {
		case next == "":
			return all, nil
		case len(all) >= mostRollups:
			return nil, &InvalidError{Field: "time", Problem: "there is too much usage in it to show at once; ask for less"}
		}
		q.After = next
	}
}

// Identity returns what one of the visitor's keys may do, as the store has it now, to
// have a request served as if it had come with the key. storage.ErrNotFound: the
// account has no key of that ID that is good for something.
func (s *Service) Identity(ctx context.Context, v *Visitor, keyID string) (*auth.Identity, error) {
	k, err := s.deps.Store.Key(ctx, keyID)
	if err == nil && (v.Account.ID == "" || k.Account != v.Account.ID || !k.Usable(s.now())) {
		err = storage.ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("key %s: %w", keyID, err)
	}
	return auth.NewIdentity(k), nil
}

// invalid is what of an issuer's error a person may see of what he typed.
func invalid(field string, err error) error {
	if !errors.Is(err, ErrInvalid) {
		return err
	}
	text := strings.ReplaceAll(err.Error(), ErrInvalid.Error()+": ", "")
	return &InvalidError{Field: field, Problem: strings.ReplaceAll(text, "\n", "; ")}
}
