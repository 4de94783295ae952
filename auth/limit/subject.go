package limit

import (
	"errors"
	"fmt"
	"math"
)

const (
	// MostRate is the largest limit: far more than a fleet does in a minute, and
	// still exact where numbers are floats.
	MostRate = 1 << 53
	// MostTokens is the most that one request counts as, so that no sum overflows.
	MostTokens = 1 << 40
)

// Subject is who is limited, and by what. It comes with every call, so that a
// limit that was changed holds from the next request on. What was counted is
// kept under ID, whatever the limits become.
type Subject struct {
	// ID names the subject: the lineage of a key, so that keys that follow each
	// other share what is counted. It comes from who authenticates, never from a
	// client.
	ID     string
	Limits Limits
	// Budget bounds what it spends; the zero value is no bound.
	Budget Budget
}

// Limits bound the rate of a subject. 0 is no bound; others are 1 to MostRate.
type Limits struct {
	RequestsPerMinute int64
	TokensPerMinute   int64
	Concurrency       int64 // requests at once
}

// Validate returns what is wrong with the limits.
func (l Limits) Validate() error {
	return errors.Join(
		validRate("requests per minute", l.RequestsPerMinute),
		validRate("tokens per minute", l.TokensPerMinute),
		validRate("concurrency", l.Concurrency))
}

func validRate(what string, n int64) error {
	if n < 0 || n > MostRate {
		return fmt.Errorf("limit: %s is %d; want 1 to %d, or none", what, n, int64(MostRate))
	}
	return nil
}

// Request is what one request is charged before it runs.
type Request struct {
	// Tokens is an estimate of prompt and answer together, 0 to MostTokens. Where
	// the request names no bound for its answer it is a modest assumption, not 0.
	Tokens int64
	// CostNanos is the most that it can cost, in 10^-9 of the currency unit, at
	// the dearest model that may serve it. At least 0.
	CostNanos int64
}

// Actual is what a request came to.
type Actual struct {
	Tokens    int64
	CostNanos int64
}

// bounded returns n within what can be summed up.
func bounded(n, most int64) int64 { return min(max(n, 0), most) }

// mostNanos bounds a single cost, and mostSpent a budget and a sum of costs, so
// that what is reckoned from a few of them cannot overflow.
const (
	mostNanos = math.MaxInt64 / 8
	mostSpent = math.MaxInt64 / 4
)

// add returns a + b, at most what an int64 holds. Neither is negative.
func add(a, b int64) int64 {
	if b > math.MaxInt64-a {
		return math.MaxInt64
	}
	return a + b
}
