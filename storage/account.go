package storage

import (
	"context"
	"crypto/sha256"
	"time"
)

// TokenHash is what a session, its forms' token or a link is found by: the SHA-256 of
// a token. Tokens have 256 random bits, as keys have.
type TokenHash [sha256.Size]byte

// Account is a person who signs in on the pages.
type Account struct {
	// ID names the account in audit rows and is the [Key.Lineage] of all its keys, so
	// that what bounds them is counted together. It is never used again. 1 to 64 bytes.
	ID string
	// Address is what the person signs in with, an e-mail address as
	// account.ParseAddress writes it. No two accounts have the same. 3 to 254 bytes.
	Address string
	// Password is its hash, in the PHC string format. 1 to 256 bytes; no list and no
	// audit row has it.
	Password string
	State    AccountState
	// Admin lets it look at the console, and nothing else.
	Admin bool
	// Allowance is what it may use.
	Allowance Allowance

	CreatedAt time.Time
	// ApprovedAt is when it was approved last; zero if it never was.
	ApprovedAt time.Time
	// SignedInAt is when it signed in last; zero if it never did.
	SignedInAt time.Time
	// Revision is 1 for a new account and one more after each change of State, Admin,
	// Allowance, Password or ApprovedAt. Stores set it.
	Revision int64
}

// AccountState is whether an account may do anything. The zero value is none.
type AccountState uint8

// The states, with the text that stands for them in stores, JSON and commands.
const (
	AccountPending   AccountState = iota + 1 // "pending": it signed up, and nobody has approved it
	AccountApproved                          // "approved"
	AccountSuspended                         // "suspended": it was approved once and may do nothing now
)

// Allowance is what an account may use: its keys are made with it. Limits and budget
// bound all its keys together.
type Allowance struct {
	// Models are as [Key.Models]: what its keys may use at most; nil is every model.
	Models []string `json:"models"`
	// Band is as [Key.Band].
	Band   string `json:"band,omitempty"`
	Limits Limits `json:"limits"`
	// Budget is as [Key.Budget].
	Budget *Budget `json:"budget,omitempty"`
	// Keys is how many keys it may have that are good for something. 0 to 10000.
	Keys int `json:"keys"`
}

// AccountQuery chooses accounts. The zero value means all.
type AccountQuery struct {
	State AccountState // zero: any
	Page
}

// AccountListing is an account in a list, without its password.
type AccountListing struct {
	Account
	// Keys is how many keys it has that are good for something at the time of the
	// query.
	Keys int
}

// Session is one browser of one account.
type Session struct {
	// ID names it in lists; it is no secret. 1 to 64 bytes.
	ID string
	// Hash is of the token that the browser sends.
	Hash TokenHash
	// Form is of the token that its forms carry.
	Form TokenHash
	// Account is the ID of whose it is.
	Account string
	// Agent and From are what the browser and its connection say of themselves, for
	// the list of sessions alone. At most 256 bytes each.
	Agent, From string

	CreatedAt time.Time
	// SeenAt is when it was used last, to a minute.
	SeenAt time.Time
	// ExpiresAt is when it ends, used or not.
	ExpiresAt time.Time
}

// Link is a link that opens once.
type Link struct {
	// ID names it in audit rows and lists; it is no secret. 1 to 64 bytes.
	ID string
	// Hash is of the token in it.
	Hash TokenHash
	Kind LinkKind
	// Spec says what the key shall be that a link of LinkKey makes, in JSON: see
	// auth.DecodeSpec. At most 64 KiB; nil in other links.
	Spec []byte
	// Account is the ID of the account whose password a link of LinkReset sets; empty
	// in other links.
	Account string

	CreatedAt, ExpiresAt time.Time
	// UsedAt is when it was opened or taken back; zero if it can be opened.
	UsedAt time.Time
	// Key is the ID of the key that it made; empty if none.
	Key string
}

// LinkKind is what a link does. The zero value is none.
type LinkKind uint8

// The kinds, with the text that stands for them in stores.
const (
	LinkKey   LinkKind = iota + 1 // "key": it makes a key and shows it
	LinkReset                     // "reset": it sets an account's password
)

// Accounts keeps people, their sessions and the links that they are sent.
type Accounts interface {
	// CreateAccount keeps a new account and its audit row. It returns ErrFull if a
	// pending one would be one more than mostPending, and ErrExists if the ID or the
	// address is taken, in that order: where the list is full nobody learns which
	// addresses have an account. One that is there just so already is no error.
	CreateAccount(ctx context.Context, a Account, mostPending int, why Audit) error
	// Account returns the account with that ID, or ErrNotFound.
	Account(ctx context.Context, id string) (Account, error)
	// AccountByAddress returns the account with that address, or ErrNotFound.
	AccountByAddress(ctx context.Context, address string) (Account, error)
	// ListAccounts returns accounts by address and the cursor of the next page, empty
	// after the last. Passwords are left out. Keys counts those that are good for
	// something at now.
	ListAccounts(ctx context.Context, q AccountQuery, now time.Time) (list []AccountListing, next string, err error)
	// UpdateAccount replaces State, Admin, Allowance, Password and ApprovedAt and keeps
	// an audit row. Where the state is not AccountApproved afterwards, or the password
	// is another, its sessions end in the same step; with another password its links of
	// LinkReset, too. Errors and repetition are as UpdateKey's.
	UpdateAccount(ctx context.Context, a Account, why Audit) error
	// RehashAccount replaces the password's hash from by the one to, both of the same
	// password. Where from is not what is kept it does nothing, which is no error.
	RehashAccount(ctx context.Context, id, from, to string) error

	// CreateSession keeps a new session, and that its account signed in then. Of those
	// of its account that are there the oldest end, so that no more than most are
	// left. ErrNotFound: there is no such account, or it is not approved.
	CreateSession(ctx context.Context, s Session, most int) error
	// Session returns the session with that hash and its account, read in one step, or
	// ErrNotFound if there is none, it has expired at now, was not used since idle, or
	// its account is not approved. It changes nothing.
	Session(ctx context.Context, h TokenHash, now, idle time.Time) (Session, Account, error)
	// TouchSession says that a session was used at that time. One that there is not is
	// no error.
	TouchSession(ctx context.Context, id string, at time.Time) error
	// ListSessions returns the sessions of an account that have not ended, the newest
	// first: Session's times say which those are.
	ListSessions(ctx context.Context, account string, now, idle time.Time) ([]Session, error)
	// EndSession ends a session of that account, or returns ErrNotFound if it has none
	// of that ID.
	EndSession(ctx context.Context, account, id string) error
	// EndSessions ends the sessions of an account but the one of that ID, and returns
	// how many.
	EndSessions(ctx context.Context, account, except string) (int, error)

	// CreateLink keeps a new link and its audit row. Errors and repetition are as
	// CreateKey's.
	CreateLink(ctx context.Context, l Link, why Audit) error
	// Link returns the link with that hash, used and expired ones too, or ErrNotFound.
	Link(ctx context.Context, h TokenHash) (Link, error)
	// RedeemKeyLink keeps the key that a link of LinkKey makes, that the link was used,
	// and the audit row, in one step. ErrNotFound if there is no such link;
	// ErrConflict if it was used or has expired at that time, in which case nothing
	// is kept. It is not to be repeated.
	RedeemKeyLink(ctx context.Context, h TokenHash, at time.Time, k Key, why Audit) error
	// RedeemResetLink sets the password of the account of a link of LinkReset, ends the
	// account's sessions and other such links, and keeps the audit row, in one step.
	// It returns the account as it is then. Errors are as RedeemKeyLink's.
	RedeemResetLink(ctx context.Context, h TokenHash, at time.Time, password string, why Audit) (Account, error)
	// RevokeLink takes a link back and keeps an audit row. One that was used stays as
	// it was, which is no error; ErrNotFound if there is none of that ID.
	RevokeLink(ctx context.Context, id string, at time.Time, why Audit) (Link, error)

	// TakeAttempt counts an attempt to sign in before it is known whether it succeeds,
	// as t's Take does. Where it comes too early it counts nothing and returns how long
	// to wait.
	TakeAttempt(ctx context.Context, bucket uint32, now time.Time, t Throttle) (wait time.Duration, err error)
	// ForgiveAttempts forgets what was counted.
	ForgiveAttempts(ctx context.Context, bucket uint32) error

	// CreateAccountKey keeps a new key of an account, as CreateKey does. ErrNotFound:
	// there is no such account, or it is not approved. ErrFull: it has most keys that
	// are good for something when the new one is made.
	CreateAccountKey(ctx context.Context, k Key, most int, why Audit) error
	// RevokeAccountKey is RevokeKey for a key of that account. ErrNotFound if it has
	// none of that ID, which is decided in the step that would end it.
	RevokeAccountKey(ctx context.Context, account, id string, at time.Time, why Audit) (Key, error)

	// PruneAccounts forgets what s says may be forgotten. more says that s.Most may
	// have left some.
	PruneAccounts(ctx context.Context, s StaleAccounts) (deleted int, more bool, err error)
}

// StaleAccounts says what of accounts may be forgotten. Zero times keep all.
type StaleAccounts struct {
	Pending  time.Time // accounts that are pending since before this
	Sessions time.Time // sessions that expired before this
	Idle     time.Time // sessions that were not used since
	Links    time.Time // links that expired before this
	Attempts time.Time // attempts that were counted last before this
	// Most bounds how many of each are deleted in one step; positive.
	Most int
}

// Throttle is how attempts that fail slow down those that follow.
type Throttle struct {
	// Free attempts in a row have no wait between them.
	Free int
	// First is the wait after the next one; each further one doubles it, up to Most.
	First, Most time.Duration
	// Forget is after how long without an attempt nothing is remembered.
	Forget time.Duration
}

// Attempts is what is remembered of attempts to sign in with addresses of one bucket.
// The zero value is none.
type Attempts struct {
	Count int       // in a row, all taken to have failed
	Last  time.Time // when the last of them came
}

// Take counts one more attempt at now, or says how long it has to wait. Either way what
// it returns is to be remembered. A clock that goes back makes nobody wait longer than
// Most: what came later than now is taken to have come now.
func (t Throttle) Take(a Attempts, now time.Time) (Attempts, time.Duration) {
	if a.Count > 0 && a.Last.After(now) {
		a.Last = now
	}
	since := now.Sub(a.Last)
	if a.Count == 0 || since >= t.Forget {
		return Attempts{Count: 1, Last: now}, 0
	}
	if wait := t.wait(a.Count) - since; wait > 0 {
		return a, wait
	}
	return Attempts{Count: a.Count + 1, Last: now}, 0
}

// wait is how long the attempt after that many has to wait.
func (t Throttle) wait(count int) time.Duration {
	if count < t.Free {
		return 0
	}
	wait := t.First
	for range count - t.Free {
		if wait >= t.Most {
			break
		}
		wait *= 2
	}
	return min(wait, t.Most)
}
