package sim

import (
	"bytes"
	"encoding/json"
)

type messagesRequest struct {
	Model         string            `json:"model"`
	System        content           `json:"system"`
	Messages      []message         `json:"messages"`
	MaxTokens     *int              `json:"max_tokens"`
	StopSequences stopList          `json:"stop_sequences"`
	Stream        bool              `json:"stream"`
	Tools         []json.RawMessage `json:"tools"`
	ToolChoice    *struct {
		Type string `json:"type"`
		Name string `json:"name"`
	} `json:"tool_choice"`
}

func (r *messagesRequest) model() string { return r.Model }

func (r *messagesRequest) conversation() *conversation {
	c := &conversation{messages: r.Messages, tools: r.Tools, open: true}
	if r.System != nil {
		c.messages = append([]message{{Role: "system", Content: r.System}}, r.Messages...)
	}
	return c
}

// choice is tool_choice in OpenAI's form.
func (r *messagesRequest) choice() json.RawMessage {
	if r.ToolChoice == nil {
		return nil
	}
	switch r.ToolChoice.Type {
	case "any":
		return json.RawMessage(`"required"`)
	case "none":
		return json.RawMessage(`"none"`)
	case "tool":
		return encode(object{"name": r.ToolChoice.Name})
	default:
		return nil
	}
}

func (e *Engine) decodeMessages(a *answer, body []byte) (*messagesRequest, error) {
	var req messagesRequest
	if err := e.decode(a, body, &req); err != nil {
		return nil, err
	}
	if len(req.Messages) == 0 {
		return nil, badRequest("messages", "messages: at least one message is required")
	}
	return &req, nil
}

// messages serves POST /v1/messages.
func (e *Engine) messages(a *answer, body []byte) error {
	req, err := e.decodeMessages(a, body)
	if err != nil {
		return err
	}
	if req.MaxTokens == nil {
		return invalidBody(errMaxTokens)
	}
	conv := req.conversation()
	s := sampling{MaxTokens: req.MaxTokens, Stop: req.StopSequences}
	g, err := e.newGeneration([][]uint32{conv.tokens()}, s, 0, e.toolFor(a, conv, req.choice()))
	if err != nil {
		return err
	}
	return e.serve(a, g, req.Stream, &messagesDialect{g: g, c: g.choices[0], id: e.id(a, "chatcmpl-"), model: e.cfg.Model})
}

// countTokens serves POST /v1/messages/count_tokens.
func (e *Engine) countTokens(a *answer, body []byte) error {
	req, err := e.decodeMessages(a, body)
	if err != nil {
		return err
	}
	n := len(req.conversation().tokens())
	return a.json(200, encode(object{"input_tokens": n, "context_management": object{"original_input_tokens": n}}))
}

type messagesDialect struct {
	g         *generation
	c         *choice
	id, model string
	word      []byte
}

func (d *messagesDialect) send(a *answer, kind string, o object) error {
	o["type"] = kind
	return a.event(kind, encode(o))
}

func (d *messagesDialect) begin(*answer) error { return nil }

func (d *messagesDialect) token(a *answer, c *choice, i int) error {
	if i == 0 {
		err := d.send(a, "message_start", object{"message": object{
			"id": d.id, "type": "message", "role": "assistant", "content": []any{}, "model": d.model,
			"stop_reason": nil, "stop_sequence": nil,
			"usage": object{"input_tokens": d.g.usage(0).prompt, "output_tokens": 0},
		}})
		if err == nil {
			err = d.send(a, "content_block_start", object{"index": 0, "content_block": d.block("", true)})
		}
		if err != nil {
			return err
		}
	}
	d.word = c.appendToken(d.word[:0], i)
	delta := object{"type": "text_delta", "text": string(d.word)}
	if c.call != nil {
		delta = object{"type": "input_json_delta", "partial_json": string(d.word)}
	}
	return d.send(a, "content_block_delta", object{"index": 0, "delta": delta})
}

func (d *messagesDialect) end(a *answer) error {
	err := d.send(a, "content_block_stop", object{"index": 0})
	if err == nil {
		u := d.g.usage(d.g.completed())
		err = d.send(a, "message_delta", object{
			"delta": object{"stop_reason": d.stopReason()},
			"usage": object{"input_tokens": u.prompt, "output_tokens": u.completion},
		})
	}
	if err == nil {
		err = d.send(a, "message_stop", object{})
	}
	return err
}

func (d *messagesDialect) stopReason() string {
	switch d.c.finish {
	case "length":
		return "max_tokens"
	case "tool_calls":
		return "tool_use"
	default:
		return "end_turn"
	}
}

func (d *messagesDialect) block(text string, opening bool) object {
	call := d.c.call
	switch {
	case call == nil:
		return object{"type": "text", "text": text}
	case opening:
		return object{"type": "tool_use", "id": call.id, "name": call.name, "input": object{}}
	default:
		return object{"type": "tool_use", "id": call.id, "name": call.name, "input": json.RawMessage(fullJSON(text))}
	}
}

// fullJSON is text if it is JSON, which arguments cut by max_tokens are not.
func fullJSON(text string) []byte {
	if b := []byte(text); json.Valid(b) {
		return bytes.TrimSpace(b)
	}
	return []byte("{}")
}

func (d *messagesDialect) full() []byte {
	u := d.g.usage(d.g.completed())
	return encode(object{
		"id": d.id, "type": "message", "role": "assistant", "model": d.model,
		"content":     []any{d.block(d.c.text(), false)},
		"stop_reason": d.stopReason(), "stop_sequence": nil,
		"usage": object{"input_tokens": u.prompt, "output_tokens": u.completion},
	})
}
