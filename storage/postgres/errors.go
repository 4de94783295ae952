package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/llmgw/llmgw/storage"
)

// fail wraps an error of a method with its name and with what callers branch on.
func fail(ctx context.Context, op string, err error) error {
	if err == nil {
		return nil
	}
	op = "postgres: " + op
	if classed(err) {
		return fmt.Errorf("%s: %w", op, err)
	}
	if cause := context.Cause(ctx); cause != nil {
		return fmt.Errorf("%s: %w: %w", op, storage.ErrUnavailable, cause)
	}
	return fmt.Errorf("%s: %w: %w", op, class(err), err)
}

// classed reports whether an error says already what it is.
func classed(err error) bool {
	for _, c := range []error{
		storage.ErrUnavailable, storage.ErrNotFound, storage.ErrExists, storage.ErrConflict,
		storage.ErrBudgetSpent, storage.ErrSchema, storage.ErrInvalid,
	} {
		if errors.Is(err, c) {
			return true
		}
	}
	return false
}

// class says what an error of PostgreSQL means for callers, by its SQLSTATE
// (PostgreSQL's documentation, appendix A). What is not known is no answer, so
// that nobody takes it for one.
func class(err error) error {
	e, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || len(e.Code) != 5 {
		return storage.ErrUnavailable // the connection, the pool, a timeout
	}
	switch {
	case e.Code == "42501": // insufficient privilege: may be granted
		return storage.ErrUnavailable
	case e.Code == "23505":
		return storage.ErrExists
	}
	switch e.Code[:2] {
	case "42", "3F", "XX": // no such table, column or schema; damaged data
		return storage.ErrSchema
	case "22", "23":
		return storage.ErrInvalid
	}
	// 08 connection, 25 read-only, 28 and 3D access, 40 and 55 others,
	// 53 disk or memory full, 57 shutdown or timeout, 58 system …
	return storage.ErrUnavailable
}

// repeatable reports that nothing was done, for a reason that passes.
func repeatable(err error) bool {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code == "40001" || e.Code == "40P01" // serialization failure, deadlock
	}
	return pgconn.SafeToRetry(err) // a connection of the pool had died
}

// unreachable reports that no connection can be made.
func unreachable(err error) bool {
	_, ok := errors.AsType[*pgconn.ConnectError](err)
	return ok
}

// missing reports that a query found no row.
func missing(err error) bool { return errors.Is(err, pgx.ErrNoRows) }

// damaged is an error of what was read and no method of ours wrote. Its cause is
// hidden: it speaks of an invalid record, and this is not the caller's.
func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: damaged: %s", storage.ErrSchema, fmt.Sprintf(format, args...))
}
