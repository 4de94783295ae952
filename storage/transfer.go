package storage

import (
	"context"
	"io"
)

// Transferer is a [Store] whose content can be carried to another, of the same
// kind or not. Both stores are.
type Transferer interface {
	// Export writes all that is kept, as of one moment, but for which routers live,
	// sessions and attempts to sign in: what was ended since would be open again where
	// it is imported, so people sign in anew.
	// Others may go on writing meanwhile. The form is lines of JSON with a checksum
	// at the end: without it the text is not whole. Hashes of keys and passwords are
	// in it, keys and passwords are not.
	Export(ctx context.Context, w io.Writer) error
	// Import reads what Export wrote into a store that keeps nothing yet, else it
	// returns ErrExists. It is done as a whole or not at all: what is cut off, was
	// changed or is something else is ErrInvalid, and what a newer program wrote
	// ErrSchema.
	Import(ctx context.Context, r io.Reader) error
}
