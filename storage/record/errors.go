package record

import (
	"errors"
	"fmt"
)

// What callers may branch on, with errors.Is.
var (
	// ErrFull means that the buffer had no room and the record was dropped.
	ErrFull = errors.New("record: the buffer is full")
	// ErrClosed means that the log has ended and the record was dropped.
	ErrClosed = errors.New("record: the log has ended")
	// ErrInvalid means that a record breaks a rule (a type of the log's own, a
	// time outside the years 1678 to 2261, a payload that is too long), or that
	// a configuration or a key does. Such a record is dropped and counted.
	ErrInvalid = errors.New("record: invalid")
	// ErrInUse means that another process or Log writes to the directory.
	ErrInUse = errors.New("record: the directory is in use")

	// ErrTorn means that a segment was not completed: its writer died, or is
	// writing just now. What was in the writer's memory is missing.
	ErrTorn = errors.New("record: torn")
	// ErrDamaged means that a segment holds what no Log wrote.
	ErrDamaged = errors.New("record: damaged")
	// ErrVersion means that a segment is of another format version.
	ErrVersion = errors.New("record: another format version")
	// ErrExpired means that a segment was removed, for its age or for room,
	// before the reader came to it.
	ErrExpired = errors.New("record: expired while reading")
)

// The causes of ErrInvalid that Append returns; made once, since it must not
// allocate.
var (
	errType    = fmt.Errorf("%w: the type of a record must be from 1 to %#x", ErrInvalid, uint16(MaxType))
	errTime    = fmt.Errorf("%w: the time of a record must be in the years 1678 to 2261", ErrInvalid)
	errTooLong = fmt.Errorf("%w: the payload of a record is longer than the configuration allows", ErrInvalid)
)

// DamageError says which part of a segment cannot be read. Entries before it
// have been given; the rest of the segment is skipped.
type DamageError struct {
	File   string // name within the directory
	Offset int64  // where the damage begins
	// Bytes is how many there are from Offset to the end of the file, all of
	// which are skipped. It is 0 where a writer died between two entries.
	Bytes int64
	// Newest says that no later segment was there when the reading began: if
	// a Log is at work, a torn end is what it writes just now.
	Newest bool
	Why    string
	Err    error // ErrTorn or ErrDamaged
}

// Error names the place and the reason.
func (e *DamageError) Error() string {
	skipped := ""
	if e.Bytes > 0 {
		skipped = fmt.Sprintf("; the %d bytes from there are skipped", e.Bytes)
	}
	return fmt.Sprintf("%v: %s at byte %d: %s%s", e.Err, e.File, e.Offset, e.Why, skipped)
}

// Unwrap returns ErrTorn or ErrDamaged.
func (e *DamageError) Unwrap() error { return e.Err }

// VersionError says that a segment is of a format version that this package
// does not read. The segment is skipped as a whole.
type VersionError struct {
	File   string // name within the directory
	Found  uint16
	Want   uint16
	Writer string // who wrote it; empty if it does not say
}

// Error names the file, both versions and what to do.
func (e *VersionError) Error() string {
	by := "a program that gives no name"
	if e.Writer != "" {
		by = fmt.Sprintf("%q", e.Writer)
	}
	return fmt.Sprintf("record: %s is of format version %d, written by %s, and this program reads version %d: read it with the program that wrote it, or leave it to expire",
		e.File, e.Found, by, e.Want)
}

// Unwrap returns ErrVersion.
func (e *VersionError) Unwrap() error { return ErrVersion }
