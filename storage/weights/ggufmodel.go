package weights

import (
	"slices"

	"github.com/llmgw/llmgw/engines"
)

// ggufKeys reads numbers by the names that they have below the architecture.
type ggufKeys struct {
	path string
	arch string
	keys map[string]ggufValue
	err  error
}

// maxNumber bounds every number of a model: contexts have up to 2^24 tokens.
const maxNumber = 1 << 30

// list returns the numbers of a key of the architecture's.
func (k *ggufKeys) list(name string) []int64 {
	v := k.keys[k.arch+"."+name].ints
	for _, n := range v {
		if k.err == nil && (n < 0 || n > maxNumber) {
			k.err = readError(ErrCorrupt, k.path, "%s.%s is %d", k.arch, name, n)
		}
	}
	if k.err != nil {
		return nil
	}
	return v
}

// number returns the number of a key; not known where there is none, or several
// that differ.
func (k *ggufKeys) number(name string) engines.Opt[int] {
	v := k.list(name)
	if len(v) == 0 || slices.ContainsFunc(v, func(n int64) bool { return n != v[0] }) {
		return engines.Opt[int]{}
	}
	return engines.Known(int(v[0]))
}

// largest returns the largest number of a key.
func (k *ggufKeys) largest(name string) engines.Opt[int] {
	v := k.list(name)
	if len(v) == 0 {
		return engines.Opt[int]{}
	}
	return engines.Known(int(slices.Max(v)))
}

// perLayer returns the number of a key for one layer.
func (k *ggufKeys) perLayer(name string, layer int) engines.Opt[int] {
	switch v := k.list(name); {
	case len(v) == 1:
		return engines.Known(int(v[0]))
	case layer < len(v):
		return engines.Known(int(v[layer]))
	}
	return engines.Opt[int]{}
}

// ggufFacts puts together what the headers of a model say.
//
// Source of the keys: gguf-py 0.19.0, and src/llama-hparams.cpp of llama.cpp.
func ggufFacts(path string, keys map[string]ggufValue, tensors []ggufTensor) (Facts, error) {
	var t tally
	for _, tensor := range tensors {
		if wrong := t.add(tensor.place, tensor.kind, tensor.bytes); wrong != "" {
			return Facts{}, readError(ErrCorrupt, path, "%s", wrong)
		}
	}
	k := &ggufKeys{path: path, arch: keys["general.architecture"].text, keys: keys}
	blocks := k.number("block_count").Or(0)
	if blocks > maxLayers {
		return Facts{}, readError(ErrCorrupt, path, "%s.block_count is %d, and %d are the most", k.arch, blocks, maxLayers)
	}
	f := t.done(blocks)
	f.Format = GGUF
	f.Architecture = k.arch
	f.Hidden = k.number("embedding_length")
	f.Vocabulary = k.number("vocab_size")
	if tokens := keys["tokenizer.ggml.tokens"].count; tokens > 0 {
		f.Vocabulary = engines.Known(int(tokens)) // bounded by the header's length
	}
	f.Heads = k.largest("attention.head_count")
	f.FeedForward = k.largest("feed_forward_length")
	f.Experts = k.number("expert_count")
	f.ExpertsUsed = k.number("expert_used_count")
	if f.Mixture() {
		if n := k.number("expert_feed_forward_length"); n.Or(0) > 0 {
			f.FeedForward = n
		}
	}
	f.ContextTokens = k.number("context_length")
	if len(f.Types) > 0 {
		f.Quantization = f.Types[0].Type
	}
	if blocks > 0 {
		caches := k.caches(f)
		for i := range f.Layers {
			f.Layers[i].Cache = caches(i)
		}
	}
	return f, k.err
}

// caches returns what each layer keeps.
func (k *ggufKeys) caches(f Facts) func(layer int) Cache {
	none := func(int) Cache { return Cache{Kind: CacheNone} }
	if slices.Contains([]string{"mamba", "mamba2", "rwkv6", "rwkv6qwen2", "rwkv7", "arwkv7"}, k.arch) {
		return none
	}
	if causal := k.number("attention.causal"); causal.Is(0) {
		return none // sees its tokens at once
	}
	windowed := k.windowed()
	interval := k.number("full_attention_interval").Or(0)
	last := len(f.Layers) - k.number("nextn_predict_layers").Or(0) // the rest guess ahead, when asked to
	own := len(f.Layers) - k.number("attention.shared_kv_layers").Or(0)
	// Both lengths are there where keys and values are kept as one vector.
	latent := k.number("attention.key_length_mla").Or(0) > 0 && k.number("attention.value_length_mla").Or(0) > 0

	return func(layer int) Cache {
		if layer >= last || layer >= own || interval > 0 && (layer+1)%interval != 0 {
			return Cache{Kind: CacheNone}
		}
		heads, known := k.perLayer("attention.head_count_kv", layer).Get()
		if !known {
			heads, known = k.perLayer("attention.head_count", layer).Get()
		}
		if known && heads == 0 {
			return Cache{Kind: CacheNone}
		}
		c := Cache{Kind: CacheHeads, Heads: heads, WindowTokens: windowed(layer)}
		c.KeyLength = k.headLength(f, "attention.key_length", c.WindowTokens > 0, layer)
		c.ValueLength = k.headLength(f, "attention.value_length", c.WindowTokens > 0, layer)
		if latent {
			c = Cache{Kind: CacheLatent, Heads: 1, KeyLength: c.KeyLength * max(heads, 1), WindowTokens: c.WindowTokens}
		}
		if !known || c.KeyLength == 0 || (c.ValueLength == 0 && !latent) {
			return Cache{}
		}
		return c
	}
}

// headLength returns how long the keys or values of a layer are: as stated, or the
// width of the model divided by its heads. 0: not known.
func (k *ggufKeys) headLength(f Facts, name string, window bool, layer int) int {
	if window {
		if n := k.perLayer(name+"_swa", layer).Or(0); n > 0 {
			return n
		}
	}
	if n := k.perLayer(name, layer).Or(0); n > 0 {
		return n
	}
	if heads := k.perLayer("attention.head_count", layer).Or(0); heads > 0 {
		return f.Hidden.Or(0) / heads
	}
	return 0
}

// windowed returns how many of the last tokens a layer looks at; 0: all. A window
// of which the header does not say what layers have it is not believed: too much
// memory is planned then, not too little.
func (k *ggufKeys) windowed() func(layer int) int {
	window := k.number("attention.sliding_window").Or(0)
	if window == 0 {
		return func(int) int { return 0 }
	}
	if pattern := k.list("attention.sliding_window_pattern"); len(pattern) > 1 {
		return func(layer int) int {
			if layer < len(pattern) && pattern[layer] != 0 {
				return window
			}
			return 0
		}
	}
	period := k.number("attention.sliding_window_pattern").Or(windowPeriod(k.arch))
	return func(layer int) int {
		if period > 1 && layer%period < period-1 {
			return window
		}
		return 0
	}
}

// windowPeriod says for architectures whose files have a window without a pattern
// after how many layers one looks at the whole context. 0: not known.
//
// Source: the calls of set_swa_pattern in llama.cpp.
func windowPeriod(arch string) int {
	switch arch {
	case "gemma2", "gpt-oss":
		return 2
	case "cohere2", "olmo2", "exaone4":
		return 4
	case "gemma3n":
		return 5
	case "gemma3":
		return 6
	case "plamo3":
		return 8
	}
	return 0
}
