package schedule

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

var (
	// ErrNoEndpoint: no endpoint of the pool may be used now.
	ErrNoEndpoint = errors.New("schedule: no endpoint")
	// ErrUnknownProfile: the scheduler has no profile of that name.
	ErrUnknownProfile = errors.New("schedule: unknown profile")
	// ErrBadScore: a scorer's vote is not in [0,1], a score is not a number,
	// there is none, or a picker chose none of them.
	ErrBadScore = errors.New("schedule: unusable score")
	// ErrBadRecord: the bytes are no record of a decision, or of one in a form
	// that this version does not know.
	ErrBadRecord = errors.New("schedule: not a record of a decision")
)

// FilterDrops is how many endpoints one filter dropped.
type FilterDrops struct {
	Filter string `json:"filter"`
	Count  int    `json:"count"`
}

// NoEndpointError says why a pool had no endpoint to offer. It unwraps to
// ErrNoEndpoint.
type NoEndpointError struct {
	// Model is the model that was asked for.
	Model string
	// Pool is how many endpoints serve it.
	Pool int
	// Drops are the filters that dropped some, in their order.
	Drops []FilterDrops
	// RetryAfter is when the first breaker that dropped one will let a request
	// through, from the decision's time; 0 if no breaker is to blame.
	RetryAfter time.Duration
}

// Error names the model and what became of its endpoints.
func (e *NoEndpointError) Error() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%v for model %q: ", ErrNoEndpoint, e.Model)
	if e.Pool == 0 {
		text.WriteString("nothing serves it")
		return text.String()
	}
	fmt.Fprintf(&text, "%d serve it", e.Pool)
	for _, d := range e.Drops {
		fmt.Fprintf(&text, ", %d dropped by %s", d.Count, d.Filter)
	}
	return text.String()
}

// Unwrap returns ErrNoEndpoint.
func (e *NoEndpointError) Unwrap() error { return ErrNoEndpoint }
