package storage

import (
	"encoding/json"
	"fmt"
	"time"
)

// Bounds of what accounts hold, beside those of other records.
const (
	minAddress  = 3   // bytes
	maxAddress  = 254 // bytes: RFC 5321, 4.5.3.1.3, less the angle brackets
	maxKeys     = 10_000
	maxSpec     = 64 << 10 // bytes
	maxThrottle = 366 * 24 * time.Hour
)

// Validate reports every fault of an account, joined. Each wraps ErrInvalid. Stores
// ask it; Revision is theirs and not looked at.
func (a *Account) Validate() error {
	f := faults{what: "account"}
	f.text("ID", a.ID, 1, maxID)
	f.text("Address", a.Address, minAddress, maxAddress)
	f.password(a.Password)
	if a.State < AccountPending || a.State > AccountSuspended {
		f.add("State", a.State, "pending, approved or suspended")
	}
	f.models("Allowance.Models", a.Allowance.Models)
	f.text("Allowance.Band", a.Allowance.Band, 0, maxText)
	f.limits("Allowance.Limits", a.Allowance.Limits)
	f.budget("Allowance.Budget", a.Allowance.Budget)
	f.within("Allowance.Keys", int64(a.Allowance.Keys), 0, maxKeys)
	f.time("CreatedAt", a.CreatedAt)
	f.timeOrZero("ApprovedAt", a.ApprovedAt)
	f.timeOrZero("SignedInAt", a.SignedInAt)
	return f.err()
}

// ValidatePassword reports what is wrong with a password's hash, as a store keeps it.
// The error wraps ErrInvalid and does not repeat it.
func ValidatePassword(hash string) error {
	f := faults{what: "account"}
	f.password(hash)
	return f.err()
}

// Validate reports every fault of a session, joined. Each wraps ErrInvalid. Stores ask
// it.
func (s *Session) Validate() error {
	f := faults{what: "session"}
	f.text("ID", s.ID, 1, maxID)
	f.hash("Hash", s.Hash)
	f.hash("Form", s.Form)
	f.text("Account", s.Account, 1, maxID)
	f.text("Agent", s.Agent, 0, maxText)
	f.text("From", s.From, 0, maxText)
	f.time("CreatedAt", s.CreatedAt)
	f.time("SeenAt", s.SeenAt)
	f.time("ExpiresAt", s.ExpiresAt)
	return f.err()
}

// Tidy makes what a browser says of itself such as can be kept and shown, as
// [Usage.Tidy] does.
func (s *Session) Tidy() {
	s.Agent, s.From = tidy(s.Agent, maxText), tidy(s.From, maxText)
}

// Validate reports every fault of a link, joined. Each wraps ErrInvalid. Stores ask it.
func (l *Link) Validate() error {
	f := faults{what: "link"}
	f.text("ID", l.ID, 1, maxID)
	f.hash("Hash", l.Hash)
	switch l.Kind {
	case LinkKey:
		if len(l.Spec) > maxSpec || !json.Valid(l.Spec) || !keepable(string(l.Spec)) {
			f.add("Spec", fmt.Sprintf("%d bytes", len(l.Spec)), fmt.Sprintf("JSON of at most %d bytes", maxSpec))
		}
		f.text("Account", l.Account, 0, 0)
		f.text("Key", l.Key, 0, maxID)
	case LinkReset:
		if l.Spec != nil {
			f.add("Spec", fmt.Sprintf("%d bytes", len(l.Spec)), "nil in a link that makes no key")
		}
		f.text("Account", l.Account, 1, maxID)
		f.text("Key", l.Key, 0, 0)
	default:
		f.add("Kind", l.Kind, "key or reset")
	}
	f.time("CreatedAt", l.CreatedAt)
	f.time("ExpiresAt", l.ExpiresAt)
	f.timeOrZero("UsedAt", l.UsedAt)
	if l.Key != "" && l.UsedAt.IsZero() {
		f.add("UsedAt", "zero", "when the link made its key")
	}
	return f.err()
}

// Validate reports every fault of a throttle, joined. Each wraps ErrInvalid. Stores ask
// it.
func (t Throttle) Validate() error {
	f := faults{what: "throttle"}
	f.within("Free", int64(t.Free), 1, 1_000_000)
	f.duration("First", t.First, time.Microsecond, maxThrottle)
	f.duration("Most", t.Most, max(t.First, 0), maxThrottle)
	f.duration("Forget", t.Forget, max(t.Most, 0), maxThrottle)
	return f.err()
}

// Validate reports every fault of what may be forgotten, joined. Each wraps ErrInvalid.
// Stores ask it.
func (s StaleAccounts) Validate() error {
	f := faults{what: "stale accounts"}
	f.within("Most", int64(s.Most), 1, 1_000_000)
	for field, t := range map[string]time.Time{
		"Pending": s.Pending, "Sessions": s.Sessions, "Idle": s.Idle, "Links": s.Links, "Attempts": s.Attempts,
	} {
		f.timeOrZero(field, t)
	}
	return f.err()
}

func (f *faults) password(hash string) {
	if len(hash) < 1 || len(hash) > maxText || !keepable(hash) {
		f.add("Password", fmt.Sprintf("%d bytes", len(hash)), fmt.Sprintf("its hash of 1 to %d bytes, UTF-8 without NUL", maxText))
	}
}

func (f *faults) hash(field string, h TokenHash) {
	if h == (TokenHash{}) {
		f.add(field, "zero", "the hash of a token")
	}
}

func (f *faults) duration(field string, d, least, most time.Duration) {
	if d < least || d > most {
		f.add(field, d, fmt.Sprintf("%v to %v", least, most))
	}
}

// models wants patterns of models; nil is every model.
func (f *faults) models(field string, models []string) {
	if models != nil && len(models) == 0 || len(models) > maxModels {
		f.add(field, len(models), fmt.Sprintf("nil for every model, or 1 to %d patterns", maxModels))
	}
	for _, m := range models {
		f.text(field, m, 1, maxText)
	}
}

func (f *faults) limits(field string, l Limits) {
	f.optional(field+".RequestsPerMinute", l.RequestsPerMinute, 1, MaxTokens)
	f.optional(field+".TokensPerMinute", l.TokensPerMinute, 1, MaxTokens)
	f.optional(field+".Concurrency", l.Concurrency, 1, MaxTokens)
}

func (f *faults) budget(field string, b *Budget) {
	if b == nil {
		return
	}
	f.within(field+".Nanos", b.Nanos, 1, MaxNanos)
	if b.Period < PeriodDay || b.Period > PeriodTotal {
		f.add(field+".Period", b.Period, "day, week, month or total")
	}
	f.text(field+".Zone", b.Zone, 0, maxID)
}
