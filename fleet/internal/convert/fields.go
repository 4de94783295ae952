package convert

import (
	"math"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/llmgw/llmgw/engines"
)

// fields are those of a message, as they stand on the wire, one after another:
//
//	f := fields{rest: data}
//	for f.next() {
//		switch f.number {
//		case 1:
//			name = f.text("")
//		}
//	}
//	if f.odd { … }
//
// What is not asked for is passed over.
type fields struct {
	rest []byte
	// odd: the message is at fault, or has something for the generated code. There
	// is no next field then.
	odd bool

	number protowire.Number
	kind   protowire.Type
	value  uint64 // of a number of any kind
	bytes  []byte // of a text or a message
}

// next goes to the next field, and reports whether there is one.
func (f *fields) next() bool {
	if f.odd || len(f.rest) == 0 {
		return false
	}
	tag := f.varint()
	f.number, f.kind = protowire.Number(tag>>3), protowire.Type(tag&7) //nolint:gosec // looked at below
	if n := tag >> 3; n < uint64(protowire.MinValidNumber) || n > uint64(protowire.MaxValidNumber) {
		f.odd = true
	}
	switch f.kind {
	case protowire.VarintType:
		f.value = f.varint()
	case protowire.BytesType:
		size := f.varint()
		if size > uint64(len(f.rest)) {
			f.odd = true
			return false
		}
		f.bytes, f.rest = f.rest[:size], f.rest[size:]
	case protowire.Fixed64Type:
		v, n := protowire.ConsumeFixed64(f.rest)
		f.value = v
		f.skip(n)
	case protowire.Fixed32Type:
		v, n := protowire.ConsumeFixed32(f.rest)
		f.value = uint64(v)
		f.skip(n)
	default: // a group, or nothing
		f.odd = true
	}
	return !f.odd
}

// varint cuts a number off. Most are of one byte.
func (f *fields) varint() uint64 {
	if len(f.rest) > 0 && f.rest[0] < 0x80 {
		v := uint64(f.rest[0])
		f.rest = f.rest[1:]
		return v
	}
	v, n := protowire.ConsumeVarint(f.rest)
	f.skip(n)
	return v
}

// skip goes past n bytes; less than none: they are not there.
func (f *fields) skip(n int) {
	if n < 0 {
		f.odd = true
		return
	}
	f.rest = f.rest[n:]
}

// want leaves the message to the generated code unless something is so.
func (f *fields) want(so bool) { f.odd = f.odd || !so }

// number64 is the field as a number.
func (f *fields) number64() uint64 {
	f.want(f.kind == protowire.VarintType)
	return f.value
}

func (f *fields) optNumber64() engines.Opt[uint64] { return engines.Known(f.number64()) }

func (f *fields) optCount() engines.Opt[int] {
	return engines.Known(int(uint32(f.number64()))) //nolint:gosec // as the generated code reads it
}

func (f *fields) optBool() engines.Opt[bool] {
	return engines.Known(protowire.DecodeBool(f.number64()))
}

func (f *fields) optFloat() engines.Opt[float64] {
	f.want(f.kind == protowire.Fixed64Type)
	v := math.Float64frombits(f.value)
	return optFloatFromWire(&v)
}

// text is the field as a text; last itself, where it says the same.
func (f *fields) text(last string) string {
	f.want(f.kind == protowire.BytesType)
	if string(f.bytes) == last {
		return last
	}
	f.want(utf8.Valid(f.bytes))
	return string(f.bytes)
}

// message is the field as the bytes of a message.
func (f *fields) message() []byte {
	f.want(f.kind == protowire.BytesType)
	return f.bytes
}

// generated has the generated code read the field's message: one that is rarely
// there.
func (f *fields) generated(m proto.Message) { f.want(proto.Unmarshal(f.message(), m) == nil) }

// duration is the field as a length of time.
func (f *fields) duration() time.Duration {
	var m durationpb.Duration
	f.generated(&m)
	d, err := DurationFromWire("", &m)
	f.want(err == nil)
	return d
}

// time is the field as a moment. Those before 1970 and after 4199 are rare enough to
// be looked at more closely.
func (f *fields) time() time.Time {
	var seconds, nanos uint64
	m := fields{rest: f.message()}
	for m.next() {
		switch m.number {
		case 1:
			seconds = m.number64()
		case 2:
			nanos = m.number64()
		}
	}
	if m.odd || seconds >= 1<<36 || nanos >= uint64(time.Second) {
		f.odd = true
		return time.Time{}
	}
	return time.Unix(int64(seconds), int64(nanos)).UTC() //nolint:gosec // bounded
}
