package plugin

import (
	"errors"
	"fmt"
	"strings"
)

// Why an adapter's program was refused, did not start, or was ended. Each is found
// by [errors.Is] in a [*ProgramError].
var (
	// ErrUnknown: no adapter has the name.
	ErrUnknown = errors.New("no such adapter")
	// ErrMissing: the program, or the directory of programs, is not there or
	// cannot be run on this machine.
	ErrMissing = errors.New("cannot be started")
	// ErrUnsafe: others than its owner could have changed the program, or it is
	// none.
	ErrUnsafe = errors.New("is not safe to start")
	// ErrChecksum: the program is not the one that was pinned.
	ErrChecksum = errors.New("has another checksum than the one pinned")
	// ErrDuplicate: two programs have one name.
	ErrDuplicate = errors.New("is there twice")
	// ErrNotAdapter: the program ended, or said something else, before the
	// handshake.
	ErrNotAdapter = errors.New("is no adapter")
	// ErrVersion: the adapter was built for another version of the protocol.
	ErrVersion = errors.New("speaks another version of the protocol")
	// ErrSilent: the program runs and did not begin the handshake, or did not
	// describe itself, in time.
	ErrSilent = errors.New("did not come up in time")
	// ErrDescription: the adapter's description is another engine's, or not valid.
	ErrDescription = errors.New("does not describe itself as it should")
	// ErrEnded: the program ended by itself.
	ErrEnded = errors.New("ended")
	// ErrHung: the program runs and does not answer.
	ErrHung = errors.New("does not answer")
)

// ProgramError says what is wrong with an adapter's program. It unwraps to its
// Reason and, where there is one, its Cause.
type ProgramError struct {
	// Name is the adapter's, and Path the program's. Either may be empty.
	Name, Path string
	// Reason is one of this package's sentinels.
	Reason error
	// Detail says what was seen.
	Detail string
	// Advice says what to do.
	Advice string
	// Cause is what the system or the adapter's answer said; nil: nothing.
	Cause error
}

// Error returns everything on one line.
func (e *ProgramError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "engine adapter %q", e.Name)
	if e.Path != "" {
		fmt.Fprintf(&b, " (%s)", e.Path)
	}
	fmt.Fprintf(&b, ": %v", e.Reason)
	if e.Detail != "" {
		fmt.Fprintf(&b, ": %s", e.Detail)
	}
	if e.Cause != nil {
		fmt.Fprintf(&b, ": %v", e.Cause)
	}
	if e.Advice != "" {
		fmt.Fprintf(&b, "; %s", e.Advice)
	}
	return b.String()
}

// Unwrap returns Reason and Cause.
func (e *ProgramError) Unwrap() []error {
	if e.Cause == nil {
		return []error{e.Reason}
	}
	return []error{e.Reason, e.Cause}
}
