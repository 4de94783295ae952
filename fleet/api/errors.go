package api

import (
	"context"
	"errors"

	"connectrpc.com/connect"
)

// What an error of the interfaces here may wrap. Its text is for the caller, who
// is an operator. Any other error is a fault of the server's: the caller gets none
// of its text, and it is logged.
var (
	// ErrInvalid: the request can never be answered as it is.
	ErrInvalid = errors.New("api: invalid request")
	// ErrNotFound: what the request speaks of is not there.
	ErrNotFound = errors.New("api: not found")
	// ErrPrecondition: as things stand it cannot be done, and asking again changes
	// nothing.
	ErrPrecondition = errors.New("api: not as things stand")
	// ErrUnavailable: what it takes cannot be asked now. Whether something was
	// changed is not known.
	ErrUnavailable = errors.New("api: unavailable")
)

// wrongly is an error with a class that its text does not show.
type wrongly struct {
	error
	class error
}

// Unwrap returns the class and the error.
func (w wrongly) Unwrap() []error { return []error{w.class, w.error} }

// Invalid returns err as one that is ErrInvalid, with its own text.
func Invalid(err error) error { return wrongly{err, ErrInvalid} }

// NotFound returns err as one that is ErrNotFound, with its own text.
func NotFound(err error) error { return wrongly{err, ErrNotFound} }

// Precondition returns err as one that is ErrPrecondition, with its own text.
func Precondition(err error) error { return wrongly{err, ErrPrecondition} }

// Unavailable returns err as one that is ErrUnavailable, with its own text.
func Unavailable(err error) error { return wrongly{err, ErrUnavailable} }

// Text returns what of an error may be told to an operator: all of one with a class
// that is here, and nothing of a fault.
func Text(err error) string {
	for _, class := range []error{ErrInvalid, ErrNotFound, ErrPrecondition, ErrUnavailable} {
		if errors.Is(err, class) {
			return err.Error()
		}
	}
	return ""
}

// failure is err as a caller gets it.
func (s *service) failure(ctx context.Context, method string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrInvalid):
		return connect.NewError(connect.CodeInvalidArgument, err)
	case errors.Is(err, ErrNotFound):
		return connect.NewError(connect.CodeNotFound, err)
	case errors.Is(err, ErrPrecondition):
		return connect.NewError(connect.CodeFailedPrecondition, err)
	case errors.Is(err, ErrUnavailable) && ctx.Err() == nil:
		return connect.NewError(connect.CodeUnavailable, err)
	case ctx.Err() != nil:
		return connect.NewError(connect.CodeDeadlineExceeded, errors.New("the server took too long; try again"))
	}
	s.log.Error("management call failed", "method", method, "err", err)
	return connect.NewError(connect.CodeInternal, errors.New("a fault of the server, which its log tells more of"))
}
