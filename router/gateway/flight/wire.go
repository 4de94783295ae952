package flight

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"time"

	"github.com/llmgw/llmgw/storage/record"
)

// The types of the gateway's records in a log. A type is never given a second
// meaning.
const (
	TypeSetup     record.Type = 1
	TypePool      record.Type = 2
	TypeRoute     record.Type = 3
	TypeAdmission record.Type = 4
	TypeOutcome   record.Type = 5
	TypeScale     record.Type = 6
)

// version is the first byte of every record. A form is never changed: the next
// gets the next number, and says so to a program that does not read it.
const version = 1

var (
	// ErrVersion means that a record is of a form that this version does not read.
	ErrVersion = errors.New("flight: another version of a record")
	// ErrBadRecord means that a record is not what any version wrote.
	ErrBadRecord = errors.New("flight: bad record")
)

// maxText is how long a name can be in a record; the rest is cut.
const maxText = math.MaxUint8

func appendText(b []byte, text string) []byte {
	text = text[:min(len(text), maxText)]
	return append(append(b, byte(len(text))), text...)
}

// appendFloat appends v exactly, in few bytes if it is a small whole number:
// those have their bits at the upper end.
func appendFloat(b []byte, v float64) []byte {
	return binary.AppendUvarint(b, bits.ReverseBytes64(math.Float64bits(v)))
}

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

// reader reads a record; once it is too short, everything reads as zero.
type reader struct {
	rest  []byte
	short bool
}

// open begins to read a record, whose version it checks.
func open(payload []byte) (reader, error) {
	r := reader{rest: payload}
	if v := r.byte(); r.short || v != version {
		if r.short {
			return r, fmt.Errorf("%w: it is empty", ErrBadRecord)
		}
		return r, fmt.Errorf("%w: its form is %d, and this program reads %d: replay it with the version of llmgw that wrote it", ErrVersion, v, version)
	}
	return r, nil
}

// end says whether the record was as long as what was read of it.
func (r *reader) end() error {
	switch {
	case r.short:
		return fmt.Errorf("%w: it ends too early", ErrBadRecord)
	case len(r.rest) > 0:
		return fmt.Errorf("%w: %d bytes follow it", ErrBadRecord, len(r.rest))
	}
	return nil
}

func (r *reader) fail() { r.rest, r.short = nil, true }

func (r *reader) take(n int) []byte {
	if n < 0 || len(r.rest) < n {
		r.fail()
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) byte() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) bool() bool {
	switch r.byte() {
	case 0:
		return false
	case 1:
		return true
	}
	r.fail()
	return false
}

func (r *reader) uint64() uint64 {
	if b := r.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	if r.take(max(n, 0)); n <= 0 {
		r.fail()
		return 0
	}
	return v
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.rest)
	if r.take(max(n, 0)); n <= 0 {
		r.fail()
		return 0
	}
	return v
}

func (r *reader) text() string { return string(r.take(int(r.byte()))) }

func (r *reader) float() float64 {
	return math.Float64frombits(bits.ReverseBytes64(r.uvarint()))
}

func (r *reader) time() time.Time { return time.Unix(0, r.varint()).UTC() }

// count reads how many things of at least so many bytes follow.
func (r *reader) count(least int) int {
	n := r.uvarint()
	if n > uint64(len(r.rest)/least) {
		r.fail()
		return 0
	}
	return int(n)
}
