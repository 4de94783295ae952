package account

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/llmgw/llmgw/auth"
	"github.com/llmgw/llmgw/auth/account/password"
	"github.com/llmgw/llmgw/storage"
)

// settle is how long an answer to a sign-up takes after the hash, whatever the store
// says. A row that is written takes longer than one that is found to be there, and the
// time of an answer would say which it was. What a store takes beyond this is to be
// seen: none should.
const settle = 100 * time.Millisecond

// SignUp keeps a new account, which can do nothing until an operator approves it. For
// an address that has one it does nothing, in the same time, and returns nil, too: only
// who knows the password learns more. Errors: an [*InvalidError] of the address or the
// password, ErrClosed, ErrFull, ErrBusy. By's actor may be empty.
func (s *Service) SignUp(ctx context.Context, address, typed string, by auth.By) error {
	outcome, err := s.signUp(ctx, address, typed, by)
	s.metrics.signUps[outcome].Add(1)
	return err
}

func (s *Service) signUp(ctx context.Context, address, typed string, by auth.By) (signUpOutcome, error) {
	if !s.cfg.SignUp {
		return signUpClosed, ErrClosed
	}
	address, err1 := ParseAddress(address)
	typed, err2 := normal(typed)
	if err := errors.Join(err1, err2); err != nil {
		return signUpInvalid, err
	}
	slot, err := s.enter()
	if err != nil {
		return signUpBusy, err
	}
	defer slot.Leave()
	hash, err := slot.Hash(ctx, typed)
	if err != nil {
		return signUpFailed, fmt.Errorf("sign up: %w", err)
	}
	timer := time.NewTimer(s.deps.settle)
	defer timer.Stop()
	outcome, err := s.keep(ctx, address, hash, by)
	select {
	case <-timer.C:
	case <-ctx.Done(): // nobody is there to see how long it took
	}
	return outcome, err
}

func (s *Service) keep(ctx context.Context, address, hash string, by auth.By) (signUpOutcome, error) {
	id, err := s.newID("acc_")
	if err != nil {
		return signUpFailed, err
	}
	a := storage.Account{ID: id, Address: address, Password: hash, State: storage.AccountPending, CreatedAt: s.now()}
	by.Actor = cmp.Or(by.Actor, "account:"+id)
	why, err := s.audit("account.signup", id, nil, info(a), by)
	if err != nil {
		return signUpFailed, err
	}
	err = again(ctx, func() error { return s.deps.Store.CreateAccount(ctx, a, s.cfg.MaxPending, why) })
	switch {
	case err == nil:
		s.deps.Logger.InfoContext(ctx, "somebody signed up", "account", id)
		return signUpNew, nil
	case errors.Is(err, storage.ErrExists):
		s.note(ctx, noticeTaken, "somebody signed up with an address that has an account", "bucket", bucketOf(address))
		return signUpTaken, nil
	case errors.Is(err, storage.ErrFull):
		s.note(ctx, noticeFull, "nobody can sign up: too many wait to be approved", "max_pending", s.cfg.MaxPending)
		return signUpFull, fmt.Errorf("sign up: %w", err)
	}
	return signUpFailed, fmt.Errorf("sign up: %w", err)
}

// normal is what of a password is hashed.
func normal(typed string) (string, error) {
	out, err := password.Normal(typed)
	if err != nil {
		return "", &InvalidError{Field: "password", Problem: err.Error()}
	}
	return out, nil
}

// enter returns leave to hash, or ErrBusy.
func (s *Service) enter() (*password.Slot, error) {
	slot, err := s.hasher.Enter()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBusy, err)
	}
	return slot, nil
}
