package storage

import "errors"

// What stores answer. Each is wrapped with the operation and the cause.
var (
	// ErrUnavailable: the store cannot be asked now: not opened yet, not reached,
	// read-only or full. It says nothing of what was asked for.
	ErrUnavailable = errors.New("storage: the store is unavailable")
	// ErrNotFound: there is no such record.
	ErrNotFound = errors.New("storage: not found")
	// ErrExists: a record of that identity is there, and another one.
	ErrExists = errors.New("storage: already exists")
	// ErrFull: there are as many records of the kind as may be.
	ErrFull = errors.New("storage: as many as may be")
	// ErrConflict: the record was changed by somebody else since it was read.
	// Read it again.
	ErrConflict = errors.New("storage: changed in the meantime")
	// ErrBudgetSpent: less of a budget is left than what was asked for at least.
	ErrBudgetSpent = errors.New("storage: the budget is spent")
	// ErrSchema: the database was made by a newer program, by something else, or
	// is damaged. It was not touched.
	ErrSchema = errors.New("storage: the schema is not one of ours")
	// ErrInvalid: the record cannot be kept as it is. The caller's mistake.
	ErrInvalid = errors.New("storage: invalid record")
)
