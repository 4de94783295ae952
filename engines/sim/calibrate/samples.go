package calibrate

import (
	"fmt"
	"math"
)

// Samples are what an experiment measured. Prompts and contexts count in
// simulated tokens, answers in tokens of either, times in seconds.
type Samples struct {
	Prefills []Prefill `json:"prefills"`
	Decodes  []Decode  `json:"decodes"`
	Waves    []Wave    `json:"waves"`
	Mixed    []Mixed   `json:"mixed"`
	Repeats  []Repeat  `json:"repeats"`
	// Told is what the engine says about itself.
	Told Told `json:"told"`
}

// Prefill is one request that met an idle engine.
type Prefill struct {
	PromptTokens       int     `json:"prompt_tokens"`
	EnginePromptTokens int     `json:"engine_prompt_tokens"` // as usage reports it
	CachedTokens       int     `json:"cached_tokens"`        // simulated; 0 too where it is not reported
	TTFTSeconds        float64 `json:"ttft_seconds"`
}

// Decode is a time during which the same sequences were decoded together.
type Decode struct {
	Sequences       int     `json:"sequences"`
	ContextTokens   float64 `json:"context_tokens"`   // of one sequence, the mean
	IntervalSeconds float64 `json:"interval_seconds"` // between two tokens of one sequence: span ÷ tokens
}

// Wave is requests sent at one moment.
type Wave struct {
	Requests int `json:"requests"`
	// Overlap is the most that were between first and last token at a time.
	Overlap int `json:"overlap"`
	// Waited is how many had their first token after another's last one.
	Waited int `json:"waited"`
	// OutputTokens is how long each answer was.
	OutputTokens int `json:"output_tokens"`
}

// Mixed is a stream beside which a long prompt came in.
type Mixed struct {
	PromptTokens       int       `json:"prompt_tokens"`
	EnginePromptTokens int       `json:"engine_prompt_tokens"`
	IntervalSeconds    float64   `json:"interval_seconds"` // of the stream before: span ÷ tokens
	GapsSeconds        []float64 `json:"gaps_seconds"`     // of the stream while the prompt was computed
}

// Repeat is one prompt sent twice, one after the other.
type Repeat struct {
	PromptTokens int     `json:"prompt_tokens"`
	FirstSeconds float64 `json:"first_ttft_seconds"`
	AgainSeconds float64 `json:"again_ttft_seconds"`
	// CachedTokens is what usage said the second time, in the engine's
	// tokens; nil if it said nothing.
	CachedTokens *int `json:"cached_tokens"`
}

// Told is read from the engine's own routes, 0 where it says nothing, in the
// engine's tokens.
type Told struct {
	Model         string `json:"model"`
	MaxModelLen   int    `json:"max_model_len"`  // /v1/models of vLLM and SGLang; /props of llama.cpp, per slot
	Slots         int    `json:"slots"`          // /props of llama.cpp
	RefusedAbove  int    `json:"refused_above"`  // simulated: the longest prompt taken before one was refused
	SentAtMost    int    `json:"sent_at_most"`   // most requests at once
	LongestPrompt int    `json:"longest_prompt"` // simulated
}

// validate reports the first sample that cannot be.
func (s Samples) validate() error {
	positive := func(seconds float64) bool { return seconds > 0 && !math.IsInf(seconds, 1) }
	for i, p := range s.Prefills {
		if p.PromptTokens < 1 || p.EnginePromptTokens < 1 || p.CachedTokens < 0 || p.CachedTokens >= p.PromptTokens || !positive(p.TTFTSeconds) {
			return fmt.Errorf("%w: prefill %d: %+v; want 1 or more tokens, fewer of them cached, and a time above 0", ErrSample, i, p)
		}
	}
	for i, d := range s.Decodes {
		if d.Sequences < 1 || !(d.ContextTokens >= 0) || math.IsInf(d.ContextTokens, 1) || !positive(d.IntervalSeconds) {
			return fmt.Errorf("%w: decode %d: %+v; want 1 or more sequences, 0 or more tokens and a time above 0", ErrSample, i, d)
		}
	}
	for i, r := range s.Repeats {
		if r.PromptTokens < 1 || !positive(r.FirstSeconds) || !positive(r.AgainSeconds) || (r.CachedTokens != nil && *r.CachedTokens < 0) {
			return fmt.Errorf("%w: repeat %d: %+v; want 1 or more tokens and times above 0", ErrSample, i, r)
		}
	}
	return nil
}
