package sqlite

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"time"

	"github.com/llmgw/llmgw/storage"
	"github.com/llmgw/llmgw/storage/internal/rows"
)

// A pack is rows of one minute, sorted by time and then by identity:
//
//	version 1, number of the first row, count
//	each row: flags, microseconds since the row before, identity, caller, kind,
//	latency, and what the flags say of TTFT, tokens and cost
//
// Numbers are varints. An identity of our own is milliseconds from the row's time to
// its own, and the 10 bytes that follow those of the time; others are texts. Caller
// and kind are places in usage_common.
const packVersion = 1

// mostPacked bounds the rows of a pack, and with it what a reader holds of one.
const mostPacked = 4096

// The flags of a row: which optional numbers it has, in their order, and in the two
// bits above them what its identity is.
const (
	hasTTFT = 1 << iota
	hasInput
	hasCached
	hasOutput
	hasReasoning
	hasCost
	idShift = iota
)

// idForm is what an identity looks like.
type idForm byte

const (
	idOwn      idForm = iota // "req_" and 32 digits, as this program makes them
	idExtended               // one of ours and more: what a client chose
	idOther
)

// requestID is the identity of a row, taken apart.
type requestID struct {
	form idForm
	own  [16]byte // of idOwn and idExtended
	text string   // of idExtended what follows, of idOther all
}

const ownPrefix, ownLength = "req_", 4 + 32

// parseID takes an identity apart. No two are the same afterwards.
func parseID(s string) (id requestID) {
	if len(s) < ownLength || s[:len(ownPrefix)] != ownPrefix {
		return requestID{form: idOther, text: s}
	}
	digits, bad := s[len(ownPrefix):ownLength], byte(0)
	for i := range id.own {
		high, low := hexDigits[digits[2*i]], hexDigits[digits[2*i+1]]
		bad |= high | low
		id.own[i] = high<<4 | low
	}
	if bad > 15 { // another ID than that of small letters
		return requestID{form: idOther, text: s}
	}
	if id.text = s[ownLength:]; id.text != "" {
		id.form = idExtended
	}
	return id
}

// hexDigits is the value of each hexadecimal digit, and 0xff for what is none.
var hexDigits = func() (values [256]byte) { //nolint:gochecknoglobals // a constant table
	for i := range values {
		values[i] = 0xff
	}
	for i, c := range []byte("0123456789abcdef") {
		values[c] = byte(i)
	}
	return values
}()

func (id *requestID) String() string {
	if id.form == idOther {
		return id.text
	}
	b := make([]byte, 0, ownLength+len(id.text))
	b = hex.AppendEncode(append(b, ownPrefix...), id.own[:])
	return string(append(b, id.text...))
}

// millis is the time that an identity of ours begins with.
func (id *requestID) millis() int64 { return int64(binary.BigEndian.Uint64(id.own[:8]) >> 16) }

// packer puts rows into a pack. Its memory is used again.
type packer struct {
	b           []byte
	count       int
	first, last int64 // microseconds
}

// begin begins a pack, whose first row has that number.
func (p *packer) begin() { p.b, p.count = p.b[:0], 0 }

// add appends a row that came at that time, in microseconds, and not before the one
// before.
func (p *packer) add(u *storage.Usage, at int64, id *requestID, caller, kind int64) {
	if p.count == 0 {
		p.first, p.last = at, at
	}
	flags := byte(id.form) << idShift
	numbers := [...]*int64{(*int64)(u.TTFT), u.Tokens.Input, u.Tokens.CachedInput, u.Tokens.Output, u.Tokens.Reasoning, u.CostNanos}
	for i, n := range numbers {
		if n != nil {
			flags |= 1 << i
		}
	}
	b := append(p.b, flags)
	b = binary.AppendUvarint(b, uint64(at-p.last))
	if id.form != idOther {
		b = binary.AppendVarint(b, id.millis()-at/1000)
		b = append(b, id.own[6:]...)
	}
	if id.form != idOwn {
		b = binary.AppendUvarint(b, uint64(len(id.text)))
		b = append(b, id.text...)
	}
	b = binary.AppendUvarint(b, uint64(caller))
	b = binary.AppendUvarint(b, uint64(kind))
	b = binary.AppendUvarint(b, uint64(u.Latency))
	for _, n := range numbers {
		if n != nil {
			b = binary.AppendUvarint(b, uint64(*n))
		}
	}
	p.b, p.last = b, at
	p.count++
}

// blob is the pack, in memory of its own.
func (p *packer) blob() []byte { return pack(0, p.count, p.b) }

// pack puts the head before rows.
func pack(number, count int, rows []byte) []byte {
	b := make([]byte, 0, 1+2*binary.MaxVarintLen32+len(rows))
	b = append(b, packVersion)
	b = binary.AppendUvarint(b, uint64(number))
	b = binary.AppendUvarint(b, uint64(count))
	return append(b, rows...)
}

// packed is a pack that is read, a row at a time.
type packed struct {
	seq  int64
	last int64
	rest []byte
	left int // rows in rest
	next int // number of the next row

	row packedRow
}

// packedRow is a row as it stands in a pack. Texts of its identity are of the pack.
type packedRow struct {
	seq          int64 // in which order rows of one time are listed
	at           int64 // microseconds
	id           requestID
	caller, kind int64
	latency      int64
	known        byte // which of numbers there are, as the flags have it
	numbers      [6]int64
}

var errPack = errors.New("it cannot be read")

// readPack begins to read a pack.
func readPack(seq, first, last int64, blob []byte) (*packed, error) {
	if len(blob) == 0 || blob[0] != packVersion {
		return nil, errPack
	}
	p := &packed{seq: seq, last: last, rest: blob[1:]}
	number, ok1 := p.uvarint()
	count, ok2 := p.uvarint()
	if !ok1 || !ok2 || count == 0 || number+count > mostPacked {
		return nil, errPack
	}
	p.next, p.left, p.row.at = int(number), int(count), first
	return p, nil
}

func (p *packed) uvarint() (uint64, bool) {
	n, size := binary.Uvarint(p.rest)
	if size <= 0 {
		return 0, false
	}
	p.rest = p.rest[size:]
	return n, true
}

func (p *packed) number(to *int64) bool {
	n, ok := p.uvarint()
	*to = int64(n)
	return ok && *to >= 0
}

// advance reads the next row; false after the last.
func (p *packed) advance() (bool, error) {
	r := &p.row
	if p.left == 0 {
		if len(p.rest) > 0 || r.at != p.last {
			return false, errPack
		}
		return false, nil
	}
	var later int64
	if len(p.rest) == 0 {
		return false, errPack
	}
	flags := p.rest[0]
	p.rest = p.rest[1:]
	if !p.number(&later) {
		return false, errPack
	}
	r.at += later
	if r.id = (requestID{form: idForm(flags >> idShift)}); r.id.form > idOther || !p.identity(&r.id) {
		return false, errPack
	}
	if !p.number(&r.caller) || !p.number(&r.kind) || !p.number(&r.latency) {
		return false, errPack
	}
	r.known = flags & (1<<idShift - 1)
	for i := range r.numbers {
		if r.known>>i&1 == 1 && !p.number(&r.numbers[i]) {
			return false, errPack
		}
	}
	r.seq = p.seq<<seqShift | int64(p.next)
	p.next++
	p.left--
	return true, nil
}

// seqShift leaves room for a row's number below that of its pack.
const seqShift = 20

func (p *packed) identity(id *requestID) bool {
	if id.form != idOther {
		ms, size := binary.Varint(p.rest)
		if size <= 0 || len(p.rest) < size+10 {
			return false
		}
		binary.BigEndian.PutUint64(id.own[:8], uint64(ms+p.row.at/1000)<<16)
		copy(id.own[6:], p.rest[size:size+10])
		p.rest = p.rest[size+10:]
	}
	if id.form != idOwn {
		n, ok := p.uvarint()
		if !ok || n > uint64(len(p.rest)) {
			return false
		}
		id.text, p.rest = string(p.rest[:n]), p.rest[n:]
	}
	return true
}

// fill sets what a row has of its own.
func (r *packedRow) fill(u *storage.Usage) {
	u.RequestID, u.At, u.Latency = r.id.String(), rows.FromMicros(r.at), time.Duration(r.latency)
	n := r.numbers // one memory for all that the row points to
	if r.known&hasTTFT != 0 {
		u.TTFT = (*time.Duration)(&n[0])
	}
	for i, to := range [...]**int64{&u.Tokens.Input, &u.Tokens.CachedInput, &u.Tokens.Output, &u.Tokens.Reasoning, &u.CostNanos} {
		if r.known&(hasInput<<i) != 0 {
			*to = &n[1+i]
		}
	}
}

// without is the pack without its first n rows, and when the earliest of the others
// came. It keeps their numbers, for who is at one of them in a list.
func (p *packed) without(n int) (blob []byte, first int64, err error) {
	for range n {
		if _, err := p.advance(); err != nil {
			return nil, 0, err
		}
	}
	number, left, before := p.next, p.left, p.rest
	if ok, err := p.advance(); err != nil || !ok {
		return nil, 0, errors.Join(errPack, err)
	}
	// The first row has no time between it and one before.
	_, size := binary.Uvarint(before[1:])
	kept := append([]byte{before[0], 0}, before[1+size:]...)
	return pack(number, left, kept), p.row.at, nil
}
