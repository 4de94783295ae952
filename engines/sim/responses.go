package sim

import (
	"bytes"
	"encoding/json"
	"slices"
)

type responsesRequest struct {
	Model           string            `json:"model"`
	Input           json.RawMessage   `json:"input"`
	Instructions    string            `json:"instructions"`
	Stream          bool              `json:"stream"`
	MaxOutputTokens *int              `json:"max_output_tokens"`
	Tools           []json.RawMessage `json:"tools"`
	ToolChoice      json.RawMessage   `json:"tool_choice"`
	CacheSalt       string            `json:"cache_salt"`
	Store           *bool             `json:"store"`
	Previous        string            `json:"previous_response_id"`
}

func (r *responsesRequest) model() string { return r.Model }

// conversation turns the input into turns.
func (r *responsesRequest) conversation() (*conversation, error) {
	c := &conversation{tools: r.Tools, open: true}
	if r.Instructions != "" {
		c.messages = append(c.messages, message{Role: "system", Content: content{{text: r.Instructions}}})
	}
	input := bytes.TrimSpace(r.Input)
	if len(input) > 0 && input[0] == '"' {
		var text string
		if err := json.Unmarshal(input, &text); err != nil {
			return nil, invalidBody(err)
		}
		c.messages = append(c.messages, message{Role: "user", Content: content{{text: text}}})
		return c, nil
	}
	var items []struct {
		Type      string  `json:"type"`
		Role      string  `json:"role"`
		Content   content `json:"content"`
		Name      string  `json:"name"`
		Arguments string  `json:"arguments"`
		CallID    string  `json:"call_id"`
		Output    content `json:"output"`
	}
	if err := json.Unmarshal(input, &items); err != nil {
		return nil, invalidBody(err)
	}
	for _, it := range items {
		switch it.Type {
		case "function_call":
			c.messages = append(c.messages, message{Role: "assistant",
				Content: content{{text: "<tool_call>\n" + it.Name + " " + it.Arguments + "\n</tool_call>"}}})
		case "function_call_output":
			c.messages = append(c.messages, message{Role: "tool", Content: it.Output, ToolCallID: it.CallID})
		default:
			c.messages = append(c.messages, message{Role: it.Role, Content: it.Content})
		}
	}
	if len(c.messages) == 0 {
		return nil, badRequest("input", "input: at least one item is required")
	}
	return c, nil
}

// responses serves POST /v1/responses. Answers are stored unless that is not
// wanted; which can go on from another that was.
func (e *Engine) responses(a *answer, body []byte) error {
	var req responsesRequest
	if err := e.decode(a, body, &req); err != nil {
		return err
	}
	conv, err := req.conversation()
	if err != nil {
		return err
	}
	if req.Previous != "" {
		before, err := e.stored.get(req.Previous)
		if err != nil {
			return err
		}
		conv.messages = append(slices.Clip(before.messages), conv.messages...)
	}
	s := sampling{MaxTokens: req.MaxOutputTokens, CacheSalt: req.CacheSalt}
	g, err := e.newGeneration([][]uint32{conv.tokens()}, s, 0, e.toolFor(a, conv, req.ToolChoice))
	if err != nil {
		return err
	}
	d := &responsesDialect{g: g, c: g.choices[0], id: e.id(a, "resp_"), item: e.id(a, "msg_"), req: &req, model: e.cfg.Model, created: unixNow()}
	if req.Store == nil || *req.Store {
		d.keep = func(body []byte) {
			said := message{Role: "assistant", Content: content{{text: d.c.text()}}}
			e.stored.put(d.id, storedResponse{append(slices.Clip(conv.messages), said), body})
		}
	}
	return e.serve(a, g, req.Stream, d)
}

type responsesDialect struct {
	g        *generation
	c        *choice
	req      *responsesRequest
	id, item string
	model    string
	created  int64
	sequence int
	word     []byte
	keep     func(body []byte) // nil: the answer is not stored
}

type object = map[string]any

// send sends one event; it numbers it.
func (d *responsesDialect) send(a *answer, kind string, o object) error {
	o["type"] = kind
	o["sequence_number"] = d.sequence
	d.sequence++
	return a.event(kind, encode(o))
}

// response is the object with this status; output and usage come at the end.
func (d *responsesDialect) response(status string, done bool) object {
	o := object{
		"id": d.id, "object": "response", "created_at": d.created, "model": d.model, "status": status,
		"instructions": nil, "metadata": nil, "output": []any{}, "parallel_tool_calls": true,
		"temperature": 1.0, "top_p": 1.0, "tool_choice": "auto", "tools": d.req.Tools, "background": false,
		"max_output_tokens": d.c.maxTokens, "incomplete_details": nil, "service_tier": "auto",
		"truncation": "disabled", "usage": nil, "error": nil,
	}
	if d.req.Instructions != "" {
		o["instructions"] = d.req.Instructions
	}
	if d.req.Tools == nil {
		o["tools"] = []any{}
	}
	if done {
		o["output"] = []any{d.output("completed", d.c.text())}
		u := d.g.usage(d.g.completed())
		o["usage"] = object{
			"input_tokens": u.prompt, "input_tokens_details": object{"cached_tokens": u.cached},
			"output_tokens": u.completion, "output_tokens_details": object{"reasoning_tokens": 0},
			"total_tokens": u.prompt + u.completion,
		}
		if d.c.finish == "length" {
			o["status"] = "incomplete"
			o["incomplete_details"] = object{"reason": "max_output_tokens"}
		}
	}
	return o
}

// output is the only output item.
func (d *responsesDialect) output(status, text string) object {
	if call := d.c.call; call != nil {
		return object{"type": "function_call", "id": d.item, "call_id": call.id, "name": call.name,
			"arguments": text, "status": status}
	}
	parts := []any{}
	if status == "completed" {
		parts = append(parts, d.part(text))
	}
	return object{"type": "message", "id": d.item, "role": "assistant", "status": status, "content": parts}
}

func (d *responsesDialect) part(text string) object {
	return object{"type": "output_text", "text": text, "annotations": []any{}, "logprobs": []any{}}
}

func (d *responsesDialect) begin(a *answer) error {
	if err := d.send(a, "response.created", object{"response": d.response("in_progress", false)}); err != nil {
		return err
	}
	return d.send(a, "response.in_progress", object{"response": d.response("in_progress", false)})
}

func (d *responsesDialect) token(a *answer, c *choice, i int) error {
	if i == 0 {
		err := d.send(a, "response.output_item.added", object{"output_index": 0, "item": d.output("in_progress", "")})
		if err == nil && c.call == nil {
			err = d.send(a, "response.content_part.added", object{"item_id": d.item, "output_index": 0,
				"content_index": 0, "part": d.part("")})
		}
		if err != nil {
			return err
		}
	}
	d.word = c.appendToken(d.word[:0], i)
	if c.call != nil {
		return d.send(a, "response.function_call_arguments.delta", object{"item_id": d.item, "output_index": 0,
			"delta": string(d.word)})
	}
	return d.send(a, "response.output_text.delta", object{"item_id": d.item, "output_index": 0, "content_index": 0,
		"delta": string(d.word), "logprobs": []any{}})
}

func (d *responsesDialect) end(a *answer) error {
	text := d.c.text()
	var err error
	if d.c.call != nil {
		err = d.send(a, "response.function_call_arguments.done", object{"item_id": d.item, "output_index": 0,
			"name": d.c.call.name, "arguments": text})
	} else {
		err = d.send(a, "response.output_text.done", object{"item_id": d.item, "output_index": 0,
			"content_index": 0, "text": text, "logprobs": []any{}})
		if err == nil {
			err = d.send(a, "response.content_part.done", object{"item_id": d.item, "output_index": 0,
				"content_index": 0, "part": d.part(text)})
		}
	}
	if err == nil {
		err = d.send(a, "response.output_item.done", object{"output_index": 0, "item": d.output("completed", text)})
	}
	if err == nil {
		d.full() // which stores it
		// vLLM says completed here even if the answer is incomplete.
		err = d.send(a, "response.completed", object{"response": d.response("completed", true)})
	}
	return err
}

func (d *responsesDialect) full() []byte {
	body := encode(d.response("completed", true))
	if d.keep != nil {
		d.keep(body)
	}
	return body
}
