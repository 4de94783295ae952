package workload

import (
	"slices"
	"time"
)

// Stats sums up a trace.
type Stats struct {
	Requests int
	Duration time.Duration // from the first request to the last
	Prompt   Summary       // tokens of prompts
	Output   Summary       // tokens of answers
	Sessions int           // distinct ones; requests without one not counted
	// Blocks counts the blocks of all prompts; 0 if the trace tells none.
	Blocks int64
	// SeenBlocks are those that some request before had at the same place
	// with everything before them the same: what a prefix cache without
	// limit would hold. SeenTokens are the tokens in them.
	SeenBlocks, SeenTokens int64
}

// HitShare is the share of prompt tokens, in [0,1], that a prefix cache
// without limit would serve: SeenTokens ÷ Prompt.Total, to be compared with
// the cached tokens that engines report. It is false if the trace does not
// tell what is shared.
func (s Stats) HitShare() (float64, bool) {
	if s.Blocks == 0 {
		return 0, false
	}
	return float64(s.SeenTokens) / float64(s.Prompt.Total), true
}

// Summary describes lengths, in tokens. Percentiles are nearest-rank: a length
// that occurs.
type Summary struct {
	Total              int64
	Mean               float64
	Min, P50, P90, P99 int
	Max                int
}

// Stats reads the whole trace: keep the result.
func (t *Trace) Stats() Stats {
	s := Stats{Requests: len(t.Requests)}
	if s.Requests == 0 {
		return s
	}
	s.Duration = t.Requests[s.Requests-1].At
	prompts, outputs := make([]int, s.Requests), make([]int, s.Requests)
	sessions := make(map[string]struct{})
	seen := make(prefixes)
	for i := range t.Requests {
		r := &t.Requests[i]
		prompts[i], outputs[i] = r.PromptTokens, r.OutputTokens
		if r.Session != "" {
			sessions[r.Session] = struct{}{}
		}
		if t.BlockTokens > 0 {
			blocks, tokens := seen.add(r, t.BlockTokens)
			s.Blocks += int64(blocksOf(r.PromptTokens, t.BlockTokens))
			s.SeenBlocks += int64(blocks)
			s.SeenTokens += int64(tokens)
		}
	}
	s.Prompt, s.Output, s.Sessions = summarise(prompts), summarise(outputs), len(sessions)
	return s
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

// summarise sorts values, at least one.
func summarise(values []int) Summary {
	slices.Sort(values)
	s := Summary{Min: values[0], Max: values[len(values)-1]}
	for _, v := range values {
		s.Total += int64(v)
	}
	s.Mean = float64(s.Total) / float64(len(values))
	rank := func(percent int) int { return values[(len(values)*percent+99)/100-1] }
	s.P50, s.P90, s.P99 = rank(50), rank(90), rank(99)
	return s
}

// mix is the finalizer of SplitMix64, a bijection. Source: Steele, Lea, Flood,
// Fast Splittable Pseudorandom Number Generators, OOPSLA 2014.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
