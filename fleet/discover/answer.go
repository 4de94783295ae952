package discover

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Errors of an answer to GET /v1/models.
var (
	// ErrNoEngine is of what no engine says.
	ErrNoEngine = errors.New("discover: no engine's answer")
	// ErrNoModel is of an engine that serves nothing, such as one that still loads.
	ErrNoModel = errors.New("discover: no model is served")
)

// Bounds of an answer. A model's name becomes a part of the engine's.
const (
	maxModels     = 10_000
	maxModelBytes = 512
)

// ParseModels reads the answer of an engine to GET /v1/models and returns the
// names of its models in their order, at least one. Names are up to 512 bytes
// of text without control characters, and 10,000 of them at the most. Errors wrap
// [ErrNoEngine] or [ErrNoModel] and repeat nothing of the answer.
func ParseModels(body []byte) ([]string, error) {
	if !utf8.Valid(body) {
		return nil, fmt.Errorf("%w: no UTF-8", ErrNoEngine)
	}
	body = bytes.TrimSpace(body)
	if len(body) == 0 || body[0] != '{' {
		return nil, fmt.Errorf("%w: no JSON object", ErrNoEngine)
	}
	var answer struct {
		Data *[]struct {
			ID *string `json:"id"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, fmt.Errorf("%w: no list of models", ErrNoEngine)
	}
	switch {
	case answer.Data == nil:
		return nil, fmt.Errorf("%w: no list of models", ErrNoEngine)
	case len(*answer.Data) == 0:
		return nil, ErrNoModel
	case len(*answer.Data) > maxModels:
		return nil, fmt.Errorf("%w: %d models; %d are the most", ErrNoEngine, len(*answer.Data), maxModels)
	}
	out := make([]string, 0, len(*answer.Data))
	for i, m := range *answer.Data {
		if m.ID == nil || strings.TrimSpace(*m.ID) == "" || len(*m.ID) > maxModelBytes || strings.ContainsFunc(*m.ID, unicode.IsControl) {
			return nil, fmt.Errorf("%w: model %d has no name that can be one", ErrNoEngine, i)
		}
		out = append(out, *m.ID)
	}
	return out, nil
}
