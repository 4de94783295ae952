package weights

import (
	"encoding/json"
	"errors"
	"io/fs"
	"slices"
	"strings"

	"github.com/llmgw/llmgw/engines"
)

// maxConfig bounds config.json. Those of quantized models list layers, in up to
// some 100 kB.
const maxConfig = 2 << 20

// modelConfig is what is used of a config.json of Hugging Face. Models name the
// same thing in several ways.
type modelConfig struct {
	ModelType    string       `json:"model_type"`
	DType        string       `json:"torch_dtype"`
	NewDType     string       `json:"dtype"`
	Text         *modelConfig `json:"text_config"`
	Language     *modelConfig `json:"language_config"`
	Quantization struct {
		Method string `json:"quant_method"`
	} `json:"quantization_config"`

	Layers  numbers `json:"num_hidden_layers"`
	Layers2 numbers `json:"n_layer"`
	Layers3 numbers `json:"num_layers"`
	Layers4 numbers `json:"n_layers"`

	Heads  numbers `json:"num_attention_heads"`
	Heads2 numbers `json:"n_head"`
	Heads3 numbers `json:"n_heads"`
	Heads4 numbers `json:"num_heads"`

	KVHeads  numbers `json:"num_key_value_heads"`
	KVHeads2 numbers `json:"num_kv_heads"`
	KVHeads3 numbers `json:"multi_query_group_num"`

	Hidden  numbers `json:"hidden_size"`
	Hidden2 numbers `json:"n_embd"`
	Hidden3 numbers `json:"d_model"`

	Context  numbers `json:"max_position_embeddings"`
	Context2 numbers `json:"n_positions"`
	Context3 numbers `json:"max_seq_len"`
	Context4 numbers `json:"seq_length"`
	Context5 numbers `json:"max_sequence_length"`

	FeedForward  numbers `json:"intermediate_size"`
	FeedForward2 numbers `json:"n_inner"`
	FeedForward3 numbers `json:"ffn_dim"`
	ExpertWidth  numbers `json:"moe_intermediate_size"`

	Experts  numbers `json:"num_local_experts"`
	Experts2 numbers `json:"n_routed_experts"`
	Experts3 numbers `json:"num_experts"`
	Used     numbers `json:"num_experts_per_tok"`

	Vocabulary numbers `json:"vocab_size"`
	HeadDim    numbers `json:"head_dim"`
	ValueDim   numbers `json:"v_head_dim"`

	LatentRank numbers `json:"kv_lora_rank"`
	RopeDim    numbers `json:"qk_rope_head_dim"`

	Window        numbers  `json:"sliding_window"`
	UseWindow     *bool    `json:"use_sliding_window"`
	WindowPattern numbers  `json:"sliding_window_pattern"`
	FirstWindow   numbers  `json:"max_window_layers"`
	Chunk         numbers  `json:"attention_chunk_size"`
	LayerTypes    []string `json:"layer_types"`
	BlockTypes    []string `json:"layers_block_type"`
	HybridPattern string   `json:"hybrid_override_pattern"`
	Interval      numbers  `json:"full_attention_interval"`
	AttnPeriod    numbers  `json:"attn_layer_period"`
	AttnOffset    numbers  `json:"attn_layer_offset"`
	SharedKV      numbers  `json:"num_kv_shared_layers"`

	// Layouts of layers that are not understood here.
	Blocks       json.RawMessage `json:"block_configs"`
	LinearLayers json.RawMessage `json:"linear_attn_config"`
	GlobalHeads  json.RawMessage `json:"global_head_dim"`

	MultiQuery *bool           `json:"multi_query"`
	NewFalcon  json.RawMessage `json:"new_decoder_architecture"`
}

// numbers is a whole number or a list of them. Anything else is not known.
type numbers []int

// UnmarshalJSON never fails: a field of a model that is not understood is no
// reason not to read the others.
func (n *numbers) UnmarshalJSON(data []byte) error {
	*n = nil
	var list []int
	if json.Unmarshal(data, &list) != nil {
		var one int
		if json.Unmarshal(data, &one) != nil {
			return nil
		}
		list = []int{one}
	}
	if len(list) <= maxLayers && !slices.ContainsFunc(list, func(v int) bool { return v < 0 || v > maxNumber }) {
		*n = list
	}
	return nil
}

// one returns the number, where there is exactly one above 0.
func (n numbers) one() int {
	if len(n) == 1 {
		return n[0]
	}
	return 0
}

// of returns the number for a layer.
func (n numbers) of(layer int) int {
	switch {
	case len(n) == 1:
		return n[0]
	case layer < len(n):
		return n[layer]
	}
	return 0
}

func either(ns ...numbers) numbers {
	for _, n := range ns {
		if len(n) > 0 && n[0] > 0 {
			return n
		}
	}
	return nil
}

// opt returns the number as a fact.
func opt(ns ...numbers) engines.Opt[int] {
	if n := either(ns...).one(); n > 0 {
		return engines.Known(n)
	}
	return engines.Opt[int]{}
}

// readConfig reads the config.json of that name. There may be none.
func readConfig(fsys fs.FS, name string) (modelConfig, bool, error) {
	data, err := readSmall(fsys, name, maxConfig)
	if err != nil || data == nil {
		return modelConfig{}, false, err
	}
	var c modelConfig
	// A field of another type than it has in known models stays unknown.
	err = json.Unmarshal(data, &c)
	if _, other := errors.AsType[*json.UnmarshalTypeError](err); err != nil && !other {
		return modelConfig{}, false, readError(ErrCorrupt, name, "%v", err)
	}
	return c.language(), true, nil
}

// language returns the part of the configuration that is about the language model,
// of models that have others beside it.
func (c modelConfig) language() modelConfig {
	inner := c.Text
	if inner == nil {
		inner = c.Language
	}
	if inner == nil || len(either(inner.Layers, inner.Layers2, inner.Layers3, inner.Layers4)) == 0 {
		return c
	}
	l := *inner
	if l.ModelType == "" {
		l.ModelType = c.ModelType
	}
	if l.DType == "" && l.NewDType == "" {
		l.DType, l.NewDType = c.DType, c.NewDType
	}
	if l.Quantization.Method == "" {
		l.Quantization = c.Quantization
	}
	return l
}

// layers returns how many layers the model is run with; 0: not known.
func (c modelConfig) layers() int { return either(c.Layers, c.Layers2, c.Layers3, c.Layers4).one() }

// describe adds what the configuration says to what the tensors say.
func (c modelConfig) describe(f *Facts) {
	f.Architecture = shorten(c.ModelType)
	f.Hidden = opt(c.Hidden, c.Hidden2, c.Hidden3)
	f.Vocabulary = opt(c.Vocabulary)
	f.Heads = opt(c.Heads, c.Heads2, c.Heads3, c.Heads4)
	f.FeedForward = opt(c.FeedForward, c.FeedForward2, c.FeedForward3)
	f.Experts = opt(c.Experts, c.Experts2, c.Experts3)
	f.ExpertsUsed = opt(c.Used)
	if f.Mixture() && c.ExpertWidth.one() > 0 {
		f.FeedForward = opt(c.ExpertWidth)
	}
	f.ContextTokens = opt(c.Context, c.Context2, c.Context3, c.Context4, c.Context5)
	f.DType = shorten(strings.TrimPrefix(c.DType, "torch."))
	if f.DType == "" {
		f.DType = shorten(c.NewDType)
	}
	f.Quantization = shorten(c.Quantization.Method)
	for i := range f.Layers {
		f.Layers[i].Cache = c.cache(*f, i)
	}
}

// cache returns what a layer keeps.
//
// Source: the configurations of transformers, by model, and what vLLM makes of
// them.
func (c modelConfig) cache(f Facts, layer int) Cache {
	if encodes(c.ModelType) {
		return Cache{Kind: CacheNone}
	}
	if c.Blocks != nil || c.LinearLayers != nil || c.GlobalHeads != nil {
		return Cache{}
	}
	if shared := c.SharedKV.one(); shared > 0 && layer >= len(f.Layers)-shared {
		return Cache{Kind: CacheNone}
	}
	window, kind := c.sight(layer)
	if kind != CacheHeads {
		return Cache{Kind: kind}
	}
	if rank, rope := c.LatentRank.one(), c.RopeDim.one(); rank > 0 && rope > 0 {
		return Cache{Kind: CacheLatent, Heads: 1, KeyLength: rank + rope, WindowTokens: window}
	}
	heads, queries := c.kvHeads(layer), f.Heads.Or(0)
	length := c.HeadDim.one()
	if length == 0 && queries > 0 {
		length = f.Hidden.Or(0) / queries
	}
	if heads == 0 || length == 0 {
		return Cache{}
	}
	value := length
	if n := c.ValueDim.one(); n > 0 {
		value = n
	}
	return Cache{Kind: CacheHeads, Heads: heads, KeyLength: length, ValueLength: value, WindowTokens: window}
}

// kvHeads returns how many heads of keys and values a layer has: those of the
// queries where nothing else is said. 0: not known.
func (c modelConfig) kvHeads(layer int) int {
	if n := either(c.KVHeads, c.KVHeads2, c.KVHeads3).of(layer); n > 0 {
		return n
	}
	if c.MultiQuery != nil && *c.MultiQuery && string(c.NewFalcon) != "true" {
		return 1
	}
	return either(c.Heads, c.Heads2, c.Heads3, c.Heads4).of(layer)
}

// sight returns how many of the last tokens a layer looks at, 0 for all, and
// whether it keeps keys and values at all. A window of which it is not known what
// layers have it is not believed.
func (c modelConfig) sight(layer int) (window int, kind CacheKind) {
	types := c.LayerTypes
	if types == nil {
		types = c.BlockTypes
	}
	if types != nil {
		if layer >= len(types) {
			return 0, CacheUnknown
		}
		switch types[layer] {
		case "full_attention", "attention", "hybrid":
			return 0, CacheHeads
		case "sliding_attention":
			return c.Window.one(), CacheHeads
		case "chunked_attention":
			return c.Chunk.one(), CacheHeads
		case "linear_attention", "mamba", "mamba2", "conv", "recurrent":
			return 0, CacheNone
		}
		return 0, CacheUnknown
	}
	attends := true
	switch {
	case c.HybridPattern != "":
		attends = layer < len(c.HybridPattern) && c.HybridPattern[layer] == '*'
	case c.Interval.one() > 0:
		attends = (layer+1)%c.Interval.one() == 0
	case c.AttnPeriod.one() > 0:
		attends = layer%c.AttnPeriod.one() == c.AttnOffset.one()
	}
	if !attends {
		return 0, CacheNone
	}
	return c.window(layer), CacheHeads
}

// window returns the window of a layer of a model that does not list its layers.
func (c modelConfig) window(layer int) int {
	window := c.Window.one()
	if window == 0 || c.UseWindow != nil && !*c.UseWindow {
		return 0
	}
	if pattern := c.WindowPattern.one(); pattern > 0 {
		if (layer+1)%pattern == 0 {
			return 0
		}
		return window
	}
	switch c.ModelType {
	case "mistral", "mixtral", "phi3", "starcoder2":
		return window
	case "gemma2":
		if layer%2 == 0 {
			return window
		}
	case "qwen2", "qwen3":
		if first := c.FirstWindow.one(); first > 0 && layer >= first {
			return window
		}
	}
	return 0
}

// encodes reports whether models of that type see all their tokens at once.
func encodes(modelType string) bool {
	switch modelType {
	case "electra", "mpnet", "deberta", "deberta-v2", "new":
		return true
	}
	return strings.Contains(modelType, "bert") // roberta, modernbert, nomic_bert, distilbert
}
