package calibrate

import (
	"strconv"

	"github.com/llmgw/llmgw/engines/sim"
)

// Model is what could be told about an engine. Fields about prompts count in
// simulated tokens. A nil pointer is something that could not be told.
type Model struct {
	// Name is the model's.
	Name string `json:"name"`
	// TokenRatio is how many of the engine's tokens a simulated token of the
	// probe's prompts is.
	TokenRatio float64 `json:"token_ratio"`
	// Costs are the terms of sim.Timing, all of them.
	Costs []Cost `json:"costs"`
	// MaxNumSeqs is how many sequences run at once.
	MaxNumSeqs *int `json:"max_num_seqs"`
	// MaxNumBatchedTokens is the size of a prefill chunk.
	MaxNumBatchedTokens *int `json:"max_num_batched_tokens"`
	// MaxModelLen bounds prompt plus answer.
	MaxModelLen *int `json:"max_model_len"`
	// BlockSize is in what units prompts are cached, 1 where every token
	// counts.
	BlockSize *int `json:"block_size"`
	// NumGPUBlocks is the KV cache, in blocks.
	NumGPUBlocks *int `json:"num_gpu_blocks"`
	// PrefixCaching says whether a repeated prompt is computed once only.
	PrefixCaching *bool `json:"enable_prefix_caching"`
	// Unknown says, a sentence each, what could not be told and why.
	Unknown []string `json:"unknown"`
	// Warnings say, a sentence each, what to keep in mind about the rest.
	Warnings []string `json:"warnings"`
	// TTFT and Interval are how far the model is off the samples it was made
	// of, for requests that met an idle engine and for decoding.
	TTFT     Misfit `json:"ttft_misfit"`
	Interval Misfit `json:"interval_misfit"`
}

// Cost is one term of sim.Timing.
type Cost struct {
	// Key is its name in the configuration.
	Key string `json:"key"`
	// Seconds is what one unit costs: one iteration, sequence, prompt token,
	// pair, token read or request.
	Seconds float64 `json:"seconds"`
	// ErrorSeconds is the standard error of Seconds within the fit, as the
	// scatter of the samples gives it. What all samples contain, such as the
	// network or late timers, is part of Seconds and not of this. nil if the samples do not determine it. Seconds is
	// then 0, and the term is part of the others as far as it was measured.
	ErrorSeconds *float64 `json:"error_seconds"`
}

// Misfit is the distribution of |fitted ÷ measured − 1|.
type Misfit struct {
	Points      int     `json:"points"`
	MedianRatio float64 `json:"median_ratio"`
	WorstRatio  float64 `json:"worst_ratio"`
}

// The terms of sim.Timing in the order of the fit's columns.
const (
	termRequest = iota
	termStep
	termSequence
	termPrefill
	termAttention
	termRead
	terms
)

func termKeys() [terms]string {
	return [terms]string{"request", "step", "per_sequence", "prefill_tokens_per_second",
		"attention_pairs_per_second", "kv_read_tokens_per_second"}
}

// Apply returns cfg with what is known of the engine: the name, the costs, and
// those limits that could be told.
func (m *Model) Apply(cfg sim.Config) sim.Config {
	cfg.Model, cfg.Aliases = m.Name, nil
	cfg.Timing, cfg.Speed = m.Timing(), 1
	for to, from := range map[*int]*int{
		&cfg.MaxNumSeqs:          m.MaxNumSeqs,
		&cfg.MaxNumBatchedTokens: m.MaxNumBatchedTokens,
		&cfg.MaxModelLen:         m.MaxModelLen,
		&cfg.BlockSize:           m.BlockSize,
		&cfg.NumGPUBlocks:        m.NumGPUBlocks,
	} {
		if from != nil {
			*to = *from
		}
	}
	if m.PrefixCaching != nil {
		cfg.PrefixCaching = *m.PrefixCaching
	}
	return cfg
}

// Timing is Costs as the simulated engine takes them.
func (m *Model) Timing() sim.Timing {
	cost := map[string]float64{}
	for _, c := range m.Costs {
		cost[c.Key] = c.Seconds
	}
	rate := func(key string) float64 {
		if cost[key] == 0 {
			return 0
		}
		return significant(1 / cost[key])
	}
	return sim.Timing{
		Request:                 seconds(cost["request"]),
		Step:                    seconds(cost["step"]),
		PerSequence:             seconds(cost["per_sequence"]),
		PrefillTokensPerSecond:  rate("prefill_tokens_per_second"),
		AttentionPairsPerSecond: rate("attention_pairs_per_second"),
		KVReadTokensPerSecond:   rate("kv_read_tokens_per_second"),
	}
}

// significant rounds to four digits: no measurement is better.
func significant(v float64) float64 {
	r, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 4, 64), 64)
	if err != nil {
		return v // infinite
	}
	return r
}
