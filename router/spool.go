package router

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/llmgw/llmgw/router/openai"
)

// spoolMemory is how much of a form is held in memory, counted as a body is,
// before the rest goes to a file.
const spoolMemory = 1 << 20

var (
	// errSpoolFull: the files of all forms have reached their bound.
	errSpoolFull = errors.New("router: the spool is full")
	// errSpoolMemory: there is no memory for the beginning of a form.
	errSpoolMemory = errors.New("router: no memory for a form")
)

// spools bounds what is spooled at a time.
type spools struct {
	dir   string // empty: the system's
	limit int64
	held  atomic.Int64 // bytes in files
	mem   *bodyMemory
}

// spool holds one form while it may have to be sent: its beginning in memory,
// the rest in a file. It is written by one goroutine, then sealed and read by
// any number.
type spool struct {
	all  *spools
	mem  body
	file *os.File // nil: all is in memory
	path string   // of the file, where it could not be unlinked
	size int64    // bytes written
	disk int64    // of them to the file

	head []byte // what is in memory, once the spool is sealed
}

// Write adds to the spool. The error is errSpoolFull, errSpoolMemory, or of the
// file.
func (s *spool) Write(b []byte) (int, error) {
	if s.file == nil && s.size+int64(len(b)) <= spoolMemory {
		if !s.mem.grow(int(s.size) + len(b)) {
			return 0, errSpoolMemory
		}
		*s.mem.buf = append(*s.mem.buf, b...)
		s.size += int64(len(b))
		return len(b), nil
	}
	if s.all.held.Add(int64(len(b))) > s.all.limit {
		s.all.held.Add(-int64(len(b)))
		return 0, errSpoolFull
	}
	s.disk += int64(len(b))
	if s.file == nil {
		if err := s.open(); err != nil {
			return 0, err
		}
	}
	n, err := s.file.Write(b)
	s.size += int64(n)
	if err != nil {
		return n, fmt.Errorf("router: spool: %w", err)
	}
	return n, nil
}

// alone reports whether no other form is in a file.
func (s *spool) alone() bool { return s.all.held.Load() <= s.disk }

// refusal is what a client is told of an error of Write.
func (s *spool) refusal(err error) *openai.Error {
	switch {
	case errors.Is(err, errSpoolMemory):
		return openai.Overloaded(bodyRetryAfter)
	case errors.Is(err, errSpoolFull):
		return openai.SpoolFull(spoolRetryAfter)
	case errors.Is(err, syscall.ENOSPC) && s.alone():
		// No other form will go and leave its room to this one.
		return openai.FormDoesNotFit()
	}
	return openai.SpoolFull(diskRetryAfter)
}

// When a client may come again whose form found no room: other forms take
// seconds to be sent, a disk that is full or away stays so for longer.
const (
	spoolRetryAfter = 3 * time.Second
	diskRetryAfter  = openai.MaxLoadingRetry
)

// open makes the file. It has no name from the start where the system allows
// that, so that it goes with the process, however that ends.
func (s *spool) open() error {
	f, err := os.CreateTemp(s.all.dir, "llmgw-form-*")
	if err != nil {
		return fmt.Errorf("router: spool: %w", err)
	}
	s.file, s.path = f, f.Name()
	if os.Remove(s.path) == nil {
		s.path = ""
	}
	return nil
}

// seal ends the writing.
func (s *spool) seal() {
	if s.mem.buf != nil {
		s.head = *s.mem.buf
	}
}

// ReadAt implements [io.ReaderAt].
func (s *spool) ReadAt(b []byte, off int64) (int, error) {
	n := 0
	if off < int64(len(s.head)) {
		if n = copy(b, s.head[off:]); n == len(b) {
			return n, nil
		}
	}
	if s.file == nil {
		return n, io.EOF
	}
	m, err := s.file.ReadAt(b[n:], off+int64(n)-int64(len(s.head)))
	return n + m, err
}

// section reads a range of the spool.
func (s *spool) section(from, to int64) io.Reader { return io.NewSectionReader(s, from, to-from) }

// edited returns what opens the form, with the text in place of what stands at
// v, and its length; all is as it came if the text is empty.
func (s *spool) edited(v openai.Span, text string) (open func() io.Reader, length int) {
	if text == "" {
		return func() io.Reader { return s.section(0, s.size) }, int(s.size)
	}
	return func() io.Reader {
		return io.MultiReader(s.section(0, int64(v.Start)), strings.NewReader(text), s.section(int64(v.End), s.size))
	}, int(s.size) - v.Len() + len(text)
}

// close gives everything back; it may be called twice. shared says that somebody
// may still be reading, who then finds the file closed and the memory as it was.
func (s *spool) close(shared bool) {
	if shared {
		s.mem.forget()
	} else {
		s.mem.release()
	}
	if s.file != nil {
		_ = s.file.Close() // what it held is needed no more
	}
	if s.path != "" {
		_ = os.Remove(s.path)
		s.path = ""
	}
	s.all.held.Add(-s.disk)
	s.disk = 0
}
