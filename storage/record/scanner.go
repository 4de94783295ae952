package record

import (
	"bufio"
	"errors"
	"fmt"
	"io"
)

// scanner reads the entries of one segment. It believes nothing that a checksum
// does not cover, and holds no more memory than the file has bytes.
type scanner struct {
	file    string
	segment *Segment
	in      *bufio.Reader
	offset  int64 // of the next entry
	size    int64 // of the file
	count   uint64
	done    bool   // the seal was reached, or says that there is nothing to see
	buf     []byte // the entry at hand
}

// newScanner reads the header of a segment with size bytes. If the seal says that
// the segment has nothing in the window, the scanner has no entries.
func newScanner(r io.ReaderAt, file string, size int64, w window) (*scanner, error) {
	b := make([]byte, min(size, segmentHeader))
	if _, err := r.ReadAt(b, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("record: read %s: %w", file, err)
	}
	segment, err := parseHeader(b, file, size)
	if err != nil {
		return nil, err
	}
	sc := &scanner{file: file, segment: segment, offset: segmentHeader, size: size}
	if s, ok := readSeal(r, size); ok && s.entries > 0 && !w.overlaps(s) {
		sc.done = true
		return sc, nil
	}
	sc.in = bufio.NewReaderSize(io.NewSectionReader(r, segmentHeader, size-segmentHeader), 64<<10)
	return sc, nil
}

// readSeal reads the seal that a complete segment ends with.
func readSeal(r io.ReaderAt, size int64) (span, bool) {
	if size < segmentHeader+sealEntry {
		return span{}, false
	}
	b := make([]byte, sealEntry)
	if n, _ := r.ReadAt(b, size-sealEntry); n < sealEntry {
		return span{}, false
	}
	h := parseHead(b)
	if h.typ != typeSeal || h.length != sealPayload || h.crc != checksum(b[4:]) {
		return span{}, false
	}
	return parseSeal(b[entryHeader:])
}

// next returns the next entry; more is false at the end. The error is a
// *DamageError or of reading, and ends the segment.
func (s *scanner) next() (e Entry, more bool, err error) {
	if s.done || s.offset == s.size {
		return Entry{}, false, nil
	}
	if s.size-s.offset < entryHeader {
		return Entry{}, false, s.torn("the entry is cut short")
	}
	s.buf = grow(s.buf, entryHeader)
	if err := s.fill(s.buf); err != nil {
		return Entry{}, false, err
	}
	h := parseHead(s.buf)
	if fault := s.fault(h); fault != nil {
		return Entry{}, false, fault
	}
	s.buf = grow(s.buf, entryHeader+int(h.length))
	if err := s.fill(s.buf[entryHeader:]); err != nil {
		return Entry{}, false, err
	}
	if checksum(s.buf[4:]) != h.crc {
		return Entry{}, false, s.damaged("the checksum does not match")
	}
	offset, payload := s.offset, s.buf[entryHeader:]
	if h.typ == typeSeal {
		return Entry{}, false, s.seal(payload)
	}
	e = Entry{Type: h.typ, Time: unixTime(h.at), Payload: payload, Segment: s.segment, Offset: offset}
	if h.typ > MaxType {
		if _, ok := ParseGap(e); !ok {
			return Entry{}, false, s.damaged(fmt.Sprintf("an entry of the log's own has the unknown type %#x or a wrong length", uint16(h.typ)))
		}
	}
	s.offset += int64(len(s.buf))
	s.count++
	return e, true, nil
}

// fault returns what the head of an entry shows to be wrong.
func (s *scanner) fault(h head) error {
	switch {
	case h == head{}:
		// A file system that grew the file and lost its content leaves zeros.
		return s.torn("there are zeros where an entry should be")
	case h.length > MaxPayloadBytes:
		return s.damaged(fmt.Sprintf("the entry says that it has %d bytes; at most %d are possible", h.length, MaxPayloadBytes))
	case h.typ == 0 || h.zero != 0:
		return s.damaged("what is there is no entry")
	case int64(h.length) > s.size-s.offset-entryHeader:
		return s.torn("the entry is cut short")
	}
	return nil
}

// seal checks the last entry of a complete segment.
func (s *scanner) seal(payload []byte) error {
	sum, ok := parseSeal(payload)
	switch {
	case !ok:
		return s.damaged("the seal has a wrong length")
	case sum.entries != s.count:
		return s.damaged(fmt.Sprintf("the seal counts %d entries, and there are %d", sum.entries, s.count))
	case s.offset+sealEntry != s.size:
		return s.damaged("something follows the seal")
	}
	s.done = true
	return nil
}

func (s *scanner) fill(b []byte) error {
	_, err := io.ReadFull(s.in, b)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return s.torn("the file became shorter while it was read")
	}
	if err != nil {
		return fmt.Errorf("record: read %s: %w", s.file, err)
	}
	return nil
}

func (s *scanner) torn(why string) error { return s.damage(ErrTorn, why) }

func (s *scanner) damaged(why string) error { return s.damage(ErrDamaged, why) }

func (s *scanner) damage(err error, why string) error {
	return &DamageError{File: s.file, Offset: s.offset, Bytes: s.size - s.offset, Why: why, Err: err}
}

// grow returns b with n bytes, its first ones kept.
func grow(b []byte, n int) []byte {
	if cap(b) < n {
		b = append(make([]byte, 0, max(n, 4<<10)), b...)
	}
	return b[:n]
}
