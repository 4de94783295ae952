package engine_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// openAIError is the shape that OpenAI's SDKs read.
type openAIError struct {
	Error struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    *string `json:"code"`
	} `json:"error"`
}

func (a answer) openAI(t *testing.T) (message, kind, code string) {
	t.Helper()
	var e openAIError
	if err := json.Unmarshal([]byte(a.body), &e); err != nil || e.Error.Message == "" || e.Error.Code == nil {
		t.Fatalf("%v is no error of OpenAI's shape: %v", a, err)
	}
	return e.Error.Message, e.Error.Type, *e.Error.Code
}

// A prompt over the context is the client's mistake: it is told in the shape of
// the API that it called, before any stream begins, and the engine stays in use.
func TestPromptOverTheContext(t *testing.T) {
	e := theEngine(t)
	r := newRouter(t, place{id: "e", url: e.url})
	text := strings.Repeat(" the", contextLength+100)
	for _, more := range []string{"", `,"stream":true`} {
		for _, body := range []string{
			`/v1/chat/completions {"model":"words","messages":[{"role":"user","content":"` + text + `"}],"max_tokens":2` + more + `}`,
			`/v1/completions {"model":"words","prompt":"` + text + `","max_tokens":2` + more + `}`,
		} {
			path, body, _ := strings.Cut(body, " ")
			a := post(t, r.client+path, "", body)
			message, _, code := a.openAI(t)
			if a.status != http.StatusBadRequest || code != "context_length_exceeded" || !strings.Contains(message, current().tooLong) {
				t.Errorf("%s%s: got %v", path, more, a)
			}
		}
		a := post(t, r.client+"/v1/messages", "", `{"model":"words","messages":[{"role":"user","content":"`+text+`"}],"max_tokens":2`+more+`}`)
		var e struct {
			Type  string
			Error struct{ Type, Message string }
		}
		if err := json.Unmarshal([]byte(a.body), &e); err != nil || a.status != http.StatusBadRequest || e.Type != "error" ||
			e.Error.Type == "" || !strings.Contains(e.Error.Message, current().tooLong) {
			t.Errorf("/v1/messages%s: got %v, %v", more, a, err)
		}
	}
	unharmed(t, r)
}

// What an engine was not started for, and what it does not understand, are no
// failures of it: others would lose it for the mistakes of one client.
func TestClientsMistakes(t *testing.T) {
	e := theEngine(t)
	r := newRouter(t, place{id: "e", url: e.url})
	for _, c := range []string{
		`/v1/embeddings {"model":"words","input":"hello"}`,
		`/v1/rerank {"model":"words","query":"a","documents":["b"]}`,
		`/v1/chat/completions {"model":"words"}`,
		`/v1/chat/completions {"model":"words","messages":"hello"}`,
		`/v1/no-such-thing {"model":"words"}`,
	} {
		path, body, _ := strings.Cut(c, " ")
		for range 5 {
			want, got := post(t, e.url+path, apiKey, strings.Replace(body, "words", upstream, 1)), post(t, r.client+path, "", body)
			if got.status != want.status {
				t.Fatalf("%s: got %v, the engine says %v", c, got, want)
			}
			got.openAI(t)
		}
	}
	unharmed(t, r)
}

// Without the engine's key the router can use it for nothing, and its log says
// what to do.
func TestEngineWantsAKey(t *testing.T) {
	e := theEngine(t)
	r := newRouter(t, place{id: "e", url: e.url, noKey: true})
	a := post(t, r.client+"/v1/completions", "", `{"model":"words","prompt":"the time","max_tokens":1}`)
	if _, _, code := a.openAI(t); a.status != http.StatusUnauthorized || code == "" {
		t.Errorf("got %v", a)
	}
	eventually(t, func() error {
		if !strings.Contains(r.tail(), "set key_env or key_file") {
			return fmt.Errorf("the log does not say what to do:\n%s", r.tail())
		}
		return nil
	})
}

// unharmed checks that the router's only endpoint is in use and without a blot.
func unharmed(t *testing.T, r *router) {
	t.Helper()
	a := post(t, r.client+"/v1/completions", "", `{"model":"words","prompt":"the time","max_tokens":1}`)
	failures, ok := r.metric(t, "llmgw_endpoint_recent_failures")
	if a.status != http.StatusOK || !ok || failures != 0 || r.count(t, "llmgw_endpoint_breaker_openings_total") != 0 {
		t.Errorf("afterwards an innocent client gets %v; the endpoint has %v recent failures", a, failures)
	}
}
