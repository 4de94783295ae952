package gateway_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/llmgw/llmgw/router"
	"github.com/llmgw/llmgw/router/gateway"
	"github.com/llmgw/llmgw/router/routertest"
)

// postAs sends a JSON body under the content types, as many headers as there are.
func (f *fleet) postAs(path, body string, types []string, header ...string) answer {
	f.t.Helper()
	req, err := http.NewRequestWithContext(f.t.Context(), http.MethodPost, f.url+path, strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	req.Header["Content-Type"] = types
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := f.client.Do(req)
	if err != nil {
		return answer{err: err}
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	return answer{res.StatusCode, res.Header, string(b), err}
}

// However a client calls its JSON, it is read as JSON and the engine is told so:
// no engine may read another model in it than the one that was allowed.
func TestContentTypes(t *testing.T) {
	arrived := make(chan *exchange, 1)
	e := newRaw(t, func(x *exchange) { arrived <- x; x.write(document(200, `{"id":"x"}`)) })
	f := newFleet(t, config(at("a", e.url)))
	for name, types := range map[string][]string{
		"none":           nil,
		"JSON":           {"application/json"},
		"with a charset": {"application/json; charset=utf-16"},
		"a kind of JSON": {"application/vnd.api+json"},
		"curl -d":        {"application/x-www-form-urlencoded"},
		"plain text":     {"text/plain;charset=UTF-8"},
		"empty":          {""},
		"a list":         {"application/json, multipart/form-data; boundary=x"},
	} {
		for _, path := range []string{chatPath, "/v1/images/edits", "/v1/something/else"} {
			t.Run(name+path, func(t *testing.T) {
				const body = `{"model":"m","x":"&model=secret&prompt=hi&url=http://x&y="}`
				got := f.postAs(path, body, types)
				if got.status != 200 {
					t.Fatalf("got %d %s", got.status, got.body)
				}
				x := <-arrived
				if sent := x.req.Header["Content-Type"]; len(sent) != 1 || sent[0] != "application/json" || string(x.body) != body {
					t.Errorf("the engine got %q as %q", x.body, sent)
				}
			})
		}
	}
	f.idle()
}

// What some server could read in another way goes to none.
func TestContentTypesRefused(t *testing.T) {
	e := newRaw(t, good)
	f := newFleet(t, config(at("a", e.url)))
	form := formOf("model", "m")
	for _, tt := range []struct {
		name, path, body string
		types            []string
		header           []string
	}{
		{name: "two", path: chatPath, types: []string{"application/json", "application/x-www-form-urlencoded"}},
		{name: "the same twice", path: chatPath, types: []string{"application/json", "application/json"}},
		{name: "the second a form", path: "/v1/images/edits", types: []string{"application/json", formType}},
		{name: "two forms", path: transcriptions, body: form, types: []string{formType, formType}},
		{name: "a form, and none is taken", path: chatPath, body: form, types: []string{formType}},
		{name: "of a web page as text", path: chatPath, types: []string{"text/plain"}, header: []string{"Origin", "https://x.test"}},
		{name: "of a web page as nothing", path: chatPath, header: []string{"Origin", "https://x.test"}},
		{name: "of a web page as a form's fields", path: chatPath, types: []string{"application/x-www-form-urlencoded"}, header: []string{"Origin", "null"}},
	} {
		for _, dialect := range []string{"openai", "anthropic"} {
			t.Run(tt.name+"/"+dialect, func(t *testing.T) {
				path, header := tt.path, tt.header
				if dialect == "anthropic" {
					header = append([]string{"Anthropic-Version", "2023-06-01"}, header...)
					if path == chatPath {
						path = "/v1/messages"
					}
				}
				body := tt.body
				if body == "" {
					body = `{"model":"m"}`
				}
				got := f.postAs(path, body, tt.types, header...)
				if got.status != 415 || !strings.Contains(got.body, "invalid_request") || !strings.Contains(got.body, "Send") {
					t.Errorf("got %d %s", got.status, got.body)
				}
				if shaped := strings.HasPrefix(got.body, `{"type":"error"`); shaped != (path == "/v1/messages") {
					t.Errorf("on %s it has the shape %s", path, got.body)
				}
			})
		}
	}
	if got := f.postAs(chatPath, chatBody, []string{"application/json; charset=utf-8"}, "Origin", "https://x.test"); got.status != 200 {
		t.Errorf("JSON of a web page: got %d %s", got.status, got.body)
	}
	if e.calls.Load() != 1 {
		t.Errorf("the engine was asked %d times; want 1", e.calls.Load())
	}
	f.idle()
}

// Fields that look like a form's name no model to a caller who may not use it.
func TestModelOfAnotherContentType(t *testing.T) {
	arrived := make(chan *exchange, 1)
	e := newRaw(t, func(x *exchange) { arrived <- x; x.write(document(200, `{}`)) })
	f := newFleet(t, config(at("a", e.url, "m", "secret")), func(d *gateway.Deps) {
		d.Caller = routertest.Callers{"B": router.Identity{Tenant: "B", MayUse: routertest.Only("m")}}
	})
	as := []string{"Authorization", "Bearer B"}
	fields := []string{"application/x-www-form-urlencoded"}
	if got := f.postAs("/v1/images/edits", "model=secret&prompt=hi", fields, as...); got.status != 400 || got.code() != "invalid_json" {
		t.Errorf("got %d %s", got.status, got.body)
	}
	if got := f.postAs("/v1/images/edits", `{"model":"secret"}`, fields, as...); got.status != 404 || got.code() != "model_not_found" {
		t.Errorf("got %d %s", got.status, got.body)
	}
	if got := f.postAs("/v1/images/edits", `{"model":"m","x":"&model=secret&y="}`, fields, as...); got.status != 200 {
		t.Fatalf("got %d %s", got.status, got.body)
	}
	if x := <-arrived; x.req.Header.Get("Content-Type") != "application/json" || e.calls.Load() != 1 {
		t.Errorf("the engine was asked %d times, as %q", e.calls.Load(), x.req.Header.Get("Content-Type"))
	}
	f.idle()
}

// The request that the router was given stays as it was.
func TestRequestIsNotChanged(t *testing.T) {
	e := newRaw(t, good)
	f := newFleet(t, config(at("a", e.url)))
	after := make(chan string, 1)
	f.url = newServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.gw.ServeHTTP(w, r)
		after <- strings.Join(r.Header["Content-Type"], ", ")
	}))
	got := f.postAs(chatPath, chatBody, []string{"text/plain"})
	if left := <-after; got.status != 200 || left != "text/plain" {
		t.Errorf("got %d, and the header is %q", got.status, left)
	}
}
