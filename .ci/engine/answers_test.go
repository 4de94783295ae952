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

// usageEvent is the event that an engine adds to a stream for those who ask for
// usage.
var usageEvent = regexp.MustCompile(`data: \{[^\n]*"choices":\[\],[^\n]*"usage":\{[^\n]*\}\n\n`)

// The client gets, byte for byte, what the engine said to the router, and what
// the engine would have told it without one. The router has counted the tokens.
func TestAnswersAreTheEnginesOwn(t *testing.T) {
	e := theEngine(t)
	tap := newTap(t, e.url)
	for _, name := range []string{"auto", *engineName} {
		r := newRouter(t, place{id: "e", url: tap.url, engine: name})
		counted := 0
		for _, path := range current().paths {
			for _, more := range []string{"", `,"stream":true`, `,"stream":true,"stream_options":{"include_usage":true}`} {
				asks := strings.Contains(more, "include_usage")
				if asks && (path == "/v1/responses" || path == "/v1/messages") {
					continue // of the other two only
				}
				t.Run(name+path+more, func(t *testing.T) {
					direct := post(t, e.url+path, apiKey, `{"model":"`+upstream+`",`+request(path)+more+`}`)
					got := post(t, r.client+path, "", `{"model":"words",`+request(path)+more+`}`)
					if direct.status != http.StatusOK {
						t.Fatalf("the engine itself answers %v", direct)
					}
					if got.status != direct.status || got.header.Get("Content-Type") != direct.header.Get("Content-Type") {
						t.Errorf("got %v, the engine says %v", got, direct)
					}
					said := tap.last()
					if more != "" && !asks {
						said = usageEvent.ReplaceAllString(said, "")
					}
					if diff := cmp.Diff(said, got.body); diff != "" {
						t.Errorf("the bytes differ from what the engine said (-engine +router):\n%s", diff)
					}
					if more == "" || !current().joinsTokens {
						if diff := cmp.Diff(differs.ReplaceAllString(direct.body, ""), differs.ReplaceAllString(got.body, "")); diff != "" {
							t.Errorf("the bytes differ from what the engine says directly (-engine +router):\n%s", diff)
						}
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

// llama-server closes a connection with its hundredth answer, after 5 s without
// a request, and, without a word before, after each stream. No request may come
// to harm on a connection that closes, nor count against the engine.
func TestConnectionsThatTheEngineCloses(t *testing.T) {
	e := theEngine(t)
	r := newRouter(t, place{id: "e", url: e.url})
	const callers, each = 4, 90
	var all sync.WaitGroup
	for caller := range callers {
		all.Go(func() {
			for i := range each {
				streamed := (i+caller)%3 == 0
				body := fmt.Sprintf(`{"model":"words","prompt":"the time","max_tokens":1,"stream":%t}`, streamed)
				a, err := whole(t.Context(), http.MethodPost, r.client+"/v1/completions", "", body)
				if err != nil || a.status != http.StatusOK || streamed != strings.HasSuffix(a.body, "data: [DONE]\n\n") {
					t.Errorf("got %v, %v", a, err)
				}
			}
		})
	}
	all.Wait()
	if n := r.count(t, "llmgw_router_requests_total", `result="ok"`); n != callers*each {
		t.Errorf("%v requests are counted as answered, want %d", n, callers*each)
	}
	t.Logf("%v connections were found closed before they were used, %v while; %v requests went to an endpoint again",
		r.count(t, "llmgw_proxy_stale_connections_total"), r.count(t, "llmgw_proxy_replays_total"), r.count(t, "llmgw_router_retries_total"))
	unharmed(t, r)
}
