package provider

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"unicode/utf8"
)

// Listed is a model as a provider lists it.
type Listed struct {
	Name          string
	OwnedBy       string
	ContextTokens *int64 // nil: not said
}

// maxListed bounds the models that are kept of one answer.
const maxListed = 2048

var errNoList = errors.New("it answered something that is no list of models")

// parseModels reads a list of models: an object with data, or an array alone. Models
// whose name no store keeps, and those after the first 2048, are left out. The result is by
// name, each once. The error does not repeat the text.
func parseModels(body []byte) ([]Listed, error) {
	type model struct {
		ID            string `json:"id"`
		OwnedBy       any    `json:"owned_by"`
		MaxModelLen   any    `json:"max_model_len"`      // vLLM, SGLang
		ContextLength any    `json:"context_length"`     // OpenRouter, Together
		ContextWindow any    `json:"context_window"`     // Groq
		MaxContext    any    `json:"max_context_length"` // Mistral
		Meta          struct {
			Context any `json:"n_ctx_train"` // llama.cpp
		} `json:"meta"`
	}
	var list []json.RawMessage
	body = bytes.TrimSpace(body)
	if len(body) > 0 && body[0] == '[' {
		if err := json.Unmarshal(body, &list); err != nil {
			return nil, errNoList
		}
	} else {
		var object struct {
			Data *[]json.RawMessage `json:"data"`
		}
		if err := json.Unmarshal(body, &object); err != nil || object.Data == nil {
			// An engine of Ollama's without models answers {"data":null}.
			if err != nil || !hasData(body) {
				return nil, errNoList
			}
			return nil, nil
		}
		list = *object.Data
	}
	var out []Listed
	for _, raw := range list {
		var m model
		if err := json.Unmarshal(raw, &m); err != nil || m.ID == "" {
			if m.ID == "" {
				return nil, errNoList
			}
		}
		if len(m.ID) > 256 || !utf8.ValidString(m.ID) || strings.IndexByte(m.ID, 0) >= 0 {
			continue
		}
		l := Listed{Name: m.ID}
		if owner, ok := m.OwnedBy.(string); ok && len(owner) <= 256 && utf8.ValidString(owner) && strings.IndexByte(owner, 0) < 0 {
			l.OwnedBy = owner
		}
		for _, v := range []any{m.MaxModelLen, m.ContextLength, m.ContextWindow, m.MaxContext, m.Meta.Context} {
			if n, ok := v.(float64); ok && n >= 1 && n <= 1e12 {
				l.ContextTokens = new(int64(n))
				break
			}
		}
		if out = append(out, l); len(out) == maxListed {
			break
		}
	}
	slices.SortStableFunc(out, func(a, b Listed) int { return strings.Compare(a.Name, b.Name) })
	return slices.CompactFunc(out, func(a, b Listed) bool { return a.Name == b.Name }), nil
}

func hasData(body []byte) bool {
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(body, &keys); err != nil {
		return false
	}
	data, ok := keys["data"]
	return ok && string(data) == "null"
}
