package auth

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/llmgw/llmgw/storage"
)

// ErrInvalid says that what a key should be cannot be: the caller's mistake.
// Nothing was changed.
var ErrInvalid = errors.New("auth: invalid")

// Bounds of what a key can be given.
const (
	maxTextBytes   = 256 // of a name, an owner, a band
	maxTags        = 32
	maxTagBytes    = 128               // of a tag's name, and of its value
	maxRate        = 1_000_000_000_000 // requests or tokens in a minute
	maxConcurrency = 1_000_000
	maxLife        = 100 * 365 * 24 * time.Hour // until a key expires
	maxSpecBytes   = 1 << 20                    // in JSON
)

// Spec is what a new key shall be.
type Spec struct {
	// Name is what the owner calls it. At most 256 bytes of printable text.
	Name string `json:"name,omitempty"`
	// Owner is who pays. At most 256 bytes of printable text.
	Owner string `json:"owner,omitempty"`
	// Models are [Pattern]s, at most 256; nil is every model, and an empty list
	// is an error.
	Models []string `json:"models,omitempty"`
	// AllowUnknownModels takes names of models that the catalog does not have
	// yet. They allow nothing until it does.
	AllowUnknownModels bool `json:"allow_unknown_models,omitempty"`
	// Band is the priority class; empty is the default band.
	Band string `json:"band,omitempty"`
	storage.Limits
	// Budget is as [ParseBudget] reads it; empty is none.
	Budget string `json:"budget,omitempty"`
	// Expires is as [ParseExpiry] reads it; empty is never.
	Expires string `json:"expires,omitempty"`
	// MayExplain lets its requests learn which endpoints there are and how one is
	// chosen.
	MayExplain bool `json:"may_explain,omitempty"`
	// Tags are the operator's own: at most 32, of 128 bytes each, name and value.
	Tags map[string]string `json:"tags,omitempty"`
}

// DecodeSpec reads a Spec in JSON. A field that there is not is an error, and so
// is anything behind it.
func DecodeSpec(r io.Reader) (Spec, error) {
	limited := &io.LimitedReader{R: r, N: maxSpecBytes + 1}
	d := json.NewDecoder(limited)
	d.DisallowUnknownFields()
	var s Spec
	err := d.Decode(&s)
	if err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("there is more behind it")
		}
	}
	if limited.N == 0 {
		err = fmt.Errorf("more than %d bytes", maxSpecBytes)
	}
	if err != nil {
		// The decoder repeats names of fields.
		text := withoutKeys(err.Error())
		return Spec{}, fmt.Errorf("%w: key in JSON: %s", ErrInvalid, strings.ToValidUTF8(text[:min(len(text), 300)], ""))
	}
	return s, nil
}

// ParseExpiry reads when a key ends: a time as in 2027-01-31T00:00:00Z (RFC
// 3339), or how long it lasts from now, as in 90d or 12h. It must be after now
// and within a hundred years. It is zero for never.
func ParseExpiry(text string, now time.Time) (time.Time, error) {
	if text == "never" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		life, err := parseLife(text)
		if err != nil {
			return time.Time{}, fmt.Errorf("%w: expires: %q; want a time such as 2027-01-31T00:00:00Z, how long, such as 90d or 12h, or never",
				ErrInvalid, short(text))
		}
		at = now.Add(life)
	}
	at = at.UTC().Truncate(time.Microsecond)
	switch {
	case !at.After(now):
		return time.Time{}, fmt.Errorf("%w: expires: %s is in the past", ErrInvalid, at.Format(time.RFC3339))
	case at.After(now.Add(maxLife)):
		return time.Time{}, fmt.Errorf("%w: expires: %q is more than a hundred years from now; want never for no end", ErrInvalid, short(text))
	}
	return at, nil
}

func parseLife(text string) (time.Duration, error) {
	days, ok := strings.CutSuffix(text, "d")
	if !ok || !digits(days) {
		return time.ParseDuration(text)
	}
	n, err := strconv.Atoi(days)
	if err != nil || n > 100_000 {
		return 0, fmt.Errorf("%w: %s days", ErrInvalid, short(days))
	}
	return time.Duration(n) * 24 * time.Hour, nil
}

// record makes the record of a key that is new at now, without what Mint gives.
// Every fault is reported, joined.
func (s *Spec) record(now time.Time, bands []string, m Models) (k storage.Key, warnings []string, err error) {
	var errs []error
	fault := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...))
	}
	for _, t := range []struct{ field, text string }{{"name", s.Name}, {"owner", s.Owner}, {"band", s.Band}} {
		if what := badText(t.text, maxTextBytes); what != "" {
			fault("%s: %s", t.field, what)
		}
	}
	if s.Band != "" && bands == nil {
		warnings = append(warnings, fmt.Sprintf("band %q was not checked, since no configuration is at hand", short(s.Band)))
	} else if s.Band != "" && !slices.Contains(bands, s.Band) {
		fault("band: there is no %q; want one of %s", short(s.Band), strings.Join(bands, ", "))
	}
	for _, l := range []struct {
		field string
		v     *int64
		most  int64
	}{
		{"requests_per_minute", s.RequestsPerMinute, maxRate},
		{"tokens_per_minute", s.TokensPerMinute, maxRate},
		{"concurrency", s.Concurrency, maxConcurrency},
	} {
		if l.v != nil && (*l.v < 1 || *l.v > l.most) {
			fault("%s: %d; want 1 to %d, or leave it out for no limit", l.field, *l.v, l.most)
		}
	}
	if len(s.Tags) > maxTags {
		fault("tags: there are %d; want at most %d", len(s.Tags), maxTags)
	} else {
		for _, name := range slices.Sorted(maps.Keys(s.Tags)) {
			if what := badText(name, maxTagBytes); what != "" || name == "" {
				fault("tags: a name %s", cmp.Or(what, "is empty"))
			}
			if what := badText(s.Tags[name], maxTagBytes); what != "" {
				fault("tags[%s]: %s", short(name), what)
			}
		}
	}
	k = storage.Key{
		Name: s.Name, Owner: s.Owner, Band: s.Band, Limits: s.Limits, MayExplain: s.MayExplain, Tags: maps.Clone(s.Tags), CreatedAt: now,
	}
	if s.Budget != "" {
		if k.Budget, err = ParseBudget(s.Budget); err != nil {
			errs = append(errs, err)
		}
	}
	if s.Expires != "" {
		if k.ExpiresAt, err = ParseExpiry(s.Expires, now); err != nil {
			errs = append(errs, err)
		}
	}
	warned, err := CheckModels(s.Models, m, s.AllowUnknownModels)
	if err != nil {
		errs = append(errs, err)
	}
	k.Models = unique(s.Models)
	if warnings = append(warnings, warned...); len(errs) == 0 && k.Budget != nil && allFree(k, m) {
		warnings = append(warnings, "none of the models that it may use has a price, so that nothing counts for its budget")
	}
	return k, warnings, errors.Join(errs...)
}

// allFree reports whether it is known that there are models that a key may use,
// and that the use of none of them costs anything.
func allFree(k storage.Key, m Models) bool {
	if m.Priced == nil || m.Resolve == nil || m.Names == nil {
		return false
	}
	k.ID = "new" // who has none is nobody
	free, who := false, NewIdentity(k)
	for _, name := range m.Names() {
		canonical, ok := m.Resolve(name)
		if !ok || !who.MayUse(m, canonical) {
			continue
		}
		if m.Priced(canonical) {
			return false
		}
		free = true
	}
	return free
}

// CheckModels checks a key's list of models before it is kept. Patterns that
// cannot be read are errors, and so are names that the catalog has neither as
// name nor as alias, unless they are allowed. Warnings say what is legal and
// perhaps not what was meant: a wildcard that matches no model as yet, or a list
// that could not be checked, because m is zero.
func CheckModels(list []string, m Models, allowUnknown bool) (warnings []string, err error) {
	patterns, err := parsePatterns(list)
	if err != nil || patterns == nil {
		return nil, err
	}
	if m.Resolve == nil {
		return []string{"the models were not checked, since no catalog is at hand"}, nil
	}
	var names []string
	if m.Names != nil {
		names = m.Names()
	}
	var errs []error
	for _, p := range patterns {
		if p.Wildcard() {
			if w := warnWildcard(p, m, names); w != "" {
				warnings = append(warnings, w)
			}
			continue
		}
		if _, ok := m.Resolve(p.text); ok {
			continue
		}
		what := fmt.Sprintf("there is no model %q", short(p.text))
		if near := nearest(p.text, names); len(near) > 0 {
			what += ", but " + strings.Join(near, ", ")
		} else if !allowUnknown && len(names) > 0 && len(names) <= mostListed {
			what += ", but " + strings.Join(slices.Sorted(slices.Values(names)), ", ")
		}
		if allowUnknown {
			warnings = append(warnings, what+"; it allows nothing until there is")
		} else {
			errs = append(errs, fmt.Errorf("%w: models: %s", ErrInvalid, what))
		}
	}
	return warnings, errors.Join(errs...)
}

// warnWildcard says what may not have been meant by a wildcard.
func warnWildcard(p Pattern, m Models, names []string) string {
	models := make(map[string]bool, len(names))
	matched := 0
	for _, name := range names {
		canonical, ok := m.Resolve(name)
		if !ok || models[canonical] {
			continue
		}
		models[canonical] = true
		if p.Match(canonical) {
			matched++
		}
	}
	switch {
	case len(models) == 0 || matched == len(models):
		return ""
	case p.text == "*":
		return fmt.Sprintf("* matches %d of %d models: those without a slash in their name; ** matches every model", matched, len(models))
	case matched == 0:
		return fmt.Sprintf("%s matches none of the %d models that there are", p.text, len(models))
	}
	return ""
}

// mostListed is how many names are told where none is near.
const mostListed = 8

// nearest returns up to three names that may have been meant.
func nearest(want string, names []string) []string {
	type candidate struct {
		name     string
		distance int
	}
	lower := strings.ToLower(want)
	last := lower[strings.LastIndexByte(lower, '/')+1:]
	var near []candidate
	for _, name := range names {
		low := strings.ToLower(name)
		most := max(len(want)/4, 1)
		switch d := len(low) - len(lower); {
		case last != "" && low[strings.LastIndexByte(low, '/')+1:] == last:
			near = append(near, candidate{name, 0})
		case d <= most && -d <= most:
			if n := edits(lower, low); n <= most {
				near = append(near, candidate{name, n})
			}
		}
	}
	slices.SortFunc(near, func(a, b candidate) int {
		if a.distance != b.distance {
			return a.distance - b.distance
		}
		return strings.Compare(a.name, b.name)
	})
	var out []string
	for _, c := range near[:min(len(near), 3)] {
		out = append(out, c.name)
	}
	return out
}

// edits counts the bytes to insert, delete or replace that lead from a to b.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}

// badText says what is wrong with a text for people; empty if nothing is.
func badText(s string, most int) string {
	switch {
	case len(s) > most:
		return fmt.Sprintf("has %d bytes; want at most %d", len(s), most)
	case !utf8.ValidString(s):
		return "is not UTF-8"
	case strings.ContainsFunc(s, invisible):
		return "contains an invisible character; want printable text"
	case findKey(s) >= 0:
		return "contains an API key; that one should be revoked"
	}
	return ""
}

// unique leaves out what is there already.
func unique(list []string) []string {
	var out []string
	for _, s := range list {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}
