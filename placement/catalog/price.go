package catalog

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// MaxPrices bounds the prices of one model.
const MaxPrices = 64

// Price is what a million tokens of a model cost from some time on.
type Price struct {
	// From is when the price begins to hold: a date such as 2026-03-01, which
	// begins at midnight UTC, or a time such as 2026-03-01T08:00:00Z. Default: it
	// always held. Prices are listed by it, the oldest first.
	From Instant `yaml:"from"`
	// Input is for a million tokens of prompt, in the currency unit of the house,
	// as 0.15. Default 0; at most nine decimals, at most 1000000.
	Input Money `yaml:"input"`
	// CachedInput is for a million tokens of prompt that an engine held already.
	// Default: the same as input.
	CachedInput *Money `yaml:"cached_input"`
	// Output is for a million tokens of answer, those it thinks with included.
	// Required, so that nobody's answers are free by oversight; 0 where that is
	// meant, as for a model that only embeds.
	Output *Money `yaml:"output"`
}

// Cached is what a million cached tokens of prompt cost.
func (p *Price) Cached() Money {
	if p.CachedInput == nil {
		return p.Input
	}
	return *p.CachedInput
}

// Answers is what a million tokens of answer cost: Output, which a valid price has.
func (p *Price) Answers() Money {
	if p.Output == nil {
		return 0
	}
	return *p.Output
}

// Priced reports whether there is a model of that name and its use costs anything,
// at one time or another.
func (c *Catalog) Priced(name string) bool {
	m, ok := c.Resolve(name)
	return ok && slices.ContainsFunc(m.Prices, func(p Price) bool { return p.Input > 0 || p.Answers() > 0 || p.Cached() > 0 })
}

// PriceAt returns the price that holds at that time, false if none does.
func (m *Model) PriceAt(at time.Time) (Price, bool) {
	for i := len(m.Prices) - 1; i >= 0; i-- {
		if p := &m.Prices[i]; p.From == 0 || !at.Before(p.From.Time()) {
			return *p, true
		}
	}
	return Price{}, false
}

// maxPrice is a million units.
const maxPrice = 1_000_000 * unit

func (m *Model) validateCost(path string) []error {
	var errs []error
	if len(m.Prices) > MaxPrices {
		errs = append(errs, fmt.Errorf("%s.prices: %d entries; at most %d are accepted", path, len(m.Prices), MaxPrices))
	}
	for i := range m.Prices {
		p := &m.Prices[i]
		if i > 0 && p.From <= m.Prices[i-1].From {
			errs = append(errs, fmt.Errorf("%s.prices[%d].from: %q is not after that of prices[%d], %q; list the oldest first",
				path, i, p.From, i-1, m.Prices[i-1].From))
		}
		if p.Output == nil {
			errs = append(errs, fmt.Errorf("%s.prices[%d].output: is missing; want what a million tokens of answer cost, as 0.60, or 0 if they are free", path, i))
		}
		for _, part := range []struct {
			key   string
			price Money
		}{{"input", p.Input}, {"cached_input", p.Cached()}, {"output", p.Answers()}} {
			if part.price < 0 || part.price > maxPrice {
				errs = append(errs, fmt.Errorf("%s.prices[%d].%s: %v for a million tokens is out of range; want 0 to 1000000", path, i, part.key, part.price))
			}
		}
	}
	for _, part := range []struct {
		key    string
		tokens int64
	}{{"max_output_tokens", m.MaxOutputTokens}, {"context_tokens", m.ContextTokens}} {
		if part.tokens < 0 || part.tokens > MaxTokens {
			errs = append(errs, fmt.Errorf("%s.%s: %d is out of range; want 1 to %d, or 0 for what is not known", path, part.key, part.tokens, MaxTokens))
		}
	}
	if m.ContextTokens > 0 && m.MaxOutputTokens > m.ContextTokens {
		errs = append(errs, fmt.Errorf("%s.max_output_tokens: %d is more than context_tokens, %d", path, m.MaxOutputTokens, m.ContextTokens))
	}
	return errs
}

// Money is an amount in 10^-9 of the currency unit.
type Money int64

// unit is one of the currency.
const unit = 1_000_000_000

// String returns the amount in the currency unit, with as many decimals as it
// has.
func (m Money) String() string {
	n, sign := uint64(m), ""
	if m < 0 {
		n, sign = -n, "-"
	}
	s := sign + strconv.FormatUint(n/unit, 10)
	if rest := n % unit; rest > 0 {
		s += "." + strings.TrimRight(fmt.Sprintf("%09d", rest), "0")
	}
	return s
}

// MarshalText implements [encoding.TextMarshaler].
func (m Money) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler]. It reads a decimal number
// exactly, and refuses one that it cannot keep.
func (m *Money) UnmarshalText(text []byte) error {
	whole, part, point := strings.Cut(string(text), ".")
	if point && part == "" || len(part) > 9 || !digits(whole) || !digits(part) || whole == "" {
		return errors.New("want an amount such as 0.15, with at most nine decimals")
	}
	units, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || units > math.MaxInt64/unit-1 {
		return errors.New("the amount is too large")
	}
	nanos, _ := strconv.ParseInt(part+"000000000"[len(part):], 10, 64) // nine digits
	*m = Money(units*unit + nanos)
	return nil
}

func digits(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r < '0' || r > '9' }) < 0
}

// Instant is a moment to the second, as seconds since 1970 in UTC; 0 is none.
type Instant int64

// Time returns the moment.
func (i Instant) Time() time.Time { return time.Unix(int64(i), 0).UTC() }

// String returns a date, or a time where it is not midnight; none is empty.
func (i Instant) String() string {
	t := i.Time()
	switch {
	case i == 0:
		return ""
	case t.Equal(t.Truncate(24 * time.Hour)):
		return t.Format(time.DateOnly)
	}
	return t.Format(time.RFC3339)
}

// MarshalText implements [encoding.TextMarshaler].
func (i Instant) MarshalText() ([]byte, error) { return []byte(i.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (i *Instant) UnmarshalText(text []byte) error {
	s := string(text)
	if s == "" {
		*i = 0
		return nil
	}
	t, err := time.Parse(time.DateOnly, s)
	if err != nil {
		t, err = time.Parse(time.RFC3339, s)
	}
	if err != nil || t.Unix() == 0 || t.Nanosecond() != 0 || t.Year() < 1 {
		return errors.New("want a date such as 2026-03-01, or a time such as 2026-03-01T08:00:00Z")
	}
	*i = Instant(t.Unix())
	return nil
}
