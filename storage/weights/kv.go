package weights

import (
	"fmt"
	"slices"
	"strings"

	"github.com/llmgw/llmgw/engines"
)

// element is how many bytes one number in the cache has: bytes for every so many.
type element struct{ bytes, per uint64 }

// cacheElement returns the size of numbers of a type that a profile can name.
func cacheElement(dtype string) (element, bool) {
	switch d := strings.ToLower(dtype); {
	case slices.Contains([]string{"", "auto", "f16", "float16", "half", "bf16", "bfloat16"}, d):
		return element{2, 1}, true
	case d == "f32" || d == "float32":
		return element{4, 1}, true
	case strings.HasPrefix(d, "fp8") && !strings.Contains(d, "per_token"), d == "int8":
		return element{1, 1}, true
	case d == "nvfp4", d == "fp4_e2m1":
		return element{9, 16}, true // 4 bits, and 8 for every 16
	}
	for id := range uint32(50) { // llama.cpp's quantized types
		if t := ggmlTypeOf(id); t.elements == 32 && strings.EqualFold(t.name, dtype) {
			return element{t.bytes, t.elements}, true
		}
	}
	return element{}, false
}

// tokenBytes is what a token takes in the cache of a whole copy of the model.
func tokenBytes(f Facts, p engines.Profile) engines.Opt[uint64] {
	e, ok := cacheElement(p.KVCacheDType)
	if !ok || len(f.Layers) == 0 || keepsUnknown(f) >= 0 {
		return engines.Opt[uint64]{}
	}
	elements := uint64(0)
	for _, l := range f.Layers {
		elements = plus(elements, l.Cache.elements(1))
	}
	if bytes := ceil(times(elements, e.bytes), e.per); bytes != uncounted {
		return engines.Known(bytes)
	}
	return engines.Opt[uint64]{}
}

// elements returns how many numbers a card keeps of each token when heads are cut
// over cards. A head is never cut: what is left over is kept twice.
func (c Cache) elements(cards uint64) uint64 {
	switch c.Kind {
	case CacheHeads:
		return times(ceil(uint64(c.Heads), cards), uint64(c.KeyLength)+uint64(c.ValueLength))
	case CacheLatent:
		return uint64(c.KeyLength)
	case CacheUnknown, CacheNone:
	}
	return 0
}

// keepsUnknown returns the first layer of which it is not known what it keeps; -1:
// there is none.
func keepsUnknown(f Facts) int {
	return slices.IndexFunc(f.Layers, func(l Layer) bool { return l.Cache.Kind == CacheUnknown })
}

// contextOf returns how many tokens one request may have; 0: not known.
func contextOf(f Facts, p engines.Profile) uint64 {
	if p.ContextTokens > 0 {
		return uint64(p.ContextTokens)
	}
	return uint64(f.ContextTokens.Or(0))
}

// kvParts returns what keys and values at least take of a card, and what they take
// when all requests run that may.
func kvParts(f Facts, p engines.Profile, s spread, h habits) (Part, engines.Opt[uint64]) {
	none := engines.Opt[uint64]{}
	e, knownType := cacheElement(p.KVCacheDType)
	context := contextOf(f, p)
	keeps := slices.ContainsFunc(f.Layers, func(l Layer) bool { return l.Cache.Kind != CacheNone })
	switch {
	case h.family == encoderFamily, len(f.Layers) > 0 && !keeps:
		return known(0, "nothing is kept that grows with the context"), engines.Known(uint64(0))
	case h.family == otherFamily:
		return unknown("how %s uses memory was not studied", p.Engine), none
	case len(f.Layers) == 0:
		return unknown("the weights do not say what layers there are"), none
	case keepsUnknown(f) >= 0:
		return unknown("the weights do not say what layer %d keeps of a token", keepsUnknown(f)), none
	case !knownType:
		return unknown("how large %q is, the profile's kv_cache_dtype, is not known", p.KVCacheDType), none
	case context == 0:
		return unknown("neither the profile nor the weights say how long a context is"), none
	}
	bytes := func(tokens func(Cache) uint64) uint64 {
		return fullest(f.Layers, s.stages, 0, 0, func(l Layer) uint64 {
			return ceil(times(l.Cache.elements(s.heads), tokens(l.Cache), e.bytes), e.per)
		})
	}
	if h.family == ggmlFamily {
		total := context
		if p.ContextTokens > 0 {
			total = times(context, h.running)
		}
		part := known(bytes(func(c Cache) uint64 { return ggmlCells(c, total, h) }), "%d tokens for %d requests together%s", total, h.running, windows(f))
		return part, part.Bytes
	}
	one := bytes(func(c Cache) uint64 { return pagedTokens(c, context, h) })
	part := known(one, "one request of %d tokens, the least with which the engine starts%s", context, windows(f))
	if p.MaxRunning == 0 {
		return part, none
	}
	asked := known(times(one, uint64(p.MaxRunning)), "")
	return part, asked.Bytes
}

// ggmlCells is how many tokens llama.cpp makes room for in a layer.
// Source: llama-kv-cache-iswa.cpp and llama-context.cpp, GGML_PAD to 256.
func ggmlCells(c Cache, total uint64, h habits) uint64 {
	cells := total
	if c.WindowTokens > 0 {
		cells = min(cells, plus(times(uint64(c.WindowTokens), h.running), h.batch))
	}
	return times(ceil(cells, 256), 256)
}

// pageTokens is how many tokens a page holds by default.
const pageTokens = 16

// pagedTokens is for how many tokens of one request a layer needs pages.
// Source: max_memory_usage_bytes in vllm/v1/kv_cache_interface.py.
func pagedTokens(c Cache, context uint64, h habits) uint64 {
	if c.WindowTokens > 0 && h.batch > 0 {
		if tokens := uint64(c.WindowTokens) - 1 + h.batch; tokens < context {
			return times(ceil(tokens, pageTokens)+1, pageTokens)
		}
	}
	return times(ceil(context, pageTokens), pageTokens)
}

// windows says how many layers keep less than the whole context.
func windows(f Facts) string {
	windowed, without := 0, 0
	for _, l := range f.Layers {
		switch {
		case l.Cache.Kind == CacheNone:
			without++
		case l.Cache.WindowTokens > 0:
			windowed++
		}
	}
	text := ""
	if windowed > 0 {
		text += fmt.Sprintf("; %d of %d layers keep a window", windowed, len(f.Layers))
	}
	if without > 0 {
		text += fmt.Sprintf("; %d of %d layers keep nothing that grows, and what they keep is not counted", without, len(f.Layers))
	}
	return text
}
