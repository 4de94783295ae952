package auth

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/llmgw/llmgw/storage"
)

const (
	nanosPerUnit = 1_000_000_000
	// maxNanos is the largest budget: a thousand million units. It leaves room for
	// sums.
	maxNanos = 1_000_000_000 * nanosPerUnit
)

// ParseAmount reads an amount of money: digits, and up to nine more after a
// point. It is exact. The result is in 10^-9 of the currency unit, from 0 to 10^18.
func ParseAmount(text string) (int64, error) {
	fault := func(what string) (int64, error) {
		return 0, fmt.Errorf("%w: amount %q %s; want e.g. 1.50", ErrInvalid, short(text), what)
	}
	whole, fraction, point := strings.Cut(text, ".")
	switch {
	case !digits(whole) || point && !digits(fraction):
		return fault("is not a number of digits with at most one point")
	case len(fraction) > 9:
		return fault("has more than nine digits after the point")
	}
	whole = strings.TrimLeft(whole, "0")
	if len(whole) > 10 {
		return fault("is more than 1000000000")
	}
	// Ten digits of units can be more nanos than 63 bits hold, so they are bounded
	// before they are multiplied.
	units, err := strconv.ParseInt("0"+whole, 10, 64)
	if err != nil || units > maxNanos/nanosPerUnit {
		return fault("is more than 1000000000")
	}
	nanos, err := strconv.ParseInt((fraction + "000000000")[:9], 10, 64)
	if err != nil {
		return fault("cannot be read")
	}
	if sum := units*nanosPerUnit + nanos; sum <= maxNanos {
		return sum, nil
	}
	return fault("is more than 1000000000")
}

// FormatAmount writes an amount as ParseAmount reads it, with two digits after
// the point or as many as it takes.
func FormatAmount(nanos int64) string {
	sign, n := "", uint64(nanos)
	if nanos < 0 {
		sign, n = "-", -n // right for the smallest number, too, which has no negative of its own
	}
	fraction := fmt.Sprintf("%09d", n%nanosPerUnit)
	for len(fraction) > 2 && fraction[len(fraction)-1] == '0' {
		fraction = fraction[:len(fraction)-1]
	}
	return sign + strconv.FormatUint(n/nanosPerUnit, 10) + "." + fraction
}

// ParseBudget reads a budget, AMOUNT/PERIOD or AMOUNT/PERIOD@ZONE, as in
// 1.50/day@Europe/Berlin. The period is day, week, month or total; the zone is
// the IANA name of where its days begin, UTC if left out, and none for a total.
func ParseBudget(text string) (*storage.Budget, error) {
	amount, rest, ok := strings.Cut(text, "/")
	if !ok {
		return nil, fmt.Errorf("%w: budget %q has no period; want day, week, month or total after a slash, e.g. 1.50/day", ErrInvalid, short(text))
	}
	var b storage.Budget
	var err error
	if b.Nanos, err = ParseAmount(amount); err != nil {
		return nil, fmt.Errorf("budget: %w", err)
	}
	if b.Nanos == 0 {
		return nil, fmt.Errorf("%w: budget %q is nothing; want more, or revoke the key", ErrInvalid, short(text))
	}
	period, zone, zoned := strings.Cut(rest, "@")
	if err := b.Period.UnmarshalText([]byte(period)); err != nil {
		return nil, fmt.Errorf("%w: budget: period %q; want day, week, month or total", ErrInvalid, short(period))
	}
	if !zoned {
		return &b, nil
	}
	if b.Period == storage.PeriodTotal {
		return nil, fmt.Errorf("%w: budget %q has a time zone, and a total begins no day; leave it out", ErrInvalid, short(text))
	}
	if b.Zone, err = zoneOf(zone); err != nil {
		return nil, err
	}
	return &b, nil
}

// FormatBudget writes a budget as ParseBudget reads it.
func FormatBudget(b storage.Budget) string {
	text := FormatAmount(b.Nanos) + "/" + b.Period.String()
	if b.Zone != "" {
		text += "@" + b.Zone
	}
	return text
}

// zoneOf checks the name of a time zone. UTC is the empty one.
func zoneOf(name string) (string, error) {
	switch {
	case name == "UTC":
		return "", nil
	case name == "" || name == "Local" || len(name) > 64:
		return "", fmt.Errorf("%w: budget: time zone %q; want an IANA name such as Europe/Berlin", ErrInvalid, short(name))
	}
	if _, err := time.LoadLocation(name); err != nil {
		return "", fmt.Errorf("%w: budget: there is no time zone %q; want an IANA name such as Europe/Berlin", ErrInvalid, short(name))
	}
	return name, nil
}

func digits(s string) bool {
	for i := range len(s) {
		if s[i]-'0' > 9 {
			return false
		}
	}
	return s != ""
}

// short keeps what a message repeats within bounds, and keys out of it: they are
// put into the wrong field now and then.
func short(s string) string {
	s = withoutKeys(s[:min(len(s), 1024)])
	if len(s) > 64 {
		return strings.ToValidUTF8(s[:64], "") + "…"
	}
	return s
}
