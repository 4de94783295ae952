package prefix

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// ChunkBytes is the resolution of the approximate index: prompts are compared
// in chunks of so many bytes. It is about the 16 tokens that most engines have
// in a block.
const ChunkBytes = 64

// Config is the tunable data of an [Index]. Start from DefaultConfig.
type Config struct {
	// MaxBytes bounds the memory of the index. A token that some endpoint holds
	// takes about 0.6 bytes where no prompt shares it. Default 268435456 (256 MiB);
	// at least 1048576. Beyond it what was longest not used is forgotten.
	MaxBytes int64 `yaml:"max_bytes"`
	// MaxEndpoints bounds the endpoints. Default 4096; 1 to 65536. Those beyond it
	// work without.
	MaxEndpoints int `yaml:"max_endpoints"`
	// CapacityTokens is how many tokens an endpoint is taken to hold until its
	// metrics page has told its capacity, or answers have shown it. Default 1000000; at least 1000. Too low forgets
	// what an engine still has, too high believes in what is gone, until answers
	// with cached tokens have set it right.
	CapacityTokens int64 `yaml:"capacity_tokens"`
	// BytesPerToken is how many bytes of a prompt's text a token is taken to have
	// until answers of the model have said it. Default 4; 0.25 to 64.
	BytesPerToken float64 `yaml:"bytes_per_token"`
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		MaxBytes:       256 << 20,
		MaxEndpoints:   4096,
		CapacityTokens: 1_000_000,
		BytesPerToken:  4,
	}
}

// Validate returns every problem of c, joined, each with the field's key.
func (c Config) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.MaxBytes < 1<<20 {
		bad("max_bytes: %d is too small; want at least 1048576 (1 MiB)", c.MaxBytes)
	}
	if c.MaxEndpoints < 1 || c.MaxEndpoints > maxEndpoints {
		bad("max_endpoints: %d is out of range; want 1 to %d", c.MaxEndpoints, maxEndpoints)
	}
	if c.CapacityTokens < minCapacityTokens || c.CapacityTokens > maxCapacityTokens {
		bad("capacity_tokens: %d is out of range; want %d to %d", c.CapacityTokens, minCapacityTokens, int64(maxCapacityTokens))
	}
	if !(c.BytesPerToken >= minBytesPerToken && c.BytesPerToken <= maxBytesPerToken) {
		bad("bytes_per_token: %v is out of range; want %v to %v", c.BytesPerToken, minBytesPerToken, maxBytesPerToken)
	}
	return errors.Join(errs...)
}

// Bounds of what can be configured, told or learned.
const (
	maxEndpoints      = 1 << 16
	minCapacityTokens = 1000
	maxCapacityTokens = 1 << 40
	minBytesPerToken  = 0.25
	maxBytesPerToken  = 64.0
)

// Deps are the collaborators of an [Index] and an [Exact].
type Deps struct {
	Registerer prometheus.Registerer // nil leaves metrics unregistered
}
