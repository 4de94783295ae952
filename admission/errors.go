package admission

import (
	"errors"
	"fmt"
	"time"
)

var (
	// ErrQueueFull says that the band's queue holds as many requests as it may.
	// 503, at once.
	ErrQueueFull = errors.New("admission: queue full")
	// ErrExpired says that the request waited for Config.QueueTTL. 504.
	ErrExpired = errors.New("admission: waited too long")
	// ErrCancelled says that the request's context ended while it waited; the
	// error wraps the context's cause too.
	ErrCancelled = errors.New("admission: cancelled while waiting")
	// ErrClosed says that the controller has stopped. 503.
	ErrClosed = errors.New("admission: closed")
	// ErrUnknownBand says that the request names a band that is not configured.
	// The caller's choice is between 400 and another band.
	ErrUnknownBand = errors.New("admission: unknown band")
)

// Reason is why a request was not admitted. Its String is a metric label.
type Reason uint8

// The reasons.
const (
	ReasonUnset Reason = iota
	// ReasonQueueFull: ErrQueueFull, 503.
	ReasonQueueFull
	// ReasonExpired: ErrExpired, 504.
	ReasonExpired
	// ReasonCancelled: ErrCancelled; the client has left, so no status.
	ReasonCancelled
	// ReasonClosed: ErrClosed, 503.
	ReasonClosed
	reasons
)

// String returns the reason as metrics spell it.
func (r Reason) String() string {
	switch r {
	case ReasonQueueFull:
		return "queue_full"
	case ReasonExpired:
		return "expired"
	case ReasonCancelled:
		return "cancelled"
	case ReasonClosed:
		return "closed"
	default:
		return "unset"
	}
}

func (r Reason) sentinel() error {
	switch r {
	case ReasonQueueFull:
		return ErrQueueFull
	case ReasonExpired:
		return ErrExpired
	case ReasonCancelled:
		return ErrCancelled
	case ReasonClosed:
		return ErrClosed
	default:
		return nil
	}
}

// RejectedError says why a request was not admitted, with what a caller needs
// to say when to come again. It is one of the sentinels above.
type RejectedError struct {
	Reason Reason
	Pool   string
	Band   string
	// Waited is how long the request had been waiting, 0 if it never did.
	Waited time.Duration
	// Depth is how many requests of the band still waited, all pools together,
	// as it was refused.
	Depth int
	// RetryAfter estimates when a place in the queue could be had: what waits
	// in the pool at the pace at which work was released lately. From 1s to
	// 60s.
	RetryAfter time.Duration

	cause error
}

// Error names pool, band and reason.
func (e *RejectedError) Error() string {
	text := fmt.Sprintf("%v (pool %s, band %s, %d waiting", e.Reason.sentinel(), e.Pool, e.Band, e.Depth)
	if e.Waited > 0 {
		text += fmt.Sprintf(", after %v", e.Waited.Round(time.Millisecond))
	}
	if e.cause != nil {
		return text + "): " + e.cause.Error()
	}
	return text + ")"
}

// Unwrap returns the sentinel of the reason and, of a cancelled request, the
// cause of its context's end.
func (e *RejectedError) Unwrap() []error {
	errs := make([]error, 0, 2)
	if s := e.Reason.sentinel(); s != nil {
		errs = append(errs, s)
	}
	if e.cause != nil {
		errs = append(errs, e.cause)
	}
	return errs
}
