package prefix

import "errors"

var (
	// ErrTooManyEndpoints means that as many endpoints as may be are in the index. One
	// more works without prefix affinity.
	ErrTooManyEndpoints = errors.New("prefix: too many endpoints")
	// ErrUnknownEndpoint means that the endpoint is not in the index, or no longer.
	ErrUnknownEndpoint = errors.New("prefix: unknown endpoint")
	// ErrUnknownParent means that an event continues a block that the index has not heard
	// of, as after lost events.
	ErrUnknownParent = errors.New("prefix: unknown parent block")
	// ErrBadEvent means that an event contradicts itself.
	ErrBadEvent = errors.New("prefix: bad event")
	// ErrFull means that the index holds as many blocks as it may.
	ErrFull = errors.New("prefix: index is full")
)
