package account

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/llmgw/llmgw/auth"
	"github.com/llmgw/llmgw/storage"
)

// mostKeys is how many keys an account may be allowed.
const mostKeys = 10_000

// Grant is what an account shall be allowed. What is nil stays as it was; of an account
// that was never approved it is then every model, the default band, no limit, no budget
// and Config.MaxKeys.
type Grant struct {
	Models             *[]string // as auth.Spec's; an empty list is every model
	AllowUnknownModels bool
	Band               *string // empty is the default band
	storage.Limits             // 0 is no limit
	Budget             *string // as auth.ParseBudget reads it; empty is none
	Keys               *int    // 0 to 10000
}

// Changed is what came of a change of an account.
type Changed struct {
	Account storage.Account // as it is then, without its password
	// Keys is how many keys that are good for something it has, and Ended how many were
	// revoked, since nothing was left of what they might use.
	Keys, Ended int
	// Warnings say what is legal and perhaps not what was meant.
	Warnings []string
}

// List returns accounts by address and the cursor of the next page, empty after the
// last.
func (s *Service) List(ctx context.Context, q storage.AccountQuery) (list []storage.AccountListing, next string, err error) {
	list, next, err = s.deps.Store.ListAccounts(ctx, q, s.now())
	if err != nil {
		return nil, "", fmt.Errorf("list accounts: %w", err)
	}
	for i := range list {
		list[i].Password = ""
	}
	return list, next, nil
}

// Approve lets an account in, or in again, and says what it may use. Its keys are
// changed to that: band, limits and budget are the account's, and of their models those
// stay that are within its own; a key that had all of the account's models has all of
// them again. A key of which nothing is left is revoked. Errors: storage.ErrNotFound,
// ErrInvalid. Where it fails after the account was changed, do it again.
func (s *Service) Approve(ctx context.Context, address string, g Grant, by auth.By) (Changed, error) {
	var was storage.Allowance
	var warnings []string
	a, err := s.update(ctx, address, "account.approve", by, func(a *storage.Account) (err error) {
		if a.ApprovedAt.IsZero() {
			a.Allowance = storage.Allowance{Keys: s.cfg.MaxKeys}
		}
		was = a.Allowance
		if a.Allowance, warnings, err = s.allowance(was, g); err != nil {
			return err
		}
		a.State, a.ApprovedAt = storage.AccountApproved, s.now()
		return nil
	})
	if err != nil {
		return Changed{}, fmt.Errorf("approve: %w", err)
	}
	s.deps.Logger.InfoContext(ctx, "an account was approved", "account", a.ID, "actor", by.Actor)
	out := Changed{Account: a, Warnings: warnings}
	out.Account.Password = ""
	keys, err := s.usable(ctx, a.ID)
	if err != nil {
		return out, fmt.Errorf("approve: its keys are as they were: %w", err)
	}
	var errs []error
	for i := range keys {
		ended, err := s.fit(ctx, &keys[i], was, a.Allowance, by)
		switch {
		case errors.Is(err, auth.ErrNotUsable): // it ended meanwhile
		case err != nil:
			errs = append(errs, err)
		case ended:
			out.Ended++
		default:
			out.Keys++
		}
	}
	if err := errors.Join(errs...); err != nil {
		return out, fmt.Errorf("approve: some of its keys are as they were: %w", err)
	}
	return out, nil
}

// allowance is what a grant makes of one.
func (s *Service) allowance(was storage.Allowance, g Grant) (storage.Allowance, []string, error) {
	// What an account may use is checked as what a key may use is.
	k, warnings, err := s.deps.Issuer.Preview(
		storage.Key{Models: was.Models, Band: was.Band, Limits: was.Limits, Budget: was.Budget},
		auth.Change{Models: g.Models, AllowUnknownModels: g.AllowUnknownModels, Band: g.Band, Limits: g.Limits, Budget: g.Budget})
	if g.Keys != nil {
		if *g.Keys < 0 || *g.Keys > mostKeys {
			err = errors.Join(err, fmt.Errorf("%w: keys: %d; want 0 to %d", ErrInvalid, *g.Keys, mostKeys))
		}
		was.Keys = *g.Keys
	}
	return storage.Allowance{Models: k.Models, Band: k.Band, Limits: k.Limits, Budget: k.Budget, Keys: was.Keys}, warnings, err
}

// fit gives a key what its account may use, which was was until now. ended says that
// nothing was left of its models and that it was revoked.
func (s *Service) fit(ctx context.Context, k *storage.Key, was, is storage.Allowance, by auth.By) (ended bool, err error) {
	models, left := is.Models, true
	if !sameModels(k.Models, was.Models) {
		models, left = auth.Meet(k.Models, is.Models, s.deps.Issuer.Models())
	}
	if !left {
		_, err := s.deps.Issuer.Revoke(ctx, k.ID, by)
		return err == nil, err
	}
	what, differs := auth.Change{AllowUnknownModels: true}, false
	if !sameModels(models, k.Models) {
		what.Models, differs = &models, true
	}
	if is.Band != k.Band {
		what.Band, differs = &is.Band, true
	}
	if !reflect.DeepEqual(is.Limits, k.Limits) {
		what.Limits, differs = storage.Limits{
			RequestsPerMinute: orZero(is.Limits.RequestsPerMinute), TokensPerMinute: orZero(is.Limits.TokensPerMinute),
			Concurrency: orZero(is.Limits.Concurrency),
		}, true
	}
	if !reflect.DeepEqual(is.Budget, k.Budget) {
		text := ""
		if is.Budget != nil {
			text = auth.FormatBudget(*is.Budget)
		}
		what.Budget, differs = &text, true
	}
	if !differs {
		s.forget(k.ID) // it may have been refused while its account was suspended
		return false, nil
	}
	after, _, err := s.deps.Issuer.Update(ctx, k.ID, what, by)
	if err == nil {
		*k = after
	}
	return false, err
}

// sameModels reports whether two lists say the same: nil is every model.
func sameModels(a, b []string) bool { return (a == nil) == (b == nil) && slices.Equal(a, b) }

// orZero makes a limit that is none one that says so.
func orZero(v *int64) *int64 {
	if v == nil {
		return new(int64)
	}
	return v
}

// Suspend ends all that an account does: its sessions, in the same step, and its keys,
// at once in this process and within cache_ttl elsewhere. Requests that are being
// served come to their end. It may be approved again, and its keys are then good again.
// storage.ErrNotFound: there is no such account. Where it fails after the account was
// changed, do it again.
func (s *Service) Suspend(ctx context.Context, address string, by auth.By) (Changed, error) {
	a, err := s.update(ctx, address, "account.suspend", by, func(a *storage.Account) error {
		a.State = storage.AccountSuspended
		return nil
	})
	if err != nil {
		return Changed{}, fmt.Errorf("suspend: %w", err)
	}
	s.deps.Logger.InfoContext(ctx, "an account was suspended", "account", a.ID, "actor", by.Actor)
	a.Password = ""
	keys, err := s.keysOf(ctx, storage.KeyQuery{Account: a.ID})
	if err != nil {
		return Changed{Account: a}, fmt.Errorf("suspend: its keys are refused within cache_ttl, not at once: %w", err)
	}
	for _, k := range keys {
		if k.RevokedAt.IsZero() {
			s.forget(k.ID)
		}
	}
	return Changed{Account: a}, nil
}

func (s *Service) forget(key string) {
	if s.deps.Told != nil {
		s.deps.Told.Forget(key)
	}
}

// SetAdmin lets an account look at the console, or not any more, which counts at once.
// Who may look has to sign in anew: a session is not given more than it was opened for.
// storage.ErrNotFound: there is no such account.
func (s *Service) SetAdmin(ctx context.Context, address string, admin bool, by auth.By) (Changed, error) {
	raised := false
	a, err := s.update(ctx, address, "account.admin", by, func(a *storage.Account) error {
		raised = admin && !a.Admin
		a.Admin = admin
		return nil
	})
	if err != nil {
		return Changed{}, fmt.Errorf("set admin: %w", err)
	}
	s.deps.Logger.InfoContext(ctx, "who may look at the console was changed", "account", a.ID, "admin", admin, "actor", by.Actor)
	a.Password = ""
	if raised {
		if err := again(ctx, func() error { _, err := s.deps.Store.EndSessions(ctx, a.ID, ""); return err }); err != nil {
			return Changed{Account: a}, fmt.Errorf("set admin: its sessions were not ended: %w", err)
		}
	}
	return Changed{Account: a}, nil
}

// Reset makes a link by which an account is given another password, by whoever has the
// link: nobody chooses it for somebody else. The password stays as it is until then.
// storage.ErrNotFound: there is no such account.
func (s *Service) Reset(ctx context.Context, address string, by auth.By) (NewLink, error) {
	a, err := s.account(ctx, address)
	if err != nil {
		return NewLink{}, fmt.Errorf("reset: %w", err)
	}
	out, err := s.newLink(ctx, storage.Link{Kind: storage.LinkReset, Account: a.ID}, 0, by)
	if err != nil {
		return NewLink{}, fmt.Errorf("reset: %w", err)
	}
	return out, nil
}
