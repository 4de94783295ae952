package auth

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds of a key's list of models.
const (
	MaxPatterns   = 256      // patterns in it
	maxModelBytes = 256      // of one, as of a model's name
	maxListBytes  = 16 << 10 // of all, so that an audit row holds them before and after
)

// Pattern is an entry of a key's list of models.
//
//	b/coder   the model of that name, or the one that it is an alias of
//	b/*       one segment in place of *: b/coder, but neither b nor b/team/coder
//	*/coder   likewise, in any place
//	b/**      one segment or more in place of **, which stands last
//	**        every model
//
// Segments are what a slash divides. Wildcards stand for whole segments that are
// not empty, and match the canonical name alone: no alias opens anything by its
// own look. Case counts. The zero Pattern matches nothing.
type Pattern struct {
	text     string
	segments []string // nil: text is a name
}

// ParsePattern reads a pattern. The error says what is wrong with it.
func ParsePattern(text string) (Pattern, error) {
	fault := func(what string) (Pattern, error) {
		return Pattern{}, fmt.Errorf("%w: model %q %s", ErrInvalid, short(text), what)
	}
	switch {
	case text == "":
		return fault("is empty; want a name such as b/coder, or a pattern such as b/*")
	case len(text) > maxModelBytes:
		return Pattern{}, fmt.Errorf("%w: a model of %d bytes; want at most %d", ErrInvalid, len(text), maxModelBytes)
	case !utf8.ValidString(text):
		return fault("is not UTF-8")
	case strings.TrimSpace(text) != text:
		return fault("begins or ends with space; want none there")
	case strings.ContainsFunc(text, invisible):
		return fault("contains an invisible character; want printable text")
	case !strings.Contains(text, "*"):
		return Pattern{text: text}, nil
	}
	segments := strings.Split(text, "/")
	for i, s := range segments {
		switch {
		case s == "**" && i < len(segments)-1:
			return fault("has ** before its end; want it last, as in b/**")
		case s != "*" && s != "**" && strings.Contains(s, "*"):
			return fault("has a * within a segment; want it for whole segments between slashes, as in b/*")
		}
	}
	return Pattern{text: text, segments: segments}, nil
}

// String returns the pattern as it was written.
func (p Pattern) String() string { return p.text }

// Wildcard reports whether the pattern has a * and so is no name.
func (p Pattern) Wildcard() bool { return p.segments != nil }

// Match reports whether a wildcard matches a canonical name. A pattern that is a
// name matches none here: which model it is the catalog says.
func (p Pattern) Match(canonical string) bool {
	if p.segments == nil || canonical == "" {
		return false
	}
	rest, more := canonical, true
	for _, want := range p.segments {
		if !more {
			return false
		}
		if want == "**" {
			// ParsePattern has seen to it that it is the last.
			return rest != ""
		}
		var got string
		got, rest, more = strings.Cut(rest, "/")
		if want == "*" && got == "" || want != "*" && got != want {
			return false
		}
	}
	return !more
}

// parsePatterns reads a list. nil is nil, every model; an empty list is an error.
func parsePatterns(list []string) ([]Pattern, error) {
	if list == nil {
		return nil, nil
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%w: models: the list is empty and would allow nothing; leave it out for every model", ErrInvalid)
	}
	if len(list) > MaxPatterns {
		return nil, fmt.Errorf("%w: models: there are %d; want at most %d", ErrInvalid, len(list), MaxPatterns)
	}
	var errs []error
	total := 0
	out := make([]Pattern, 0, len(list))
	for i, text := range list {
		total += len(text)
		p, err := ParsePattern(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("models[%d]: %w", i, err))
			continue
		}
		out = append(out, p)
	}
	if total > maxListBytes {
		errs = append(errs, fmt.Errorf("%w: models: %d bytes in all; want at most %d; wildcards are shorter", ErrInvalid, total, maxListBytes))
	}
	return out, errors.Join(errs...)
}

// invisible reports whether a character cannot be seen, or changes how others
// are: two texts must not look the same and be different.
func invisible(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029'
}
