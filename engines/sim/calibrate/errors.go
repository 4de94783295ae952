package calibrate

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
)

// What stands in the way of a calibration. All are found by [errors.Is].
var (
	// ErrUnreachable: no connection, or it broke before an answer began.
	ErrUnreachable = errors.New("calibrate: the engine cannot be reached")
	// ErrNotEngine: something answers that is no OpenAI-compatible API.
	ErrNotEngine = errors.New("calibrate: not an OpenAI-compatible engine")
	// ErrModel: the model is not served, or there are several to choose from.
	ErrModel = errors.New("calibrate: no such model")
	// ErrNoUsage: streams carry no usage, so that lengths are unknown.
	ErrNoUsage = errors.New("calibrate: the engine reports no usage")
	// ErrStream: a stream broke off, carried an error or no content.
	ErrStream = errors.New("calibrate: broken stream")
	// ErrBudget: the budget ended before the least that a fit needs.
	ErrBudget = errors.New("calibrate: the budget is spent")
	// ErrPoor: there is a model, and it does not behave like the engine.
	ErrPoor = errors.New("calibrate: the model is not like the engine")
	// ErrSample: a sample that nothing can have given.
	ErrSample = errors.New("calibrate: impossible sample")
	// ErrTooFew: samples that no fit can be made of.
	ErrTooFew = errors.New("calibrate: too few samples")
)

// StatusError is an answer with a status other than 200.
type StatusError struct {
	Op      string // what was asked, e.g. "POST /v1/chat/completions"
	Status  int
	Message string // the engine's own, shortened
}

func (e *StatusError) Error() string {
	s := fmt.Sprintf("calibrate: %s: status %d", e.Op, e.Status)
	if e.Message != "" {
		s += ": " + e.Message
	}
	if e.Status == 401 || e.Status == 403 {
		s += "; the engine wants an API key"
	}
	return s
}

// refusal reports whether the engine found fault with the request itself.
func (e *StatusError) refusal() bool { return e.Status == 400 || e.Status == 413 || e.Status == 422 }

// ModelError says which models there are. It is [ErrModel].
type ModelError struct {
	Asked  string   // "" if none was named
	Served []string // sorted
}

func (e *ModelError) Error() string {
	switch {
	case len(e.Served) == 0:
		return ErrModel.Error() + ": /v1/models lists none"
	case e.Asked == "":
		return fmt.Sprintf("%v: several are served, name one of %s", ErrModel, shorten(strings.Join(e.Served, ", ")))
	default:
		return fmt.Sprintf("%v: %q; the engine serves %s", ErrModel, e.Asked, shorten(strings.Join(e.Served, ", ")))
	}
}

func (e *ModelError) Unwrap() error { return ErrModel }

// shorten keeps the beginning of a foreign text, on one line and harmless to a
// terminal.
func shorten(s string) string {
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "?")), " ")
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
	if r := []rune(s); len(r) > 200 {
		s = string(r[:200]) + "…"
	}
	return s
}
