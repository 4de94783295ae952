package weights

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"strings"
)

const (
	// maxSafetensorsHeader is what the reference reader allows: MAX_HEADER_SIZE in
	// safetensors/src/tensor.rs.
	maxSafetensorsHeader = 100_000_000
	// maxJSONItem bounds one text or number within JSON, and so the memory that
	// reading takes. Training tools write metadata of up to some MB.
	maxJSONItem = 4 << 20
)

// readSafetensors adds the tensors in a file of that size to t.
//
// Source of the layout: README.md of github.com/huggingface/safetensors.
func readSafetensors(src io.ReaderAt, size int64, path string, t *tally) error {
	var prefix [8]byte
	switch _, err := src.ReadAt(prefix[:], 0); {
	case size < int64(len(prefix)):
		return readError(ErrIncomplete, path, "it has %d bytes, and the length of the header alone 8", size)
	case err != nil:
		return readError(err, path, "reading the header")
	}
	length := binary.LittleEndian.Uint64(prefix[:])
	switch {
	case string(prefix[:4]) == ggufMagic:
		return readError(ErrFormat, path, "it is GGUF; name it .gguf")
	case length > maxSafetensorsHeader:
		return readError(ErrCorrupt, path, "its header claims %d bytes, and %d are the most", length, maxSafetensorsHeader)
	case length > uint64(size)-8:
		return readError(ErrIncomplete, path, "its header has %d bytes, and the file %d; fetch it again", length, size)
	}
	s := safetensors{path: path, data: uint64(size) - 8 - length, tally: t}
	if err := eachJSONField(io.NewSectionReader(src, 8, int64(length)), s.field); err != nil {
		if e, ok := errors.AsType[*ReadError](err); ok {
			return e
		}
		return readError(ErrCorrupt, path, "its header: %v", err)
	}
	return nil
}

// safetensors is a header that is being read.
type safetensors struct {
	path    string
	data    uint64 // bytes behind the header
	tensors int
	tally   *tally
}

// safetensor is one field of the header.
type safetensor struct {
	DType   string   `json:"dtype"`
	Shape   []uint64 `json:"shape"`
	Offsets []uint64 `json:"data_offsets"`
}

func (s *safetensors) field(name string, dec *json.Decoder) error {
	if name == "__metadata__" {
		return skipJSON(dec)
	}
	if s.tensors++; s.tensors > maxTensors {
		return fmt.Errorf("more than %d tensors", maxTensors)
	}
	var t safetensor
	if err := dec.Decode(&t); err != nil {
		return err
	}
	short := shorten(name)
	if len(t.Offsets) != 2 || t.Offsets[0] > t.Offsets[1] {
		return fmt.Errorf("tensor %q has no place: data_offsets %v", short, t.Offsets)
	}
	if t.Offsets[1] > s.data {
		return readError(ErrIncomplete, s.path, "tensor %q ends at byte %d of the data, and there are %d; fetch it again", short, t.Offsets[1], s.data)
	}
	bytes := t.Offsets[1] - t.Offsets[0]
	elements := uint64(1)
	for _, n := range t.Shape {
		high, low := bits.Mul64(elements, n)
		if high != 0 {
			return fmt.Errorf("tensor %q has more elements than can be counted", short)
		}
		elements = low
	}
	if width := safetensorsWidth(t.DType); width > 0 && (elements > s.data || elements*width != bytes) {
		return fmt.Errorf("tensor %q of %d elements of type %s has %d bytes", short, elements, t.DType, bytes)
	}
	if wrong := s.tally.add(namePlace(name), shorten(t.DType), bytes); wrong != "" {
		return errors.New(wrong)
	}
	return nil
}

// safetensorsWidth returns how many bytes an element has. 0: not known, or not a
// whole number.
//
// Source: enum Dtype in safetensors/src/tensor.rs.
func safetensorsWidth(dtype string) uint64 {
	switch dtype {
	case "BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3", "F8_E8M0":
		return 1
	case "U16", "I16", "F16", "BF16":
		return 2
	case "U32", "I32", "F32":
		return 4
	case "U64", "I64", "F64", "C64":
		return 8
	}
	return 0
}

// namePlace returns where a tensor is, by the name that models on Hugging Face
// give it: "model.layers.3.mlp.experts.7.up_proj.weight".
func namePlace(name string) place {
	words := strings.Split(name, ".")
	for i, word := range words {
		switch word {
		case "vision_tower", "vision_model", "visual", "audio_tower", "vit", "vision_encoder":
			return place{} // eyes and ears have layers of their own
		case "embed_tokens", "wte", "tok_embeddings", "word_embeddings", "embed_in", "embedding":
			return place{part: inEmbedding}
		case "lm_head", "embed_out", "output_layer":
			return place{part: inOutput}
		case "output":
			if i == 0 {
				return place{part: inOutput}
			}
		case "layers", "layer", "h", "blocks", "block":
			if i+1 == len(words) {
				continue
			}
			if n, ok := layerNumber(words[i+1]); ok {
				return place{part: inLayer, layer: n, expert: strings.Contains(name, ".experts.")}
			}
		}
	}
	return place{}
}

// shorten returns a name as it can stand in an error.
func shorten(name string) string {
	if len(name) > maxText {
		return name[:maxText] + "…"
	}
	return name
}
