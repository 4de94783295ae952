package storage

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// The largest figures that a record may hold. They leave room for the sums of
// nine thousand such records, and a real one is far from them.
const (
	MaxTokens    = 1_000_000_000_000         // of one kind in one request
	MaxCostNanos = 1_000_000_000_000_000     // of one request: a million units
	MaxNanos     = 1_000_000_000_000_000_000 // of a budget: a thousand million units
)

// Bounds of texts, in bytes.
const (
	maxID     = 64
	maxText   = 256
	maxTag    = 128
	maxHint   = 32
	maxAsked  = 128 // of a request's or router's identity
	maxModels = 1000
	maxTags   = 32
	maxState  = 64 << 10 // of an audit row's Before or After
)

// faults gathers what is wrong with one record.
type faults struct {
	what string
	errs []error
}

func (f *faults) add(field string, value any, want string) {
	f.errs = append(f.errs, fmt.Errorf("%w: %s: %s: %v; want %s", ErrInvalid, f.what, field, value, want))
}

func (f *faults) err() error { return errors.Join(f.errs...) }

// text wants UTF-8 without NUL, which no database keeps, of least to most bytes.
func (f *faults) text(field, value string, least, most int) {
	if len(value) < least || len(value) > most {
		f.add(field, fmt.Sprintf("%d bytes", len(value)), fmt.Sprintf("%d to %d", least, most))
	} else if !keepable(value) {
		f.add(field, fmt.Sprintf("%q", value), "UTF-8 without NUL")
	}
}

func (f *faults) within(field string, value, least, most int64) {
	if value < least || value > most {
		f.add(field, value, fmt.Sprintf("%d to %d", least, most))
	}
}

func (f *faults) optional(field string, value *int64, least, most int64) {
	if value != nil {
		f.within(field, *value, least, most)
	}
}

func (f *faults) time(field string, t time.Time) {
	const end = 253402300800 // of the year 9999, in seconds since 1970
	if s := t.Unix(); s < 0 || s >= end {
		f.add(field, t, "a time between 1970 and 9999")
	}
}

func (f *faults) timeOrZero(field string, t time.Time) {
	if !t.IsZero() {
		f.time(field, t)
	}
}

func (f *faults) period(field string, b BudgetPeriod) {
	f.text(field+".KeyID", b.KeyID, 1, maxID)
	switch {
	case b.Period < PeriodDay || b.Period > PeriodTotal:
		f.add(field+".Period", b.Period, "day, week, month or total")
	case b.Period == PeriodTotal && !b.Start.IsZero():
		f.add(field+".Start", b.Start, "the zero time for a total")
	case b.Period != PeriodTotal:
		f.time(field+".Start", b.Start)
	}
}

// keepable is whether a text is UTF-8 without NUL. Most are ASCII.
func keepable(s string) bool {
	for i := range len(s) {
		if c := s[i]; c == 0 || c >= utf8.RuneSelf {
			return utf8.ValidString(s[i:]) && strings.IndexByte(s[i:], 0) < 0
		}
	}
	return true
}

// Validate reports every fault of a key, joined. Each wraps ErrInvalid. Stores
// ask it; Revision is theirs and not looked at.
func (k *Key) Validate() error {
	f := faults{what: "key"}
	f.text("ID", k.ID, 1, maxID)
	if k.Hash == (KeyHash{}) {
		f.add("Hash", "zero", "the hash of a key")
	}
	f.text("Hint", k.Hint, 0, maxHint)
	f.text("Name", k.Name, 0, maxText)
	f.text("Owner", k.Owner, 0, maxText)
	f.models("Models", k.Models)
	f.text("Band", k.Band, 0, maxText)
	f.limits("Limits", k.Limits)
	f.budget("Budget", k.Budget)
	if len(k.Tags) > maxTags {
		f.add("Tags", len(k.Tags), fmt.Sprintf("at most %d", maxTags))
	}
	for name, value := range k.Tags {
		f.text("Tags", name, 1, maxTag)
		f.text("Tags["+name+"]", value, 0, maxTag)
	}
	f.time("CreatedAt", k.CreatedAt)
	f.timeOrZero("ExpiresAt", k.ExpiresAt)
	f.timeOrZero("RevokedAt", k.RevokedAt)
	f.text("Replaces", k.Replaces, 0, maxID)
	f.text("Lineage", k.Lineage, 0, maxID)
	f.text("Account", k.Account, 0, maxID)
	if k.Account != "" && k.Lineage != "" && k.Lineage != k.Account {
		f.add("Lineage", fmt.Sprintf("%q", k.Lineage), fmt.Sprintf("the account, %q", k.Account))
	}
	return f.err()
}

// Validate reports every fault of a usage row, joined. Each wraps ErrInvalid.
// Stores ask it. See [Usage.Tidy] for rows with what clients sent.
func (u *Usage) Validate() error {
	f := faults{what: "usage"}
	f.text("RequestID", u.RequestID, 1, maxAsked)
	f.text("KeyID", u.KeyID, 0, maxID)
	for i, value := range u.texts() {
		f.text(usageTexts[i], *value, 0, maxText)
	}
	f.time("At", u.At)
	f.within("Latency", int64(u.Latency), 0, 1<<62)
	if u.TTFT != nil {
		f.within("TTFT", int64(*u.TTFT), 0, 1<<62)
	}
	f.within("Status", int64(u.Status), 0, 999)
	f.within("Retries", int64(u.Retries), 0, 1_000_000)
	f.optional("Tokens.Input", u.Tokens.Input, 0, MaxTokens)
	f.optional("Tokens.CachedInput", u.Tokens.CachedInput, 0, MaxTokens)
	f.optional("Tokens.Output", u.Tokens.Output, 0, MaxTokens)
	f.optional("Tokens.Reasoning", u.Tokens.Reasoning, 0, MaxTokens)
	if u.Source < SourceEngine || u.Source > SourceNone {
		f.add("Source", u.Source, "where the tokens come from")
	}
	f.optional("CostNanos", u.CostNanos, 0, MaxCostNanos)
	if u.Charged != nil {
		f.period("Charged", *u.Charged)
	}
	return f.err()
}

// texts are the fields that may hold what others sent, as usageTexts names them.
func (u *Usage) texts() [9]*string {
	return [9]*string{&u.Owner, &u.Asked, &u.Model, &u.Endpoint, &u.Provider, &u.Path, &u.Router, &u.Result, &u.Code}
}

//nolint:gochecknoglobals // a constant table
var usageTexts = [9]string{"Owner", "Asked", "Model", "Endpoint", "Provider", "Path", "Router", "Result", "Code"}

// Validate reports every fault of an audit row, joined. Each wraps ErrInvalid.
// Stores ask it.
func (a *Audit) Validate() error {
	f := faults{what: "audit row"}
	f.text("ID", a.ID, 1, maxID)
	f.time("At", a.At)
	f.text("Actor", a.Actor, 0, maxText)
	f.text("Action", a.Action, 1, maxText)
	f.text("Target", a.Target, 0, maxText)
	for field, state := range map[string]json.RawMessage{"Before": a.Before, "After": a.After} {
		if state == nil {
			continue
		}
		if len(state) > maxState || !json.Valid(state) || !keepable(string(state)) {
			f.add(field, fmt.Sprintf("%d bytes", len(state)), fmt.Sprintf("nil, or JSON of at most %d bytes", maxState))
		}
	}
	f.text("RequestID", a.RequestID, 0, maxAsked)
	return f.err()
}

// Validate reports every fault of a budget's period, joined. Each wraps
// ErrInvalid. Stores ask it.
func (b BudgetPeriod) Validate() error {
	f := faults{what: "budget"}
	f.period("BudgetPeriod", b)
	return f.err()
}

// Validate reports every fault of a request for a slice, joined. Each wraps
// ErrInvalid. Stores ask it.
func (r *GrantRequest) Validate() error {
	f := faults{what: "grant"}
	f.text("ID", r.ID, 1, maxID)
	f.period("Budget", r.Budget)
	f.text("Router", r.Router, 1, maxAsked)
	f.within("LimitNanos", r.LimitNanos, 0, MaxNanos)
	f.within("LeastNanos", r.LeastNanos, 1, MaxNanos)
	f.within("WantNanos", r.WantNanos, max(r.LeastNanos, 1), MaxNanos)
	f.time("At", r.At)
	return f.err()
}
