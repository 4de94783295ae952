package account

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/llmgw/llmgw/auth/account/password"
	"github.com/llmgw/llmgw/storage"
)

// SignIn is an attempt to sign in.
type SignIn struct {
	Address, Password string
	// Agent and From are what the browser and its connection say of themselves, for
	// the list of sessions. What is longer than 256 bytes is cut.
	Agent, From string
}

// Opened is a session that was opened.
type Opened struct {
	// Token is what the browser is to send: 43 characters of base64url. It is in no
	// store.
	Token     string
	ExpiresAt time.Time
}

// SignIn opens a session. It is a new one, with a new token, whatever the browser sent.
// Errors:
//
//   - ErrRefused: there is no such account, or the password is another. It takes the
//     same time and the same reads and writes of the store;
//   - a [*ThrottledError]: too early after attempts that failed. The password was not
//     looked at;
//   - ErrPending, ErrSuspended: the password is right, and the account may do nothing;
//   - ErrBusy: too many passwords are being hashed. The attempt does not count.
func (s *Service) SignIn(ctx context.Context, in SignIn) (Opened, error) {
	opened, id, outcome, err := s.signIn(ctx, in)
	s.metrics.signIns[outcome].Add(1)
	s.logSignIn(ctx, in.Address, id, outcome, err)
	return opened, err
}

func (s *Service) signIn(ctx context.Context, in SignIn) (_ Opened, id string, _ signInOutcome, _ error) {
	address, err := ParseAddress(in.Address)
	if err != nil {
		return Opened{}, "", signInInvalid, ErrRefused // nobody has it
	}
	typed, err := normal(in.Password)
	if err != nil {
		return Opened{}, "", signInInvalid, ErrRefused // likewise
	}
	slot, err := s.enter()
	if err != nil {
		return Opened{}, "", signInBusy, err
	}
	defer slot.Leave()
	a, stale, err := s.check(ctx, slot, address, typed)
	if err != nil {
		return Opened{}, a.ID, outcomeOf(err), err
	}
	if stale {
		s.rehash(ctx, slot, &a, typed)
	}
	switch a.State {
	case storage.AccountApproved:
	case storage.AccountPending:
		return Opened{}, a.ID, signInPending, ErrPending
	default:
		return Opened{}, a.ID, signInSuspended, ErrSuspended
	}
	opened, err := s.open(ctx, slot, a, typed, in.Agent, in.From)
	if err != nil {
		return Opened{}, a.ID, outcomeOf(err), err
	}
	return opened, a.ID, signInOpened, nil
}

// check takes an attempt and returns the account with that address if the password is
// its own, in whatever state it is. stale says that its hash costs less than a new one.
// Whose ID the account has with an error is for the log alone.
func (s *Service) check(ctx context.Context, slot *password.Slot, address, typed string) (a storage.Account, stale bool, err error) {
	bucket := bucketOf(address)
	wait, err := s.deps.Store.TakeAttempt(ctx, bucket, s.now(), s.cfg.Throttle.storage())
	switch {
	case err != nil:
		return a, false, fmt.Errorf("sign in: %w", err)
	case wait > 0:
		return a, false, &ThrottledError{RetryAfter: wait}
	}
	a, err = s.deps.Store.AccountByAddress(ctx, address)
	there := err == nil
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return storage.Account{}, false, fmt.Errorf("sign in: %w", err)
	}
	right := false
	if there {
		right, stale, err = slot.Verify(ctx, a.Password, typed)
		if errors.Is(err, password.ErrHash) {
			s.deps.Logger.ErrorContext(ctx, "the hash of an account's password is not to be computed; reset it", "account", a.ID, "err", err)
			there = false
		} else if err != nil {
			return a, false, fmt.Errorf("sign in: %w", err)
		}
	}
	if !there {
		if err := slot.VerifyNobody(ctx, typed); err != nil {
			return a, false, fmt.Errorf("sign in: %w", err)
		}
	}
	if !right {
		return a, false, ErrRefused
	}
	if a.State != storage.AccountApproved {
		// Anybody can sign up with an address that shares the bucket of somebody else's,
		// and would guess at that one without a wait by signing in between.
		return a, stale, nil
	}
	if err := again(ctx, func() error { return s.deps.Store.ForgiveAttempts(ctx, bucket) }); err != nil {
		return a, false, fmt.Errorf("sign in: %w", err)
	}
	return a, stale, nil
}

// rehash keeps a hash that costs what new ones do. It may fail: the old one is good.
func (s *Service) rehash(ctx context.Context, slot *password.Slot, a *storage.Account, typed string) {
	to, err := slot.Hash(ctx, typed)
	if err == nil {
		err = again(ctx, func() error { return s.deps.Store.RehashAccount(ctx, a.ID, a.Password, to) })
	}
	if err != nil {
		s.deps.Logger.WarnContext(ctx, "the hash of a password costs less than it should and was not made anew", "account", a.ID, "err", err)
		return
	}
	a.Password = to
}

// open opens a session of an account that typed is the password of, as was seen by
// a.Password.
func (s *Service) open(ctx context.Context, slot *password.Slot, a storage.Account, typed, agent, from string) (Opened, error) {
	token, err := s.newToken()
	if err != nil {
		return Opened{}, err
	}
	id, err := s.newID("ses_")
	if err != nil {
		return Opened{}, err
	}
	hash, _ := hashOf(token)
	now := s.now()
	ses := storage.Session{
		ID: id, Hash: hash, Form: formHash(FormToken(token)), Account: a.ID, Agent: agent, From: from,
		CreatedAt: now, SeenAt: now, ExpiresAt: now.Add(s.cfg.SessionLife),
	}
	ses.Tidy()
	if err := s.deps.Store.CreateSession(ctx, ses, s.cfg.MaxSessions); err != nil {
		if errors.Is(err, storage.ErrNotFound) {
			return Opened{}, ErrSuspended // just now
		}
		return Opened{}, fmt.Errorf("open a session: %w", err)
	}
	// A password that was changed while this one was looked at ended the sessions that
	// there were then. This one is newer and would stay.
	is, err := s.deps.Store.Account(ctx, a.ID)
	same := false
	if err == nil {
		same, err = s.still(ctx, slot, is.Password, a.Password, typed)
	}
	if !same {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), endWait)
		defer cancel()
		if end := s.deps.Store.EndSession(last, a.ID, id); end != nil && !errors.Is(end, storage.ErrNotFound) {
			s.deps.Logger.ErrorContext(ctx, "a session that nobody was given could not be ended", "account", a.ID, "session", id, "err", end)
		}
		if err != nil {
			return Opened{}, fmt.Errorf("open a session: %w", err)
		}
		return Opened{}, ErrRefused
	}
	s.metrics.opened.Add(1)
	return Opened{Token: token, ExpiresAt: ses.ExpiresAt}, nil
}

// still reports whether a password that was right by one hash is by another one, too:
// the same, or one that was made anew for the same password.
func (s *Service) still(ctx context.Context, slot *password.Slot, is, was, typed string) (bool, error) {
	if is == was {
		return true, nil
	}
	same, _, err := slot.Verify(ctx, is, typed)
	if errors.Is(err, password.ErrHash) {
		err = nil // whatever it is, it is not of this password
	}
	return same, err
}

// endWait bounds what is put in order after whoever asked has gone.
const endWait = 5 * time.Second

func outcomeOf(err error) signInOutcome {
	switch {
	case errors.Is(err, ErrRefused):
		return signInRefused
	case errors.Is(err, ErrThrottled):
		return signInThrottled
	case errors.Is(err, ErrSuspended):
		return signInSuspended
	}
	return signInFailed
}

// logSignIn logs who signed in, and who did not. Where it is not known whether there
// is such an account the address is not logged: people type passwords there.
func (s *Service) logSignIn(ctx context.Context, typed, id string, outcome signInOutcome, err error) {
	who := slog.String("account", id)
	if id == "" {
		address, _ := ParseAddress(typed)
		who = slog.Uint64("bucket", uint64(bucketOf(address)))
	}
	switch outcome {
	case signInOpened:
		s.deps.Logger.InfoContext(ctx, "signed in", who)
	case signInRefused, signInPending, signInSuspended:
		// No more of these come than passwords are hashed.
		s.deps.Logger.InfoContext(ctx, "a sign-in was refused", who, "outcome", outcome.String())
	case signInInvalid:
		s.note(ctx, noticeInvalid, "a sign-in was refused for an address or a password that nobody can have")
	case signInThrottled:
		s.note(ctx, noticeThrottled, "a sign-in came too early after others that failed", who)
	case signInBusy:
		s.note(ctx, noticeBusy, "a sign-in was turned away: too many passwords are being hashed", "max_waiting", s.cfg.MaxWaiting)
	default:
		s.note(ctx, noticeFailed, "a sign-in failed", who, "err", err)
	}
}
