package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/llmgw/llmgw/storage"
	"github.com/llmgw/llmgw/storage/internal/backend"
)

// fail wraps an error of a method with its name and with what callers branch on.
func fail(ctx context.Context, op string, err error) error {
	return backend.Failure(ctx, "postgres", op, err, class)
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
