package workload

import (
	"fmt"
	"io"
)

// Open reads the file at path: see [Read]. Errors name the path as given.
func Open(path string, f Format) (*Trace, error) {
	return nil, fmt.Errorf("workload: open %s (%s): not written yet", path, f)
}

// Read reads a whole trace from r. The name appears in errors and in the
// trace. An empty f tells the format from the content; gzip is told from its
// first bytes. A row may have 16 MiB. Blank lines are skipped.
//
// What is wrong with a row, or with the file at a row, is a *[RowError]; no
// rows at all is [ErrEmpty]; a format that does not exist, or content that
// fits none, is [ErrUnknownFormat]. With an error the trace is nil.
func Read(r io.Reader, name string, f Format) (*Trace, error) {
	return nil, fmt.Errorf("workload: read %s (%s) from %T: not written yet", name, f, r)
}
