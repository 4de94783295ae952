package workload

import "time"

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
func (t *Trace) Stats() Stats { return Stats{Requests: len(t.Requests)} }
