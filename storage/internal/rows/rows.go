// Package rows is what the stores do alike with records before a database sees
// them: the form in which each is kept, cursors of lists, and sums of usage.
package rows

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/llmgw/llmgw/storage"
)

// Time is t as it is kept: in UTC, to the microsecond, later digits dropped.
func Time(t time.Time) time.Time { return FromMicros(t.UnixMicro()) }

// FromMicros is the time of so many microseconds since 1970. Those of the zero
// time give the zero time.
func FromMicros(us int64) time.Time {
	t := time.UnixMicro(us).UTC()
	if t.IsZero() {
		return time.Time{}
	}
	return t
}

// Ceil is the first kept time that is not before t: rows at or after it are the
// rows at or after t.
func Ceil(t time.Time) time.Time {
	kept := Time(t)
	if kept.Before(t) {
		kept = kept.Add(time.Microsecond)
	}
	return kept
}

// Key is k as it is kept, in memory of its own. Revision is left as it is.
func Key(k storage.Key) storage.Key {
	k.Models = slices.Clone(k.Models)
	k.Tags = maps.Clone(k.Tags)
	if len(k.Tags) == 0 {
		k.Tags = nil
	}
	k.Limits.RequestsPerMinute = clone(k.Limits.RequestsPerMinute)
	k.Limits.TokensPerMinute = clone(k.Limits.TokensPerMinute)
	k.Limits.Concurrency = clone(k.Limits.Concurrency)
	k.Budget = clone(k.Budget)
	k.Lineage = cmp.Or(k.Lineage, k.Account, k.ID)
	k.CreatedAt, k.ExpiresAt, k.RevokedAt = Time(k.CreatedAt), Time(k.ExpiresAt), Time(k.RevokedAt)
	return k
}

// SameKey reports whether two keys as they are kept are the same record. Suspended is
// no part of it.
func SameKey(a, b storage.Key) bool {
	return a.ID == b.ID && a.Hash == b.Hash && a.Hint == b.Hint && a.Name == b.Name && a.Owner == b.Owner &&
		(a.Models == nil) == (b.Models == nil) && slices.Equal(a.Models, b.Models) && a.Band == b.Band &&
		same(a.Limits.RequestsPerMinute, b.Limits.RequestsPerMinute) && same(a.Limits.TokensPerMinute, b.Limits.TokensPerMinute) &&
		same(a.Limits.Concurrency, b.Limits.Concurrency) && same(a.Budget, b.Budget) && maps.Equal(a.Tags, b.Tags) &&
		a.CreatedAt.Equal(b.CreatedAt) && a.ExpiresAt.Equal(b.ExpiresAt) && a.RevokedAt.Equal(b.RevokedAt) &&
		a.Replaces == b.Replaces && a.Lineage == b.Lineage && a.Account == b.Account &&
		a.MayExplain == b.MayExplain && a.Revision == b.Revision
}

// Changed is k as it is kept after it replaces old: what of a key never changes
// is the old one's.
func Changed(old, k storage.Key) storage.Key {
	k = Key(k)
	k.ID, k.Hash, k.Hint, k.CreatedAt, k.Replaces, k.Lineage = old.ID, old.Hash, old.Hint, old.CreatedAt, old.Replaces, old.Lineage
	k.Account, k.Suspended = old.Account, old.Suspended
	k.Revision = old.Revision + 1
	return k
}

// Audit is a as it is kept: its JSON without spaces.
func Audit(a storage.Audit) storage.Audit {
	a.At = Time(a.At)
	a.Before, a.After = compact(a.Before), compact(a.After)
	return a
}

// SameAudit reports whether two audit rows as they are kept are the same.
func SameAudit(a, b storage.Audit) bool {
	return a.ID == b.ID && a.At.Equal(b.At) && a.Actor == b.Actor && a.Action == b.Action && a.Target == b.Target &&
		bytes.Equal(a.Before, b.Before) && bytes.Equal(a.After, b.After) && a.RequestID == b.RequestID
}

func compact(raw json.RawMessage) json.RawMessage {
	if raw == nil {
		return nil
	}
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return slices.Clone(raw) // not JSON: Validate has refused it
	}
	return b.Bytes()
}

// Limit is how many rows a page has.
func Limit(p storage.Page) (int, error) {
	switch {
	case p.Limit == 0:
		return 1000, nil
	case p.Limit < 0 || p.Limit > 10000:
		return 0, fmt.Errorf("%w: page: Limit: %d; want 1 to 10000, or 0 for 1000", storage.ErrInvalid, p.Limit)
	}
	return p.Limit, nil
}

// Usage validates rows and returns them sorted by RequestID, each once, so that
// transactions with rows in common take them in one order and none waits for
// another in a circle.
func Usage(batch []storage.Usage) ([]*storage.Usage, error) {
	type place struct {
		id  string
		row int
	}
	places := make([]place, len(batch))
	for i := range batch {
		if err := batch[i].Validate(); err != nil {
			return nil, fmt.Errorf("row %d: %w", i, err)
		}
		places[i] = place{batch[i].RequestID, i}
	}
	slices.SortFunc(places, func(a, b place) int {
		if c := strings.Compare(a.id, b.id); c != 0 {
			return c
		}
		return a.row - b.row // the first of them is kept
	})
	out := make([]*storage.Usage, 0, len(batch))
	for i, p := range places {
		if i == 0 || p.id != places[i-1].id {
			out = append(out, &batch[p.row])
		}
	}
	return out, nil
}

// Start is when the hour or day of UTC begins that t is in.
func Start(g storage.Grain, t time.Time) time.Time {
	if g == storage.GrainDay {
		return t.UTC().Truncate(24 * time.Hour)
	}
	return t.UTC().Truncate(time.Hour)
}

// Rollups sums rows by hour or day, key, owner and model, sorted by these.
func Rollups(g storage.Grain, batch []*storage.Usage) []storage.Rollup {
	type place struct {
		start             int64
		key, owner, model string
	}
	sums := make(map[place]*storage.Rollup)
	var last place // the next row often has the same
	var s *storage.Rollup
	for _, u := range batch {
		start := Start(g, u.At)
		if at := (place{start.Unix(), u.KeyID, u.Owner, u.Model}); s == nil || at != last {
			if s = sums[at]; s == nil {
				s = &storage.Rollup{Start: start, KeyID: u.KeyID, Owner: u.Owner, Model: u.Model}
				sums[at] = s
			}
			last = at
		}
		Add(s, u)
	}
	out := make([]storage.Rollup, 0, len(sums))
	for _, s := range sums {
		out = append(out, *s)
	}
	slices.SortFunc(out, CompareRollups)
	return out
}

// Days sums roll-ups by hour to those by day.
func Days(hours []storage.Rollup) []storage.Rollup {
	days := make([]storage.Rollup, 0, len(hours))
	for _, r := range hours {
		r.Start = Start(storage.GrainDay, r.Start)
		days = append(days, r)
	}
	slices.SortFunc(days, CompareRollups)
	n := 0
	for _, r := range days {
		if n == 0 || CompareRollups(days[n-1], r) != 0 {
			days[n] = r
			n++
			continue
		}
		s := &days[n-1]
		s.Requests += r.Requests
		s.Failed += r.Failed
		s.Input += r.Input
		s.CachedInput += r.CachedInput
		s.Output += r.Output
		s.Reasoning += r.Reasoning
		s.CostNanos += r.CostNanos
	}
	return days[:n]
}

// Add adds a row to its sum.
func Add(s *storage.Rollup, u *storage.Usage) {
	s.Requests++
	if u.Status < 200 || u.Status > 299 {
		s.Failed++
	}
	s.Input += value(u.Tokens.Input)
	s.CachedInput += value(u.Tokens.CachedInput)
	s.Output += value(u.Tokens.Output)
	s.Reasoning += value(u.Tokens.Reasoning)
	s.CostNanos += value(u.CostNanos)
}

// CompareRollups is the order in which roll-ups are listed.
func CompareRollups(a, b storage.Rollup) int {
	return cmp.Or(a.Start.Compare(b.Start), cmp.Compare(a.KeyID, b.KeyID), cmp.Compare(a.Owner, b.Owner), cmp.Compare(a.Model, b.Model))
}

// Spent is what a batch of rows adds to a budget.
type Spent struct {
	Budget storage.BudgetPeriod
	Nanos  int64
}

// Spending sums the costs of rows by the budgets that pay them, sorted.
func Spending(batch []*storage.Usage) []Spent {
	sums := make(map[storage.BudgetPeriod]*int64)
	var last storage.BudgetPeriod // the next row often has the same
	var sum *int64
	for _, u := range batch {
		if u.Charged == nil || u.CostNanos == nil {
			continue
		}
		b := *u.Charged
		b.Start = Time(b.Start)
		if sum == nil || b != last {
			if sum = sums[b]; sum == nil {
				sum = new(int64)
				sums[b] = sum
			}
			last = b
		}
		*sum += *u.CostNanos
	}
	out := make([]Spent, 0, len(sums))
	for b, n := range sums {
		out = append(out, Spent{b, *n})
	}
	slices.SortFunc(out, func(a, b Spent) int {
		return cmp.Or(cmp.Compare(a.Budget.KeyID, b.Budget.KeyID), cmp.Compare(a.Budget.Period, b.Budget.Period), a.Budget.Start.Compare(b.Budget.Start))
	})
	return out
}

func clone[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}

func same[T comparable](a, b *T) bool { return a == b || a != nil && b != nil && *a == *b }

func value(p *int64) int64 {
	if p == nil {
		return 0
	}
	return *p
}

// Keepable reports whether a text is one that a record may hold: UTF-8 without
// NUL.
func Keepable(s string) bool { return utf8.ValidString(s) && !strings.Contains(s, "\x00") }
