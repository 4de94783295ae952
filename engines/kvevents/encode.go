package kvevents

import (
	"fmt"

	"github.com/tinylib/msgp/msgp"
)

// Encoding is how events are written.
type Encoding uint8

// The encodings.
const (
	// Array is [tag, field…], as vLLM up to v0.23 and SGLang write.
	Array Encoding = iota + 1
	// Map is {"type": tag, name: field…} with defaults left out, as vLLM
	// writes from v0.24.
	Map
)

// String returns "array" or "map".
func (e Encoding) String() string {
	switch e {
	case Array:
		return "array"
	case Map:
		return "map"
	}
	return "unset"
}

// ParseEncoding is the reverse of [Encoding.String].
func ParseEncoding(s string) (Encoding, error) {
	switch s {
	case "array":
		return Array, nil
	case "map":
		return Map, nil
	}
	return 0, fmt.Errorf("%q is no encoding; want array or map", s)
}

// Append appends b's payload (Time, Events, and EngineRank unless negative) to
// dst, byte for byte as vLLM would, with hashes as integers.
func Append(dst []byte, b *Batch, enc Encoding) []byte {
	dst = msgp.AppendArrayHeader(dst, 3)
	dst = msgp.AppendFloat64(dst, b.Time)
	dst = msgp.AppendArrayHeader(dst, uint32(len(b.Events)))
	for i := range b.Events {
		if enc == Map {
			dst = appendMap(dst, &b.Events[i])
		} else {
			dst = appendArray(dst, &b.Events[i])
		}
	}
	if b.EngineRank < 0 {
		return msgp.AppendNil(dst)
	}
	return msgp.AppendUint(dst, uint(b.EngineRank))
}

func tag(k Kind) string {
	switch k {
	case KindStored:
		return "BlockStored"
	case KindRemoved:
		return "BlockRemoved"
	default:
		return "AllBlocksCleared"
	}
}

func nameOf(f field) string {
	switch f {
	case fieldHashes:
		return "block_hashes"
	case fieldParent:
		return "parent_block_hash"
	case fieldTokens:
		return "token_ids"
	case fieldBlockSize:
		return "block_size"
	case fieldLoRAID:
		return "lora_id"
	case fieldMedium:
		return "medium"
	case fieldLoRAName:
		return "lora_name"
	case fieldExtra:
		return "extra_keys"
	case fieldGroup:
		return "group_idx"
	case fieldSpec:
		return "kv_cache_spec_kind"
	case fieldLocality:
		return "locality"
	default:
		return "kv_cache_spec_sliding_window"
	}
}

// written says whether the map form has f: not if it has its default, unless
// vLLM's structures give it none.
func written(e *Event, f field) bool {
	switch f {
	case fieldOther:
		return false
	case fieldHashes, fieldParent, fieldTokens, fieldBlockSize, fieldLoRAID, fieldMedium, fieldLoRAName:
		return true
	default:
		return !absent(e, f)
	}
}

// absent says that f has its default.
func absent(e *Event, f field) bool {
	switch f {
	case fieldParent:
		return !e.HasParent
	case fieldMedium:
		return e.Medium == ""
	case fieldLoRAName:
		return e.LoRA == ""
	case fieldExtra:
		return len(e.Extra) == 0
	case fieldGroup:
		return !e.HasGroup
	case fieldSpec:
		return e.Spec == ""
	case fieldLocality:
		return !e.Remote
	case fieldHashes, fieldTokens, fieldBlockSize:
		return false
	default: // lora_id, which lora_name replaces, and the sliding window
		return true
	}
}

func appendArray(dst []byte, e *Event) []byte {
	fields, n := fieldsOf(e.Kind)
	dst = msgp.AppendArrayHeader(dst, uint32(n+1))
	dst = msgp.AppendString(dst, tag(e.Kind))
	for _, f := range fields[:n] {
		dst = appendField(dst, e, f)
	}
	return dst
}

func appendMap(dst []byte, e *Event) []byte {
	fields, _ := fieldsOf(e.Kind)
	n := uint32(1)
	for _, f := range fields {
		if written(e, f) {
			n++
		}
	}
	dst = msgp.AppendMapHeader(dst, n)
	dst = msgp.AppendString(dst, "type")
	dst = msgp.AppendString(dst, tag(e.Kind))
	for _, f := range fields {
		if written(e, f) {
			dst = msgp.AppendString(dst, nameOf(f))
			dst = appendField(dst, e, f)
		}
	}
	return dst
}

func appendField(dst []byte, e *Event, f field) []byte {
	if absent(e, f) {
		return msgp.AppendNil(dst)
	}
	switch f {
	case fieldHashes:
		dst = msgp.AppendArrayHeader(dst, uint32(len(e.Hashes)))
		for _, h := range e.Hashes {
			dst = appendHash(dst, h)
		}
	case fieldParent:
		dst = appendHash(dst, e.Parent)
	case fieldTokens:
		dst = msgp.AppendArrayHeader(dst, uint32(len(e.Tokens)))
		for _, t := range e.Tokens {
			dst = msgp.AppendUint32(dst, t)
		}
	case fieldBlockSize:
		dst = msgp.AppendUint(dst, uint(e.BlockSize))
	case fieldMedium:
		dst = msgp.AppendString(dst, e.Medium)
	case fieldLoRAName:
		dst = msgp.AppendString(dst, e.LoRA)
	case fieldExtra:
		dst = msgp.AppendArrayHeader(dst, uint32(len(e.Extra)))
		for _, x := range e.Extra {
			if len(x) == 0 {
				dst = msgp.AppendNil(dst)
			} else {
				dst = append(dst, x...)
			}
		}
	case fieldGroup:
		dst = msgp.AppendUint(dst, uint(e.Group))
	case fieldSpec:
		dst = msgp.AppendString(dst, e.Spec)
	case fieldLocality:
		dst = msgp.AppendString(dst, "REMOTE")
	case fieldLoRAID, fieldWindow, fieldOther: // always absent
	}
	return dst
}

// appendHash writes h as Python's msgpack writes the unsigned integer.
func appendHash(dst []byte, h uint64) []byte { return msgp.AppendUint64(dst, h) }
