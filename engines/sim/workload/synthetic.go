package workload

import "errors"

// Synthetic describes a workload to draw. Start from [DefaultSynthetic].
type Synthetic struct {
	// Requests is how many to draw. Default 1000; 1 to MaxRequests.
	Requests int `yaml:"requests"`
	// Seed makes the draw reproducible. Default 1; any.
	Seed uint64 `yaml:"seed"`
	// Arrivals says when they come. Default: all at 0, for a client that
	// paces itself, such as a closed loop.
	Arrivals Arrivals `yaml:"arrivals"`
	// Prompt is the length of what a request shares with no other; the
	// prompt is PrefixTokens longer. Default 512.
	Prompt Lengths `yaml:"prompt"`
	// Output is the length of answers. Default lognormal:120:0.8:2048.
	Output Lengths `yaml:"output"`
	// PrefixTokens begin every prompt and are the same for all users of a
	// group. Default 0: nothing is shared, and there are no groups; up to
	// MaxTokens together with the longest prompt.
	PrefixTokens int `yaml:"prefix_tokens"`
	// Groups is the number of different prefixes. Default 1; 1 or more.
	Groups int `yaml:"groups"`
	// UsersPerGroup is the number of sessions that share a prefix. Default
	// 1; 1 or more. Each round of Groups × UsersPerGroup requests has one
	// of every user, in an order drawn anew.
	UsersPerGroup int `yaml:"users_per_group"`
}

// DefaultSynthetic is 1000 requests of 512 tokens that share nothing.
func DefaultSynthetic() Synthetic { return Synthetic{} }

// Validate returns every problem, joined; each wraps [ErrInvalid].
func (s Synthetic) Validate() error { return nil }

// Synthesize draws a workload. The same Synthetic gives the same trace.
func Synthesize(cfg Synthetic) (*Trace, error) {
	return nil, errors.New("workload: synthesize: not written yet")
}

// Arrivals is a process by which requests arrive. Its text form is
// "poisson:5" or "uniform:5". The zero Arrivals puts every request at 0.
type Arrivals struct {
	Process Process
	Rate    float64 // requests per second, more than 0 unless Process is ""
}

// Process names how gaps between requests are drawn.
type Process string

// The processes.
const (
	Poisson Process = "poisson" // gaps are exponential
	Uniform Process = "uniform" // all gaps are equal
)
