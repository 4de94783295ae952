package limit

import (
	"errors"
	"fmt"
	"iter"
	"strconv"
	"time"
)

var (
	// ErrLimited is what every [*LimitedError] wraps. 429.
	ErrLimited = errors.New("limit: limited")
	// ErrUnavailable says that it is not known what may be spent of a budget,
	// because who keeps it could not be asked. Nothing was taken; the same request
	// may pass a little later. 503. It wraps the cause.
	ErrUnavailable = errors.New("limit: budgets cannot be asked")
	// ErrSpent is what a [Source] answers when less of a budget is left than the
	// least that is of use.
	ErrSpent = errors.New("limit: the budget is spent")
)

// Reason is which limit refused a request. Its String is a metric label.
type Reason uint8

// The reasons. All are 429. Those that can be retried say after how long; the
// others carry no Retry-After and x-should-retry: false.
const (
	ReasonUnset Reason = iota
	// ReasonRequests: the requests of a minute are used up. Retry.
	ReasonRequests
	// ReasonTokens: the tokens of a minute are used up. Retry.
	ReasonTokens
	// ReasonConcurrency: as many requests are under way as may be. Retry.
	ReasonConcurrency
	// ReasonTooLarge: the request alone is more than the tokens of a whole
	// minute. It never passes.
	ReasonTooLarge
	// ReasonBudget: the budget does not cover the most that the request can cost.
	// insufficient_quota; it passes with the next period or a larger budget.
	ReasonBudget
	// ReasonBudgetHeld: the budget would cover the request, but is held for the
	// most that requests under way can cost. Most of that comes back as they end.
	// Retry.
	ReasonBudgetHeld
	reasons
)

// String returns the reason as metrics spell it.
func (r Reason) String() string {
	switch r {
	case ReasonRequests:
		return "requests"
	case ReasonTokens:
		return "tokens"
	case ReasonConcurrency:
		return "concurrency"
	case ReasonTooLarge:
		return "too_large"
	case ReasonBudget:
		return "budget"
	case ReasonBudgetHeld:
		return "budget_held"
	default:
		return "unset"
	}
}

// Retriable reports whether the same request can pass by waiting a little.
func (r Reason) Retriable() bool {
	return r == ReasonRequests || r == ReasonTokens || r == ReasonConcurrency || r == ReasonBudgetHeld
}

// LimitedError says which limit refused a request. Of several it is the one that
// takes longest. It is ErrLimited. Nothing was taken.
type LimitedError struct {
	Subject string
	Reason  Reason
	// Limit, Need and Remaining are of the limit that refused, in its unit:
	// requests, tokens, requests at once, or 10^-9 of the currency unit.
	Limit, Need, Remaining int64
	// Reset is after how long all of the limit is there again, if nothing else
	// comes: of a budget with the next period, of one in total never, which is 0,
	// as it is of concurrency, where nobody knows.
	Reset time.Duration
	// RetryAfter is when it is worth to try again; 0 if it is not. Without other
	// requests of the subject one passes then, of a subject in debt a second or
	// two later; of concurrency and a held budget it is a guess.
	RetryAfter time.Duration
	// Rates is where the windows stand, for the headers of the answer.
	Rates Rates
}

// Error says what was refused and what to do.
func (e *LimitedError) Error() string {
	switch e.Reason {
	case ReasonRequests:
		return fmt.Sprintf("limit: %s may send %d requests a minute; the next one in %v", e.Subject, e.Limit, ceil(e.RetryAfter, time.Millisecond))
	case ReasonTokens:
		return fmt.Sprintf("limit: %s may use %d tokens a minute, has %d left and asked for %d; try in %v", e.Subject, e.Limit, e.Remaining, e.Need, ceil(e.RetryAfter, time.Millisecond))
	case ReasonConcurrency:
		return fmt.Sprintf("limit: %s may have %d requests under way; wait until one ends", e.Subject, e.Limit)
	case ReasonTooLarge:
		return fmt.Sprintf("limit: a request of %d tokens is more than the %d that %s may use in a whole minute; make it smaller", e.Need, e.Limit, e.Subject)
	case ReasonBudget:
		return fmt.Sprintf("limit: what is left of the budget of %s is less than the request can cost", e.Subject)
	case ReasonBudgetHeld:
		return fmt.Sprintf("limit: the budget of %s is held for requests under way; wait until one ends", e.Subject)
	default:
		return "limit: limited"
	}
}

// Unwrap returns ErrLimited.
func (e *LimitedError) Unwrap() error { return ErrLimited }

// Retry yields the headers that tell official SDKs what to do: Retry-After, in
// whole seconds, and retry-after-ms, both rounded up, where it is worth to try
// again, and x-should-retry: false where it is not.
func (e *LimitedError) Retry() iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		if !e.Reason.Retriable() {
			yield("x-should-retry", "false")
			return
		}
		wait := max(e.RetryAfter, time.Millisecond)
		if yield("Retry-After", strconv.FormatInt(int64(ceil(wait, time.Second)/time.Second), 10)) {
			yield("retry-after-ms", strconv.FormatInt(int64(ceil(wait, time.Millisecond)/time.Millisecond), 10))
		}
	}
}
