package weights

import (
	"cmp"
	"io"
	"math/bits"
	"slices"
	"strings"
)

// ggufFile is the header of one file.
type ggufFile struct {
	keys    map[string]ggufValue
	tensors []ggufTensor
}

// ggufValue is the value of a key: numbers and booleans in ints, one unless it is
// an array, or a short text. Other values are passed over, and of an array only
// how long it is stays.
type ggufValue struct {
	ints  []int64
	text  string
	count uint64
}

// ggufTensor is one tensor: its place, and the bytes from offset within the data.
type ggufTensor struct {
	place         place
	kind          string
	offset, bytes uint64
	sized         bool // the type is known, and so bytes
}

const (
	ggufMagic = "GGUF"
	// ggufAlignment is where data begins unless general.alignment says otherwise.
	ggufAlignment = 32
	// maxDimensions is GGML_MAX_DIMS.
	maxDimensions = 4
)

// readGGUF reads the header of a file of that size.
//
// Source of the layout: docs/gguf.md of github.com/ggml-org/ggml.
func readGGUF(src io.ReaderAt, size int64, path string) (ggufFile, error) {
	c := newCursor(src, size, path)
	if magic := c.take(len(ggufMagic)); c.err == nil && string(magic) != ggufMagic {
		return ggufFile{}, readError(ErrFormat, path, "it does not begin with %s", ggufMagic)
	}
	switch version := c.u32(); {
	case c.err != nil:
	case version == 1:
		return ggufFile{}, readError(ErrFormat, path, "GGUF version 1 is not read; convert it to version 3")
	case version&0xffff == 0:
		return ggufFile{}, readError(ErrFormat, path, "GGUF with the bytes in big-endian order is not read")
	case version > 3:
		return ggufFile{}, readError(ErrFormat, path, "GGUF version %d is not read; 2 and 3 are", version)
	}
	tensors, keys := c.u64(), c.u64()
	switch {
	case c.err != nil:
	case tensors > maxTensors:
		c.fail(ErrCorrupt, "it claims %d tensors, and %d are the most", tensors, maxTensors)
	case keys > maxKeys:
		c.fail(ErrCorrupt, "it claims %d keys, and %d are the most", keys, maxKeys)
	}

	f := ggufFile{keys: make(map[string]ggufValue)}
	for range keys {
		if c.err != nil {
			break
		}
		key := c.name("a key")
		if value := c.ggufValue(); c.err == nil && len(key) <= maxText {
			f.keys[key] = value
		}
	}
	for range tensors {
		if c.err != nil {
			break
		}
		f.tensors = append(f.tensors, c.ggufTensor())
	}
	c.ggufData(&f)
	return f, c.err
}

// ggufValue reads a value with its type before it.
func (c *cursor) ggufValue() ggufValue {
	kind := c.u32()
	if kind != ggufArray {
		return c.ggufValues(kind, 1, true)
	}
	kind = c.u32()
	n := c.u64()
	if kind == ggufArray {
		c.fail(ErrCorrupt, "an array of arrays, which GGUF does not have")
	}
	keep := n <= maxLayers && c.kept+n <= maxKept
	if keep {
		c.kept += n
	}
	return c.ggufValues(kind, n, keep)
}

// The numbers of the types of values that are more than a number.
const (
	ggufString = 8
	ggufArray  = 9
)

// ggufNumber returns how many bytes a number of that type has; 0: it is none.
func ggufNumber(kind uint32) (width int, signed, whole bool) {
	switch kind {
	case 0, 7: // uint8, bool
		return 1, false, true
	case 1:
		return 1, true, true
	case 2:
		return 2, false, true
	case 3:
		return 2, true, true
	case 4:
		return 4, false, true
	case 5:
		return 4, true, true
	case 6: // float32
		return 4, false, false
	case 10:
		return 8, false, true
	case 11:
		return 8, true, true
	case 12: // float64
		return 8, false, false
	}
	return 0, false, false
}

// ggufValues reads n values of one type, and keeps them if that is asked for and
// they are whole numbers, or one text.
func (c *cursor) ggufValues(kind uint32, n uint64, keep bool) ggufValue {
	v := ggufValue{count: n}
	if kind == ggufString {
		if !c.fits(n, 8, "an array of texts") { // each has its length before it
			return v
		}
		for range n {
			length := c.u64()
			if !c.fits(length, 1, "a text") {
				break
			}
			if n == 1 && length <= maxText {
				v.text = string(c.take(int(length)))
			} else {
				c.skip(length)
			}
		}
		return v
	}
	width, signed, whole := ggufNumber(kind)
	if width == 0 {
		c.fail(ErrCorrupt, "a value of type %d, which GGUF does not have", kind)
	}
	if c.err != nil || !c.fits(n, uint64(width), "an array") {
		return v
	}
	if !keep || !whole {
		c.skip(n * uint64(width))
		return v
	}
	v.ints = make([]int64, n)
	for i := range v.ints {
		v.ints[i] = c.number(width, signed)
	}
	return v
}

// ggufTensor reads what the header says of one tensor.
func (c *cursor) ggufTensor() ggufTensor {
	t := ggufTensor{place: ggufPlace(c.name("the name of a tensor"))}
	dimensions := c.u32()
	if dimensions > maxDimensions {
		c.fail(ErrCorrupt, "a tensor of %d dimensions, and %d are the most", dimensions, maxDimensions)
	}
	elements, row := uint64(1), uint64(1)
	for i := range min(dimensions, maxDimensions) {
		n := c.u64()
		high, low := bits.Mul64(elements, n)
		if high != 0 {
			c.fail(ErrCorrupt, "a tensor with more elements than can be counted")
		}
		elements = low
		if i == 0 {
			row = n
		}
	}
	layout := ggmlTypeOf(c.u32())
	t.kind = layout.name
	t.offset = c.u64()
	if layout.elements == 0 || c.err != nil {
		return t
	}
	if row%layout.elements != 0 {
		c.fail(ErrCorrupt, "a tensor of type %s with rows of %d elements, which are no whole blocks of %d", t.kind, row, layout.elements)
	}
	high, low := bits.Mul64(elements/layout.elements, layout.bytes)
	if high != 0 {
		c.fail(ErrCorrupt, "a tensor with more bytes than can be counted")
	}
	t.bytes, t.sized = low, true
	return t
}

// ggufData holds the tensors against the data behind the header, and gives those
// whose type is not known the bytes up to the next.
func (c *cursor) ggufData(f *ggufFile) {
	if c.err != nil {
		return
	}
	alignment := uint64(ggufAlignment)
	if v := f.keys["general.alignment"].ints; len(v) == 1 {
		if v[0] <= 0 || v[0] > 1<<20 {
			c.fail(ErrCorrupt, "general.alignment is %d", v[0])
			return
		}
		alignment = uint64(v[0])
	}
	begin := (uint64(c.at) + alignment - 1) / alignment * alignment
	data := uint64(0)
	if begin < uint64(c.size) {
		data = uint64(c.size) - begin
	}
	slices.SortFunc(f.tensors, func(a, b ggufTensor) int { return cmp.Compare(a.offset, b.offset) })
	for i := range f.tensors {
		t := &f.tensors[i]
		next := data
		if i+1 < len(f.tensors) {
			next = min(next, f.tensors[i+1].offset)
		}
		if !t.sized && t.offset <= next {
			t.bytes = next - t.offset
		}
		if end := t.offset + t.bytes; end < t.offset || end > data {
			c.fail(ErrIncomplete, "a tensor ends at byte %d behind byte %d, and the file has %d bytes; fetch it again", t.offset+t.bytes, begin, c.size)
			return
		}
	}
}

// ggufPlace returns where a tensor of that name is.
func ggufPlace(name string) place {
	switch name {
	case "token_embd.weight", "per_layer_token_embd.weight":
		return place{part: inEmbedding}
	case "output.weight":
		return place{part: inOutput}
	}
	if rest, ok := strings.CutPrefix(name, "blk."); ok {
		number, tensor, _ := strings.Cut(rest, ".")
		if layer, ok := layerNumber(number); ok {
			return place{part: inLayer, layer: layer, expert: strings.Contains(tensor, "_exps")}
		}
	}
	return place{}
}

// layerNumber reads the number of a layer. One that is too large is maxLayers.
func layerNumber(s string) (int, bool) {
	if s == "" || len(s) > 9 {
		return 0, false
	}
	n := 0
	for _, digit := range []byte(s) {
		if digit < '0' || digit > '9' {
			return 0, false
		}
		n = n*10 + int(digit-'0')
	}
	return min(n, maxLayers), true
}
