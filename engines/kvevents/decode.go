package kvevents

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"

	"github.com/tinylib/msgp/msgp"
)

// Bounds on what a batch may say, far above what engines send. What they do not
// bound is bounded by the payload's length: every element takes a byte of it.
const (
	maxNesting   = 16   // of values that are skipped or kept raw
	maxBlockSize = 4096 // tokens
	maxHashBytes = 64
)

// Decode reads the payload of a message in either encoding: what is not in the
// payload (Topic, Rank, Sequence) is left zero. The batch's extra keys are parts
// of payload. Fields and event types that it
// does not know are skipped, the latter counted. Errors wrap [ErrMalformed] and
// say where.
func Decode(payload []byte) (*Batch, error) {
	b := new(Batch)
	if err := new(decoder).decode(b, payload); err != nil {
		return nil, err
	}
	return b, nil
}

// decoder keeps memory from one batch to the next: what a batch refers to is
// overwritten by the next. Events get slices of the arenas. An arena that grows
// leaves those before it in the old one, where they stay as they were.
type decoder struct {
	hashes []uint64
	tokens []uint32
	extra  []ExtraKeys

	medium, lora, spec string // the last ones
}

// maxKept bounds the arena elements that are kept for the next batch.
const maxKept = 1 << 16

// decode sets b's Time, EngineRank, Events and Unknown.
func (d *decoder) decode(b *Batch, payload []byte) error {
	d.hashes, d.tokens, d.extra = reuse(d.hashes), reuse(d.tokens), reuse(d.extra)
	b.Events, b.Unknown, b.EngineRank = reuse(b.Events), 0, -1
	n, rest, err := arrayHeader(payload)
	if err != nil {
		return malformed("batch", err)
	}
	if n < 2 {
		return fmt.Errorf("%w: batch: %d elements; want a time and events", ErrMalformed, n)
	}
	if b.Time, rest, err = number(rest); err != nil {
		return malformed("time", err)
	}
	events, rest, err := arrayHeader(rest)
	if err != nil {
		return malformed("events", err)
	}
	for i := range events {
		if rest, err = d.event(b, rest); err != nil {
			return malformed(fmt.Sprintf("event %d", i), err)
		}
	}
	for i := 2; i < n; i++ {
		if t := msgp.NextType(rest); i == 2 && (t == msgp.IntType || t == msgp.UintType) {
			var rank int64
			if rank, rest, err = msgp.ReadInt64Bytes(rest); err != nil {
				return malformed("data_parallel_rank", err)
			}
			if rank < 0 || rank > math.MaxInt32 {
				return fmt.Errorf("%w: data_parallel_rank %d is out of range", ErrMalformed, rank)
			}
			b.EngineRank = int(rank)
			continue
		}
		if rest, err = skip(rest, maxNesting); err != nil {
			return malformed("batch", err)
		}
	}
	if len(rest) > 0 {
		return fmt.Errorf("%w: %d bytes after the batch", ErrMalformed, len(rest))
	}
	return nil
}

func reuse[T any](s []T) []T {
	if cap(s) > maxKept {
		return nil
	}
	return s[:0]
}

func malformed(where string, err error) error {
	return fmt.Errorf("%w: %s: %w", ErrMalformed, where, err)
}

// event appends one event to b.
func (d *decoder) event(b *Batch, in []byte) ([]byte, error) {
	switch msgp.NextType(in) {
	case msgp.ArrayType:
		return d.arrayEvent(b, in)
	case msgp.MapType:
		return d.mapEvent(b, in)
	default:
		return in, fmt.Errorf("a %v; want an array or a map", msgp.NextType(in))
	}
}

// fieldsOf are an event's fields after its type, in the order of the array form,
// which has the first n of them. The one after these came with the map form.
func fieldsOf(k Kind) (fields [maxFields]field, n int) {
	switch k {
	case KindStored:
		return [maxFields]field{
			fieldHashes, fieldParent, fieldTokens, fieldBlockSize, fieldLoRAID, fieldMedium,
			fieldLoRAName, fieldExtra, fieldGroup, fieldSpec, fieldWindow, fieldLocality,
		}, maxFields - 1
	case KindRemoved:
		return [maxFields]field{fieldHashes, fieldMedium, fieldGroup, fieldLocality}, 3
	default:
		return fields, 0
	}
}

const maxFields = 12

func kindOf(tag []byte) Kind {
	switch string(tag) {
	case "BlockStored":
		return KindStored
	case "BlockRemoved":
		return KindRemoved
	case "AllBlocksCleared":
		return KindCleared
	default:
		return 0
	}
}

// arrayEvent reads [tag, field…].
func (d *decoder) arrayEvent(b *Batch, in []byte) ([]byte, error) {
	n, rest, err := arrayHeader(in)
	if err != nil {
		return in, err
	}
	if n == 0 {
		return in, fmt.Errorf("an empty array; want a type first")
	}
	tag, rest, err := msgp.ReadStringZC(rest)
	if err != nil {
		return in, fmt.Errorf("type: %w", err)
	}
	e := partial{Event: Event{Kind: kindOf(tag), Medium: GPU}}
	fields, known := fieldsOf(e.Kind)
	for i := range n - 1 {
		f := fieldOther
		if i < known {
			f = fields[i]
		}
		if rest, err = d.field(&e, f, rest); err != nil {
			return in, fmt.Errorf("%s element %d: %w", tag, i+1, err)
		}
	}
	return rest, finish(b, &e)
}

// mapEvent reads {"type": tag, name: field…}; the type may stand anywhere.
func (d *decoder) mapEvent(b *Batch, in []byte) ([]byte, error) {
	n, rest, err := msgp.ReadMapHeaderBytes(in)
	if err != nil {
		return in, err
	}
	if int(n) > len(rest)/2 {
		return in, msgp.ErrShortBytes
	}
	e := partial{Event: Event{Medium: GPU}}
	typed := false
	for range n {
		var key []byte
		if key, rest, err = msgp.ReadStringZC(rest); err != nil {
			return in, fmt.Errorf("field name: %w", err)
		}
		if string(key) == "type" {
			var tag []byte
			if tag, rest, err = msgp.ReadStringZC(rest); err != nil {
				return in, fmt.Errorf("type: %w", err)
			}
			e.Kind, typed = kindOf(tag), true
			continue
		}
		f := fieldNamed(key)
		if typed && e.Kind == 0 {
			f = fieldOther // of an unknown type, which may use a name otherwise
		}
		if rest, err = d.field(&e, f, rest); err != nil {
			return in, fmt.Errorf("%.40q: %w", key, err)
		}
	}
	if !typed {
		return in, fmt.Errorf("a map without type")
	}
	return rest, finish(b, &e)
}

// finish checks that e is whole and adds it to b.
func finish(b *Batch, e *partial) error {
	switch e.Kind {
	case 0:
		b.Unknown++
		return nil
	case KindCleared:
		e.Event = Event{Kind: KindCleared}
	case KindRemoved:
		if !e.hasHashes {
			return fmt.Errorf("BlockRemoved without block_hashes")
		}
	case KindStored:
		switch {
		case !e.hasHashes || !e.hasTokens:
			return fmt.Errorf("BlockStored without block_hashes or token_ids")
		case len(e.Tokens) != 0 && len(e.Tokens) != len(e.Hashes)*e.BlockSize:
			return fmt.Errorf("BlockStored of %d tokens in %d blocks of %d; want as many as fill them",
				len(e.Tokens), len(e.Hashes), e.BlockSize)
		case len(e.Extra) != 0 && len(e.Extra) != len(e.Hashes):
			return fmt.Errorf("BlockStored with %d extra_keys for %d blocks; want as many", len(e.Extra), len(e.Hashes))
		}
		if e.LoRA == "" && e.loraID != "" {
			e.LoRA = e.loraID
		}
	}
	b.Events = append(b.Events, e.Event)
	return nil
}

// partial is an event whose fields have not all been read.
type partial struct {
	Event
	hasHashes, hasTokens bool
	loraID               string
}

type field uint8

const (
	fieldOther field = iota // skipped
	fieldHashes
	fieldParent
	fieldTokens
	fieldBlockSize
	fieldLoRAID
	fieldMedium
	fieldLoRAName
	fieldExtra
	fieldGroup
	fieldSpec
	fieldWindow // not told
	fieldLocality
)

func fieldNamed(name []byte) field {
	switch string(name) {
	case "block_hashes":
		return fieldHashes
	case "parent_block_hash":
		return fieldParent
	case "token_ids":
		return fieldTokens
	case "block_size":
		return fieldBlockSize
	case "lora_id":
		return fieldLoRAID
	case "medium":
		return fieldMedium
	case "lora_name":
		return fieldLoRAName
	case "extra_keys":
		return fieldExtra
	case "group_idx":
		return fieldGroup
	case "kv_cache_spec_kind":
		return fieldSpec
	case "locality":
		return fieldLocality
	default:
		return fieldOther
	}
}

// field reads one field of e; nil counts as absent.
func (d *decoder) field(e *partial, f field, in []byte) (rest []byte, err error) {
	if msgp.IsNil(in) {
		return in[1:], nil
	}
	var n int64
	switch f {
	case fieldHashes:
		e.hasHashes = true
		e.Hashes, rest, err = d.readHashes(in)
	case fieldParent:
		e.Parent, rest, err = hash(in)
		e.HasParent = err == nil
	case fieldTokens:
		e.hasTokens = true
		e.Tokens, rest, err = d.readTokens(in)
	case fieldBlockSize:
		if n, rest, err = msgp.ReadInt64Bytes(in); err == nil && (n < 0 || n > maxBlockSize) {
			err = fmt.Errorf("block_size %d is out of range; want 0 to %d", n, maxBlockSize)
		}
		e.BlockSize = int(n)
	case fieldLoRAID:
		n, rest, err = msgp.ReadInt64Bytes(in)
		e.loraID = strconv.FormatInt(n, 10)
	case fieldMedium:
		e.Medium, rest, err = d.readMedium(in)
	case fieldLoRAName:
		e.LoRA, rest, err = name(in, &d.lora)
	case fieldExtra:
		e.Extra, rest, err = d.readExtra(in)
	case fieldGroup:
		if n, rest, err = msgp.ReadInt64Bytes(in); err == nil && (n < 0 || n > math.MaxInt32) {
			err = fmt.Errorf("group_idx %d is out of range", n)
		}
		e.Group, e.HasGroup = int(n), err == nil
	case fieldSpec:
		e.Spec, rest, err = name(in, &d.spec)
	case fieldLocality:
		var b []byte
		b, rest, err = msgp.ReadStringZC(in)
		e.Remote = string(b) == "REMOTE"
	default:
		return skip(in, maxNesting)
	}
	return rest, err
}

func (d *decoder) readHashes(in []byte) (_ []uint64, rest []byte, err error) {
	n, rest, err := arrayHeader(in)
	if err != nil {
		return nil, in, err
	}
	from := len(d.hashes)
	for range n {
		var h uint64
		if h, rest, err = hash(rest); err != nil {
			return nil, in, err
		}
		d.hashes = append(d.hashes, h)
	}
	return d.hashes[from:len(d.hashes):len(d.hashes)], rest, nil
}

func (d *decoder) readTokens(in []byte) (_ []uint32, rest []byte, err error) {
	n, rest, err := arrayHeader(in)
	if err != nil {
		return nil, in, err
	}
	from := len(d.tokens)
	for range n {
		var t uint32
		if t, rest, err = msgp.ReadUint32Bytes(rest); err != nil {
			return nil, in, fmt.Errorf("token id: %w", err)
		}
		d.tokens = append(d.tokens, t)
	}
	return d.tokens[from:len(d.tokens):len(d.tokens)], rest, nil
}

// readExtra keeps the keys of each block as they are. Those of one without any
// are nil, or an empty array.
func (d *decoder) readExtra(in []byte) (_ []ExtraKeys, rest []byte, err error) {
	n, rest, err := arrayHeader(in)
	if err != nil {
		return nil, in, err
	}
	from := len(d.extra)
	for range n {
		next, err := skip(rest, maxNesting)
		if err != nil {
			return nil, in, fmt.Errorf("extra keys: %w", err)
		}
		raw := ExtraKeys(rest[:len(rest)-len(next)])
		if msgp.IsNil(raw) || len(raw) == 1 && raw[0] == 0x90 {
			raw = nil
		}
		d.extra = append(d.extra, raw)
		rest = next
	}
	return d.extra[from:len(d.extra):len(d.extra)], rest, nil
}

// name reads a string that is mostly the one of before, *last, and then costs no
// memory.
func name(in []byte, last *string) (string, []byte, error) {
	b, rest, err := msgp.ReadStringZC(in)
	if err == nil && string(b) != *last {
		*last = string(b)
	}
	return *last, rest, err
}

// readMedium is name, of which GPU and the last other one cost nothing.
func (d *decoder) readMedium(in []byte) (string, []byte, error) {
	if b, rest, err := msgp.ReadStringZC(in); err == nil && (len(b) == 0 || string(b) == GPU) {
		return GPU, rest, nil
	}
	return name(in, &d.medium)
}

// hash reads a block's hash: an integer of either sign, or the digest's bytes,
// of which the integer is the end.
func hash(in []byte) (uint64, []byte, error) {
	switch t := msgp.NextType(in); t {
	case msgp.IntType, msgp.UintType:
		if in[0] == 0xcf { // uint64; all others fit in an int64
			return msgp.ReadUint64Bytes(in)
		}
		i, rest, err := msgp.ReadInt64Bytes(in)
		return uint64(i), rest, err
	case msgp.BinType:
		b, rest, err := msgp.ReadBytesZC(in)
		if err != nil {
			return 0, in, err
		}
		if len(b) < 8 || len(b) > maxHashBytes {
			return 0, in, fmt.Errorf("a hash of %d bytes; want 8 to %d", len(b), maxHashBytes)
		}
		return binary.BigEndian.Uint64(b[len(b)-8:]), rest, nil
	default:
		return 0, in, fmt.Errorf("a %v as hash; want an integer or bytes", t)
	}
}

// number reads a float or an integer.
func number(in []byte) (float64, []byte, error) {
	switch msgp.NextType(in) {
	case msgp.IntType, msgp.UintType:
		i, rest, err := msgp.ReadInt64Bytes(in)
		return float64(i), rest, err
	case msgp.Float32Type:
		f, rest, err := msgp.ReadFloat32Bytes(in)
		return float64(f), rest, err
	default:
		return msgp.ReadFloat64Bytes(in)
	}
}

// arrayHeader is msgp's, of arrays that can be whole: each element takes a byte.
func arrayHeader(in []byte) (int, []byte, error) {
	n, rest, err := msgp.ReadArrayHeaderBytes(in)
	if err != nil {
		return 0, in, err
	}
	if uint64(n) > uint64(len(rest)) {
		return 0, in, msgp.ErrShortBytes
	}
	return int(n), rest, nil
}

// skip returns what follows the value at the beginning of in. It is stricter on
// nesting than msgp.Skip, whose recursion may take more stack than the value is
// worth.
func skip(in []byte, depth int) ([]byte, error) {
	var elements int
	switch msgp.NextType(in) {
	case msgp.ArrayType:
		n, rest, err := arrayHeader(in)
		if err != nil {
			return in, err
		}
		elements, in = n, rest
	case msgp.MapType:
		n, rest, err := msgp.ReadMapHeaderBytes(in)
		if err != nil {
			return in, err
		}
		if uint64(n) > uint64(len(rest)/2) {
			return in, msgp.ErrShortBytes
		}
		elements, in = 2*int(n), rest
	default:
		return msgp.Skip(in)
	}
	if depth == 0 {
		return in, fmt.Errorf("values nested more than %d deep", maxNesting)
	}
	var err error
	for range elements {
		if in, err = skip(in, depth-1); err != nil {
			return in, err
		}
	}
	return in, nil
}
