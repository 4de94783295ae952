package sim

// renderChat serves POST /v1/chat/completions/render: the tokens that a chat
// request would prefill, and nothing is run.
func (e *Engine) renderChat(a *answer, body []byte) error {
	var req chatRequest
	if err := e.decode(a, body, &req); err != nil {
		return err
	}
	if len(req.Messages) == 0 {
		return badRequest("messages", "messages: at least one message is required")
	}
	rendered, err := e.rendered(a, "chatcmpl-", req.conversation().tokens(), req.sampling, 0)
	if err != nil {
		return err
	}
	return a.json(200, encode(rendered))
}

// renderCompletions serves POST /v1/completions/render, with one element for
// each prompt.
func (e *Engine) renderCompletions(a *answer, body []byte) error {
	var req struct {
		common
		Prompt prompts `json:"prompt"`
	}
	if err := e.decode(a, body, &req); err != nil {
		return err
	}
	if len(req.Prompt.tokens) == 0 {
		return badRequest("prompt", "Either prompt or prompt_embeds must be provided and non-empty.")
	}
	list := make([]object, 0, len(req.Prompt.tokens))
	for _, tokens := range req.Prompt.tokens {
		rendered, err := e.rendered(a, "cmpl-", tokens, req.sampling, 16)
		if err != nil {
			return err
		}
		list = append(list, rendered)
	}
	return a.json(200, encode(list))
}

// rendered is what vLLM calls a GenerateRequest: what its token-in, token-out
// route would take.
func (e *Engine) rendered(a *answer, prefix string, tokens []uint32, s sampling, defaultMax int) (object, error) {
	limit, err := e.outputLimit(len(tokens), s, defaultMax)
	if err != nil {
		return nil, err
	}
	var salt any
	if s.CacheSalt != "" {
		salt = s.CacheSalt
	}
	return object{
		"request_id": e.id(a, prefix), "model": e.cfg.Model, "token_ids": tokens, "features": nil,
		"sampling_params": object{"max_tokens": limit}, "cache_salt": salt, "stream": false,
	}, nil
}
