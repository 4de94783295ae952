package shared

import (
	"sync"
	"time"

	"github.com/llmgw/llmgw/auth/limit"
)

const (
	// refusalHolds bounds for how long a refusal of Redis is repeated without it.
	refusalHolds = time.Second
	// mostRefusals bounds how many are remembered.
	mostRefusals = 4096
)

// refusals are what Redis has just refused for the requests of a minute. It would
// refuse the same until a request leaves the window; all that can make room before
// is one that was charged and ran nowhere. So a key that is far
// over its rate costs Redis one call a second of each router, not one a request.
// Tokens and places come back at any time, and are asked for each time.
type refusals struct {
	mu sync.Mutex
	of map[string]refusal // by subject; guarded by mu
}

type refusal struct {
	at     time.Time
	limits limit.Limits
	said   *limit.LimitedError
}

// keep remembers a refusal, if it is of a kind that lasts.
func (r *refusals) keep(now time.Time, s *limit.Subject, e *limit.LimitedError) {
	if e.Reason != limit.ReasonRequests {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of == nil || len(r.of) >= mostRefusals {
		r.of = make(map[string]refusal)
	}
	r.of[s.ID] = refusal{now, s.Limits, e}
}

// repeat returns what Redis would say again; nil if it has to be asked.
func (r *refusals) repeat(now time.Time, s *limit.Subject) *limit.LimitedError {
	r.mu.Lock()
	defer r.mu.Unlock()
	last, ok := r.of[s.ID]
	if !ok {
		return nil
	}
	age := now.Sub(last.at)
	if age < 0 || age >= min(last.said.RetryAfter, refusalHolds) || last.limits != s.Limits {
		delete(r.of, s.ID)
		return nil
	}
	e := *last.said
	e.RetryAfter, e.Reset, e.Rates.At = e.RetryAfter-age, e.Reset-age, now
	e.Rates.Requests.Reset, e.Rates.Tokens.Reset = e.Rates.Requests.Reset-age, max(0, e.Rates.Tokens.Reset-age)
	return &e
}
