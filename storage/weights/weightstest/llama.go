// Package weightstest makes weights of models for tests: files whose headers say what
// those of a real model do, and whose numbers are all zero and take no room.
package weightstest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
)

// Llama is a model of Llama's architecture, at 16 bits.
type Llama struct {
	Layers, Hidden, Heads, KVHeads, FeedForward, Vocabulary, ContextTokens int
}

// Tiny is a model of some kilobytes.
func Tiny() Llama {
	return Llama{Layers: 2, Hidden: 64, Heads: 4, KVHeads: 2, FeedForward: 128, Vocabulary: 256, ContextTokens: 512}
}

// Llama8B is as large as Llama-3-8B.
func Llama8B() Llama {
	return Llama{Layers: 32, Hidden: 4096, Heads: 32, KVHeads: 8, FeedForward: 14336, Vocabulary: 128256, ContextTokens: 8192}
}

// GGUF returns the header of a file with the model, and the size of the file.
func (l Llama) GGUF() (header []byte, size int64) {
	w := &writer{}
	w.put("general.architecture", uint32(8), "llama")
	for _, key := range []struct {
		name  string
		value int
	}{
		{"llama.block_count", l.Layers},
		{"llama.context_length", l.ContextTokens},
		{"llama.embedding_length", l.Hidden},
		{"llama.feed_forward_length", l.FeedForward},
		{"llama.attention.head_count", l.Heads},
		{"llama.attention.head_count_kv", l.KVHeads},
		{"llama.vocab_size", l.Vocabulary},
	} {
		w.put(key.name, uint32(4), uint32(key.value)) //nolint:gosec // of a test
	}
	keys, count := w.Bytes(), 8

	w = &writer{}
	kv := l.Hidden / l.Heads * l.KVHeads
	w.tensor("token_embd.weight", l.Hidden, l.Vocabulary)
	for i := range l.Layers {
		block := func(name string) string { return fmt.Sprintf("blk.%d.%s.weight", i, name) }
		w.tensor(block("attn_norm"), l.Hidden)
		w.tensor(block("attn_q"), l.Hidden, l.Hidden)
		w.tensor(block("attn_k"), l.Hidden, kv)
		w.tensor(block("attn_v"), l.Hidden, kv)
		w.tensor(block("attn_output"), l.Hidden, l.Hidden)
		w.tensor(block("ffn_norm"), l.Hidden)
		w.tensor(block("ffn_gate"), l.Hidden, l.FeedForward)
		w.tensor(block("ffn_up"), l.Hidden, l.FeedForward)
		w.tensor(block("ffn_down"), l.FeedForward, l.Hidden)
	}
	w.tensor("output_norm.weight", l.Hidden)
	w.tensor("output.weight", l.Hidden, l.Vocabulary)

	head := &writer{}
	head.WriteString("GGUF")
	head.put(uint32(3), w.tensors, uint64(count))
	head.Write(keys)
	head.Write(w.Bytes())
	for head.Len()%alignment != 0 {
		head.WriteByte(0)
	}
	return head.Bytes(), int64(head.Len()) + int64(w.offset) //nolint:gosec // of a test
}

// Write writes the model to a file, whose directory is made.
func (l Llama) Write(path string) error {
	header, size := l.GGUF()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // of a test
		return err
	}
	if err := os.WriteFile(path, header, 0o644); err != nil { //nolint:gosec // of a test
		return err
	}
	return os.Truncate(path, size)
}

// alignment is that of GGUF where a file says no other.
const alignment = 32

// writer writes what GGUF is made of.
type writer struct {
	bytes.Buffer
	tensors, offset uint64
}

// put writes numbers, and texts with their length before them.
func (w *writer) put(values ...any) {
	for _, v := range values {
		if text, is := v.(string); is {
			w.put(uint64(len(text)))
			w.WriteString(text)
			continue
		}
		if err := binary.Write(&w.Buffer, binary.LittleEndian, v); err != nil {
			panic(err) // numbers of a fixed size always can
		}
	}
}

// tensor writes what is said of a tensor of 16 bits.
func (w *writer) tensor(name string, shape ...int) {
	w.put(name, uint32(len(shape))) //nolint:gosec // of a test
	elements := uint64(1)
	for _, n := range shape {
		w.put(uint64(n)) //nolint:gosec // of a test
		elements *= uint64(n)
	}
	w.put(uint32(1), w.offset)
	w.tensors++
	w.offset += (2*elements + alignment - 1) / alignment * alignment
}
