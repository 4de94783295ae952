package router

import (
	"errors"
	"fmt"
	"net/textproto"
	"os"
	"strings"
	"time"
)

// Config is the router's tunable data. Start from [DefaultConfig].
type Config struct {
	// Retries is how many further endpoints a request may be sent to after one
	// failed, as long as nothing has reached the client; it holds for the model
	// and for each of its fallbacks. Default 2; 0 tries one endpoint only;
	// negative is an error.
	Retries int `yaml:"retries"`
	// RetryBudgetRatio bounds retries over the whole router: the share of the
	// requests of the last 10 seconds that may be sent a further time, so that a
	// sick fleet is not hit harder than a healthy one. Default 0.2; in [0,1].
	RetryBudgetRatio float64 `yaml:"retry_budget_ratio"`
	// RetryBudgetMin is how many retries in 10 seconds are allowed however few
	// the requests. Default 20; negative is an error.
	RetryBudgetMin int `yaml:"retry_budget_min"`
	// DefaultProfile is the routing profile of models that name none. Default
	// "chat"; it must be one that the scheduler has.
	DefaultProfile string `yaml:"default_profile"`
	// SessionHeader is the header whose value keeps a session at its endpoint;
	// without it the body's "user" does. Default "x-session-id"; empty uses the
	// body only.
	SessionHeader string `yaml:"session_header"`
	// ExplainToLoopback tells requests from this machine's loopback addresses that
	// have the header "x-llmgw-explain: 1", by the answer's header of that name, how
	// their endpoint was chosen: endpoints' names, votes, weights. Default false,
	// since behind a proxy on this machine everybody's requests come from there. It
	// has no meaning where callers are identified: then their identity says it.
	ExplainToLoopback bool `yaml:"explain_to_loopback"`
	// InjectUsage asks engines for usage on streams whose client did not, and
	// cuts it out of the answer again. Default true.
	InjectUsage bool `yaml:"inject_usage"`
	// InjectContinuousUsage asks engines that can (vLLM) for usage with each
	// piece of a stream too, and cuts it out again, so that what a stream came to
	// is known when its client leaves. It is asked for requests that are accounted
	// to a key. Default true; without inject_usage it does nothing.
	InjectContinuousUsage bool `yaml:"inject_continuous_usage"`
	// MaxBodyBytes is the longest request body, decoded. Default 33554432
	// (32 MiB); must be positive and at most 1 TiB.
	MaxBodyBytes int64 `yaml:"max_body_bytes"`
	// BodyMemoryBytes bounds the sum of the request bodies held at a time; beyond
	// it requests get 503 before they are read. Default 0, which means a quarter
	// of the process's soft memory limit; negative is an error. llmgw server sets
	// that limit to 75 % of the container's or machine's memory unless GOMEMLIMIT
	// is set. In a program without such a limit 0 means 1 GiB.
	BodyMemoryBytes int64 `yaml:"body_memory"`
	// MaxFormBytes is the longest multipart/form-data body, decoded: a sound or
	// image with its fields. Default 104857600 (100 MiB), room for four of the
	// longest files that OpenAI takes (25 MB); must be positive and at most
	// 1 TiB. It holds in place of max_body_bytes on /v1/audio/transcriptions,
	// /v1/audio/translations, /v1/images/edits and /v1/images/variations.
	MaxFormBytes int64 `yaml:"max_form_bytes"`
	// SpoolDir is the directory for forms longer than 1 MiB, until their answer
	// has begun. Default "", the system's directory for temporary files; name
	// another where that is in memory. Files in it have no name and vanish with
	// the process.
	SpoolDir string `yaml:"spool_dir"`
	// SpoolBytes bounds the sum of the forms in files at a time; beyond it
	// requests get 503. Default 4294967296 (4 GiB); must be at least
	// max_form_bytes.
	SpoolBytes int64 `yaml:"spool_bytes"`
	// ResponsePins is for how many stored answers of /v1/responses the router
	// remembers which endpoint has them, so that previous_response_id and
	// /v1/responses/{id} get there; who was not asked for longest is forgotten
	// first. Default 100000, 24 MB when they are all in use; 0 remembers
	// none; negative, or more than 10000000, is an error.
	ResponsePins int `yaml:"response_pins"`
	// ResponsePinTTL is how long after its last use a stored answer's endpoint
	// is remembered. Default 24h; must be positive.
	ResponsePinTTL time.Duration `yaml:"response_pin_ttl"`
	// BodyTimeout is how long a client may take to send a request's body.
	// Default 60s; must be positive.
	BodyTimeout time.Duration `yaml:"body_timeout"`
	// BandHeader is the header with the band that a client asks for, which the
	// hook Admitter is told of and engines do not get. Default "", none; or a
	// header's name. Who sets up admission sets it.
	BandHeader string `yaml:"-"`
	// Total bounds a request from its arrival to its last byte. It is
	// timeouts.total of the relay, set from there.
	Total time.Duration `yaml:"-"`
}

// DefaultConfig returns the defaults that the fields' comments state.
func DefaultConfig() Config {
	return Config{
		Retries:               2,
		RetryBudgetRatio:      0.2,
		RetryBudgetMin:        20,
		DefaultProfile:        "chat",
		SessionHeader:         "x-session-id",
		InjectUsage:           true,
		InjectContinuousUsage: true,
		MaxBodyBytes:          32 << 20,
		MaxFormBytes:          100 << 20,
		SpoolBytes:            4 << 30,
		ResponsePins:          100_000,
		ResponsePinTTL:        24 * time.Hour,
		BodyTimeout:           time.Minute,
		Total:                 30 * time.Minute,
	}
}

// Validate reports every value that makes no sense, joined. Each error begins
// with the key's path.
func (c Config) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Retries < 0 {
		bad("retries: %d is negative; want 0 (one endpoint only) or more", c.Retries)
	}
	if !(c.RetryBudgetRatio >= 0 && c.RetryBudgetRatio <= 1) {
		bad("retry_budget_ratio: %v is not in [0,1]; want a share such as 0.2", c.RetryBudgetRatio)
	}
	if c.RetryBudgetMin < 0 {
		bad("retry_budget_min: %d is negative; want 0 or more", c.RetryBudgetMin)
	}
	if c.DefaultProfile == "" {
		bad("default_profile: %q is empty; want a routing profile such as chat", c.DefaultProfile)
	}
	if c.SessionHeader != "" && !validHeaderName(c.SessionHeader) {
		bad("session_header: %q is no header name; want one such as x-session-id", c.SessionHeader)
	}
	if ownHeader(c.BandHeader) {
		bad("band_header: %q has a meaning of its own and would not reach engines; want one such as x-llmgw-band", c.BandHeader)
	}
	if c.BandHeader != "" && !validHeaderName(c.BandHeader) {
		bad("band_header: %q is no header name; want one such as x-llmgw-band", c.BandHeader)
	}
	if c.MaxBodyBytes <= 0 || c.MaxBodyBytes > 1<<40 {
		bad("max_body_bytes: %d is out of range; want a number of bytes from 1 to 1 TiB, such as 33554432", c.MaxBodyBytes)
	}
	if c.BodyMemoryBytes < 0 {
		bad("body_memory: %d is negative; want 0 (a quarter of the memory limit) or a number of bytes", c.BodyMemoryBytes)
	} else if c.BodyMemoryBytes > 0 && c.BodyMemoryBytes < c.MaxBodyBytes {
		bad("body_memory: %d is less than max_body_bytes (%d), so the longest body could never be read; want at least that",
			c.BodyMemoryBytes, c.MaxBodyBytes)
	}
	if c.MaxFormBytes <= 0 || c.MaxFormBytes > 1<<40 {
		bad("max_form_bytes: %d is out of range; want a number of bytes from 1 to 1 TiB, such as 104857600", c.MaxFormBytes)
	}
	if c.SpoolBytes < c.MaxFormBytes {
		bad("spool_bytes: %d is less than max_form_bytes (%d), so the longest form could never be read; want at least that",
			c.SpoolBytes, c.MaxFormBytes)
	}
	if c.ResponsePins < 0 {
		bad("response_pins: %d is negative; want 0 (remember none) or more", c.ResponsePins)
	}
	if c.ResponsePins > maxPins {
		bad("response_pins: %d is too many, at some 240 bytes each; want at most %d", c.ResponsePins, maxPins)
	}
	if c.ResponsePinTTL <= 0 {
		bad("response_pin_ttl: %v is not positive; want a duration such as 24h", c.ResponsePinTTL)
	}
	if c.BodyTimeout <= 0 {
		bad("body_timeout: %v is not positive; want a duration such as 60s", c.BodyTimeout)
	}
	if c.Total <= 0 {
		bad("timeouts.total: %v is not positive; want a duration such as 30m", c.Total)
	}
	return errors.Join(errs...)
}

// maxPins bounds Config.ResponsePins, at 2.4 GB.
const maxPins = 10_000_000

// CheckSpoolDir looks whether SpoolDir is there, which Validate does not: New
// refuses one that is not. An error begins with the key's path. That it cannot be
// written to, or is full, is seen only when a form comes.
func (c Config) CheckSpoolDir() error {
	if c.SpoolDir == "" {
		return nil
	}
	info, err := os.Stat(c.SpoolDir)
	if err == nil && !info.IsDir() {
		err = errors.New("it is no directory")
	}
	if err != nil {
		return fmt.Errorf("spool_dir: %q cannot be used: %w; want a directory that exists", c.SpoolDir, err)
	}
	return nil
}

// ownHeader reports whether the name is that of a header which HTTP or engines need,
// so that taking it out of a request breaks that.
func ownHeader(name string) bool {
	switch strings.ToLower(name) {
	case "host", "content-type", "content-length", "content-encoding", "transfer-encoding", "connection", "te", "trailer", "upgrade",
		"accept", "accept-encoding", "authorization", "cookie", "expect", "x-api-key", "x-request-id":
		return true
	}
	return false
}

func validHeaderName(s string) bool {
	if len(s) > 128 {
		return false
	}
	for _, c := range []byte(s) {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_') {
			return false
		}
	}
	return textproto.CanonicalMIMEHeaderKey(s) != ""
}
