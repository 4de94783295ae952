package scrape

import (
	"context"
	"errors"
	"os"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/exposition"
)

// Outcome is how one scrape ended.
type Outcome uint8

const (
	// OutcomeUnset is the zero value and no outcome.
	OutcomeUnset Outcome = iota
	// OutcomeOK: running and waiting requests are known.
	OutcomeOK
	// OutcomePartial: the page is the engine's, but the metric of one of them
	// is not on it: renamed, or the engine is cold.
	OutcomePartial
	// OutcomeTimeout: no whole page within the scrape's time.
	OutcomeTimeout
	// OutcomeUnreachable: no connection, or it broke.
	OutcomeUnreachable
	// OutcomeStatus: an answer other than 200, such as that of an engine
	// started without its metrics.
	OutcomeStatus
	// OutcomeUnrecognised: the answer is no page of the engine, or of any
	// engine where that is to be found out.
	OutcomeUnrecognised
	// OutcomeTooLarge: the page is longer than any engine's should be.
	OutcomeTooLarge
	// OutcomeUnsupported: the engine exports no metrics and is not scraped.
	OutcomeUnsupported
	outcomes
)

// String returns the outcome as metrics and logs spell it.
func (o Outcome) String() string {
	switch o {
	case OutcomeOK:
		return "ok"
	case OutcomePartial:
		return "partial"
	case OutcomeTimeout:
		return "timeout"
	case OutcomeUnreachable:
		return "unreachable"
	case OutcomeStatus:
		return "status"
	case OutcomeUnrecognised:
		return "unrecognised"
	case OutcomeTooLarge:
		return "too_large"
	case OutcomeUnsupported:
		return "unsupported"
	}
	return "unset"
}

// measured reports whether the scrape gave a measurement.
func (o Outcome) measured() bool { return o == OutcomeOK || o == OutcomePartial }

var (
	errStatus   = errors.New("scrape: status is not 200")
	errTooLarge = errors.New("scrape: page is too large")
	errUnknown  = errors.New("scrape: no engine of the contracts exports this page")
)

// classify gives the outcome of a scrape that failed under ctx.
func classify(ctx context.Context, err error) Outcome {
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return OutcomeTimeout
	case errors.Is(err, errStatus):
		return OutcomeStatus
	case errors.Is(err, errTooLarge):
		return OutcomeTooLarge
	case errors.Is(err, errUnknown), errors.Is(err, exposition.ErrNotText), errors.Is(err, exposition.ErrNoMetrics):
		return OutcomeUnrecognised
	}
	return OutcomeUnreachable
}

// complete gives the outcome of a scrape that was read: partial where the
// contract names a metric of the queue that the page lacks.
func complete(c *engines.MetricContract, l engines.Load) Outcome {
	_, running := l.Running.Get()
	_, waiting := l.Waiting.Get()
	if c.Running.Exported() && !running || c.Waiting.Exported() && !waiting {
		return OutcomePartial
	}
	return OutcomeOK
}
