package weights

import "github.com/llmgw/llmgw/engines"

// Format is how weights are written.
type Format string

// The formats that are read.
const (
	GGUF        Format = "gguf"
	Safetensors Format = "safetensors"
)

// Facts are what weights say of themselves. The value shares nothing with the
// files it came from.
type Facts struct {
	Format Format `json:"format"`
	// Architecture is the model's, in the format's own words: "llama". Empty: not
	// known.
	Architecture string `json:"architecture,omitempty"`
	// Files are those that were looked at, in order.
	Files []File `json:"files"`
	// Types are the tensors by their type, the most bytes first.
	Types []TypeBytes `json:"types"`

	// TensorBytes is the size of all tensors: the sum of EmbeddingBytes,
	// OutputBytes, OtherBytes, SpareBytes and what is in Layers.
	TensorBytes uint64 `json:"tensor_bytes"`
	// EmbeddingBytes is the table from tokens to vectors, OutputBytes the one back.
	// A model without the latter uses the former for both.
	EmbeddingBytes uint64 `json:"embedding_bytes"`
	OutputBytes    uint64 `json:"output_bytes"`
	// OtherBytes is what belongs to no layer: norms, eyes and ears.
	OtherBytes uint64 `json:"other_bytes"`
	// SpareBytes is in layers behind those that the model is run with, which engines
	// load only when they are told to guess tokens ahead.
	SpareBytes uint64 `json:"spare_bytes,omitempty"`
	// Layers are the blocks of the model, in order. Empty: not known.
	Layers []Layer `json:"layers,omitempty"`

	// Hidden is the width between layers, Vocabulary the number of tokens.
	Hidden     engines.Opt[int] `json:"hidden"`
	Vocabulary engines.Opt[int] `json:"vocabulary"`
	// Heads is how many queries attention asks at once, FeedForward the width
	// inside a layer, for a mixture that of one expert.
	Heads       engines.Opt[int] `json:"heads"`
	FeedForward engines.Opt[int] `json:"feed_forward"`
	// Experts is how many a layer of a mixture has, ExpertsUsed how many of them a
	// token sees.
	Experts     engines.Opt[int] `json:"experts"`
	ExpertsUsed engines.Opt[int] `json:"experts_used"`
	// ContextTokens is the longest context that the model was made for.
	ContextTokens engines.Opt[int] `json:"context_tokens"`
	// DType is what the model computes in, Quantization by what method its weights
	// were made smaller, both in the words of the model. Empty: not said.
	DType        string `json:"dtype,omitempty"`
	Quantization string `json:"quantization,omitempty"`
}

// File is one file of weights.
type File struct {
	// Name is relative to the directory of the weights.
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
}

// TypeBytes is how much there is of one type of tensor, such as "BF16" or "Q4_K".
type TypeBytes struct {
	Type    string `json:"type"`
	Tensors int    `json:"tensors"`
	Bytes   uint64 `json:"bytes"`
}

// Layer is one block of a model.
type Layer struct {
	// Bytes is the size of all its tensors, ExpertBytes of those among them that
	// are experts of a mixture, of which a token sees some.
	Bytes       uint64 `json:"bytes"`
	ExpertBytes uint64 `json:"expert_bytes,omitempty"`
	// Cache is what it keeps of each token.
	Cache Cache `json:"cache"`
}

// CacheKind is what a layer keeps of tokens. The zero value is that it is not
// known.
type CacheKind string

// The kinds of caches.
const (
	CacheUnknown CacheKind = ""
	// CacheNone: nothing that grows with the context. The layer has no attention,
	// sees its tokens at once, or uses what another layer keeps.
	CacheNone CacheKind = "none"
	// CacheHeads: a key and a value for each head.
	CacheHeads CacheKind = "heads"
	// CacheLatent: one vector for all heads, KeyLength long, which every card of a
	// tensor-parallel group keeps whole (multi-head latent attention).
	CacheLatent CacheKind = "latent"
)

// Cache is what a layer keeps of each token.
type Cache struct {
	Kind CacheKind `json:"kind,omitempty"`
	// Heads, KeyLength and ValueLength are numbers of elements: a token takes
	// Heads x (KeyLength + ValueLength).
	Heads       int `json:"heads,omitempty"`
	KeyLength   int `json:"key_length,omitempty"`
	ValueLength int `json:"value_length,omitempty"`
	// WindowTokens is how many of the last tokens it looks at. 0: all.
	WindowTokens int `json:"window_tokens,omitempty"`
}

// Bytes returns the size of all files.
func (f Facts) Bytes() int64 {
	var sum int64
	for _, file := range f.Files {
		sum += file.Bytes
	}
	return sum
}

// Mixture reports whether the model is a mixture of experts.
func (f Facts) Mixture() bool {
	for _, l := range f.Layers {
		if l.ExpertBytes > 0 {
			return true
		}
	}
	return f.Experts.Or(0) > 1
}
