package server

import (
	"errors"
	"fmt"

	"github.com/llmgw/llmgw/auth/limit"
	"github.com/llmgw/llmgw/auth/limit/shared"
	"github.com/llmgw/llmgw/cmd/internal/storedsn"
	"github.com/llmgw/llmgw/storage"
)

// defaultDSN is where a store is that nobody named.
const defaultDSN storedsn.DSN = "sqlite:llmgw.db"

// Store is the section `store`.
type Store struct {
	// DSN names the store: sqlite: and the path of a file, which is made if it is
	// not there, or postgres://user:password@host:5432/database. Default
	// "sqlite:llmgw.db", relative to where the process runs. A password that stands
	// in LLMGW_STORE__DSN and not in the file is not copied with it; no log and no
	// print shows it. It is used while auth.enabled is true, by a control plane, where
	// another than the default is named, and by `llmgw keys` and its like.
	DSN storedsn.DSN `yaml:"dsn"`
}

// Limits is the section `limits`.
type Limits struct {
	Memory limit.Config  `yaml:",inline"`
	Shared shared.Config `yaml:",inline"`
	// AssumedOutputTokens is how long an answer is assumed to be where its request
	// does not bound it, for limits of tokens a minute. When it has ended its real
	// length counts. Default 1000; 1 to 1000000.
	AssumedOutputTokens int64 `yaml:"assumed_output_tokens"`
}

// Limiter is the configuration of the limiter that routers share.
func (l Limits) Limiter() shared.Config {
	c := l.Shared
	c.Memory = l.Memory
	return c
}

func (l Limits) validate() error {
	errs := []error{under("limits.", l.Limiter().Validate())}
	if l.AssumedOutputTokens < 1 || l.AssumedOutputTokens > 1_000_000 {
		errs = append(errs, fmt.Errorf("limits.assumed_output_tokens: %d is out of range; want 1 to 1000000, e.g. 1000", l.AssumedOutputTokens))
	}
	return errors.Join(errs...)
}

// OpenWarning says what it means that requests from other machines reach a server
// that asks nobody for a key; empty where they do not, or it asks.
func (c Config) OpenWarning() string {
	host, _, err := splitAddress(c.Listen)
	if c.Auth.Enabled || err == nil && isLoopback(host) {
		return ""
	}
	return fmt.Sprintf("auth.enabled: false and listen: %q let everybody who reaches this machine use every model; leave auth.enabled out, or listen on a loopback address", c.Listen)
}

// under puts text before each of joined errors.
func under(text string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, storedsn.ErrInvalid) || errors.Is(err, storage.ErrInvalid) {
		return fmt.Errorf("%s%w", text, err)
	}
	if j, ok := err.(interface{ Unwrap() []error }); ok { //nolint:errorlint // of this very error
		var errs []error
		for _, e := range j.Unwrap() {
			errs = append(errs, under(text, e))
		}
		return errors.Join(errs...)
	}
	return fmt.Errorf("%s%w", text, err)
}
