package engine_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// tokens is how many tokens the answers compared have.
const tokens = 12

// request is the body of a request to path, without its end. The model is not
// there yet; the prompt has more than ASCII in it. Nothing is left to chance,
// and nothing of an earlier request is used, so the answer is always the same.
func request(path string) string {
	const text = `"What is the time in naïve 日本 \"now\"?"`
	const sampling = `,"temperature":0,"cache_prompt":false`
	switch path {
	case "/v1/completions":
		return `"prompt":` + text + fmt.Sprintf(`,"max_tokens":%d`, tokens) + sampling
	case "/v1/responses":
		return `"input":` + text + fmt.Sprintf(`,"max_output_tokens":%d`, tokens) + sampling
	default:
		return `"messages":[{"role":"user","content":` + text + `}]` + fmt.Sprintf(`,"max_tokens":%d`, tokens) + sampling
	}
}

// differs is what differs between two answers to the same request: the names
// given to them, the clock and the engine's stop-watch. The last and vLLM's
// fingerprint of itself stand on the last event, which is the one with the usage
// if the engine was asked for that; so they go with it if only the router asked.
var differs = regexp.MustCompile(`"(id|item_id)":"[^"]*"|"(created|created_at|completed_at)":[0-9.]+` +
	`|,?"timings":\{[^}]*\}|,?"system_fingerprint":"[^"]*"`)

// The client gets, byte for byte, what the engine would have told it without a
// router, and the router has counted the tokens.
func TestAnswersAreTheEnginesOwn(t *testing.T) {
	e := theEngine(t)
	for _, name := range []string{"auto", *engineName} {
		r := newRouter(t, place{id: "e", url: e.url, engine: name})
		counted := 0
		for _, path := range current().paths {
			for _, more := range []string{"", `,"stream":true`, `,"stream":true,"stream_options":{"include_usage":true}`} {
				if strings.Contains(more, "stream_options") && (path == "/v1/responses" || path == "/v1/messages") {
					continue // of the other two only
				}
				t.Run(name+path+more, func(t *testing.T) {
					want := post(t, e.url+path, apiKey, `{"model":"`+upstream+`",`+request(path)+more+`}`)
					got := post(t, r.client+path, "", `{"model":"words",`+request(path)+more+`}`)
					if want.status != http.StatusOK {
						t.Fatalf("the engine itself answers %v", want)
					}
					if got.status != want.status || got.header.Get("Content-Type") != want.header.Get("Content-Type") {
						t.Errorf("got %v, the engine says %v", got, want)
					}
					if diff := cmp.Diff(differs.ReplaceAllString(want.body, ""), differs.ReplaceAllString(got.body, "")); diff != "" {
						t.Errorf("the bytes differ (-engine +router):\n%s", diff)
					}
					counted += tokens
					if n := r.count(t, "llmgw_router_tokens_total", `kind="completion"`); n != float64(counted) {
						t.Errorf("%v tokens are counted, want %d", n, counted)
					}
				})
			}
		}
	}
}

// Clients see the model under the name that the router gives it.
func TestModelList(t *testing.T) {
	r := newRouter(t, place{id: "e", url: theEngine(t).url})
	if a := get(t, r.client+"/v1/models", ""); a.status != http.StatusOK || !strings.Contains(a.body, `"id":"words"`) || strings.Contains(a.body, upstream) {
		t.Errorf("got %v", a)
	}
}

// llama-server closes a connection with its hundredth answer, and engines close
// those that are not used. No request may meet a closed connection.
func TestConnectionsThatTheEngineCloses(t *testing.T) {
	e := theEngine(t)
	r := newRouter(t, place{id: "e", url: e.url})
	const callers, each = 4, 60
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for range each {
				a, err := whole(t.Context(), http.MethodPost, r.client+"/v1/completions", "", `{"model":"words","prompt":"the time","max_tokens":1}`)
				if err != nil || a.status != http.StatusOK {
					t.Errorf("got %v, %v", a, err)
				}
			}
		})
	}
	all.Wait()
	if n := r.count(t, "llmgw_router_requests_total", `result="ok"`); n != callers*each {
		t.Errorf("%v requests are counted as answered, want %d", n, callers*each)
	}
	t.Logf("%v requests were sent again", r.count(t, "llmgw_router_retries_total"))
}
