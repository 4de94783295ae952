package workload

import (
	"errors"
	"strconv"
)

// What callers may branch on, with errors.Is.
var (
	// ErrEmpty means that there is no request at all.
	ErrEmpty = errors.New("workload: no requests")
	// ErrUnknownFormat means that no format fits the content, or that the
	// one asked for does not exist.
	ErrUnknownFormat = errors.New("workload: unknown format")
	// ErrTruncated means that a gzipped file ends early.
	ErrTruncated = errors.New("workload: gzip stream cut short")
	// ErrInvalid means that an argument, a configuration or a trace put
	// together by hand breaks a rule.
	ErrInvalid = errors.New("workload: invalid")
)

// RowError is what is wrong with one row of a file. Read it with
// errors.AsType.
type RowError struct {
	File string // as given to [Open] or [Read]
	// Line is the row's line, from 1, counted after unpacking. For
	// [ErrTruncated] it is the last whole line, 0 if there is none.
	Line int
	// Field is the key or column, as the format spells it; "" if the row
	// as a whole is meant.
	Field string
	Why   string // what there is and what would be accepted
	Err   error  // the cause, or nil
}

// Error is "file:line: field: why", without what there is not.
func (e *RowError) Error() string {
	place := e.File
	if e.Line > 0 {
		place += ":" + strconv.Itoa(e.Line)
	}
	if e.Field != "" {
		place += ": " + e.Field
	}
	return place + ": " + e.Why
}

// Unwrap returns the cause.
func (e *RowError) Unwrap() error { return e.Err }
