package weights_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

// disk is a filesystem of files that are mostly empty, so that models of any size
// take no room. What is not in the beginning of a file reads as zero.
type disk map[string]sparse

type sparse struct {
	begin []byte
	size  int64 // of the whole file
}

func (d disk) Open(name string) (fs.File, error) {
	if s, ok := d[name]; ok {
		return &sparseFile{sparse: s, name: path.Base(name)}, nil
	}
	listing := fstest.MapFS{}
	for name := range d {
		listing[name] = &fstest.MapFile{}
	}
	return listing.Open(name)
}

type sparseFile struct {
	sparse
	name string
	at   int64
}

func (f *sparseFile) ReadAt(p []byte, off int64) (int, error) {
	if off >= f.size {
		return 0, io.EOF
	}
	n := int(min(int64(len(p)), f.size-off))
	clear(p[:n])
	if off < int64(len(f.begin)) {
		copy(p[:n], f.begin[off:])
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *sparseFile) Read(p []byte) (int, error) {
	n, err := f.ReadAt(p, f.at)
	f.at += int64(n)
	return n, err
}
func (f *sparseFile) Close() error               { return nil }
func (f *sparseFile) Stat() (fs.FileInfo, error) { return f, nil }
func (f *sparseFile) Name() string               { return f.name }
func (f *sparseFile) Size() int64                { return f.size }
func (f *sparseFile) Mode() fs.FileMode          { return 0o444 }
func (f *sparseFile) ModTime() time.Time         { return time.Time{} }
func (f *sparseFile) IsDir() bool                { return false }
func (f *sparseFile) Sys() any                   { return nil }

func whole(begin []byte) sparse { return sparse{begin, int64(len(begin))} }

// tensor is one to be written.
type tensor struct {
	name  string
	dtype string // as safetensors spell it
	shape []uint64
}

func (t tensor) elements() uint64 {
	n := uint64(1)
	for _, d := range t.shape {
		n *= d
	}
	return n
}

// gguf writes headers. Keys are in the order of their writing.
type gguf struct {
	version       uint32
	keys          bytes.Buffer
	count         uint64
	tensors       bytes.Buffer
	tensorCount   uint64
	offset        uint64
	claimedKeys   uint64 // in the place of count, if not 0
	claimedTensor uint64
}

func newGGUF(arch string) *gguf {
	g := &gguf{version: 3}
	g.text("general.architecture", arch)
	return g
}

func le(b *bytes.Buffer, values ...any) {
	for _, v := range values {
		if s, ok := v.(string); ok {
			le(b, uint64(len(s)))
			b.WriteString(s)
			continue
		}
		if err := binary.Write(b, binary.LittleEndian, v); err != nil {
			panic(err)
		}
	}
}

func (g *gguf) raw(key string, kind uint32, values ...any) *gguf {
	le(&g.keys, key, kind)
	le(&g.keys, values...)
	g.count++
	return g
}

func (g *gguf) text(key, value string) *gguf { return g.raw(key, 8, value) }
func (g *gguf) u32(key string, v uint32) *gguf {
	return g.raw(key, 4, v)
}

func (g *gguf) u32s(key string, values ...uint32) *gguf {
	le(&g.keys, key, uint32(9), uint32(4), uint64(len(values)), values)
	g.count++
	return g
}

// words writes a list of n words, as tokenizers have them.
func (g *gguf) words(key string, n int) *gguf {
	le(&g.keys, key, uint32(9), uint32(8), uint64(n))
	g.keys.Write(bytes.Repeat([]byte("\x04\x00\x00\x00\x00\x00\x00\x00word"), n))
	g.count++
	return g
}

// tensor adds one of a type by its number, of that many bytes.
func (g *gguf) tensor(name string, kind uint32, size uint64, shape ...uint64) *gguf {
	le(&g.tensors, name, uint32(len(shape)))
	for _, n := range shape {
		le(&g.tensors, n)
	}
	le(&g.tensors, kind, g.offset)
	g.tensorCount++
	g.offset += (size + 31) / 32 * 32
	return g
}

func (g *gguf) header() []byte {
	var b bytes.Buffer
	b.WriteString("GGUF")
	tensors, keys := g.tensorCount, g.count
	if g.claimedTensor != 0 {
		tensors = g.claimedTensor
	}
	if g.claimedKeys != 0 {
		keys = g.claimedKeys
	}
	le(&b, g.version, tensors, keys)
	b.Write(g.keys.Bytes())
	b.Write(g.tensors.Bytes())
	for b.Len()%32 != 0 {
		b.WriteByte(0)
	}
	return b.Bytes()
}

func (g *gguf) file() sparse {
	header := g.header()
	return sparse{header, int64(len(header)) + int64(g.offset)}
}

// safetensors writes a file of those tensors.
func safetensors(t testing.TB, tensors ...tensor) sparse {
	t.Helper()
	widths := map[string]uint64{"BF16": 2, "F16": 2, "F32": 4, "F8_E4M3": 1, "I32": 4}
	fields := map[string]any{"__metadata__": map[string]string{"format": "pt"}}
	offset := uint64(0)
	for _, x := range tensors {
		end := offset + x.elements()*widths[x.dtype]
		fields[x.name] = map[string]any{"dtype": x.dtype, "shape": x.shape, "data_offsets": []uint64{offset, end}}
		offset = end
	}
	header, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	return safetensorsRaw(string(header), int64(offset))
}

func safetensorsRaw(header string, data int64) sparse {
	begin := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	begin = append(begin, header...)
	return sparse{begin, int64(len(begin)) + data}
}

// shape is a model of Llama's kind.
type shape struct {
	layers, hidden, inside, heads, kvHeads, headDim, vocabulary uint64
	context                                                     uint64
	tied                                                        bool
}

// Shapes of known models, from their config.json.
var (
	llama8B  = shape{32, 4096, 14336, 32, 8, 128, 128256, 8192, false}
	llama70B = shape{80, 8192, 28672, 64, 8, 128, 128256, 8192, false}
	qwen32B  = shape{64, 5120, 27648, 40, 8, 128, 152064, 32768, false}
	qwen3B   = shape{36, 2048, 11008, 16, 2, 128, 151936, 32768, true}
)

// tensors returns the model's tensors as Hugging Face names them.
func (s shape) tensors(dtype string) []tensor {
	x := func(name string, shape ...uint64) tensor { return tensor{name, dtype, shape} }
	all := []tensor{x("model.embed_tokens.weight", s.vocabulary, s.hidden), x("model.norm.weight", s.hidden)}
	if !s.tied {
		all = append(all, x("lm_head.weight", s.vocabulary, s.hidden))
	}
	for i := range s.layers {
		in := fmt.Sprintf("model.layers.%d.", i)
		all = append(all,
			x(in+"self_attn.q_proj.weight", s.heads*s.headDim, s.hidden),
			x(in+"self_attn.k_proj.weight", s.kvHeads*s.headDim, s.hidden),
			x(in+"self_attn.v_proj.weight", s.kvHeads*s.headDim, s.hidden),
			x(in+"self_attn.o_proj.weight", s.hidden, s.heads*s.headDim),
			x(in+"mlp.gate_proj.weight", s.inside, s.hidden),
			x(in+"mlp.up_proj.weight", s.inside, s.hidden),
			x(in+"mlp.down_proj.weight", s.hidden, s.inside),
			x(in+"input_layernorm.weight", s.hidden),
			x(in+"post_attention_layernorm.weight", s.hidden))
	}
	return all
}

func (s shape) config(extra string) sparse {
	return whole(fmt.Appendf(nil, `{"model_type": "llama", "torch_dtype": "bfloat16", "num_hidden_layers": %d, "hidden_size": %d,
		"intermediate_size": %d, "num_attention_heads": %d, "num_key_value_heads": %d, "vocab_size": %d,
		"max_position_embeddings": %d%s}`, s.layers, s.hidden, s.inside, s.heads, s.kvHeads, s.vocabulary, s.context, extra))
}

// directory returns the model as a directory "model" of Hugging Face.
func (s shape) directory(t testing.TB, dtype string) disk {
	t.Helper()
	return disk{"model/config.json": s.config(""), "model/model.safetensors": safetensors(t, s.tensors(dtype)...)}
}

// gguf returns the model as llama.cpp has it, all matrices of one type: 12 is Q4_K,
// with 144 bytes for every 256 elements; 1 is F16, 30 BF16.
func (s shape) gguf(kind uint32) *gguf {
	g := newGGUF("llama")
	g.u32("llama.block_count", uint32(s.layers)).u32("llama.embedding_length", uint32(s.hidden)).
		u32("llama.feed_forward_length", uint32(s.inside)).u32("llama.context_length", uint32(s.context)).
		u32("llama.attention.head_count", uint32(s.heads)).u32("llama.attention.head_count_kv", uint32(s.kvHeads)).
		u32("llama.attention.key_length", uint32(s.headDim)).u32("llama.attention.value_length", uint32(s.headDim)).
		words("tokenizer.ggml.tokens", int(s.vocabulary))
	names := strings.NewReplacer("model.embed_tokens", "token_embd", "lm_head", "output", "model.layers.", "blk.", "model.norm", "output_norm",
		"self_attn.q_proj", "attn_q", "self_attn.k_proj", "attn_k", "self_attn.v_proj", "attn_v", "self_attn.o_proj", "attn_output",
		"mlp.gate_proj", "ffn_gate", "mlp.up_proj", "ffn_up", "mlp.down_proj", "ffn_down",
		"input_layernorm", "attn_norm", "post_attention_layernorm", "ffn_norm")
	for _, x := range s.tensors("") {
		n, kind := x.elements(), kind
		if len(x.shape) == 1 {
			kind = 0 // norms stay as they are
		}
		size := map[uint32]uint64{0: n * 4, 1: n * 2, 12: n / 256 * 144, 30: n * 2}[kind]
		row := x.shape[len(x.shape)-1]
		g.tensor(names.Replace(x.name), kind, size, row, n/row)
	}
	return g
}
