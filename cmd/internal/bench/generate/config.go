package generate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// API is which of the target's APIs is called.
type API string

// The APIs.
const (
	Chat        API = "chat"        // /v1/chat/completions
	Completions API = "completions" // /v1/completions: no chat template, so prompts have exactly the tokens meant
)

func (a API) path() string {
	if a == Completions {
		return "/completions"
	}
	return "/chat/completions"
}

// maxAtOnce bounds the requests under way. A client address has no more
// connections to one target.
const maxAtOnce = 1 << 16

// Config is one load. Start from [DefaultConfig].
type Config struct {
	// URL is the target: the base URL that OpenAI's SDKs take, as
	// http://127.0.0.1:8080/v1. Without a path /v1 is added. Required.
	URL string
	// Model is the name to ask for. Default "": the one that the target lists
	// at /models, an error if it lists several.
	Model string
	// API is called. Default Chat.
	API API
	// APIKey is sent as a bearer token; "" sends none. Default "".
	APIKey string
	// Header is sent with every request. Default none; names and values as
	// [CheckHeader] wants them.
	Header http.Header
	// Extra is a JSON object with further members of each request, as
	// {"temperature": 0}. Default "": none.
	Extra string
	// Stream asks for server-sent events. Default true; false measures no TTFT
	// and no gaps.
	Stream bool
	// IncludeUsage asks streams for their usage by stream_options. Default
	// true; false for a target that refuses the field.
	IncludeUsage bool
	// ExactLength sends ignore_eos with max_tokens, so that answers have the
	// lengths of the workload, and takes any other length for a failure.
	// Default true; false for a target that refuses the field: answers then end
	// where the model likes, at the latest at the workload's length.
	ExactLength bool
	// MaxTokens bounds the workload's answers, in tokens. Default 0: no bound;
	// not negative.
	MaxTokens int

	// Concurrency makes a closed loop: so many callers, each sending its next
	// request when the last is answered. Default 0: an open loop, which sends
	// at the workload's times; 0 to 65536.
	Concurrency int
	// MaxOutstanding bounds the open loop's unanswered requests; one that is
	// due beyond that waits, which shows as lag. Default 4096; 1 to 65536.
	MaxOutstanding int
	// Duration is for how long requests are sent; those under way are waited
	// for. Default 0: until the workload is through; not negative.
	Duration time.Duration
	// Warmup comes first: requests due in it (closed loop: sent in it) are not
	// in the figures. Default 0; not negative, and less than Duration.
	Warmup time.Duration
	// Timeout bounds one request from dialling to its answer's end. Default
	// 10m; more than 0.
	Timeout time.Duration
	// SLO is what goodput asks of a request. Default: nothing, and no goodput.
	SLO SLO
	// CancelRatio is the share of streams that are left in the middle on
	// purpose. Default 0; 0 to 1.
	CancelRatio float64
	// Seed decides the words of the prompts and which streams are left. The
	// same seed sends the same prompts, of which the target may have some in a
	// cache from the last run; take another for each run that is not to be
	// served from there. Default 1; any.
	Seed uint64
}

// DefaultConfig streams chat completions at the workload's times. URL is
// missing.
func DefaultConfig() Config {
	return Config{
		API: Chat, Stream: true, IncludeUsage: true, ExactLength: true,
		MaxOutstanding: 4096, Timeout: 10 * time.Minute, Seed: 1,
	}
}

// Validate reports every problem, joined.
func (c Config) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if _, err := baseURL(c.URL); err != nil {
		errs = append(errs, err)
	}
	if c.API != Chat && c.API != Completions {
		bad("API: %q is unknown; want %s or %s", c.API, Chat, Completions)
	}
	if err := checkExtra(c.Extra); err != nil {
		errs = append(errs, err)
	}
	for name, values := range c.Header {
		for _, value := range values {
			if err := CheckHeader(name, value); err != nil {
				errs = append(errs, err)
			}
		}
	}
	if c.MaxTokens < 0 {
		bad("max tokens: %d is negative; want 0 or more", c.MaxTokens)
	}
	for _, d := range []struct {
		name string
		v    time.Duration
	}{{"duration", c.Duration}, {"warm-up", c.Warmup}, {"TTFT", c.SLO.TTFT}, {"TPOT", c.SLO.TPOT}, {"ITL", c.SLO.ITL}, {"E2E", c.SLO.E2E}} {
		if d.v < 0 {
			bad("%s: %v is negative; want 0 or more", d.name, d.v)
		}
	}
	if c.Duration > 0 && c.Warmup >= c.Duration {
		bad("warm-up: %v leaves nothing of the duration %v; want less", c.Warmup, c.Duration)
	}
	if c.Timeout <= 0 {
		bad("timeout: %v is not positive; want e.g. 10m", c.Timeout)
	}
	if c.MaxOutstanding < 1 || c.MaxOutstanding > maxAtOnce {
		bad("max outstanding: %d is out of range; want 1 to %d", c.MaxOutstanding, maxAtOnce)
	}
	if c.Concurrency < 0 || c.Concurrency > maxAtOnce {
		bad("concurrency: %d is out of range; want 0 (an open loop) to %d", c.Concurrency, maxAtOnce)
	}
	if !(c.CancelRatio >= 0 && c.CancelRatio <= 1) {
		bad("cancel ratio: %v is out of range; want 0 to 1", c.CancelRatio)
	}
	if c.CancelRatio > 0 && !c.Stream {
		bad("cancel ratio: only a stream can be left in the middle; want 0 without streams")
	}
	if !c.Stream && (c.SLO.TTFT > 0 || c.SLO.TPOT > 0 || c.SLO.ITL > 0) {
		bad("SLO: ttft, tpot and itl are measured in streams only; without them e2e is what can be asked for")
	}
	return errors.Join(errs...)
}

// baseURL brings a target into the form that paths are appended to.
func baseURL(text string) (string, error) {
	if text == "" {
		return "", errors.New("URL: none; want the target's base URL, e.g. http://127.0.0.1:8080/v1")
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return "", fmt.Errorf("URL: %q is none of http or https with a host; want e.g. http://127.0.0.1:8080/v1", text)
	case u.User != nil:
		return "", errors.New("URL: it has a user or password, which would be shown; want an API key from a file or variable")
	case u.RawQuery != "" || u.Fragment != "":
		return "", fmt.Errorf("URL: %q has a query or fragment; want the base alone, e.g. http://127.0.0.1:8080/v1", text)
	}
	path := strings.TrimRight(u.Path, "/")
	for _, end := range []string{"/completions", "/models", "/embeddings", "/responses", "/messages"} {
		if strings.HasSuffix(path, end) {
			return "", fmt.Errorf("URL: %q has the path of a request; want the base before it, e.g. http://127.0.0.1:8080/v1", text)
		}
	}
	if path == "" {
		path = "/v1"
	}
	u.Path, u.RawPath = path, ""
	return u.String(), nil
}

// CheckHeader refuses a header that HTTP cannot carry: a name that is no token
// (RFC 9110, 5.6.2), or a value with control characters.
func CheckHeader(name, value string) error {
	letter := func(c rune) bool {
		return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.ContainsRune("!#$%&'*+-.^_`|~", c)
	}
	if name == "" || strings.ContainsFunc(name, func(c rune) bool { return !letter(c) }) {
		return fmt.Errorf("header: the name %q is none; want letters, digits and hyphens", name)
	}
	if strings.ContainsFunc(value, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }) {
		return fmt.Errorf("header: the value of %s has a line break or another control character; want none", name)
	}
	return nil
}

// checkExtra refuses members that are the generator's own.
func checkExtra(text string) error {
	if text == "" {
		return nil
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &members); err != nil || members == nil {
		return fmt.Errorf("extra: %s is no JSON object; want e.g. {\"temperature\": 0}", excerpt([]byte(text)))
	}
	for _, own := range []string{"model", "messages", "prompt", "stream", "stream_options", "max_tokens", "ignore_eos", "user"} {
		if _, ok := members[own]; ok {
			return fmt.Errorf("extra: %q is set by the generator; leave it out", own)
		}
	}
	return nil
}

// extraMembers is Extra without its braces, "" if it has no member.
func extraMembers(text string) string {
	var compact bytes.Buffer
	if json.Compact(&compact, []byte(text)) != nil || compact.Len() < 2 {
		return ""
	}
	return compact.String()[1 : compact.Len()-1]
}
