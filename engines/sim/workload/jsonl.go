package workload

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// mooncake reads the traces of the Kimi service. Source:
// github.com/kvcache-ai/Mooncake, FAST25-release/traces.
type mooncake struct{}

type blockRow struct {
	ChatID       json.RawMessage `json:"chat_id"`        // qwen only
	ParentChatID json.RawMessage `json:"parent_chat_id"` // qwen only
	Timestamp    json.RawMessage `json:"timestamp"`
	InputLength  json.RawMessage `json:"input_length"`
	OutputLength json.RawMessage `json:"output_length"`
	HashIDs      json.RawMessage `json:"hash_ids"`
}

func (mooncake) header() bool      { return false }
func (mooncake) timeField() string { return "timestamp" }
func (mooncake) blockTokens() int  { return 512 }

func (m mooncake) decode(dst []Request, row []byte) ([]Request, time.Duration, error) {
	var in blockRow
	if err := unmarshal(row, &in); err != nil {
		return dst, 0, err
	}
	r, at, err := in.request(time.Millisecond)
	if err != nil {
		return dst, 0, err
	}
	if want := blocksOf(r.PromptTokens, m.blockTokens()); len(r.Blocks) != want {
		return dst, 0, blockCount(len(r.Blocks), strconv.Itoa(want), r.PromptTokens, m.blockTokens())
	}
	return append(dst, r), at, nil
}

// qwen reads the traces of Alibaba's Bailian. Source:
// github.com/alibaba-edu/qwen-bailian-usagetraces-anon.
type qwen struct {
	sessions map[string]string // the first chat of the conversation that a chat continues
}

func (*qwen) header() bool      { return false }
func (*qwen) timeField() string { return "timestamp" }
func (*qwen) blockTokens() int  { return 16 }

func (q *qwen) decode(dst []Request, row []byte) ([]Request, time.Duration, error) {
	var in blockRow
	if err := unmarshal(row, &in); err != nil {
		return dst, 0, err
	}
	r, at, err := in.request(time.Second)
	if err != nil {
		return dst, 0, err
	}
	// The format's description does not say whether a block that is not
	// full has an id, so it may.
	if full, most := r.PromptTokens/q.blockTokens(), blocksOf(r.PromptTokens, q.blockTokens()); len(r.Blocks) != full && len(r.Blocks) != most {
		return dst, 0, blockCount(len(r.Blocks), fmt.Sprintf("%d or %d", full, most), r.PromptTokens, q.blockTokens())
	}
	r.Session = q.session(string(in.ChatID), string(in.ParentChatID))
	return append(dst, r), at, nil
}

func (q *qwen) session(chat, parent string) string {
	if chat == "" || chat == "null" {
		return ""
	}
	root := chat
	if parent != "" && parent != "null" && parent != "-1" {
		root = parent // began before the trace did
		if known, ok := q.sessions[parent]; ok {
			root = known
		}
	}
	q.sessions[chat] = root
	return root
}

func (in *blockRow) request(unit time.Duration) (r Request, at time.Duration, err error) {
	if at, err = parseTime("timestamp", string(in.Timestamp), unit); err != nil {
		return r, 0, err
	}
	if r.PromptTokens, err = parseTokens("input_length", string(in.InputLength)); err != nil {
		return r, 0, err
	}
	if r.OutputTokens, err = parseTokens("output_length", string(in.OutputLength)); err != nil {
		return r, 0, err
	}
	r.Blocks, err = parseIDs("hash_ids", in.HashIDs)
	return r, at, err
}

func blockCount(have int, want string, tokens, size int) error {
	return &fieldError{field: "hash_ids", why: fmt.Sprintf("%d ids, want %s: %d tokens in blocks of %d", have, want, tokens, size)}
}

// parseIDs reads a JSON list of whole numbers from 0.
func parseIDs(field string, list []byte) ([]uint64, error) {
	inner, begins := bytes.CutPrefix(bytes.TrimSpace(list), []byte("["))
	inner, ends := bytes.CutSuffix(inner, []byte("]"))
	if !begins || !ends {
		return nil, &fieldError{field: field, why: found(string(list)) + ", want a list of whole numbers"}
	}
	if len(bytes.TrimSpace(inner)) == 0 {
		return []uint64{}, nil
	}
	ids := make([]uint64, 0, bytes.Count(inner, []byte(","))+1)
	for text := range bytes.SplitSeq(inner, []byte(",")) {
		text = bytes.TrimSpace(text)
		id, err := strconv.ParseUint(string(text), 10, 64)
		if err != nil {
			return nil, &fieldError{field: field, why: fmt.Sprintf("id %d of the list is %s, want a whole number from 0", len(ids)+1, excerpt(text))}
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// aibrix reads generated prompts with their text. Source:
// github.com/vllm-project/aibrix, benchmarks/routing/prefix-workload.
type aibrix struct{}

func (aibrix) header() bool      { return false }
func (aibrix) timeField() string { return "timestamp" }
func (aibrix) blockTokens() int  { return 0 }

func (aibrix) decode(dst []Request, row []byte) ([]Request, time.Duration, error) {
	var in struct {
		Timestamp json.RawMessage `json:"timestamp"`
		Requests  []struct {
			Prompt       *string         `json:"prompt"`
			PromptLength json.RawMessage `json:"Prompt Length"`
			OutputLength json.RawMessage `json:"Output Length"`
		} `json:"requests"`
	}
	if err := unmarshal(row, &in); err != nil {
		return dst, 0, err
	}
	at, err := parseTime("timestamp", string(in.Timestamp), time.Millisecond)
	if err != nil {
		return dst, 0, err
	}
	if len(in.Requests) == 0 {
		return dst, 0, &fieldError{field: "requests", why: "missing or empty, want a list of one request or more"}
	}
	for i, q := range in.Requests {
		var r Request
		place := "requests[" + strconv.Itoa(i) + "]."
		if r.PromptTokens, err = parseTokens(place+"Prompt Length", string(q.PromptLength)); err != nil {
			return dst, 0, err
		}
		if r.OutputTokens, err = parseTokens(place+"Output Length", string(q.OutputLength)); err != nil {
			return dst, 0, err
		}
		if q.Prompt == nil || *q.Prompt == "" {
			return dst, 0, &fieldError{field: place + "prompt", why: "missing or empty, want the prompt's text"}
		}
		r.Text = *q.Prompt
		dst = append(dst, r)
	}
	return dst, at, nil
}

// unmarshal is json.Unmarshal with errors that say where in the row.
func unmarshal(row []byte, v any) error {
	err := json.Unmarshal(row, v)
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*json.SyntaxError](err); ok {
		return &fieldError{why: fmt.Sprintf("broken JSON at byte %d: %v", e.Offset, err), err: err}
	}
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		want := "a text"
		switch e.Type.Kind() {
		case reflect.Slice:
			want = "a list"
		case reflect.Struct, reflect.Map:
			want = "an object"
		default:
		}
		return &fieldError{field: e.Field, why: e.Value + ", want " + want, err: err}
	}
	return &fieldError{why: err.Error(), err: err}
}

// objectKeys are the keys of a JSON object, sorted, in lower case as
// json.Unmarshal would match them.
func objectKeys(row []byte) ([]string, error) {
	var object map[string]json.RawMessage
	if err := unmarshal(row, &object); err != nil {
		return nil, err
	}
	keys := make([]string, 0, len(object))
	for k := range object {
		keys = append(keys, strings.ToLower(k))
	}
	slices.Sort(keys)
	return keys, nil
}
