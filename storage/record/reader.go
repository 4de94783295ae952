package record

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math"
	"os"
	"path/filepath"
	"time"
)

// Reader reads a log's directory, also while a Log writes to it. Its methods may
// be called concurrently, Close excepted.
type Reader struct {
	root *os.Root
	only string // the one segment that is read; empty: all
}

// Open opens a log's directory for reading. A directory that is not there is an
// error wrapping fs.ErrNotExist; one without a segment is an empty log.
func Open(dir string) (*Reader, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("record: open the log: %w", err)
	}
	return &Reader{root: root}, nil
}

// OpenFile opens one segment for reading, whatever the file is called.
func OpenFile(path string) (*Reader, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("record: open the segment: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: %s is no file", ErrInvalid, path)
	}
	r, err := Open(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	r.only = filepath.Base(path)
	return r, nil
}

// Close gives the directory free. No iteration may be under way.
func (r *Reader) Close() error { return r.root.Close() }

// Entries returns the entries with from <= Time < to in the order in which they
// were appended, over all segments that are there when the iteration begins, gaps
// included where they reach into that time. A zero from or to is no bound.
//
// What cannot be read comes in its place as an error, with a zero Entry; going on
// then continues with the next segment. The errors are *DamageError (ErrTorn,
// ErrDamaged), *VersionError (ErrVersion), one wrapping ErrExpired where a segment
// was removed meanwhile, or that of the disk. A damaged entry may be of any time,
// so damage is reported whatever from and to are, but for segments whose seal
// says that they have nothing in that time: they are not read.
func (r *Reader) Entries(from, to time.Time) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		names := []string{r.only}
		if r.only == "" {
			var err error
			if names, err = segmentNames(r.root); err != nil {
				yield(Entry{}, err)
				return
			}
		}
		w := newWindow(from, to)
		for i, name := range names {
			next := ""
			if i+1 < len(names) {
				next = names[i+1]
			}
			if !r.segment(name, next, w, yield) {
				return
			}
		}
	}
}

// segment yields what the window shows of a segment, the one before next; it
// returns false once yield has.
func (r *Reader) segment(name, next string, w window, yield func(Entry, error) bool) bool {
	f, err := r.root.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return yield(Entry{}, fmt.Errorf("%w: %s", ErrExpired, name))
	}
	if err != nil {
		return yield(Entry{}, fmt.Errorf("record: %w", err))
	}
	defer f.Close() //nolint:errcheck // only read
	info, err := f.Stat()
	if err != nil {
		return yield(Entry{}, fmt.Errorf("record: %w", err))
	}
	// What is written from here on is not seen.
	sc, err := newScanner(f, name, info.Size(), w)
	for err == nil {
		var e Entry
		var more bool
		if e, more, err = sc.next(); err != nil || !more {
			break
		}
		if w.shows(e) && !yield(e, nil) {
			return false
		}
	}
	if err == nil && next != "" && !sc.done && !r.ofRun(next, sc.segment.Run) {
		err = sc.torn("the segment was not completed; what its writer had not written is missing")
	}
	if err == nil {
		return true
	}
	if damage, ok := errors.AsType[*DamageError](err); ok {
		damage.Newest = next == ""
	}
	return yield(Entry{}, err)
}

// ofRun reports whether a segment is of a run. If it is, the one before it may
// have no seal, but nothing is missing: the disk failed, and what could not be
// written there stands here.
func (r *Reader) ofRun(name string, run uint64) bool {
	f, err := r.root.Open(name)
	if err != nil {
		return false
	}
	defer f.Close() //nolint:errcheck // only read
	b := make([]byte, segmentHeader)
	n, _ := io.ReadFull(f, b)
	s, err := parseHeader(b[:n], name, 0)
	return err == nil && s.Run == run
}

// window is a range of time in nanoseconds, the end excluded unless it is the
// last instant there is, which stands for no bound.
type window struct{ from, to int64 }

func newWindow(from, to time.Time) window {
	w := window{from: math.MinInt64, to: math.MaxInt64}
	if !from.IsZero() {
		w.from = clamp(from)
	}
	if !to.IsZero() {
		w.to = clamp(to)
	}
	return w
}

// clamp returns the nearest time that an entry can have.
func clamp(t time.Time) int64 {
	if ns, ok := unixNanos(t); ok {
		return ns
	}
	if t.Unix() < 0 {
		return math.MinInt64
	}
	return math.MaxInt64
}

func (w window) overlaps(s span) bool {
	return s.max >= w.from && (s.min < w.to || w.to == math.MaxInt64)
}

func (w window) shows(e Entry) bool {
	at := e.Time.UnixNano()
	s := span{entries: 1, min: at, max: at}
	if g, ok := ParseGap(e); ok {
		last := g.Last.UnixNano()
		s.min, s.max = min(at, last), max(at, last)
	}
	return w.overlaps(s)
}
