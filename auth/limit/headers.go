package limit

import (
	"iter"
	"strconv"
	"time"
)

// Rate is where one window stands.
type Rate struct {
	// Limit is how much may pass in a minute; 0 is no bound, of which nothing is
	// shown.
	Limit int64
	// Remaining is how much may pass now; at least 0.
	Remaining int64
	// Reset is after how long Remaining is Limit if nothing else comes.
	Reset time.Duration
}

// Rates is where both windows of a subject stand at a time: what the headers of
// an answer say.
type Rates struct {
	At       time.Time
	Requests Rate
	Tokens   Rate
}

// OpenAI yields the headers x-ratelimit-{limit,remaining,reset}-{requests,tokens}
// of the windows that are bounded. Resets are durations as Go writes them, such
// as "6m0s", rounded up to the millisecond.
func (r Rates) OpenAI() iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		for _, k := range []struct {
			name string
			rate Rate
		}{{"requests", r.Requests}, {"tokens", r.Tokens}} {
			if k.rate.Limit == 0 {
				continue
			}
			if !yield("x-ratelimit-limit-"+k.name, strconv.FormatInt(k.rate.Limit, 10)) ||
				!yield("x-ratelimit-remaining-"+k.name, strconv.FormatInt(k.rate.Remaining, 10)) ||
				!yield("x-ratelimit-reset-"+k.name, ceil(k.rate.Reset, time.Millisecond).String()) {
				return
			}
		}
	}
}

// Anthropic yields the headers anthropic-ratelimit-{requests,tokens}-{limit,
// remaining,reset} of the windows that are bounded. Resets are times in RFC 3339,
// in UTC, rounded up to the second.
func (r Rates) Anthropic() iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		for _, k := range []struct {
			name string
			rate Rate
		}{{"requests", r.Requests}, {"tokens", r.Tokens}} {
			if k.rate.Limit == 0 {
				continue
			}
			reset := r.At.Add(k.rate.Reset)
			if whole := reset.Truncate(time.Second); whole.Before(reset) {
				reset = whole.Add(time.Second)
			}
			if !yield("anthropic-ratelimit-"+k.name+"-limit", strconv.FormatInt(k.rate.Limit, 10)) ||
				!yield("anthropic-ratelimit-"+k.name+"-remaining", strconv.FormatInt(k.rate.Remaining, 10)) ||
				!yield("anthropic-ratelimit-"+k.name+"-reset", reset.UTC().Format(time.RFC3339)) {
				return
			}
		}
	}
}

// ceil rounds up to a multiple of unit.
func ceil(d, unit time.Duration) time.Duration {
	if rest := d % unit; rest > 0 {
		return d + unit - rest
	}
	return d
}
