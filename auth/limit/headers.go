package limit

import (
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

// OpenAI sets the headers X-Ratelimit-{Limit,Remaining,Reset}-{Requests,Tokens}
// of the windows that are bounded. Resets are durations as Go writes them, such
// as "6m0s", rounded up to the millisecond.
func (r Rates) OpenAI(h map[string][]string) {
	names := [6]string{
		"X-Ratelimit-Limit-Requests", "X-Ratelimit-Remaining-Requests", "X-Ratelimit-Reset-Requests",
		"X-Ratelimit-Limit-Tokens", "X-Ratelimit-Remaining-Tokens", "X-Ratelimit-Reset-Tokens",
	}
	r.set(h, &names, false)
}

// Anthropic sets the headers Anthropic-Ratelimit-{Requests,Tokens}-{Limit,
// Remaining,Reset} of the windows that are bounded. Resets are times in RFC 3339,
// in UTC, rounded up to the second.
func (r Rates) Anthropic(h map[string][]string) {
	names := [6]string{
		"Anthropic-Ratelimit-Requests-Limit", "Anthropic-Ratelimit-Requests-Remaining", "Anthropic-Ratelimit-Requests-Reset",
		"Anthropic-Ratelimit-Tokens-Limit", "Anthropic-Ratelimit-Tokens-Remaining", "Anthropic-Ratelimit-Tokens-Reset",
	}
	r.set(h, &names, true)
}

// set sets three headers for each bounded window, under names in canonical form:
// this is done for every answer, so the six texts are one, and their slices too.
// Resets are times, or durations.
func (r *Rates) set(h map[string][]string, names *[6]string, times bool) {
	var room [160]byte
	text := room[:0]
	var ends [6]int
	for i, rate := range [2]*Rate{&r.Requests, &r.Tokens} {
		if rate.Limit > 0 {
			text = strconv.AppendInt(text, rate.Limit, 10)
			ends[3*i] = len(text)
			text = strconv.AppendInt(text, rate.Remaining, 10)
			ends[3*i+1] = len(text)
			if times {
				at := r.At.Add(rate.Reset)
				if whole := at.Truncate(time.Second); whole.Before(at) {
					at = whole.Add(time.Second)
				}
				text = at.UTC().AppendFormat(text, time.RFC3339)
			} else {
				text = appendMillis(text, rate.Reset)
			}
			ends[3*i+2] = len(text)
		}
	}
	values, all, from := make([]string, 6), string(text), 0
	for i, end := range ends {
		if end > 0 {
			values[i] = all[from:end]
			h[names[i]] = values[i : i+1 : i+1]
			from = end
		}
	}
}

// appendMillis appends a duration, which is not negative, rounded up to the
// millisecond, as [time.Duration.String] has it, which would take memory for each.
func appendMillis(b []byte, d time.Duration) []byte {
	ms := int64(ceil(d, time.Millisecond) / time.Millisecond)
	if ms < 1000 {
		if ms == 0 {
			return append(b, "0s"...)
		}
		return append(strconv.AppendInt(b, ms, 10), "ms"...)
	}
	minutes, ms := ms/60_000, ms%60_000
	if minutes >= 60 {
		b = append(strconv.AppendInt(b, minutes/60, 10), 'h')
	}
	if minutes > 0 {
		b = append(strconv.AppendInt(b, minutes%60, 10), 'm')
	}
	b = strconv.AppendInt(b, ms/1000, 10)
	if ms %= 1000; ms > 0 {
		b = append(b, '.', byte('0'+ms/100), byte('0'+ms/10%10), byte('0'+ms%10))
		for b[len(b)-1] == '0' {
			b = b[:len(b)-1]
		}
	}
	return append(b, 's')
}

// ceil rounds up to a multiple of unit.
func ceil(d, unit time.Duration) time.Duration {
	if rest := d % unit; rest > 0 {
		return d + unit - rest
	}
	return d
}
