package backend

import (
	"context"
	"errors"
	"fmt"

	"github.com/llmgw/llmgw/storage"
)

// Failure wraps an error of a store's method with both names and with what callers
// branch on: what it says already, that ctx has ended, or what class makes of an
// error of the driver. Nil stays nil.
func Failure(ctx context.Context, store, op string, err error, class func(error) error) error {
	switch {
	case err == nil:
		return nil
	case Classed(err):
		return fmt.Errorf("%s: %s: %w", store, op, err)
	}
	if cause := context.Cause(ctx); cause != nil {
		return fmt.Errorf("%s: %s: %w: %w", store, op, storage.ErrUnavailable, cause)
	}
	return fmt.Errorf("%s: %s: %w: %w", store, op, class(err), err)
}

// Classed reports whether an error says already what it is.
func Classed(err error) bool {
	for _, c := range []error{
		storage.ErrUnavailable, storage.ErrNotFound, storage.ErrExists, storage.ErrFull, storage.ErrConflict,
		storage.ErrBudgetSpent, storage.ErrSchema, storage.ErrInvalid, storage.ErrFenced,
	} {
		if errors.Is(err, c) {
			return true
		}
	}
	return false
}

// Damaged is an error of what was read and no method of a store's wrote. Its cause
// is hidden: it speaks of an invalid record, and this is not the caller's.
func Damaged(format string, args ...any) error {
	return fmt.Errorf("%w: damaged: %s", storage.ErrSchema, fmt.Sprintf(format, args...))
}

// FromDump says of two records of one identity, and of a grant without its budget,
// that the dump is to blame which holds them.
func FromDump(err error, class func(error) error) error {
	if err == nil {
		return nil
	}
	c := err
	if !Classed(err) {
		c = class(err)
	}
	if errors.Is(c, storage.ErrExists) || errors.Is(c, storage.ErrInvalid) {
		return fmt.Errorf("%w: the dump: a record contradicts another: %v", storage.ErrInvalid, err) //nolint:errorlint // ErrExists would speak of the store
	}
	return err
}
