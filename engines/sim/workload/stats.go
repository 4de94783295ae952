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
	// limit would hold.
	SeenBlocks int64
	// SeenTokens is the sum of [Trace.SeenTokens]: the tokens in the
	// SeenBlocks, or in the beginnings that texts have in common.
	SeenTokens int64
	Texts      int // requests whose text the trace has
}

// HitShare is the share of prompt tokens, in [0,1], that a prefix cache
// without limit would serve: SeenTokens ÷ Prompt.Total, to be compared with
// the cached tokens that engines report. It is false if the trace has neither
// blocks nor texts and so does not tell what is shared; a [Prompter] then
// makes prompts that share nothing.
func (s Stats) HitShare() (float64, bool) {
	if s.Blocks == 0 && s.Texts == 0 {
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
	for i := range t.Requests {
		r := &t.Requests[i]
		prompts[i], outputs[i] = r.PromptTokens, r.OutputTokens
		if r.Session != "" {
			sessions[r.Session] = struct{}{}
		}
		if t.BlockTokens > 0 {
			s.Blocks += int64(blocksOf(r.PromptTokens, t.BlockTokens))
		}
		if r.Text != "" {
			s.Texts++
		}
	}
	tokens, blocks := t.seen()
	s.SeenBlocks = blocks
	for _, n := range tokens {
		s.SeenTokens += int64(n)
	}
	s.Prompt, s.Output, s.Sessions = summarise(prompts), summarise(outputs), len(sessions)
	return s
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
