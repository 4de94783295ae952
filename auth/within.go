package auth

import (
	"fmt"
	"slices"

	"github.com/llmgw/llmgw/storage"
)

// Covers reports whether a wildcard matches every canonical name that another wildcard
// matches. Of patterns that are names it is false: what they mean the catalog says.
func (p Pattern) Covers(q Pattern) bool {
	if !p.Wildcard() || !q.Wildcard() {
		return false
	}
	for i, want := range p.segments {
		if want == "**" {
			// What is left of a name must not be empty; that of q is if it is one
			// segment that is empty.
			rest := q.segments[min(i, len(q.segments)):]
			return len(rest) > 1 || len(rest) == 1 && rest[0] != ""
		}
		if i >= len(q.segments) {
			return false
		}
		switch got := q.segments[i]; {
		case got == "**":
			return false // it goes on for longer than p may
		case want == "*" && got == "", want != "*" && got != want:
			return false
		}
	}
	return len(p.segments) == len(q.segments)
}

// Narrow returns the list of models for a key that is to have those of asked, each of
// which has to lie within one entry of allowed; nil is every model. Nothing asked for
// is all that is allowed. An error wraps ErrInvalid and names what of asked is not
// within: a model that there is not and one that is not allowed are not told apart.
//
// A wildcard lies within one that covers it. A name lies within the same name, and
// within what its model does: the result then has the model's canonical name in place
// of an alias, so that an alias which is given to another model later leads nowhere
// that is not allowed. Entries that only several of allowed cover together are not
// within.
func Narrow(asked, allowed []string, m Models) ([]string, error) {
	patterns, err := parsePatterns(asked)
	if len(asked) == 0 {
		return slices.Clone(allowed), nil
	}
	if err != nil {
		return nil, err
	}
	var out []string
	for _, p := range patterns {
		text, ok := within(p, allowed, m)
		if !ok {
			return nil, fmt.Errorf("%w: models: %q is no model that may be used", ErrInvalid, short(p.text))
		}
		out = append(out, text)
	}
	return unique(out), nil
}

// within returns how a pattern that lies within one of a list is to be written.
func within(p Pattern, allowed []string, m Models) (text string, ok bool) {
	if slices.Contains(allowed, p.text) {
		return p.text, true
	}
	if p.Wildcard() {
		return p.text, allowed == nil || slices.ContainsFunc(allowed, func(text string) bool {
			q, err := ParsePattern(text)
			return err == nil && q.Covers(p)
		})
	}
	if m.Resolve == nil {
		return "", false // nobody knows which model it is
	}
	canonical, ok := m.Resolve(p.text)
	if !ok || !NewIdentity(storage.Key{ID: "new", Models: allowed}).MayUse(m, canonical) {
		return "", false
	}
	return canonical, true
}

// Meet returns the list of models for a key of which only what is within allowed is to
// be left: entries of list that lie within one of allowed, and those of allowed that
// lie within one of list. ok is false if nothing is left. What an entry of both has in
// common with the other without lying within it is left out.
func Meet(list, allowed []string, m Models) (left []string, ok bool) {
	if list == nil || allowed == nil {
		if list == nil {
			list = allowed
		}
		return slices.Clone(list), true
	}
	for _, side := range []struct{ of, in []string }{{list, allowed}, {allowed, list}} {
		for _, text := range side.of {
			p, err := ParsePattern(text)
			if err != nil {
				continue
			}
			if as, ok := within(p, side.in, m); ok {
				left = append(left, as)
			}
		}
	}
	left = unique(left)
	// Both lists may be as long as one can be. Less is allowed, too.
	total := 0
	for i, text := range left {
		if total += len(text); i == MaxPatterns || total > maxListBytes {
			left = left[:i]
			break
		}
	}
	return left, len(left) > 0
}
