package generate

import (
	"encoding/json"
	"strconv"

	"github.com/llmgw/llmgw/engines/sim/workload"
)

// bodies builds the bodies of requests. It is immutable and may be used
// concurrently.
type bodies struct {
	api      API
	prompts  *workload.Prompter
	tail     string // the members behind the prompt, but for max_tokens and user
	maxToken int
}

// newBodies prepares what all requests have in common.
func newBodies(cfg Config, model string, prompts *workload.Prompter) *bodies {
	tail := `,"model":` + quote(model)
	if cfg.Stream {
		tail += `,"stream":true`
		if cfg.IncludeUsage {
			tail += `,"stream_options":{"include_usage":true}`
		}
	}
	if cfg.ExactLength {
		tail += `,"ignore_eos":true`
	}
	if extra := extraMembers(cfg.Extra); extra != "" {
		tail += "," + extra
	}
	return &bodies{api: cfg.API, prompts: prompts, tail: tail, maxToken: cfg.MaxTokens}
}

// tokens is how many output tokens are asked for.
func (b *bodies) tokens(r *workload.Request) int {
	if b.maxToken > 0 {
		return min(r.OutputTokens, b.maxToken)
	}
	return r.OutputTokens
}

// maxBytes is about how long the body of r can get.
func (b *bodies) maxBytes(r *workload.Request) int {
	return b.prompts.MaxBytes(r) + len(b.tail) + len(r.Session) + 128
}

// build appends the body of r to dst. The members stand in the order of the
// Python SDK: the model behind the messages.
func (b *bodies) build(dst []byte, r *workload.Request) []byte {
	if b.api == Completions {
		dst = append(dst, `{"prompt":`...)
		dst = b.prompt(dst, r)
	} else {
		dst = append(dst, `{"messages":[{"role":"user","content":`...)
		dst = b.prompt(dst, r)
		dst = append(dst, `}]`...)
	}
	dst = append(dst, b.tail...)
	dst = append(dst, `,"max_tokens":`...)
	dst = strconv.AppendInt(dst, int64(b.tokens(r)), 10)
	if r.Session != "" {
		dst = append(dst, `,"user":`...)
		dst = append(dst, quote(r.Session)...)
	}
	return append(dst, '}')
}

func (b *bodies) prompt(dst []byte, r *workload.Request) []byte {
	if r.Text != "" {
		return append(dst, quote(r.Text)...)
	}
	// Words and spaces, which need no escapes.
	dst = append(dst, '"')
	dst = b.prompts.Append(dst, r)
	return append(dst, '"')
}

// quote is s as a JSON string.
func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string cannot fail
	}
	return string(b)
}
