package account

import (
	"errors"
	"fmt"
	"time"

	"github.com/llmgw/llmgw/auth"
	"github.com/llmgw/llmgw/storage"
)

// What callers tell apart. Beside these there are storage.ErrUnavailable, where the
// store cannot be asked, and the end of the caller's context.
var (
	// ErrInvalid says that what was asked for cannot be: the caller's mistake. Nothing
	// was changed. Of an address or a password it is an [*InvalidError].
	ErrInvalid = auth.ErrInvalid
	// ErrFull says that there are as many accounts that wait to be approved, or as
	// many keys of an account, as may be.
	ErrFull = storage.ErrFull
	// ErrClosed says that people do not sign up by themselves here.
	ErrClosed = errors.New("account: signing up is switched off")
	// ErrBusy says that too many passwords are being hashed. Come again in a second.
	ErrBusy = errors.New("account: too many sign in at once")
	// ErrRefused says that there is no such account, or that the password is another:
	// nobody is told which.
	ErrRefused = errors.New("account: the address or the password is not right")
	// ErrThrottled says that an attempt to sign in came too early: see ThrottledError.
	ErrThrottled = errors.New("account: too many attempts to sign in")
	// ErrPending says that an account has not been approved yet. Who knows its
	// password is told, and nobody else.
	ErrPending = errors.New("account: not approved yet")
	// ErrSuspended says that an account was suspended; likewise.
	ErrSuspended = errors.New("account: suspended")
	// ErrNoSession says that a token is of no session: made up, ended or expired, or
	// its account may do nothing.
	ErrNoSession = errors.New("account: no session")
	// ErrNoLink says that there never was such a link, or that it was forgotten.
	ErrNoLink = errors.New("account: no such link")
	// ErrLinkUsed says that a link was opened or taken back, or has expired.
	ErrLinkUsed = errors.New("account: the link was used or has expired")
)

// InvalidError says what is wrong with something that a person typed. It is an
// ErrInvalid.
type InvalidError struct {
	Field   string // address, password, or what else was typed where
	Problem string // such as "has 9 characters; want at least 15"; it repeats no password
}

// Error implements error.
func (e *InvalidError) Error() string { return fmt.Sprintf("account: %s: %s", e.Field, e.Problem) }

// Unwrap returns ErrInvalid.
func (e *InvalidError) Unwrap() error { return ErrInvalid }

// ThrottledError says when to try again. It is an ErrThrottled.
type ThrottledError struct {
	RetryAfter time.Duration // more than zero
}

// Error implements error.
func (e *ThrottledError) Error() string {
	return fmt.Sprintf("%v; try again in %v", ErrThrottled, e.RetryAfter.Round(time.Second))
}

// Unwrap returns ErrThrottled.
func (e *ThrottledError) Unwrap() error { return ErrThrottled }
