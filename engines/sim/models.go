package sim

import (
	"cmp"
	"encoding/json"
	"net/http"
)

// listModels serves GET /v1/models: a card per served name.
func (e *Engine) listModels(w http.ResponseWriter, _ *http.Request) {
	cards := []object{}
	for _, name := range append([]string{e.cfg.Model}, e.cfg.Aliases...) {
		cards = append(cards, object{
			"id": name, "object": "model", "created": e.created.Unix(), "owned_by": "vllm",
			"root": cmp.Or(e.cfg.Weights, e.cfg.Model), "parent": nil, "max_model_len": e.cfg.MaxModelLen,
			"permission": []object{{
				"id": "modelperm-" + name, "object": "model_permission", "created": e.created.Unix(),
				"allow_create_engine": false, "allow_sampling": true, "allow_logprobs": true,
				"allow_search_indices": false, "allow_view": true, "allow_fine_tuning": false,
				"organization": "*", "group": nil, "is_blocking": false,
			}},
		})
	}
	writeJSON(w, http.StatusOK, object{"object": "list", "data": cards})
}

// tokenize serves POST /tokenize, of a prompt or of messages with the chat
// template.
func (e *Engine) tokenize(a *answer, body []byte) error {
	var req struct {
		named
		Prompt              *string           `json:"prompt"`
		Messages            []message         `json:"messages"`
		Tools               []json.RawMessage `json:"tools"`
		AddGenerationPrompt *bool             `json:"add_generation_prompt"`
		Continue            bool              `json:"continue_final_message"`
	}
	if err := e.decode(a, body, &req); err != nil {
		return err
	}
	tokens := []uint32{}
	switch {
	case req.Prompt != nil:
		tokens = Tokenize(tokens, *req.Prompt)
	case len(req.Messages) > 0:
		chat := chatRequest{Messages: req.Messages, Tools: req.Tools,
			AddGenerationPrompt: req.AddGenerationPrompt, Continue: req.Continue}
		tokens = chat.conversation().tokens()
	default:
		return badRequest("prompt", "prompt or messages is required")
	}
	return a.json(200, encode(object{
		"count": len(tokens), "max_model_len": e.cfg.MaxModelLen, "tokens": tokens, "token_strs": nil,
	}))
}
