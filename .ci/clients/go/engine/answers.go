package engine

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
	"strings"
)

// What every answer holds. The suites have the same constants.
const (
	PromptTokens, CachedTokens, OutputTokens = 11, 3, 6
	ToolArguments                            = `{"city":"Zürich","days":3}`
)

// Pieces are the tokens of an answer, with what is easily broken when bytes are
// split: two, three and four bytes a character, and JSON's escapes.
func Pieces() []string { return []string{"Grüße", " aus", " 東京", " 🌍", ` "ok\`, "\n."} }

// arguments are ToolArguments in pieces.
func arguments() []string { return []string{`{"ci`, `ty":"Zü`, `rich","da`, `ys":3}`} }

// embeddings answers with one vector per input: 1, -0.5, 0.25 and the input's
// number.
func embeddings(q *request) string {
	var list []json.RawMessage
	n := 1
	if json.Unmarshal(q.Input, &list) == nil && len(list) > 0 && !isNumber(list[0]) {
		n = len(list)
	}
	data := make([]object, n)
	for i := range data {
		vector := []float32{1, -0.5, 0.25, float32(i)}
		var value any = vector
		if q.Encoding == "base64" {
			var raw []byte
			for _, v := range vector {
				raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
			}
			value = base64.StdEncoding.EncodeToString(raw)
		}
		data[i] = object{"object": "embedding", "index": i, "embedding": value}
	}
	return marshal(object{"object": "list", "model": Model, "data": data,
		"usage": object{"prompt_tokens": PromptTokens, "total_tokens": PromptTokens}})
}

func isNumber(raw json.RawMessage) bool {
	raw = bytes.TrimSpace(raw)
	return len(raw) > 0 && raw[0] >= '0' && raw[0] <= '9'
}

// chat is /v1/chat/completions.
type chat struct{ tool, usage bool }

func (d chat) chunk(choices []object) object {
	return object{"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1700000000, "model": Model, "choices": choices}
}

func (d chat) delta(delta object, finish any) string {
	return marshal(d.chunk([]object{{"index": 0, "delta": delta, "logprobs": nil, "finish_reason": finish}}))
}

func chatUsage() object {
	return object{"prompt_tokens": PromptTokens, "completion_tokens": OutputTokens, "total_tokens": PromptTokens + OutputTokens,
		"prompt_tokens_details": object{"cached_tokens": CachedTokens}}
}

func (d chat) events() []event {
	evs := []event{{data: d.delta(object{"role": "assistant", "content": ""}, nil)}}
	finish := "stop"
	if d.tool {
		finish = "tool_calls"
		evs = append(evs, event{data: d.delta(object{"tool_calls": []object{{"index": 0, "id": "call_1", "type": "function",
			"function": object{"name": "weather", "arguments": ""}}}}, nil), content: true})
		for _, a := range arguments() {
			evs = append(evs, event{data: d.delta(object{"tool_calls": []object{{"index": 0, "function": object{"arguments": a}}}}, nil), content: true})
		}
	} else {
		for _, p := range Pieces() {
			evs = append(evs, event{data: d.delta(object{"content": p}, nil), content: true})
		}
	}
	evs = append(evs, event{data: d.delta(object{}, finish)})
	if d.usage {
		last := d.chunk([]object{})
		last["usage"] = chatUsage()
		evs = append(evs, event{data: marshal(last)})
	}
	return append(evs, event{data: "[DONE]"})
}

func (d chat) failed() event {
	return event{data: `{"error":{"message":"scripted: the engine died","type":"InternalServerError","param":null,"code":500}}`}
}

func (d chat) full() string {
	message := object{"role": "assistant", "content": strings.Join(Pieces(), "")}
	finish := "stop"
	if d.tool {
		finish = "tool_calls"
		message = object{"role": "assistant", "content": nil, "tool_calls": []object{{"id": "call_1", "type": "function",
			"function": object{"name": "weather", "arguments": ToolArguments}}}}
	}
	return marshal(object{"id": "chatcmpl-1", "object": "chat.completion", "created": 1700000000, "model": Model,
		"choices": []object{{"index": 0, "message": message, "logprobs": nil, "finish_reason": finish}}, "usage": chatUsage()})
}

// responses is /v1/responses.
type responses struct{ tool bool }

func (d responses) item(status string) object {
	if d.tool {
		args := ""
		if status == "completed" {
			args = ToolArguments
		}
		return object{"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "weather", "arguments": args, "status": status}
	}
	parts := []object{}
	if status == "completed" {
		parts = append(parts, d.part(strings.Join(Pieces(), "")))
	}
	return object{"type": "message", "id": "msg_1", "role": "assistant", "status": status, "content": parts}
}

func (d responses) part(text string) object {
	return object{"type": "output_text", "text": text, "annotations": []any{}, "logprobs": []any{}}
}

func (d responses) response(status string) object {
	o := object{"id": "resp_1", "object": "response", "created_at": 1700000000, "model": Model, "status": status,
		"output": []object{}, "parallel_tool_calls": true, "tool_choice": "auto", "tools": []any{}, "temperature": 1.0, "top_p": 1.0,
		"instructions": nil, "metadata": object{}, "error": nil, "incomplete_details": nil, "usage": nil}
	if status == "completed" {
		o["output"] = []object{d.item(status)}
		o["usage"] = object{"input_tokens": PromptTokens, "input_tokens_details": object{"cached_tokens": CachedTokens},
			"output_tokens": OutputTokens, "output_tokens_details": object{"reasoning_tokens": 0},
			"total_tokens": PromptTokens + OutputTokens}
	}
	return o
}

func (d responses) events() []event {
	var evs []event
	add := func(content bool, name string, o object) {
		o["type"], o["sequence_number"] = name, len(evs)
		evs = append(evs, event{name: name, data: marshal(o), content: content})
	}
	at := func(o object) object {
		o["item_id"], o["output_index"] = "msg_1", 0
		if d.tool {
			o["item_id"] = "fc_1"
		} else {
			o["content_index"] = 0
		}
		return o
	}
	text := strings.Join(Pieces(), "")
	add(false, "response.created", object{"response": d.response("in_progress")})
	add(false, "response.in_progress", object{"response": d.response("in_progress")})
	add(false, "response.output_item.added", object{"output_index": 0, "item": d.item("in_progress")})
	if d.tool {
		for _, a := range arguments() {
			add(true, "response.function_call_arguments.delta", at(object{"delta": a}))
		}
		add(false, "response.function_call_arguments.done", at(object{"name": "weather", "arguments": ToolArguments}))
	} else {
		add(false, "response.content_part.added", at(object{"part": d.part("")}))
		for _, p := range Pieces() {
			add(true, "response.output_text.delta", at(object{"delta": p, "logprobs": []any{}}))
		}
		add(false, "response.output_text.done", at(object{"text": text, "logprobs": []any{}}))
		add(false, "response.content_part.done", at(object{"part": d.part(text)}))
	}
	add(false, "response.output_item.done", object{"output_index": 0, "item": d.item("completed")})
	add(false, "response.completed", object{"response": d.response("completed")})
	return evs
}

func (d responses) failed() event {
	r := d.response("failed")
	r["error"] = object{"code": "server_error", "message": "scripted: the engine died"}
	return event{name: "response.failed", data: marshal(object{"type": "response.failed", "sequence_number": 6, "response": r})}
}

func (d responses) full() string { return marshal(d.response("completed")) }

// messages is Anthropic's /v1/messages.
type messages struct{ tool bool }

func (d messages) stop() string {
	if d.tool {
		return "tool_use"
	}
	return "end_turn"
}

func (d messages) message(content []object, stop any, output int) object {
	return object{"id": "msg_1", "type": "message", "role": "assistant", "model": Model, "content": content,
		"stop_reason": stop, "stop_sequence": nil,
		"usage": object{"input_tokens": PromptTokens - CachedTokens, "cache_creation_input_tokens": 0,
			"cache_read_input_tokens": CachedTokens, "output_tokens": output}}
}

func (d messages) events() []event {
	var evs []event
	add := func(content bool, name string, o object) {
		o["type"] = name
		evs = append(evs, event{name: name, data: marshal(o), content: content})
	}
	add(false, "message_start", object{"message": d.message([]object{}, nil, 1)})
	if d.tool {
		add(false, "content_block_start", object{"index": 0, "content_block": object{"type": "tool_use", "id": "toolu_1", "name": "weather", "input": object{}}})
		for _, a := range arguments() {
			add(true, "content_block_delta", object{"index": 0, "delta": object{"type": "input_json_delta", "partial_json": a}})
		}
	} else {
		add(false, "content_block_start", object{"index": 0, "content_block": object{"type": "text", "text": ""}})
		add(false, "ping", object{})
		for _, p := range Pieces() {
			add(true, "content_block_delta", object{"index": 0, "delta": object{"type": "text_delta", "text": p}})
		}
	}
	add(false, "content_block_stop", object{"index": 0})
	add(false, "message_delta", object{"delta": object{"stop_reason": d.stop(), "stop_sequence": nil}, "usage": object{"output_tokens": OutputTokens}})
	add(false, "message_stop", object{})
	return evs
}

func (d messages) failed() event {
	return event{name: "error", data: `{"type":"error","error":{"type":"overloaded_error","message":"scripted: the engine died"}}`}
}

func (d messages) full() string {
	content := []object{{"type": "text", "text": strings.Join(Pieces(), "")}}
	if d.tool {
		content = []object{{"type": "tool_use", "id": "toolu_1", "name": "weather", "input": json.RawMessage(ToolArguments)}}
	}
	return marshal(d.message(content, d.stop(), OutputTokens))
}
