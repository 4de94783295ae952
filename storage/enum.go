package storage

import (
	"fmt"
	"slices"
	"strings"
)

//nolint:gochecknoglobals // constant tables; "" is the zero value, which is none of them
var (
	periodNames = []string{"", "day", "week", "month", "total"}
	sourceNames = []string{"", "engine", "partial", "counted", "estimated", "none"}
	grainNames  = []string{"", "hour", "day"}
	targetNames = []string{"", "cordoned", "drained"}
	stateNames  = []string{"", "pending", "approved", "suspended"}
	linkNames   = []string{"", "key", "reset"}
	kindNames   = []string{"", "dynamic", "static", "cloud"}
)

// String returns the period's text.
func (p Period) String() string { return nameOf(periodNames, p) }

// MarshalText implements [encoding.TextMarshaler].
func (p Period) MarshalText() ([]byte, error) { return textOf("period", periodNames, p) }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (p *Period) UnmarshalText(b []byte) error { return parse("period", periodNames, b, p) }

// String returns the source's text.
func (s Source) String() string { return nameOf(sourceNames, s) }

// MarshalText implements [encoding.TextMarshaler].
func (s Source) MarshalText() ([]byte, error) { return textOf("source", sourceNames, s) }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (s *Source) UnmarshalText(b []byte) error { return parse("source", sourceNames, b, s) }

// String returns the grain's text.
func (g Grain) String() string { return nameOf(grainNames, g) }

// MarshalText implements [encoding.TextMarshaler].
func (g Grain) MarshalText() ([]byte, error) { return textOf("grain", grainNames, g) }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (g *Grain) UnmarshalText(b []byte) error { return parse("grain", grainNames, b, g) }

// String returns the target's text.
func (t CordonTarget) String() string { return nameOf(targetNames, t) }

// MarshalText implements [encoding.TextMarshaler].
func (t CordonTarget) MarshalText() ([]byte, error) { return textOf("target", targetNames, t) }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (t *CordonTarget) UnmarshalText(b []byte) error { return parse("target", targetNames, b, t) }

// String returns the state's text.
func (s AccountState) String() string { return nameOf(stateNames, s) }

// MarshalText implements [encoding.TextMarshaler].
func (s AccountState) MarshalText() ([]byte, error) { return textOf("state", stateNames, s) }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (s *AccountState) UnmarshalText(b []byte) error { return parse("state", stateNames, b, s) }

// String returns the kind's text.
func (k LinkKind) String() string { return nameOf(linkNames, k) }

// MarshalText implements [encoding.TextMarshaler].
func (k LinkKind) MarshalText() ([]byte, error) { return textOf("kind", linkNames, k) }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (k *LinkKind) UnmarshalText(b []byte) error { return parse("kind", linkNames, b, k) }

// String returns the kind's text.
func (k ProviderKind) String() string { return nameOf(kindNames, k) }

// MarshalText implements [encoding.TextMarshaler].
func (k ProviderKind) MarshalText() ([]byte, error) { return textOf("kind", kindNames, k) }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (k *ProviderKind) UnmarshalText(b []byte) error { return parse("kind", kindNames, b, k) }

func nameOf[E ~uint8](names []string, v E) string {
	switch {
	case v == 0:
		return "unset"
	case int(v) < len(names):
		return names[v]
	}
	return "unknown"
}

func textOf[E ~uint8](what string, names []string, v E) ([]byte, error) {
	if v == 0 || int(v) >= len(names) {
		return nil, fmt.Errorf("%w: there is no %s %d", ErrInvalid, what, v)
	}
	return []byte(names[v]), nil
}

func parse[E ~uint8](what string, names []string, text []byte, out *E) error {
	i := slices.Index(names, string(text))
	if i < 1 {
		return fmt.Errorf("%w: %s %q; want one of %s", ErrInvalid, what, text, strings.Join(names[1:], ", "))
	}
	*out = E(i)
	return nil
}
