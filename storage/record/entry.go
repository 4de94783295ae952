package record

import (
	"encoding/binary"
	"hash/crc32"
	"math"
	"time"
)

// Type says what an entry's payload is. The caller chooses types from 1 to
// [MaxType] and never gives one a second meaning; the others are the log's own.
type Type uint16

const (
	// MaxType is the largest type a caller may use.
	MaxType Type = 0xFEFF
	// TypeGap marks an entry that stands for dropped ones; see [ParseGap].
	TypeGap Type = 0xFF01

	typeSeal Type = 0xFF02 // the last entry of a complete segment
)

// MaxPayloadBytes is the longest payload that the format allows.
const MaxPayloadBytes = 1 << 24

// Entry is one record as it is read back.
type Entry struct {
	Type Type
	// Time is what Append was given, to the nanosecond, in UTC. Of a gap it is
	// that of the first dropped record.
	Time time.Time
	// Payload is what Append was given. It is valid until the iteration goes
	// on, and must not be changed.
	Payload []byte
	// Segment is where the entry stands, the same pointer for all entries of
	// a segment. It must not be changed. Of a [Ring] it names the key alone.
	Segment *Segment
	// Offset is where in the segment's file the entry begins; of a Ring 0.
	Offset int64
}

// Segment is what the header of a segment says.
type Segment struct {
	File     string // name within the directory
	Sequence uint64 // grows from segment to segment
	Writer   string // Deps.Writer of the log that wrote it
	Key      KeyID  // the key that its fingerprints were made with
	Created  time.Time
	// Run is the same for all segments of one call of Log.Run and, being
	// random, for no others: where it changes, the writer's memory began anew.
	Run uint64
}

// Gap stands in the log where records were dropped.
type Gap struct {
	// Dropped is how many records are missing here, at least 1.
	Dropped uint64
	// First and Last are the times of the first and the last of them.
	First, Last time.Time
}

// ParseGap reads the payload of an entry of TypeGap; ok is false if it is none.
func ParseGap(e Entry) (g Gap, ok bool) {
	if e.Type != TypeGap || len(e.Payload) != gapPayload {
		return Gap{}, false
	}
	return Gap{
		Dropped: binary.LittleEndian.Uint64(e.Payload),
		First:   unixTime(int64(binary.LittleEndian.Uint64(e.Payload[8:]))),
		Last:    unixTime(int64(binary.LittleEndian.Uint64(e.Payload[16:]))),
	}, true
}

// Sizes in bytes.
const (
	entryHeader = 20
	gapPayload  = 24
	gapEntry    = entryHeader + gapPayload
	sealPayload = 24
	sealEntry   = entryHeader + sealPayload
)

// appendEntry adds an entry to b. Its checksum is left out, for whoever writes
// the entry to a file (see finish), since it takes time that Append need not.
func appendEntry(b []byte, t Type, at int64, payload []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, 0)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(payload)))
	b = binary.LittleEndian.AppendUint64(b, uint64(at))
	b = binary.LittleEndian.AppendUint16(b, uint16(t))
	b = binary.LittleEndian.AppendUint16(b, 0)
	return append(b, payload...)
}

// drops are records that were dropped in a row.
type drops struct {
	count       uint64
	first, last int64
}

func (d *drops) add(at int64) {
	if d.count == 0 {
		d.first = at
	}
	d.count++
	d.last = at
}

// appendGap adds the gap entry of what was dropped.
func appendGap(b []byte, d drops) []byte {
	var payload [gapPayload]byte
	binary.LittleEndian.PutUint64(payload[:], d.count)
	binary.LittleEndian.PutUint64(payload[8:], uint64(d.first))
	binary.LittleEndian.PutUint64(payload[16:], uint64(d.last))
	return appendEntry(b, TypeGap, d.first, payload[:])
}

// span is how many entries there are, and between which times.
type span struct {
	entries  uint64
	min, max int64 // meaningless without entries
}

func (s *span) add(o span) {
	switch {
	case o.entries == 0:
	case s.entries == 0:
		*s = o
	default:
		s.entries += o.entries
		s.min, s.max = min(s.min, o.min), max(s.max, o.max)
	}
}

// appendSeal adds the seal of a segment whose entries are s, checksum included.
func appendSeal(b []byte, s span) []byte {
	var payload [sealPayload]byte
	binary.LittleEndian.PutUint64(payload[:], s.entries)
	binary.LittleEndian.PutUint64(payload[8:], uint64(s.min))
	binary.LittleEndian.PutUint64(payload[16:], uint64(s.max))
	from := len(b)
	b = appendEntry(b, typeSeal, s.max, payload[:])
	finishEntry(b[from:])
	return b
}

func parseSeal(payload []byte) (s span, ok bool) {
	if len(payload) != sealPayload {
		return span{}, false
	}
	return span{
		entries: binary.LittleEndian.Uint64(payload),
		min:     int64(binary.LittleEndian.Uint64(payload[8:])),
		max:     int64(binary.LittleEndian.Uint64(payload[16:])),
	}, true
}

// head is the fixed part of an entry.
type head struct {
	crc    uint32
	length uint32
	at     int64
	typ    Type
	zero   uint16
}

func parseHead(b []byte) head {
	return head{
		crc:    binary.LittleEndian.Uint32(b),
		length: binary.LittleEndian.Uint32(b[4:]),
		at:     int64(binary.LittleEndian.Uint64(b[8:])),
		typ:    Type(binary.LittleEndian.Uint16(b[16:])),
		zero:   binary.LittleEndian.Uint16(b[18:]),
	}
}

// entrySize is how many bytes the entry at the start of b has.
func entrySize(b []byte) int { return entryHeader + int(binary.LittleEndian.Uint32(b[4:])) }

// finishEntry puts in the checksum of the one entry that b is.
func finishEntry(b []byte) { binary.LittleEndian.PutUint32(b, checksum(b[4:])) }

// finish puts in the checksums of all entries of b and returns their span.
func finish(b []byte) span {
	var s span
	for len(b) > 0 {
		n := entrySize(b)
		finishEntry(b[:n])
		s.add(spanOf(b[:n]))
		b = b[n:]
	}
	return s
}

// spanOf returns the span of one entry: a gap reaches from its first dropped
// record to the last. Callers' clocks may differ, so the order of the two is not
// relied upon.
func spanOf(b []byte) span {
	h := parseHead(b)
	s := span{entries: 1, min: h.at, max: h.at}
	if h.typ == TypeGap && len(b) == gapEntry {
		last := int64(binary.LittleEndian.Uint64(b[entryHeader+16:]))
		s.min, s.max = min(h.at, last), max(h.at, last)
	}
	return s
}

// checksum is CRC-32C, which processors have an instruction for.
func checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// unixNanos returns t in nanoseconds since 1970; ok is false where they do not
// fit, as of the zero time.
func unixNanos(t time.Time) (ns int64, ok bool) {
	const limit = math.MaxInt64/int64(time.Second) - 1
	if s := t.Unix(); s < -limit || s > limit {
		return 0, false
	}
	return t.UnixNano(), true
}

func unixTime(ns int64) time.Time { return time.Unix(0, ns).UTC() }
