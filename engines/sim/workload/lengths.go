package workload

import (
	"fmt"
	"math/rand/v2"
)

// Lengths is a distribution of lengths in tokens, each 1 to [MaxTokens]. It is
// an immutable, comparable value; the zero Lengths is unset and draws nothing.
// It reads and writes its text form as an encoding.TextUnmarshaler and
// encoding.TextMarshaler, so that it can be a flag or a key of a file.
type Lengths struct {
	kind   lengthsKind
	lo, hi int     // fixed: both; uniform: the bounds; log-normal: median and maximum
	sigma  float64 // log-normal
}

type lengthsKind uint8

// ParseLengths reads "512" (always), "100-2000" (uniform, both included) or
// "lognormal:120:0.8" with an optional ":2048" (median, standard deviation of
// the logarithm, maximum). Errors are *[LengthsError].
func ParseLengths(s string) (Lengths, error) {
	return Lengths{}, &LengthsError{Text: s, Why: "not written yet"}
}

// LengthsError is a text that is no distribution of lengths.
type LengthsError struct{ Text, Why string }

func (e *LengthsError) Error() string {
	return fmt.Sprintf("lengths %q: %s; want such as 512, 100-2000, lognormal:120:0.8 or lognormal:120:0.8:2048", e.Text, e.Why)
}

// Unwrap returns [ErrInvalid].
func (e *LengthsError) Unwrap() error { return ErrInvalid }

// String is the form that [ParseLengths] reads; "" if unset.
func (l Lengths) String() string { return "" }

// MarshalText is String. It never fails.
func (l Lengths) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText is [ParseLengths]; on error l is left alone.
func (l *Lengths) UnmarshalText(text []byte) error {
	parsed, err := ParseLengths(string(text))
	if err == nil {
		*l = parsed
	}
	return err
}

// IsZero reports whether l is unset.
func (l Lengths) IsZero() bool { return l == Lengths{} }

// Draw returns one length, 0 if l is unset. Concurrent calls need an rng each.
func (l Lengths) Draw(rng *rand.Rand) int { return 0 }
