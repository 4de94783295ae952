package workload

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Open reads the file at path: see [Read]. Errors name the path as given, the
// trace has its last element for a name.
func Open(path string, f Format) (*Trace, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("workload: %w", err)
	}
	defer file.Close()
	t, err := Read(file, path, f)
	if err != nil {
		return nil, err
	}
	t.Name = filepath.Base(path)
	return t, nil
}

// Read reads a whole trace from r. The name appears in errors and in the
// trace. An empty f tells the format from the content; gzip is told from its
// first bytes. A row may have 16 MiB, the file MaxBytes after unpacking,
// MaxRequests and MaxBlocks. Blank lines are skipped, and so is a byte order
// mark.
//
// What is wrong with a row, or with the file at a row, is a *[RowError]; no
// rows at all is [ErrEmpty]; a format that does not exist, or content that
// fits none, is [ErrUnknownFormat]. With an error the trace is nil.
func Read(r io.Reader, name string, f Format) (*Trace, error) {
	return read(r, name, f, bounds{requests: MaxRequests, blocks: MaxBlocks, bytes: MaxBytes})
}

// bounds are what a file may hold, so that it cannot fill the memory.
type bounds struct {
	requests, blocks int
	bytes            int64 // after unpacking
}

func read(r io.Reader, name string, f Format, most bounds) (*Trace, error) {
	if f != "" && !slices.Contains(Formats(), f) {
		return nil, fmt.Errorf("%w %q: want one of %s", ErrUnknownFormat, f, formatList())
	}
	l, err := newLines(r, name, most.bytes)
	if err != nil {
		return nil, err
	}
	first, err := l.next()
	if err != nil {
		return nil, orEmpty(err, name)
	}
	if f == "" {
		if f, err = detect(first); err != nil {
			return nil, l.fault(err)
		}
	}
	dec, err := newDecoder(f, first)
	if err != nil {
		return nil, l.fault(err)
	}
	t := &Trace{Name: name, Format: f, BlockTokens: dec.blockTokens()}
	if err := t.readRows(l, dec, first, most); err != nil {
		return nil, orEmpty(err, name)
	}
	return t, nil
}

// readRows decodes first, unless it is a header, and every row after it. It
// returns io.EOF if there is none.
func (t *Trace) readRows(l *lines, dec decoder, first []byte, most bounds) error {
	var all slabs
	blocks := 0
	var start, last time.Duration
	row, err := first, error(nil)
	if dec.header() {
		row, err = l.next()
	}
	for ; err == nil; row, err = l.next() {
		slab := all.room()
		from := len(slab)
		var at time.Duration
		if slab, at, err = dec.decode(slab, row); err != nil {
			return l.fault(err)
		}
		if all.n == 0 {
			start, last = at, at
		}
		switch {
		case at < last:
			return l.fault(&fieldError{
				field: dec.timeField(),
				why:   fmt.Sprintf("%v before the row above it; want rows in the order of their arrival", last-at),
			})
		case at-start > MaxSpan:
			return l.fault(&fieldError{
				field: dec.timeField(),
				why:   fmt.Sprintf("%v after the first row; want at most %v", at-start, MaxSpan),
			})
		case all.n+len(slab)-from > most.requests:
			return l.fault(&fieldError{why: fmt.Sprintf("more than %d requests; want a part of the file", most.requests)})
		}
		last = at
		for i := from; i < len(slab); i++ {
			r := &slab[i]
			r.At, r.Seq, r.Line = at-start, uint64(all.n), l.line
			blocks += len(r.Blocks)
			all.n++
		}
		all.put(slab)
		if blocks > most.blocks {
			return l.fault(&fieldError{field: "hash_ids", why: fmt.Sprintf("more than %d ids up to here; want a part of the file", most.blocks)})
		}
	}
	if errors.Is(err, io.EOF) && all.n > 0 {
		t.Requests = slices.Concat(all.list...)
		return nil
	}
	return err
}

// slabs collects requests. One slice that grows would leave so many smaller
// ones behind that a long trace takes four times its size.
type slabs struct {
	list [][]Request
	n    int // requests in all of them
}

// room returns the slab that the next requests are to be appended to.
func (s *slabs) room() []Request {
	const most = 1 << 14
	if last := len(s.list) - 1; last < 0 || len(s.list[last]) >= most {
		size := 0 // most traces are short
		if last >= 0 {
			size = most
		}
		s.list = append(s.list, make([]Request, 0, size))
	}
	return s.list[len(s.list)-1]
}

// put takes the slab that room returned back.
func (s *slabs) put(slab []Request) { s.list[len(s.list)-1] = slab }

// orEmpty turns the end of a file without requests into ErrEmpty.
func orEmpty(err error, name string) error {
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%w in %s", ErrEmpty, name)
	}
	return err
}

// decoder knows one format.
type decoder interface {
	// decode appends the requests of a row and returns when they arrive,
	// counted from anywhere. It keeps nothing of row. Errors are
	// *fieldError.
	decode(dst []Request, row []byte) ([]Request, time.Duration, error)
	header() bool      // whether the first row is none of requests
	timeField() string // the field that says when
	blockTokens() int  // 0: the format tells nothing of blocks
}

// newDecoder returns the decoder of f for a file that begins with row first.
func newDecoder(f Format, first []byte) (decoder, error) {
	switch f {
	case Mooncake:
		return mooncake{}, nil
	case Qwen:
		return &qwen{sessions: make(map[string]string)}, nil
	case AIBrix:
		return aibrix{}, nil
	case Azure:
		return newTable(first, "TIMESTAMP", "ContextTokens", "GeneratedTokens", parseDate)
	case BurstGPT:
		return newTable(first, "Timestamp", "Request tokens", "Response tokens", parseSeconds)
	default: // Read has refused it
		return nil, &fieldError{why: string(f), err: ErrUnknownFormat}
	}
}

// detect tells the format from a file's first row. What names the right fields
// but lacks others is for the decoder to refuse.
func detect(row []byte) (Format, error) {
	if row[0] == '{' {
		keys, err := objectKeys(row)
		if err != nil {
			return "", err
		}
		switch {
		case slices.Contains(keys, "requests"):
			return AIBrix, nil
		case slices.Contains(keys, "chat_id"):
			return Qwen, nil
		case slices.Contains(keys, "input_length"), slices.Contains(keys, "hash_ids"):
			return Mooncake, nil
		}
		return "", unknownContent(row)
	}
	switch head := bytes.ToLower(row); {
	case bytes.Contains(head, []byte("contexttokens")):
		return Azure, nil
	case bytes.Contains(head, []byte("request tokens")):
		return BurstGPT, nil
	}
	return "", unknownContent(row)
}

func unknownContent(row []byte) error {
	return &fieldError{
		why: fmt.Sprintf("no known format begins with %s; want one of %s", excerpt(row), formatList()),
		err: ErrUnknownFormat,
	}
}

func formatList() string {
	var names []string
	for _, f := range Formats() {
		names = append(names, string(f))
	}
	return strings.Join(names, ", ")
}
