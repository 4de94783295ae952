package workload

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Values come as the text that stands in the file, JSON or CSV; an empty one
// means that there is none.

// parseTokens reads a length. "472.0" passes: tables that went through pandas
// have such.
func parseTokens(field, text string) (int, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if f, errFloat := strconv.ParseFloat(text, 64); err != nil && errFloat == nil && math.Abs(f) < 1<<53 && f == math.Trunc(f) {
		n, err = int64(f), nil
	}
	if err != nil || n < 1 || n > MaxTokens {
		return 0, &fieldError{field: field, why: fmt.Sprintf("%s, want a whole number of tokens, 1 to %d", found(text), MaxTokens)}
	}
	return int(n), nil
}

// parseTime reads a number of units, 0 or more; a fraction is rounded to a
// nanosecond.
func parseTime(field, text string, unit time.Duration) (time.Duration, error) {
	// Half of what a Duration holds, so that sums of two cannot overflow.
	most := math.MaxInt64 / 2 / int64(unit)
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && n >= 0 && n <= most {
		return time.Duration(n) * unit, nil
	}
	// Not a number is refused too: it is not at least 0.
	if f, err := strconv.ParseFloat(text, 64); err == nil && f >= 0 && f <= float64(most) {
		return time.Duration(math.Round(f * float64(unit))), nil
	}
	return 0, &fieldError{field: field, why: fmt.Sprintf("%s, want a time of 0 or more in units of %v", found(text), unit)}
}

func parseSeconds(field, text string) (time.Duration, error) {
	return parseTime(field, text, time.Second)
}

// parseDate reads "2023-11-16 18:15:46.6805900"; newer files add "+00:00".
func parseDate(field, text string) (time.Duration, error) {
	for _, layout := range []string{time.DateTime, time.DateTime + "Z07:00"} {
		// Years that fit in nanoseconds since 1970.
		if t, err := time.Parse(layout, text); err == nil && t.Year() >= 1970 && t.Year() < 2100 {
			return time.Duration(t.UnixNano()), nil
		}
	}
	return 0, &fieldError{field: field, why: found(text) + ", want a time such as 2023-11-16 18:15:46.6805900"}
}

// found says what there is: a value that is not long, or nothing.
func found(text string) string {
	switch {
	case text == "", text == "null":
		return "missing"
	case strings.HasPrefix(text, `"`):
		return "the text " + excerpt([]byte(strings.Trim(text, `"`)))
	case text[0] == '{', text[0] == '[':
		return "a list or an object"
	default:
		return excerpt([]byte(text))
	}
}

// excerpt quotes the beginning of text where it is not a plain number.
func excerpt(text []byte) string {
	const most = 48
	if len(text) > most {
		return strconv.QuoteToASCII(string(text[:most])) + "…"
	}
	if _, err := strconv.ParseFloat(string(text), 64); err == nil {
		return string(text)
	}
	return strconv.QuoteToASCII(string(text))
}
