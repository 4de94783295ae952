package workload

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
)

// Lengths is a distribution of lengths in tokens, each 1 to [MaxTokens]. It is
// an immutable, comparable value; the zero Lengths is unset and draws nothing.
// It reads and writes its text form as an encoding.TextUnmarshaler and
// encoding.TextMarshaler, so that it can be a flag or a key of a file.
type Lengths struct {
	kind   lengthsKind
	lo, hi int     // fixed: both the same; uniform: the bounds; log-normal: median and maximum
	sigma  float64 // log-normal only
}

type lengthsKind uint8

const (
	lengthsUnset lengthsKind = iota
	lengthsFixed
	lengthsUniform
	lengthsLogNormal
)

// maxSigma bounds the spread of a log-normal distribution. Recorded traces
// have 0.5 to 2.
const maxSigma = 16

// Fixed is always n, 1 to MaxTokens. Errors are *[LengthsError].
func Fixed(n int) (Lengths, error) { return newLengths(Lengths{kind: lengthsFixed, lo: n, hi: n}) }

// Between is uniform from lo to hi, both included, 1 ≤ lo ≤ hi ≤ MaxTokens.
// Errors are *[LengthsError].
func Between(lo, hi int) (Lengths, error) {
	return newLengths(Lengths{kind: lengthsUniform, lo: lo, hi: hi})
}

// LogNormal has the given median and standard deviation of the logarithm, 0
// to 16; what is drawn above most, median to MaxTokens, becomes most. Errors
// are *[LengthsError].
func LogNormal(median int, sigma float64, most int) (Lengths, error) {
	return newLengths(Lengths{kind: lengthsLogNormal, lo: median, hi: most, sigma: sigma})
}

func newLengths(l Lengths) (Lengths, error) {
	if why := l.fault(); why != "" {
		return Lengths{}, &LengthsError{Text: l.String(), Why: why}
	}
	return l, nil
}

// fault says what is wrong with l, "" if nothing is.
func (l Lengths) fault() string {
	switch {
	case l.lo < 1:
		return fmt.Sprintf("%d is below 1", l.lo)
	case l.hi > MaxTokens:
		return fmt.Sprintf("%d is above %d", l.hi, MaxTokens)
	case l.lo > l.hi:
		return fmt.Sprintf("%d is above %d", l.lo, l.hi)
	case l.sigma >= 0 && l.sigma <= maxSigma:
		return ""
	default: // not a number, too
		return fmt.Sprintf("the deviation %v is not from 0 to %d", l.sigma, maxSigma)
	}
}

// ParseLengths reads "512" (always), "100-2000" (uniform, both included) or
// "lognormal:120:0.8" with an optional ":2048" (median, standard deviation of
// the logarithm, maximum, MaxTokens if it is not given). Errors are
// *[LengthsError].
func ParseLengths(s string) (Lengths, error) {
	l, why := parseLengths(s)
	if why == "" {
		why = l.fault()
	}
	if why != "" {
		return Lengths{}, &LengthsError{Text: s, Why: why}
	}
	return l, nil
}

func parseLengths(s string) (l Lengths, why string) {
	if s == "" {
		return l, "empty"
	}
	if rest, ok := strings.CutPrefix(s, "lognormal:"); ok {
		return parseLogNormal(rest)
	}
	lo, hi, isRange := strings.Cut(s, "-")
	l.kind = lengthsFixed
	if l.lo, why = parseCount(lo); why != "" {
		return l, why
	}
	l.hi = l.lo
	if isRange {
		l.kind = lengthsUniform
		l.hi, why = parseCount(hi)
	}
	return l, why
}

func parseLogNormal(s string) (l Lengths, why string) {
	parts := strings.Split(s, ":")
	if len(parts) != 2 && len(parts) != 3 {
		return l, fmt.Sprintf("%d numbers after lognormal", len(parts))
	}
	l.kind, l.hi = lengthsLogNormal, MaxTokens
	if l.lo, why = parseCount(parts[0]); why != "" {
		return l, why
	}
	var err error
	if l.sigma, err = strconv.ParseFloat(parts[1], 64); err != nil {
		return l, strconv.Quote(parts[1]) + " is not a number"
	}
	if l.sigma == 0 {
		l.sigma = 0 // −0 would not equal its own text
	}
	if len(parts) == 3 {
		l.hi, why = parseCount(parts[2])
	}
	return l, why
}

// parseCount reads digits only. Too many of them are not a count either.
func parseCount(s string) (n int, why string) {
	if s == "" {
		return 0, "a number is missing"
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, strconv.Quote(s) + " is not a whole number"
		}
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		return 0, strconv.Quote(s) + " is not a whole number in range"
	}
	return n, ""
}

// LengthsError is a text that is no distribution of lengths.
type LengthsError struct{ Text, Why string }

// Error quotes the text and shows what would be accepted.
func (e *LengthsError) Error() string {
	return fmt.Sprintf("lengths %q: %s; want such as 512, 100-2000, lognormal:120:0.8 or lognormal:120:0.8:2048", e.Text, e.Why)
}

// Unwrap returns [ErrInvalid].
func (e *LengthsError) Unwrap() error { return ErrInvalid }

// String is the form that [ParseLengths] reads; "" if unset.
func (l Lengths) String() string {
	switch l.kind {
	case lengthsFixed:
		return strconv.Itoa(l.lo)
	case lengthsUniform:
		return fmt.Sprintf("%d-%d", l.lo, l.hi)
	case lengthsLogNormal:
		s := fmt.Sprintf("lognormal:%d:%s", l.lo, strconv.FormatFloat(l.sigma, 'g', -1, 64))
		if l.hi != MaxTokens {
			s += ":" + strconv.Itoa(l.hi)
		}
		return s
	case lengthsUnset:
	}
	return ""
}

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
func (l Lengths) IsZero() bool { return l.kind == lengthsUnset }

// Max is the longest length that l draws, 0 if l is unset.
func (l Lengths) Max() int { return l.hi }

// Draw returns one length, 0 if l is unset. Concurrent calls need an rng each.
func (l Lengths) Draw(rng *rand.Rand) int {
	switch l.kind {
	case lengthsUniform:
		return l.lo + rng.IntN(l.hi-l.lo+1)
	case lengthsLogNormal:
		// Bounded before the conversion, which is undefined beyond an int.
		n := math.Round(float64(l.lo) * math.Exp(l.sigma*rng.NormFloat64()))
		return int(min(max(n, 1), float64(l.hi)))
	case lengthsFixed, lengthsUnset:
	}
	return l.lo
}
