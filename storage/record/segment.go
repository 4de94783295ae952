package record

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// formatVersion is the version that is written, and the only one read.
const formatVersion = 1

const (
	magic         = "LLMGWREC"
	writerBytes   = 64
	eternalHeader = 16 + writerBytes // the part that is the same in all versions
	segmentHeader = eternalHeader + 32
)

const (
	suffix       = ".rec"
	sequenceSize = 20 // digits in a name, so that names sort as numbers
)

// segmentName returns the file name of a segment.
func segmentName(sequence uint64) string {
	return fmt.Sprintf("%0*d%s", sequenceSize, sequence, suffix)
}

// parseName returns the sequence number of a file name; ok is false if it is
// not that of a segment. Numbers in the upper half are not ours, so that there is
// always a next one.
func parseName(name string) (sequence uint64, ok bool) {
	digits, ok := strings.CutSuffix(name, suffix)
	if !ok || len(digits) != sequenceSize || strings.Trim(digits, "0123456789") != "" {
		return 0, false
	}
	sequence, err := strconv.ParseUint(digits, 10, 63)
	return sequence, err == nil
}

// appendHeader adds the header of a segment. A writer's name that is too long is
// cut between two characters.
func appendHeader(b []byte, s *Segment) []byte {
	from := len(b)
	b = append(b, magic...)
	b = binary.LittleEndian.AppendUint16(b, formatVersion)
	b = binary.LittleEndian.AppendUint16(b, segmentHeader)
	b = binary.LittleEndian.AppendUint32(b, 0)
	var writer [writerBytes]byte
	copy(writer[:], fittingWriter(s.Writer))
	b = append(b, writer[:]...)
	b = binary.LittleEndian.AppendUint64(b, s.Sequence)
	b = binary.LittleEndian.AppendUint64(b, uint64(s.Key))
	b = binary.LittleEndian.AppendUint64(b, uint64(s.Created.UnixNano()))
	b = binary.LittleEndian.AppendUint64(b, s.Run)
	binary.LittleEndian.PutUint32(b[from+12:], headerChecksum(b[from:]))
	return b
}

// headerChecksum covers the header but for the four bytes it stands in itself.
func headerChecksum(b []byte) uint32 {
	return checksum(append(bytes.Clone(b[:12]), b[16:]...))
}

func fittingWriter(s string) string {
	for len(s) > writerBytes {
		_, n := utf8.DecodeLastRuneInString(s)
		s = s[:len(s)-n]
	}
	return s
}

// parseHeader reads the header that a file of the given size begins with; b is
// its first segmentHeader bytes, or all there are. The error is a *DamageError or
// a *VersionError.
func parseHeader(b []byte, file string, size int64) (*Segment, error) {
	damage := func(err error, why string) error {
		return &DamageError{File: file, Bytes: size, Why: why, Err: err}
	}
	if n := min(len(b), len(magic)); string(b[:n]) != magic[:n] {
		return nil, damage(ErrDamaged, "it does not begin as a segment does")
	}
	if len(b) < eternalHeader {
		return nil, damage(ErrTorn, "the header is cut short")
	}
	writer := string(bytes.TrimRight(b[16:eternalHeader], "\x00"))
	if v := binary.LittleEndian.Uint16(b[8:]); v != formatVersion {
		return nil, &VersionError{File: file, Found: v, Want: formatVersion, Writer: writer}
	}
	if len(b) < segmentHeader {
		return nil, damage(ErrTorn, "the header is cut short")
	}
	b = b[:segmentHeader]
	if n := binary.LittleEndian.Uint16(b[10:]); n != segmentHeader {
		return nil, damage(ErrDamaged, fmt.Sprintf("the header says that it has %d bytes, not %d", n, segmentHeader))
	}
	if headerChecksum(b) != binary.LittleEndian.Uint32(b[12:]) {
		return nil, damage(ErrDamaged, "the header's checksum does not match")
	}
	return &Segment{
		File:     file,
		Writer:   writer,
		Sequence: binary.LittleEndian.Uint64(b[eternalHeader:]),
		Key:      KeyID(binary.LittleEndian.Uint64(b[eternalHeader+8:])),
		Created:  unixTime(int64(binary.LittleEndian.Uint64(b[eternalHeader+16:]))),
		Run:      binary.LittleEndian.Uint64(b[eternalHeader+24:]),
	}, nil
}
