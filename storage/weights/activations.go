package weights

import (
	"slices"

	"github.com/llmgw/llmgw/engines"
)

// activationsPart is what one step computes in between.
func activationsPart(f Facts, p engines.Profile, s spread, h habits) Part {
	if h.reserve > 0 {
		return known(h.reserve, "what SGLang sets aside for computing and CUDA graphs on a card of that size")
	}
	hidden, wide := uint64(f.Hidden.Or(0)), widest(f)
	vocabulary := uint64(f.Vocabulary.Or(0))
	batch := h.batch
	if p.Engine == engines.Infinity {
		batch = 32 * uint64(f.ContextTokens.Or(0)) // --batch-size
	}
	switch {
	case h.family == otherFamily:
		return unknown("how %s uses memory was not studied", p.Engine)
	case batch == 0:
		return unknown("how many tokens %s computes in one step is not known", p.Engine)
	case hidden == 0:
		return unknown("the weights do not say how wide the model is")
	case h.family == ggmlFamily:
		return ggmlActivations(f, p, batch, hidden, wide, vocabulary)
	case wide == 0:
		return unknown("the weights do not say how wide a layer is inside")
	}
	// The layer's input and what is added to it, and at its widest the inside: two
	// products and theirs, or queries, keys, values and what comes of them.
	step := times(batch, 2, plus(2*hidden, ceil(max(4*hidden, 3*wide), s.tensor)))
	if p.Engine == engines.VLLM && p.Task == engines.TaskGenerate {
		if vocabulary == 0 {
			return unknown("the weights do not say how many tokens the model knows")
		}
		// Choosing tokens takes some ten numbers of 32 bits for each that there is.
		choose := times(h.running, vocabulary, 4, 10)
		if choose > step {
			return known(choose, "choosing among %d tokens for %d requests, some 40 bytes each", vocabulary, h.running)
		}
	}
	return known(step, "a step of %d tokens through the widest layer, at 16 bits", batch)
}

// ggmlActivations is the compute buffer of llama.cpp: what a batch of tokens gives,
// in numbers of 32 bits, beside what goes through the layers.
func ggmlActivations(f Facts, p engines.Profile, batch, hidden, wide, vocabulary uint64) Part {
	widest, what := 2*wide, "through the widest layer"
	if p.Task == engines.TaskGenerate {
		if vocabulary == 0 {
			return unknown("the weights do not say how many tokens the model knows")
		}
		if vocabulary >= widest {
			widest, what = vocabulary, "with a number for each token of the vocabulary"
		}
	}
	bytes := times(batch, 4, plus(hidden, widest))
	if !flashes(f) {
		// Each head's view of each token, before and after it is weighed.
		bytes = plus(bytes, times(batch, 4, 2, uint64(f.Heads.Or(0)), contextOf(f, p)))
		what += ", and all of attention at once, as keys and values differ in length"
	}
	if p.CPU {
		// What the other side has, and what each token sees once more at 16 bits.
		bytes = plus(bytes, plus(ggmlInput(f, p, batch), times(batch, contextOf(f, p), 2)))
	}
	return known(bytes, "a batch of %d tokens, at 32 bits, %s", batch, what)
}

// flashes reports whether llama.cpp computes attention piece by piece (flash
// attention). Where keys and values differ in length it was seen not to.
func flashes(f Facts) bool {
	return !slices.ContainsFunc(f.Layers, func(l Layer) bool {
		return l.Cache.Kind == CacheHeads && l.Cache.KeyLength != l.Cache.ValueLength
	})
}

// ggmlInput is what a batch is made of, on the side of the processors: the tokens'
// vectors, and for each token which others it sees.
func ggmlInput(f Facts, p engines.Profile, batch uint64) uint64 {
	return times(batch, 4, plus(uint64(f.Hidden.Or(0)), contextOf(f, p)))
}

// widest returns how wide a layer is inside; 0: not known.
func widest(f Facts) uint64 {
	wide := uint64(f.FeedForward.Or(0))
	if f.Mixture() {
		wide = times(wide, uint64(max(f.ExpertsUsed.Or(1), 1)))
	}
	return wide
}
