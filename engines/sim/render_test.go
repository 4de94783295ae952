package sim_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/llmgw/llmgw/engines/sim"
)

type rendered struct {
	ID       string   `json:"request_id"`
	Model    string   `json:"model"`
	Tokens   []uint32 `json:"token_ids"`
	Salt     *string  `json:"cache_salt"`
	Sampling struct {
		Max int `json:"max_tokens"`
	} `json:"sampling_params"`
}

// What is rendered is what the request would prefill.
func TestRender(t *testing.T) {
	e := newEngine(t, sim.InstantConfig())
	const chat = `{"model":"sim-8b","messages":[{"role":"user","content":"hello there"}],"cache_salt":"s","max_tokens":5}`
	r := into[rendered](t, call(t, e, "POST", "/v1/chat/completions/render", chat).Body.String())
	tokens := into[struct{ Tokens []uint32 }](t, call(t, e, "POST", "/tokenize", chat).Body.String()).Tokens
	if !slices.Equal(r.Tokens, tokens) || len(tokens) == 0 {
		t.Errorf("rendered %v, tokenized %v", r.Tokens, tokens)
	}
	if r.Model != "sim-8b" || !strings.HasPrefix(r.ID, "chatcmpl-") || r.Sampling.Max != 5 || r.Salt == nil || *r.Salt != "s" {
		t.Errorf("rendered %+v", r)
	}
	if answer := call(t, e, "POST", "/v1/chat/completions", chat).Body.String(); !strings.Contains(answer, fmt.Sprintf(`"prompt_tokens":%d,`, len(tokens))) {
		t.Errorf("%d tokens were rendered, and the answer is %s", len(tokens), answer)
	}
	list := into[[]rendered](t, call(t, e, "POST", "/v1/completions/render", `{"prompt":["one two",[7,8,9]]}`).Body.String())
	if len(list) != 2 || !slices.Equal(list[0].Tokens, sim.Tokenize(nil, "one two")) || !slices.Equal(list[1].Tokens, []uint32{7, 8, 9}) {
		t.Errorf("rendered %+v", list)
	}
	for _, tt := range []struct {
		path, body string
		status     int
	}{
		{"/v1/chat/completions/render", `{"messages":[]}`, 400},
		{"/v1/chat/completions/render", `{"messages":[{"role":"user","content":"x"}],"max_tokens":-1}`, 400},
		{"/v1/completions/render", `{}`, 400},
		{"/v1/completions/render", `{"prompt":""}`, 400},
		{"/v1/completions/render", `{"model":"other","prompt":"x"}`, 404},
	} {
		if w := call(t, e, "POST", tt.path, tt.body); w.Code != tt.status {
			t.Errorf("%s %s: status %d, want %d: %s", tt.path, tt.body, w.Code, tt.status, w.Body)
		}
	}
}
