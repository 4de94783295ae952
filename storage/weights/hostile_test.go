package weights_test

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/llmgw/llmgw/storage/weights"
)

// allocated returns how many bytes f allocates, whoever frees them.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// Files that claim what is not there are refused before anything is set aside for
// it, wherever the claim stands, and however large the file says it is.
func TestHostileGGUF(t *testing.T) {
	claim := func(change func(*gguf)) sparse {
		g := newGGUF("llama")
		change(g)
		s := g.file()
		s.size += 1 << 50 // there is room for all that is claimed
		return s
	}
	array := func(kind uint32, n uint64) func(*gguf) {
		return func(g *gguf) { g.raw("a", 9, kind, n) }
	}
	dimensions := func(kind uint32, shape ...uint64) func(*gguf) {
		return func(g *gguf) { g.tensor("blk.0.a", kind, 0, shape...) }
	}
	for _, test := range []struct {
		name string
		file sparse
		kind error
		says string
	}{
		{"2^60 tensors", claim(func(g *gguf) { g.claimedTensor = 1 << 60 }), weights.ErrCorrupt, "1152921504606846976 tensors"},
		{"2^60 keys", claim(func(g *gguf) { g.claimedKeys = 1 << 60 }), weights.ErrCorrupt, "1152921504606846976 keys"},
		{"a long key", claim(func(g *gguf) { le(&g.keys, uint64(1)<<62); g.count++ }), weights.ErrCorrupt, "a key"},
		{"a long text", claim(func(g *gguf) { g.raw("a", 8, uint64(1)<<62) }), weights.ErrCorrupt, "largest header"},
		{"a long array", claim(array(4, 1<<62)), weights.ErrCorrupt, "largest header"},
		{"an array that wraps", claim(array(10, 1<<61+1)), weights.ErrCorrupt, "largest header"},
		{"an array of long texts", claim(func(g *gguf) { g.raw("a", 9, uint32(8), uint64(1), uint64(1)<<63) }), weights.ErrCorrupt, "largest header"},
		{"2^62 empty texts", claim(array(8, 1<<62)), weights.ErrCorrupt, "largest header"},
		{"an array of arrays", claim(array(9, 1)), weights.ErrCorrupt, "array of arrays"},
		{"a type that is none", claim(func(g *gguf) { g.raw("a", 99) }), weights.ErrCorrupt, "type 99"},
		{"nine dimensions", claim(dimensions(0, 1, 1, 1, 1, 1, 1, 1, 1, 1)), weights.ErrCorrupt, "9 dimensions"},
		{"2^32 dimensions", claim(func(g *gguf) { le(&g.tensors, "a", uint32(1<<32-1)); g.tensorCount++ }), weights.ErrCorrupt, "dimensions"},
		{"elements that wrap", claim(dimensions(0, 1<<40, 1<<40)), weights.ErrCorrupt, "counted"},
		{"bytes that wrap", claim(dimensions(0, 1<<63)), weights.ErrCorrupt, "counted"},
		{"a row of half a block", claim(dimensions(12, 100)), weights.ErrCorrupt, "blocks of 256"},
		{"an offset that wraps", claim(func(g *gguf) { g.offset = 1<<64 - 4; g.tensor("a", 0, 0, 8) }), weights.ErrIncomplete, "tensor ends"},
		{"layers beyond count", claim(func(g *gguf) { g.tensor("blk.999999999.a", 0, 4, 1) }), weights.ErrCorrupt, "layer"},
		{"blocks beyond count", claim(func(g *gguf) { g.u32("llama.block_count", 1<<29) }), weights.ErrCorrupt, "block_count"},
		{"a number that is none", claim(func(g *gguf) { g.raw("llama.block_count", 11, int64(-1)) }), weights.ErrCorrupt, "-1"},
		{"no alignment", claim(func(g *gguf) { g.u32("general.alignment", 0) }), weights.ErrCorrupt, "alignment"},
		{"version 1", claim(func(g *gguf) { g.version = 1 }), weights.ErrFormat, "version 1"},
		{"version 9", claim(func(g *gguf) { g.version = 9 }), weights.ErrFormat, "version 9"},
		{"bytes the other way round", claim(func(g *gguf) { g.version = 3 << 24 }), weights.ErrFormat, "big-endian"},
		{"101 types", claim(func(g *gguf) {
			for kind := range uint32(101) {
				g.tensor("a", 1000+kind, 32, 1)
			}
		}), weights.ErrCorrupt, "more types"},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := disk{"a.gguf": test.file}
			var e *weights.ReadError
			if n := allocated(func() { e = readFault(t, d, "a.gguf", test.kind) }); n > 1<<20 {
				t.Errorf("%d bytes were allocated for a header of %d", n, len(test.file.begin))
			}
			if !strings.Contains(e.Error(), test.says) {
				t.Errorf("%q does not say %q", e, test.says)
			}
		})
	}
}

// Memory follows the bytes that are there.
func TestHostileGGUFLarge(t *testing.T) {
	filled := newGGUF("llama")
	for i := range 200 {
		filled.u32s(fmt.Sprint("llama.", i), make([]uint32, 4000)...)
	}
	words := newGGUF("llama").words("tokenizer.ggml.tokens", 100_000)
	for name, g := range map[string]*gguf{"arrays": filled, "words": words} {
		file := g.file()
		if n := allocated(func() { read(t, disk{"a.gguf": file}, "a.gguf") }); n > 2<<20 {
			t.Errorf("%s: %d bytes were allocated for a header of %d", name, n, len(file.begin))
		}
	}
	// A header that goes on behind the largest.
	long := newGGUF("llama")
	le(&long.keys, "a", uint32(8), uint64(128<<20-100))
	long.claimedKeys = 10
	file := sparse{long.header(), 1 << 50}
	if e := readFault(t, disk{"a.gguf": file}, "a.gguf", weights.ErrCorrupt); !strings.Contains(e.Error(), "longer than") {
		t.Errorf("%q does not say that the header is too long", e)
	}
}

func TestHostileSafetensors(t *testing.T) {
	field := func(s string) sparse { return safetensorsRaw(`{"a": `+s+`}`, 1<<50) }
	length := sparse{[]byte{0, 0, 0, 0, 0, 0, 0, 16, '{'}, 1 << 62}
	for _, test := range []struct {
		name string
		file sparse
		kind error
		says string
	}{
		{"a header of 2^60 bytes", length, weights.ErrCorrupt, "1152921504606846976"},
		{"no JSON", safetensorsRaw("hello", 0), weights.ErrCorrupt, "header"},
		{"a list", safetensorsRaw("[]", 0), weights.ErrCorrupt, "where {"},
		{"half of it", safetensorsRaw(`{"a": {`, 0), weights.ErrCorrupt, "EOF"},
		{"no place", field(`{"dtype": "F32", "shape": [1]}`), weights.ErrCorrupt, "no place"},
		{"a place backwards", field(`{"dtype": "F32", "shape": [1], "data_offsets": [8, 4]}`), weights.ErrCorrupt, "no place"},
		{"a negative one", field(`{"dtype": "F32", "shape": [1], "data_offsets": [-1, 4]}`), weights.ErrCorrupt, "header"},
		{"one behind the end", safetensorsRaw(`{"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}`, 3), weights.ErrIncomplete, "fetch it again"},
		{"more than its shape", field(`{"dtype": "F32", "shape": [1], "data_offsets": [0, 5]}`), weights.ErrCorrupt, "1 elements"},
		{"elements that wrap", field(`{"dtype": "F32", "shape": [4294967296, 4294967296, 2], "data_offsets": [0, 0]}`), weights.ErrCorrupt, "counted"},
		{"bytes that wrap", field(`{"dtype": "F32", "shape": [4611686018427387905], "data_offsets": [0, 4]}`), weights.ErrCorrupt, "elements"},
		{"a layer beyond count", safetensorsRaw(`{"layers.5000.x": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}}`, 1), weights.ErrCorrupt, "layer"},
		{"a deep field", field(strings.Repeat("[", 20000)), weights.ErrCorrupt, "depth"},
		{"deep metadata", safetensorsRaw(`{"__metadata__": `+strings.Repeat("[", 20000), 0), weights.ErrCorrupt, "header"},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := disk{"a.safetensors": test.file}
			var e *weights.ReadError
			if n := allocated(func() { e = readFault(t, d, "a.safetensors", test.kind) }); n > 2<<20 {
				t.Errorf("%d bytes were allocated for a header of %d", n, len(test.file.begin))
			}
			if !strings.Contains(e.Error(), test.says) {
				t.Errorf("%q does not say %q", e, test.says)
			}
		})
	}
}

// A single text as long as a header may be is not taken in.
func TestHostileSafetensorsText(t *testing.T) {
	begin := []byte{0, 0xe1, 0xf5, 0x05, 0, 0, 0, 0, '{', '"'} // 100,000,000 bytes of zeros in a text
	begin = append(begin, bytes.Repeat([]byte("a"), 6<<20)...)
	d := disk{"a.safetensors": {begin, 1 << 30}}
	var e *weights.ReadError
	if n := allocated(func() { e = readFault(t, d, "a.safetensors", weights.ErrCorrupt) }); n > 40<<20 {
		t.Errorf("%d bytes were allocated", n)
	}
	if !strings.Contains(e.Error(), "4194304 bytes") {
		t.Errorf("%q does not say how long an item may be", e)
	}
}

// What the filesystem answers is passed on.
func TestReadErrorOfFilesystem(t *testing.T) {
	broken := errors.New("the disk is broken")
	for _, name := range []string{"a.gguf", "a.safetensors", "a"} {
		_, err := weights.Read(brokenDisk{broken}, name)
		if e, ok := errors.AsType[*weights.ReadError](err); !ok || !errors.Is(err, broken) || e.Path != name {
			t.Errorf("%s: got %v, want what the disk said", name, err)
		}
	}
}
