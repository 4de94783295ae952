package workload

import (
	"cmp"
	"slices"
)

// SeenTokens returns for each request how many tokens its prompt begins with
// that some request before it has, too: what a prefix cache without limit
// holds of it if it has served the trace up to there. It is of the blocks; of
// requests with a text the common text counts by its share of the prompt's
// bytes. It takes about as long as reading all blocks and texts twice.
func (t *Trace) SeenTokens() []int {
	tokens, _ := t.seen()
	return tokens
}

// seen returns SeenTokens, and how many whole or last blocks they are.
func (t *Trace) seen() (tokens []int, blocks int64) {
	tokens = make([]int, len(t.Requests))
	known := make(prefixes)
	texts := 0
	for i := range t.Requests {
		r := &t.Requests[i]
		if r.Text != "" {
			texts++
		} else if t.BlockTokens > 0 {
			var n int
			n, tokens[i] = known.add(r, t.BlockTokens)
			blocks += int64(n)
		}
	}
	if texts > 0 {
		seenTexts(t.Requests, tokens)
	}
	return tokens, blocks
}

// prefixes are the prompts seen, up to the end of each of their blocks: a hash
// of the ids up to there, and how many tokens of the last block were seen. Two
// of a million different prefixes have the same 64-bit hash with a
// probability below 1e-7.
type prefixes map[uint64]int

// add returns how many leading blocks of r, and tokens in them, were there,
// and adds those that were not.
func (p prefixes) add(r *Request, size int) (blocks, tokens int) {
	hash, hit := uint64(0), true
	for i, id := range r.Blocks {
		hash = mix(hash + mix(id))
		fill := min(size, r.PromptTokens-i*size)
		had, known := p[hash]
		if hit = hit && known; hit {
			blocks++
			tokens += min(fill, had)
			hit = had == fill // after a shorter block comes something else
		}
		p[hash] = max(had, fill)
	}
	return blocks, tokens
}

// seenTexts sets the tokens of the requests that have a text.
//
// In a list sorted by text the longest beginning in common with any other is
// that with a neighbour. When requests leave the list from the last to the
// first, those that are still in it came before the one that leaves.
func seenTexts(requests []Request, tokens []int) {
	var sorted []int // requests by text
	for i := range requests {
		if requests[i].Text != "" {
			sorted = append(sorted, i)
		}
	}
	slices.SortFunc(sorted, func(a, b int) int {
		return cmp.Or(cmp.Compare(requests[a].Text, requests[b].Text), cmp.Compare(a, b))
	})
	before, after := make([]int, len(requests)), make([]int, len(requests))
	const none = -1
	for at, i := range sorted {
		before[i], after[i] = none, none
		if at > 0 {
			before[i], after[sorted[at-1]] = sorted[at-1], i
		}
	}
	for i := len(requests) - 1; i >= 0; i-- {
		text := requests[i].Text
		if text == "" {
			continue
		}
		common := 0
		left, right := before[i], after[i]
		if left != none {
			common = commonBytes(text, requests[left].Text)
			after[left] = right
		}
		if right != none {
			common = max(common, commonBytes(text, requests[right].Text))
			before[right] = left
		}
		tokens[i] = int(int64(requests[i].PromptTokens) * int64(common) / int64(len(text)))
	}
}

// commonBytes is how many bytes two texts begin with that are the same.
func commonBytes(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}
