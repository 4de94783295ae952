package workload

import "github.com/llmgw/llmgw/engines/sim"

// AppendBlockHashes appends a hash for each whole block of size tokens of the
// prompt of r, a request of the trace; size is an engine's and 1 or more. Two
// requests have the same hash exactly if their prompts are the same up to the
// end of that block, which is what sim.Request.Blocks is about: a [sim.Core]
// can be driven by a trace without a text.
//
// Where the trace has texts they are tokenized. Otherwise a hash costs some
// nanoseconds, and the result is not the [sim.BlockHashes] of the prompt that
// a [Prompter] makes: do not mix the two in one cache.
func (t *Trace) AppendBlockHashes(dst []uint64, r *Request, size int) []uint64 {
	if r.Text != "" {
		return append(dst, sim.BlockHashes(0, sim.Tokenize(nil, r.Text), size)...)
	}
	// A hash is of the ids up to the one that covers the block's last
	// token, and of where that token is. What no id covers is covered by
	// the request's own number.
	var ids uint64
	covered, next, own := 0, 0, false
	for end := size; end <= r.PromptTokens; end += size {
		for covered < end && !own {
			if next < len(r.Blocks) && t.BlockTokens > 0 {
				ids = mix(ids + mix(r.Blocks[next]))
				covered += t.BlockTokens
				next++
			} else {
				ids = mix(ids ^ mix(^r.Seq))
				own = true
			}
		}
		dst = append(dst, mix(ids+uint64(end)))
	}
	return dst
}
