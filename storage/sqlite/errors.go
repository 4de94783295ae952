package sqlite

import (
	"context"
	"database/sql"
	"errors"

	driver "modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"

	"github.com/llmgw/llmgw/storage"
	"github.com/llmgw/llmgw/storage/internal/backend"
)

// fail wraps an error of a method with its name and with what callers branch on.
func fail(ctx context.Context, op string, err error) error {
	return backend.Failure(ctx, "sqlite", op, err, class)
}

// class says what an error of the driver means for callers. What is not known
// is no answer, so that nobody takes it for one.
func class(err error) error {
	var e *driver.Error
	if !errors.As(err, &e) {
		return storage.ErrUnavailable // closed, an interrupted wait, the driver itself
	}
	switch e.Code() & 0xff {
	case codes.SQLITE_CORRUPT, codes.SQLITE_NOTADB, codes.SQLITE_FORMAT:
		return storage.ErrSchema
	case codes.SQLITE_ERROR, codes.SQLITE_SCHEMA:
		// No such table or column: somebody else changed the schema.
		return storage.ErrSchema
	case codes.SQLITE_TOOBIG, codes.SQLITE_MISMATCH, codes.SQLITE_RANGE:
		return storage.ErrInvalid
	case codes.SQLITE_CONSTRAINT:
		if e.Code() == codes.SQLITE_CONSTRAINT_PRIMARYKEY || e.Code() == codes.SQLITE_CONSTRAINT_UNIQUE {
			return storage.ErrExists
		}
		return storage.ErrInvalid
	}
	// BUSY, LOCKED, FULL, READONLY, CANTOPEN, IOERR, NOMEM, INTERRUPT, PERM, AUTH …
	return storage.ErrUnavailable
}

// missing reports that a query found no row.
func missing(err error) bool { return errors.Is(err, sql.ErrNoRows) }

// busy reports that another process held the file for longer than BusyTimeout,
// or at a moment at which SQLite does not wait.
func busy(err error) bool {
	var e *driver.Error
	return errors.As(err, &e) && e.Code()&0xff == codes.SQLITE_BUSY
}
