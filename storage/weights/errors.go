package weights

import (
	"errors"
	"fmt"
	"strings"
)

// Kinds of [*ReadError].
var (
	// ErrNotFound: nothing is there.
	ErrNotFound = errors.New("weights: not there")
	// ErrEmpty: a directory without weights.
	ErrEmpty = errors.New("weights: none in the directory")
	// ErrIncomplete: files are missing, or a file ends too early, as a copy does
	// that is not finished.
	ErrIncomplete = errors.New("weights: incomplete")
	// ErrFormat: not a format that is read here.
	ErrFormat = errors.New("weights: format is not known")
	// ErrCorrupt: a file contradicts itself, or claims what no weights have.
	ErrCorrupt = errors.New("weights: corrupt")
	// ErrAmbiguous: a directory with several models.
	ErrAmbiguous = errors.New("weights: several models in the directory")
)

// ReadError says why weights cannot be read. It unwraps to its kind, or to the
// error of the filesystem.
type ReadError struct {
	// Kind is one of the errors above, or what the filesystem answered.
	Kind error
	// Path is the file or directory.
	Path string
	// Offset is the place in the file, in bytes. 0: the file as a whole.
	Offset int64
	// Detail says what is wrong there, and what to do if something can be done.
	Detail string
	// Missing are the files that are missing of a set, in order; of very many the
	// first. Names are relative to the directory of the weights.
	Missing []string
}

// Error returns kind, path, place and detail on one line.
func (e *ReadError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v: %s", e.Kind, e.Path)
	if e.Offset > 0 {
		fmt.Fprintf(&b, " at byte %d", e.Offset)
	}
	if e.Detail != "" {
		b.WriteString(": " + e.Detail)
	}
	return b.String()
}

// Unwrap returns the kind.
func (e *ReadError) Unwrap() error { return e.Kind }

func readError(kind error, path, format string, args ...any) *ReadError {
	return &ReadError{Kind: kind, Path: path, Detail: fmt.Sprintf(format, args...)}
}
