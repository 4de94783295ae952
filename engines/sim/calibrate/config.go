package calibrate

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// API is the route that is measured.
type API string

// The APIs that can be measured.
const (
	Chat        API = "chat"        // POST /v1/chat/completions
	Completions API = "completions" // POST /v1/completions
)

// Config says what to measure and how long. Start from [DefaultConfig].
type Config struct {
	// URL is the engine's address, with or without /v1 at its end. No
	// default; http or https.
	URL string
	// Model is the name to ask for. Default "", the only one that /v1/models
	// lists; several are an error that names them.
	Model string
	// APIKey is sent as a bearer token if not empty. Default empty.
	APIKey string
	// API is the route. Default Chat.
	API API
	// Budget bounds the whole run. What it leaves no time for is not
	// measured, and the report says so. Default 2m; at least 1s.
	Budget time.Duration
	// RequestTimeout bounds one request; a slower engine is an error.
	// Default 1m; more than 0.
	RequestTimeout time.Duration
	// MaxConcurrency bounds the requests sent at once. An engine that runs as
	// many keeps its number of sequences to itself. Default 64; 1 to 1024.
	MaxConcurrency int
	// MaxPromptTokens bounds the prompts, in simulated tokens; an engine that
	// refuses shorter ones is not asked again. Default 8192; 64 or more.
	MaxPromptTokens int
	// Repeats is how often each point is measured; its median counts.
	// Default 5; 1 or more.
	Repeats int
	// ToleranceRatio is how far off the model may be, by the medians of the fit
	// and of the check, before the report calls it poor. Default 0.25; more
	// than 0, and finite.
	ToleranceRatio float64
	// Words are what prompts are made of, at random. Default none: the text
	// that package workload makes, common English words, each one simulated
	// token. At least 16 if given.
	Words []string
	// Seed makes the prompts reproducible. Default 0, at random: a second run
	// must not find the prompts of the first in the engine's cache.
	Seed uint64
}

// DefaultConfig lacks the URL only.
func DefaultConfig() Config {
	return Config{
		API:             Chat,
		Budget:          2 * time.Minute,
		RequestTimeout:  time.Minute,
		MaxConcurrency:  64,
		MaxPromptTokens: 8192,
		Repeats:         5,
		ToleranceRatio:  0.25,
	}
}

// Validate reports every problem, joined, each beginning with the field.
func (c Config) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	u, err := url.Parse(c.URL)
	switch {
	case c.URL == "":
		bad(`URL: "" is empty; want the engine's address, e.g. http://127.0.0.1:8000`)
	case err != nil:
		bad("URL: %w", err)
	case (u.Scheme != "http" && u.Scheme != "https") || u.Host == "":
		bad("URL: %q is no http address; want e.g. http://127.0.0.1:8000", c.URL)
	}
	if c.API != Chat && c.API != Completions {
		bad("API: %q is unknown; want %s or %s", c.API, Chat, Completions)
	}
	if c.Budget < time.Second {
		bad("Budget: %v is too short; want 1s or more, 2m measures everything", c.Budget)
	}
	if c.RequestTimeout <= 0 {
		bad("RequestTimeout: %v is not positive; want e.g. 1m", c.RequestTimeout)
	}
	if c.MaxConcurrency < 1 || c.MaxConcurrency > 1024 {
		bad("MaxConcurrency: %d is out of range; want 1 to 1024", c.MaxConcurrency)
	}
	if c.MaxPromptTokens < 64 || c.MaxPromptTokens > 1<<20 {
		bad("MaxPromptTokens: %d is out of range; want 64 to %d", c.MaxPromptTokens, 1<<20)
	}
	if c.Repeats < 1 {
		bad("Repeats: %d is too small; want 1 or more", c.Repeats)
	}
	if !(c.ToleranceRatio > 0) || math.IsInf(c.ToleranceRatio, 1) {
		bad("ToleranceRatio: %v is no positive number; want e.g. 0.25", c.ToleranceRatio)
	}
	if len(c.Words) > 0 && len(c.Words) < minWords {
		bad("Words: %d are too few to make prompts that differ; want %d or more", len(c.Words), minWords)
	}
	return errors.Join(errs...)
}

// Deps are what a run works with.
type Deps struct {
	Client   *http.Client      // nil: one of its own, without proxies' compression
	Logger   *slog.Logger      // nil discards
	Progress func(step string) // called before each step, by Run's goroutine; nil: nobody listens
}

// base is URL without a trailing slash or /v1.
func (c Config) base() string {
	return strings.TrimSuffix(strings.TrimRight(c.URL, "/"), "/v1")
}
