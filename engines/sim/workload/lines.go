package workload

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
)

// maxRow bounds a row, in bytes, so that a file that is no trace is noticed
// before it fills the memory. Prompts in a row of text have some kilobytes.
const maxRow = 16 << 20

// lines cuts a file, gzipped or not, into its rows and counts them.
type lines struct {
	file string
	r    *bufio.Reader
	line int    // of the row that next returned last
	left int64  // bytes that may still come
	long []byte // room for rows that are longer than r's buffer
}

// newLines unpacks r if it begins like gzip. After so many bytes of rows comes
// an error.
func newLines(r io.Reader, file string, most int64) (*lines, error) {
	br := bufio.NewReaderSize(r, 64<<10)
	l := &lines{file: file, r: br, left: most}
	// An error of Peek comes again with the first read.
	if magic, _ := br.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		zr, err := gzip.NewReader(br)
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF // the header itself is cut
			}
			return nil, l.broken(err)
		}
		l.r = bufio.NewReaderSize(zr, 64<<10)
	}
	if mark, _ := l.r.Peek(3); bytes.Equal(mark, []byte("\xef\xbb\xbf")) {
		_, _ = l.r.Discard(len(mark))
	}
	return l, nil
}

// next returns the next row that is not blank, without space around it; it is
// valid until the next call. The end is io.EOF. A last row without a newline
// is a row, unless the gzip stream around it is broken: half a number would
// pass for a whole one.
func (l *lines) next() ([]byte, error) {
	for {
		row, err := l.read()
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		if row = bytes.TrimSpace(row); len(row) > 0 {
			return row, nil
		}
		if err != nil {
			return nil, io.EOF
		}
	}
}

// read returns the next line. With io.EOF it may return a last one.
func (l *lines) read() ([]byte, error) {
	row, err := l.r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		l.long = l.long[:0]
		for errors.Is(err, bufio.ErrBufferFull) {
			if l.long = append(l.long, row...); len(l.long) > maxRow {
				break
			}
			row, err = l.r.ReadSlice('\n')
		}
		l.long = append(l.long, row...)
		row = l.long
	}
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, bufio.ErrBufferFull) {
		return nil, l.broken(err)
	}
	l.line++
	if len(row) > maxRow {
		return nil, l.fault(&fieldError{why: fmt.Sprintf("the row has more than %d MiB", maxRow>>20)})
	}
	if l.left -= int64(len(row)); l.left < 0 {
		return nil, l.fault(&fieldError{why: fmt.Sprintf("more than %d MiB up to here, unpacked; want a part of the file", MaxBytes>>20)})
	}
	return row, err
}

// broken says why reading stopped after line l.line.
func (l *lines) broken(err error) error {
	after := "after this line, the last whole one"
	if l.line == 0 {
		after = "within the first line"
	}
	var corrupt flate.CorruptInputError
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return l.fault(&fieldError{
			why: "the gzip stream is cut short " + after + "; fetch the file again",
			err: fmt.Errorf("%w: %w", ErrTruncated, err),
		})
	case errors.Is(err, gzip.ErrHeader), errors.Is(err, gzip.ErrChecksum), errors.As(err, &corrupt):
		return l.fault(&fieldError{
			why: fmt.Sprintf("the gzip stream is damaged %s (%v); fetch the file again", after, err),
			err: err,
		})
	default:
		return fmt.Errorf("workload: read %s after line %d: %w", l.file, l.line, err)
	}
}

// fault is err, a *fieldError, at the present line.
func (l *lines) fault(err error) error {
	e := &RowError{File: l.file, Line: l.line, Why: err.Error(), Err: err}
	if f, ok := errors.AsType[*fieldError](err); ok {
		e.Field, e.Why, e.Err = f.field, f.why, f.err
	}
	return e
}

// fieldError is a RowError that does not know its place yet.
type fieldError struct {
	field, why string
	err        error
}

func (e *fieldError) Error() string { return e.field + ": " + e.why }
