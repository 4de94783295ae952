package sim

import (
	"errors"
	"fmt"
	"time"

	"github.com/llmgw/llmgw/engines/kvevents"
)

// Config describes one simulated engine. Start from [DefaultConfig] or
// [InstantConfig]. Names follow vLLM's own where it has one.
type Config struct {
	// Model is the first served name: answers and metrics carry it.
	// Default "sim-8b"; must not be empty.
	Model string `yaml:"model"`
	// Weights is what the log and the model cards say was loaded; nothing is
	// read. Default empty: model.
	Weights string `yaml:"weights"`
	// Aliases are further served names, each with a card in /v1/models.
	// Default none.
	Aliases []string `yaml:"aliases"`
	// MaxModelLen bounds prompt plus output, in tokens. Default 131072;
	// 1 or more, and it must fit in the KV cache.
	MaxModelLen int `yaml:"max_model_len"`
	// MaxNumSeqs bounds the sequences that run at once; the rest wait without
	// limit. Default 256; 1 or more.
	MaxNumSeqs int `yaml:"max_num_seqs"`
	// SchedulingPolicy says who is next: fcfs, first come first served, or
	// priority, where the request with the lower priority runs first and is
	// preempted last. With fcfs the priority of a request is ignored; vLLM
	// refuses it. Default fcfs.
	SchedulingPolicy string `yaml:"scheduling_policy"`
	// MaxNumBatchedTokens bounds the tokens that one batch iteration
	// computes; longer prompts are prefilled in chunks. Default 8192; at
	// least max_num_seqs, so that every running sequence advances.
	MaxNumBatchedTokens int `yaml:"max_num_batched_tokens"`
	// BlockSize is the KV block, in tokens. Default 16; 1 to 1024.
	BlockSize int `yaml:"block_size"`
	// NumGPUBlocks is the KV cache, in blocks. Default 25600: 50 GiB at
	// 128 KiB per token, what 16 GB of weights leave of 0.9 × 80 GB.
	NumGPUBlocks int `yaml:"num_gpu_blocks"`
	// PrefixCaching keeps blocks of finished sequences until their room is
	// needed. Default true.
	PrefixCaching bool `yaml:"enable_prefix_caching"`
	// KVEvents tells who asks what the prefix cache holds, vLLM's
	// --kv-events-config.
	KVEvents KVEvents `yaml:"kv_events"`
	// Timing is what computation costs. Default: an 8B model in bf16 on one
	// H100-class card.
	Timing Timing `yaml:"timing"`
	// Speed divides every duration of Timing: 10 makes the engine ten times
	// faster. Default 1; 1e-6 to 1e9. No iteration takes more than an hour.
	Speed float64 `yaml:"speed"`
	// Output is how long answers are when the request does not say.
	Output Output `yaml:"output"`
	// Seed makes answer lengths, texts and ids reproducible. Default 1; any.
	Seed uint64 `yaml:"seed"`
	// APIKey, if not empty, is asked for under /v1 and nowhere else, as vLLM
	// does. Default empty.
	APIKey string `yaml:"api_key"`
	// PromptTokensDetails reports cached tokens in usage, vLLM's
	// --enable-prompt-tokens-details. Default true.
	PromptTokensDetails bool `yaml:"enable_prompt_tokens_details"`
	// EmbeddingDimensions is the length of an embedding. Default 384; 1 to
	// 65536.
	EmbeddingDimensions int `yaml:"embedding_dimensions"`
	// LoadTime is how long [Engine.Load] takes, three quarters of it for weights.
	// Speed does not shorten it. Default 0; not negative.
	LoadTime time.Duration `yaml:"load_time"`
	// SleepMode opens /sleep, /wake_up and /is_sleeping, as vLLM's --enable-sleep-mode
	// does in its development mode. Default false.
	SleepMode bool `yaml:"enable_sleep_mode"`
	// WakeTime is how long an engine that sleeps takes to wake. Speed does not
	// shorten it. Default 0; not negative.
	WakeTime time.Duration `yaml:"wake_time"`
	// ShutdownTimeout is how long [Engine.Serve], told to end, lets answers go
	// on; then, or at once with 0, they are aborted. Default 0; not negative.
	ShutdownTimeout time.Duration `yaml:"shutdown_timeout"`
	// KeepAlive is how long [Engine.Serve] leaves an idle connection open.
	// Default 5s, as uvicorn under vLLM; more than 0.
	KeepAlive time.Duration `yaml:"keep_alive"`
	// Faults is what goes wrong from the start; [Engine.SetFaults] replaces
	// it at run time. Default none.
	Faults Faults `yaml:"faults"`
	// FaultControl lets clients cause faults: per request by the header
	// X-Sim-Faults, for the engine by PUT /sim/faults (see [ParseFaults]).
	// Default false.
	FaultControl bool `yaml:"fault_control"`
}

// Timing is the cost model of one batch iteration,
//
//	step + per_sequence × decoding sequences
//	     + prefill tokens ÷ prefill_tokens_per_second
//	     + attention pairs ÷ attention_pairs_per_second
//	     + KV tokens read by decoding ÷ kv_read_tokens_per_second
//
// plus request once per request before it is queued. A zero field costs
// nothing; the zero Timing answers at once.
type Timing struct {
	// Step is the fixed part: weights are read once, kernels launched.
	// Default 6.45ms: 16 GB at 74 % of 3.35 TB/s; measured 6.5 to 7.3 ms.
	Step time.Duration `yaml:"step"`
	// PerSequence is the fixed work of one decoding sequence. Default 55µs,
	// so that a step of about 100 sequences takes twice that of one.
	PerSequence time.Duration `yaml:"per_sequence"`
	// PrefillTokensPerSecond is the rate of prompt tokens apart from
	// attention. Default 30000 (8B on H100: 25,000 to 37,000).
	PrefillTokensPerSecond float64 `yaml:"prefill_tokens_per_second"`
	// AttentionPairsPerSecond is the rate of (prompt token, token before it)
	// pairs, which makes long prompts cost more than their length. Default
	// 8.5e8: 0.52 MFLOP a pair at 45 % of 989 TFLOPS.
	AttentionPairsPerSecond float64 `yaml:"attention_pairs_per_second"`
	// KVReadTokensPerSecond is how many cached tokens decoding reads.
	// Default 1.92e7: 128 KiB each at 75 % of 3.35 TB/s.
	KVReadTokensPerSecond float64 `yaml:"kv_read_tokens_per_second"`
	// Request is what a request costs outside the batch: HTTP, template,
	// tokenizer. Default 3ms.
	Request time.Duration `yaml:"request"`
}

// Output describes the lengths of answers, a log-normal distribution. It is
// read when a request neither sets ignore_eos nor reaches max_tokens first.
type Output struct {
	// MedianTokens is the middle of the lengths. Default 120; 1 or more.
	MedianTokens int `yaml:"median_tokens"`
	// Sigma is the spread, the standard deviation of the logarithm.
	// Default 0.8 (mean 165 tokens); 0 makes every answer as long; not
	// negative.
	Sigma float64 `yaml:"sigma"`
	// MaxTokens bounds the lengths. Default 2048; median_tokens or more.
	MaxTokens int `yaml:"max_tokens"`
}

// The values of Config.SchedulingPolicy.
const (
	PolicyFCFS     = "fcfs"
	PolicyPriority = "priority"
)

// DefaultConfig is an 8B model on one H100-class card.
func DefaultConfig() Config {
	return Config{
		Model:               "sim-8b",
		MaxModelLen:         131072,
		MaxNumSeqs:          256,
		SchedulingPolicy:    PolicyFCFS,
		MaxNumBatchedTokens: 8192,
		BlockSize:           16,
		NumGPUBlocks:        25600,
		PrefixCaching:       true,
		KVEvents: KVEvents{
			Endpoint:    "tcp://127.0.0.1:5557",
			Encoding:    kvevents.Map.String(),
			BufferSteps: 10000,
			HWM:         10000,
		},
		Timing: Timing{
			Step:                    6450 * time.Microsecond,
			PerSequence:             55 * time.Microsecond,
			PrefillTokensPerSecond:  30000,
			AttentionPairsPerSecond: 8.5e8,
			KVReadTokensPerSecond:   1.92e7,
			Request:                 3 * time.Millisecond,
		},
		Speed:               1,
		Output:              Output{MedianTokens: 120, Sigma: 0.8, MaxTokens: 2048},
		Seed:                1,
		PromptTokensDetails: true,
		EmbeddingDimensions: 384,
		KeepAlive:           5 * time.Second,
	}
}

// InstantConfig is DefaultConfig without any delay, for tests that look at
// bytes and not at times.
func InstantConfig() Config {
	cfg := DefaultConfig()
	cfg.Timing = Timing{}
	return cfg
}

// Validate reports every problem, joined, each beginning with its key.
func (c Config) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	atLeast := func(key string, v, low int) {
		if v < low {
			bad("%s: %d is too small; want %d or more", key, v, low)
		}
	}
	if c.Model == "" {
		bad(`model: "" is empty; want a name, e.g. sim-8b`)
	}
	for i, a := range c.Aliases {
		if a == "" {
			bad(`aliases[%d]: "" is empty; want a name`, i)
		}
	}
	atLeast("max_model_len", c.MaxModelLen, 1)
	atLeast("max_num_seqs", c.MaxNumSeqs, 1)
	atLeast("max_num_batched_tokens", c.MaxNumBatchedTokens, max(c.MaxNumSeqs, 1))
	if c.BlockSize < 1 || c.BlockSize > 1024 {
		bad("block_size: %d is out of range; want 1 to 1024", c.BlockSize)
	} else if need := (c.MaxModelLen + c.BlockSize - 1) / c.BlockSize; c.NumGPUBlocks < need {
		bad("num_gpu_blocks: %d holds less than one request of max_model_len %d; want %d or more",
			c.NumGPUBlocks, c.MaxModelLen, need)
	}
	if c.NumGPUBlocks > 1<<30 {
		bad("num_gpu_blocks: %d is too many; want at most %d", c.NumGPUBlocks, 1<<30)
	}
	if !(c.Speed >= 1e-6 && c.Speed <= 1e9) {
		bad("speed: %v is out of range; want 1e-6 to 1e9, e.g. 1", c.Speed)
	}
	if c.EmbeddingDimensions < 1 || c.EmbeddingDimensions > 65536 {
		bad("embedding_dimensions: %d is out of range; want 1 to 65536", c.EmbeddingDimensions)
	}
	if c.SchedulingPolicy != PolicyFCFS && c.SchedulingPolicy != PolicyPriority {
		bad("scheduling_policy: %q is unknown; want %s or %s", c.SchedulingPolicy, PolicyFCFS, PolicyPriority)
	}
	if c.LoadTime < 0 {
		bad("load_time: %v is negative; want 0 or more", c.LoadTime)
	}
	if c.WakeTime < 0 {
		bad("wake_time: %v is negative; want 0 or more", c.WakeTime)
	}
	if c.ShutdownTimeout < 0 {
		bad("shutdown_timeout: %v is negative; want 0 or more", c.ShutdownTimeout)
	}
	if c.KeepAlive <= 0 {
		bad("keep_alive: %v is not positive; want e.g. 5s", c.KeepAlive)
	}
	errs = append(errs, c.KVEvents.validate(), c.Timing.validate(), c.Output.validate(), c.Faults.validate())
	return errors.Join(errs...)
}

func (t Timing) validate() error {
	var errs []error
	for _, d := range []struct {
		key string
		v   time.Duration
	}{{"step", t.Step}, {"per_sequence", t.PerSequence}, {"request", t.Request}} {
		if d.v < 0 {
			errs = append(errs, fmt.Errorf("timing.%s: %v is negative; want 0 or more", d.key, d.v))
		}
	}
	for _, r := range []struct {
		key string
		v   float64
	}{
		{"prefill_tokens_per_second", t.PrefillTokensPerSecond},
		{"attention_pairs_per_second", t.AttentionPairsPerSecond},
		{"kv_read_tokens_per_second", t.KVReadTokensPerSecond},
	} {
		if !(r.v >= 0) {
			errs = append(errs, fmt.Errorf("timing.%s: %v is negative; want 0 (costs nothing) or more", r.key, r.v))
		}
	}
	return errors.Join(errs...)
}

func (o Output) validate() error {
	var errs []error
	if o.MedianTokens < 1 {
		errs = append(errs, fmt.Errorf("output.median_tokens: %d is too small; want 1 or more", o.MedianTokens))
	}
	if !(o.Sigma >= 0) || o.Sigma > 10 {
		errs = append(errs, fmt.Errorf("output.sigma: %v is out of range; want 0 to 10", o.Sigma))
	}
	if o.MaxTokens < o.MedianTokens {
		errs = append(errs, fmt.Errorf("output.max_tokens: %d is less than median_tokens %d; want that or more",
			o.MaxTokens, o.MedianTokens))
	}
	return errors.Join(errs...)
}
