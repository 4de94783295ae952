package proxy

import (
	"errors"
	"fmt"
	"time"
)

// Timeouts are the five deadlines of an exchange. Each is a bound of its own,
// and the one that ends an exchange is named in the error.
type Timeouts struct {
	// Dial bounds opening a connection to an engine, TLS included. Default 5s;
	// must be positive.
	Dial time.Duration `yaml:"dial"`
	// ResponseHeader bounds the time from the request's last byte to the head
	// of the answer. Default 60s; must be positive. Engines send the head of an
	// answer that is not streamed when the whole answer is ready: a fleet with
	// long unstreamed answers wants more.
	ResponseHeader time.Duration `yaml:"response_header"`
	// FirstToken bounds the time from the request's last byte to the first
	// event with content. Default 120s; must be positive.
	FirstToken time.Duration `yaml:"first_token"`
	// Idle bounds the silence between two tokens of a stream; comments are not
	// tokens. Default 60s; must be positive.
	Idle time.Duration `yaml:"idle"`
	// Total bounds a request from its arrival to its last byte, whatever it
	// does. Default 30m; must be positive.
	Total time.Duration `yaml:"total"`
}

// Config is the relay's tunable data. Start from [DefaultConfig].
type Config struct {
	// Timeouts are the five deadlines.
	Timeouts Timeouts `yaml:"timeouts"`
	// PoolIdle is how long an unused engine connection is kept. Default 4s, below
	// the 5s after which vLLM closes one (its VLLM_HTTP_TIMEOUT_KEEP_ALIVE);
	// 0 keeps none; negative is an error.
	PoolIdle time.Duration `yaml:"pool_idle"`
	// PoolSize is how many unused connections are kept per engine. Default 2048;
	// 0 keeps none; negative is an error.
	PoolSize int `yaml:"pool_size"`
	// ClientWrite is how long a client may accept nothing of a running answer
	// before the exchange is given up. Default 60s; must be positive.
	ClientWrite time.Duration `yaml:"client_write"`
}

// DefaultConfig returns the defaults that the fields' comments state.
func DefaultConfig() Config {
	return Config{
		Timeouts: Timeouts{
			Dial:           5 * time.Second,
			ResponseHeader: time.Minute,
			FirstToken:     2 * time.Minute,
			Idle:           time.Minute,
			Total:          30 * time.Minute,
		},
		PoolIdle:    4 * time.Second,
		PoolSize:    2048,
		ClientWrite: time.Minute,
	}
}

// Validate reports every value that makes no sense, joined. Each error begins
// with the key's path.
func (c Config) Validate() error {
	var errs []error
	positive := func(path string, d time.Duration) {
		if d <= 0 {
			errs = append(errs, fmt.Errorf("%s: %v is not positive; want a duration such as 30s", path, d))
		}
	}
	positive("timeouts.dial", c.Timeouts.Dial)
	positive("timeouts.response_header", c.Timeouts.ResponseHeader)
	positive("timeouts.first_token", c.Timeouts.FirstToken)
	positive("timeouts.idle", c.Timeouts.Idle)
	positive("timeouts.total", c.Timeouts.Total)
	positive("client_write", c.ClientWrite)
	if c.PoolIdle < 0 {
		errs = append(errs, fmt.Errorf("pool_idle: %v is negative; want 0 (keep none) or a duration such as 4s", c.PoolIdle))
	}
	if c.PoolSize < 0 {
		errs = append(errs, fmt.Errorf("pool_size: %d is negative; want 0 (keep none) or more", c.PoolSize))
	}
	return errors.Join(errs...)
}
