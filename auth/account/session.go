package account

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/llmgw/llmgw/auth"
	"github.com/llmgw/llmgw/storage"
)

// touchEvery is how exactly it is kept when a session was used last.
const touchEvery = time.Minute

// Visitor is who sends a request on the pages: a session that is good at this moment,
// and its account, which is approved. Do not keep it beyond the request.
type Visitor struct {
	Account storage.Account // without its password
	Session storage.Session
	// FormToken is what the visitor's forms carry.
	FormToken string
	// RequestID is for the audit rows of what the visitor does; empty for none.
	RequestID string
}

// Checks reports whether a form carried the visitor's token. How long it takes tells
// nothing.
func (v *Visitor) Checks(form string) bool {
	if v == nil || v.Session.ID == "" {
		return false
	}
	got := formHash(form)
	return subtle.ConstantTimeCompare(got[:], v.Session.Form[:]) == 1
}

func formHash(form string) storage.TokenHash { return sha256.Sum256([]byte(form)) }

func (v *Visitor) by() auth.By {
	return auth.By{Actor: "account:" + v.Account.ID, RequestID: v.RequestID}
}

// Visitor returns whose token that is, or ErrNoSession. It is one read of the store, in
// which the account's state is looked at, too.
func (s *Service) Visitor(ctx context.Context, token string) (*Visitor, error) {
	hash, ok := hashOf(token)
	if !ok {
		return nil, ErrNoSession
	}
	now := s.now()
	ses, a, err := s.deps.Store.Session(ctx, hash, now, now.Add(-s.cfg.SessionIdle))
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return nil, ErrNoSession
	case err != nil:
		return nil, fmt.Errorf("visitor: %w", err)
	}
	if now.Sub(ses.SeenAt) >= touchEvery && s.touched.take(ses.ID, now) {
		if err := s.deps.Store.TouchSession(ctx, ses.ID, now); err != nil {
			s.note(ctx, noticeFailed, "that a session was used could not be kept", "account", a.ID, "err", err)
		} else {
			ses.SeenAt = now
		}
	}
	a.Password = ""
	return &Visitor{Account: a, Session: ses, FormToken: FormToken(token)}, nil
}

// SignOut ends the visitor's session. One that has ended is no error.
func (s *Service) SignOut(ctx context.Context, v *Visitor) error {
	err := s.EndSession(ctx, v, v.Session.ID)
	if errors.Is(err, ErrNoSession) {
		err = nil
	}
	return err
}

// Sessions returns the visitor's sessions, the newest first.
func (s *Service) Sessions(ctx context.Context, v *Visitor) ([]storage.Session, error) {
	now := s.now()
	list, err := s.deps.Store.ListSessions(ctx, v.Account.ID, now, now.Add(-s.cfg.SessionIdle))
	if err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	return list, nil
}

// EndSession ends one of the visitor's sessions. ErrNoSession: none of them has that
// ID.
func (s *Service) EndSession(ctx context.Context, v *Visitor, id string) error {
	first := true
	err := again(ctx, func() error {
		err := s.deps.Store.EndSession(ctx, v.Account.ID, id)
		if !first && errors.Is(err, storage.ErrNotFound) {
			err = nil // it ended at the first try, perhaps
		}
		first = false
		return err
	})
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return ErrNoSession
	case err != nil:
		return fmt.Errorf("end session: %w", err)
	}
	s.deps.Logger.InfoContext(ctx, "a session was ended", "account", v.Account.ID, "session", id)
	return nil
}

// EndOthers ends the visitor's sessions but this one and returns how many.
func (s *Service) EndOthers(ctx context.Context, v *Visitor) (ended int, err error) {
	err = again(ctx, func() error {
		n, err := s.deps.Store.EndSessions(ctx, v.Account.ID, v.Session.ID)
		ended += n
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("end sessions: %w", err)
	}
	s.deps.Logger.InfoContext(ctx, "other sessions were ended", "account", v.Account.ID, "sessions", ended)
	return ended, nil
}

// ChangePassword gives the visitor's account another password, ends all its sessions
// and opens a new one in the place of this. ErrRefused: current is not its password,
// which counts as an attempt to sign in; see SignIn for the other errors, and
// [*InvalidError] of the field "password". A Token that is empty with no error says
// that the password was changed and no session could be opened: sign in.
func (s *Service) ChangePassword(ctx context.Context, v *Visitor, current, next string) (Opened, error) {
	next, err := normal(next)
	if err != nil {
		return Opened{}, err
	}
	current, err = normal(current)
	if err != nil {
		return Opened{}, ErrRefused // no account has it
	}
	slot, err := s.enter()
	if err != nil {
		return Opened{}, err
	}
	defer slot.Leave()
	a, _, err := s.check(ctx, slot, v.Account.Address, current)
	if err != nil {
		s.deps.Logger.InfoContext(ctx, "a change of a password was refused", "account", v.Account.ID, "outcome", outcomeOf(err).String())
		return Opened{}, err
	}
	hash, err := slot.Hash(ctx, next)
	if err != nil {
		return Opened{}, fmt.Errorf("change password: %w", err)
	}
	verified := a.Password
	a, err = s.update(ctx, v.Account.Address, "account.password", v.by(), func(a *storage.Account) error {
		same, err := s.still(ctx, slot, a.Password, verified, current)
		if err != nil {
			return err
		}
		if a.ID != v.Account.ID || !same {
			return ErrRefused // somebody else has changed it just now
		}
		a.Password = hash
		return nil
	})
	if err != nil {
		return Opened{}, fmt.Errorf("change password: %w", err)
	}
	s.deps.Logger.InfoContext(ctx, "a password was changed", "account", a.ID)
	opened, err := s.open(ctx, slot, a, next, v.Session.Agent, v.Session.From)
	if err != nil {
		s.deps.Logger.WarnContext(ctx, "no session could be opened after a password was changed", "account", a.ID, "err", err)
		return Opened{}, nil
	}
	return opened, nil
}

// maxTouched bounds the sessions of which it is remembered when they were touched.
const maxTouched = 10_000

// touched remembers which sessions were touched of late, so that requests that come at
// once write once.
type touched struct {
	mu sync.Mutex
	at map[string]time.Time // guarded by mu
}

// take reports whether a session may be touched at now, and remembers it.
func (t *touched) take(id string, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if at, ok := t.at[id]; ok && now.Sub(at) < touchEvery && !now.Before(at) {
		return false
	}
	if t.at == nil || len(t.at) >= maxTouched {
		t.at = make(map[string]time.Time) // then some are touched once more
	}
	t.at[id] = now
	return true
}
