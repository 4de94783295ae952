package sim

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

// streamOptions is stream_options.
type streamOptions struct {
	IncludeUsage    bool `json:"include_usage"`
	ContinuousUsage bool `json:"continuous_usage_stats"`
}

// common is what chat and completion requests share.
type common struct {
	Model         string         `json:"model"`
	Stream        bool           `json:"stream"`
	StreamOptions *streamOptions `json:"stream_options"`
	sampling
}

func (c *common) model() string { return c.Model }

// check refuses what vLLM's validators refuse.
func (c *common) check() error {
	if c.StreamOptions != nil && !c.Stream {
		return badRequest("stream_options", "Stream options can only be defined when `stream=True`.")
	}
	return nil
}

func (c *common) usageWanted() (final, each bool) {
	if c.StreamOptions == nil {
		return false, false
	}
	return c.StreamOptions.IncludeUsage, c.StreamOptions.IncludeUsage && c.StreamOptions.ContinuousUsage
}

type chatRequest struct {
	common
	Messages            []message         `json:"messages"`
	Tools               []json.RawMessage `json:"tools"`
	ToolChoice          json.RawMessage   `json:"tool_choice"`
	AddGenerationPrompt *bool             `json:"add_generation_prompt"`
	Continue            bool              `json:"continue_final_message"`
}

func (r *chatRequest) conversation() *conversation {
	return &conversation{
		messages: r.Messages, tools: r.Tools, continued: r.Continue,
		open: !r.Continue && (r.AddGenerationPrompt == nil || *r.AddGenerationPrompt),
	}
}

// chat serves POST /v1/chat/completions.
func (e *Engine) chat(a *answer, body []byte) error {
	var req chatRequest
	if err := e.decode(a, body, &req); err != nil {
		return err
	}
	if err := req.check(); err != nil {
		return err
	}
	if len(req.Messages) == 0 {
		return badRequest("messages", "messages: at least one message is required")
	}
	conv := req.conversation()
	call := e.toolFor(a, conv, req.ToolChoice)
	g, err := e.newGeneration([][]uint32{conv.tokens()}, req.sampling, 0, call)
	if err != nil {
		return err
	}
	d := &chatDialect{g: g, id: e.id(a, "chatcmpl-"), model: e.cfg.Model, created: unixNow()}
	d.include, d.continuous = req.usageWanted()
	return e.serve(a, g, req.Stream, d)
}

// toolFor decides whether the answer is a call of a tool: tool_choice demands
// one ("required" or a named function; Anthropic's any and tool are turned
// into these), or the last user message contains "call " and the name of one.
// nil means text.
func (e *Engine) toolFor(a *answer, conv *conversation, choice json.RawMessage) *toolCall {
	var names []string
	for _, raw := range conv.tools {
		var t struct {
			Name     string                `json:"name"`
			Function struct{ Name string } `json:"function"`
		}
		if json.Unmarshal(raw, &t) == nil {
			if t.Function.Name != "" {
				t.Name = t.Function.Name
			}
			names = append(names, t.Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	name := ""
	choice = bytes.TrimSpace(choice)
	switch {
	case bytes.Equal(choice, []byte(`"none"`)):
		return nil
	case bytes.Equal(choice, []byte(`"required"`)):
		name = names[0]
	case len(choice) > 0 && choice[0] == '{':
		var named struct {
			Name     string                `json:"name"`
			Function struct{ Name string } `json:"function"`
		}
		_ = json.Unmarshal(choice, &named)
		name = named.Name + named.Function.Name
	default:
		text := conv.lastUserText()
		for _, n := range names {
			if n != "" && strings.Contains(text, "call "+n) {
				name = n
				break
			}
		}
	}
	if name == "" {
		return nil
	}
	return &toolCall{id: e.id(a, "chatcmpl-tool-"), name: name}
}

type chatDialect struct {
	g                   *generation
	id, model           string
	created             int64
	include, continuous bool

	head []byte // up to "choices":[{"index":
	buf  []byte
	word []byte
}

func (d *chatDialect) chunkHead() []byte {
	if d.head == nil {
		d.head = append(d.head, `{"id":`...)
		d.head = append(d.head, quoted(d.id)...)
		d.head = append(d.head, `,"object":"chat.completion.chunk","created":`...)
		d.head = strconv.AppendInt(d.head, d.created, 10)
		d.head = append(d.head, `,"model":`...)
		d.head = append(d.head, quoted(d.model)...)
		d.head = append(d.head, `,"choices":[`...)
	}
	return d.head
}

func (d *chatDialect) begin(*answer) error { return nil }

// first is the chunk with the role, which vLLM sends together with the first
// token.
func (d *chatDialect) first(a *answer, c *choice) error {
	b := append(d.buf[:0], d.chunkHead()...)
	b = append(b, `{"index":`...)
	b = strconv.AppendInt(b, int64(c.index), 10)
	b = append(b, `,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]`...)
	d.buf = d.closeChunk(b, 0)
	return a.event("", d.buf)
}

// closeChunk appends the usage, if each chunk has one, and the brace.
func (d *chatDialect) closeChunk(b []byte, completed int) []byte {
	if d.continuous {
		b = append(b, `,"usage":`...)
		b = d.g.usage(completed).append(b)
	}
	return append(b, '}')
}

func (d *chatDialect) token(a *answer, c *choice, i int) error {
	if i == 0 {
		if err := d.first(a, c); err != nil {
			return err
		}
		if c.call != nil {
			if err := d.openCall(a, c); err != nil {
				return err
			}
		}
	}
	d.word = c.appendToken(d.word[:0], i)
	b := append(d.buf[:0], d.chunkHead()...)
	b = append(b, `{"index":`...)
	b = strconv.AppendInt(b, int64(c.index), 10)
	if c.call != nil {
		b = append(b, `,"delta":{"tool_calls":[{"index":0,"function":{"arguments":`...)
		b = append(b, quoted(string(d.word))...)
		b = append(b, `}}]}`...)
	} else {
		b = append(b, `,"delta":{"content":"`...)
		b = append(b, d.word...) // words need no escapes
		b = append(b, `"}`...)
	}
	b = append(b, `,"logprobs":null,"finish_reason":`...)
	if i < c.n-1 {
		b = append(b, `null}]`...)
	} else {
		b = append(b, '"')
		b = append(b, c.finish...)
		b = append(b, `","stop_reason":`...)
		b = append(b, stopReason(c)...)
		b = append(b, `}],"system_fingerprint":"vllm-`+version+`-sim"`...)
	}
	d.buf = d.closeChunk(b, i+1)
	return a.event("", d.buf)
}

func (d *chatDialect) openCall(a *answer, c *choice) error {
	b := append(d.buf[:0], d.chunkHead()...)
	b = append(b, `{"index":`...)
	b = strconv.AppendInt(b, int64(c.index), 10)
	b = append(b, `,"delta":{"tool_calls":[{"id":`...)
	b = append(b, quoted(c.call.id)...)
	b = append(b, `,"type":"function","index":0,"function":{"name":`...)
	b = append(b, quoted(c.call.name)...)
	b = append(b, `,"arguments":""}}]},"logprobs":null,"finish_reason":null}]`...)
	d.buf = d.closeChunk(b, 0)
	return a.event("", d.buf)
}

func (d *chatDialect) end(a *answer) error {
	if d.include {
		b := append(d.buf[:0], d.chunkHead()...)
		b = append(b, `],"usage":`...)
		d.buf = append(d.g.usage(d.g.completed()).append(b), '}')
		if err := a.event("", d.buf); err != nil {
			return err
		}
	}
	return a.event("", []byte("[DONE]"))
}

func (d *chatDialect) full() []byte {
	b := append(d.buf[:0], `{"id":`...)
	b = append(b, quoted(d.id)...)
	b = append(b, `,"object":"chat.completion","created":`...)
	b = strconv.AppendInt(b, d.created, 10)
	b = append(b, `,"model":`...)
	b = append(b, quoted(d.model)...)
	b = append(b, `,"choices":[`...)
	for i, c := range d.g.choices {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"index":`...)
		b = strconv.AppendInt(b, int64(c.index), 10)
		b = append(b, `,"message":{"role":"assistant","content":`...)
		if c.call != nil {
			b = append(b, `null,"refusal":null,"annotations":null,"audio":null,"function_call":null,"tool_calls":[{"id":`...)
			b = append(b, quoted(c.call.id)...)
			b = append(b, `,"type":"function","function":{"name":`...)
			b = append(b, quoted(c.call.name)...)
			b = append(b, `,"arguments":`...)
			b = append(b, quoted(c.text())...)
			b = append(b, `}}],"reasoning":null}`...)
		} else {
			b = append(b, quoted(c.text())...)
			b = append(b, `,"refusal":null,"annotations":null,"audio":null,"function_call":null,"tool_calls":[],"reasoning":null}`...)
		}
		b = append(b, `,"logprobs":null,"finish_reason":"`...)
		b = append(b, c.finish...)
		b = append(b, `","stop_reason":`...)
		b = append(b, stopReason(c)...)
		b = append(b, `,"token_ids":null}`...)
	}
	b = append(b, `],"service_tier":null,"system_fingerprint":"vllm-`+version+`-sim","usage":`...)
	b = d.g.usage(d.g.completed()).append(b)
	return append(b, `,"prompt_logprobs":null,"prompt_token_ids":null,"kv_transfer_params":null}`...)
}

func stopReason(c *choice) string {
	if c.stop == "" {
		return "null"
	}
	return quoted(c.stop)
}
