package gateway_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgw/llmgw/placement/catalog"
	"github.com/llmgw/llmgw/router"
	"github.com/llmgw/llmgw/router/gateway"
	"github.com/llmgw/llmgw/router/routertest"
)

func modelsFleet(t *testing.T) (*fleet, *rawEngine) {
	e := newRaw(t, good)
	cfg := config(at("e", e.url, "org/chat-8b", "b", "c", "secret"))
	cfg.Models = []catalog.Model{{Name: "a", Aliases: []string{"alias"}, Fallbacks: []string{"b"}}, {Name: "b"}}
	f := newFleet(t, cfg, func(d *gateway.Deps) {
		d.Caller = routertest.Callers{
			"some": router.Identity{MayUse: routertest.Only("a", "b", "c", "org/chat-8b")},
			"none": router.Identity{MayUse: routertest.Only()},
			"all":  router.Identity{},
		}
	})
	return f, e
}

func ids(t testing.TB, body string) []string {
	t.Helper()
	var doc struct{ Data []struct{ ID string } }
	if err := json.Unmarshal([]byte(body), &doc); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	out := []string{}
	for _, d := range doc.Data {
		out = append(out, d.ID)
	}
	return out
}

// The list has what the caller may use and nothing else, whether or not an
// engine serves it.
func TestModelsList(t *testing.T) {
	f, e := modelsFleet(t)
	for key, want := range map[string][]string{
		"all":  {"a", "b", "c", "org/chat-8b", "secret"},
		"some": {"a", "b", "c", "org/chat-8b"},
		"none": {},
	} {
		got := f.do("GET", "/v1/models?client_version=1", "", "Authorization", "Bearer "+key)
		if diff := cmp.Diff(want, ids(t, got.body)); diff != "" || got.status != 200 {
			t.Errorf("%s: got %d, -want +got:\n%s", key, got.status, diff)
		}
		if got.header.Get("X-Request-Id") == "" {
			t.Error("no request id")
		}
		again := f.do("GET", "/models", "", "Authorization", "Bearer "+key)
		if again.body != got.body {
			t.Errorf("without /v1: %s", again.body)
		}
		anthropic := f.do("GET", "/v1/models", "", "Authorization", "Bearer "+key, "Anthropic-Version", "2023-06-01")
		if diff := cmp.Diff(want, ids(t, anthropic.body)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", key, diff)
		}
	}
	var doc struct {
		Object string
		Data   []struct {
			Object  string
			Created int64
			Owner   string `json:"owned_by"`
		}
	}
	got := f.do("GET", "/v1/models", "", "Authorization", "Bearer all")
	if err := json.Unmarshal([]byte(got.body), &doc); err != nil || doc.Object != "list" || doc.Data[0].Object != "model" ||
		doc.Data[0].Created == 0 || doc.Data[0].Owner == "" {
		t.Errorf("got %s", got.body)
	}
	if got := f.do("GET", "/v1/models", ""); got.status != 401 || got.code() != "invalid_api_key" {
		t.Errorf("without a key: got %d %s", got.status, got.body)
	}
	for _, method := range []string{"POST", "PUT", "DELETE"} {
		got := f.do(method, "/v1/models", chatBody, "Authorization", "Bearer all")
		if got.status != 405 || got.header.Get("Allow") != "GET, HEAD" {
			t.Errorf("%s: got %d, Allow %q", method, got.status, got.header.Get("Allow"))
		}
	}
	if e.calls.Load() != 0 {
		t.Error("an engine was asked")
	}
}

func TestModelsPagesInAnthropicShape(t *testing.T) {
	f, _ := modelsFleet(t)
	type page struct {
		IDs         []string
		More        bool
		First, Last string
	}
	for query, want := range map[string]page{
		"":                     {[]string{"a", "b", "c", "org/chat-8b", "secret"}, false, "a", "secret"},
		"?limit=2":             {[]string{"a", "b"}, true, "a", "b"},
		"?limit=2&after_id=b":  {[]string{"c", "org/chat-8b"}, true, "c", "org/chat-8b"},
		"?limit=9&after_id=c":  {[]string{"org/chat-8b", "secret"}, false, "org/chat-8b", "secret"},
		"?limit=1&before_id=c": {[]string{"b"}, true, "b", "b"},
		"?after_id=secret":     {[]string{}, false, "", ""},
	} {
		got := f.do("GET", "/v1/models"+query, "", "Authorization", "Bearer all", "Anthropic-Version", "2023-06-01")
		var doc struct {
			More  bool    `json:"has_more"`
			First *string `json:"first_id"`
			Last  *string `json:"last_id"`
		}
		if err := json.Unmarshal([]byte(got.body), &doc); err != nil {
			t.Fatal(err)
		}
		have := page{IDs: ids(t, got.body), More: doc.More}
		if doc.First != nil {
			have.First, have.Last = *doc.First, *doc.Last
		}
		if diff := cmp.Diff(want, have); diff != "" {
			t.Errorf("%q: -want +got:\n%s", query, diff)
		}
	}
	for _, query := range []string{"?limit=0", "?limit=x", "?limit=9999", "?after_id=nobody", "?after_id=a&before_id=b"} {
		got := f.do("GET", "/v1/models"+query, "", "Authorization", "Bearer all", "Anthropic-Version", "2023-06-01")
		if got.status != 400 {
			t.Errorf("%s: got %d", query, got.status)
		}
		checkShape(t, "/v1/messages", got, "", "invalid_request_error")
	}
	// A page never starts behind a model that the caller must not know of.
	got := f.do("GET", "/v1/models?after_id=secret", "", "Authorization", "Bearer some", "Anthropic-Version", "2023-06-01")
	if got.status != 400 {
		t.Errorf("got %d %s", got.status, got.body)
	}
}

// One model is found under its name and its aliases, slashes raw or escaped.
// One that the caller may not use is answered as one that is not there.
func TestOneModel(t *testing.T) {
	f, _ := modelsFleet(t)
	for path, want := range map[string]string{
		"/v1/models/a":                "a",
		"/v1/models/alias":            "alias",
		"/v1/models/org/chat-8b":      "org/chat-8b",
		"/v1/models/org%2Fchat-8b":    "org/chat-8b",
		"/v1/models/org%2fchat%2D8b":  "org/chat-8b",
		"/models/org%2Fchat-8b":       "org/chat-8b",
		"/models/org/chat-8b?x=y":     "org/chat-8b",
		"/v1/models/secret":           "",
		"/v1/models/nobody":           "",
		"/v1/models/":                 "",
		"/v1/models/org/":             "",
		"/v1/models//a":               "",
		"/v1/models/./a":              "",
		"/v1/models/x/../a":           "",
		"/v1/models/%2e%2e%2fa":       "",
		"/v1/models/org%252Fchat-8b":  "",
		"/v1/models/a%00":             "",
		"/v1/models/%ff":              "",
		"/v1/models/A":                "",
		"/v1/models/%3Cscript%3E":     "",
		"/v1/models/org/chat-8b/more": "",
	} {
		t.Run(path, func(t *testing.T) {
			send := func(method, more string) answer {
				return f.rawly(method + " " + path + " HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer some\r\n" + more + "\r\n")
			}
			got, head, other := send("GET", ""), send("HEAD", ""), send("GET", "Anthropic-Version: x\r\n")
			if head.status != got.status || head.header.Get("Content-Length") != got.header.Get("Content-Length") || head.body != "" {
				t.Errorf("HEAD: got %d %v %q", head.status, head.header, head.body)
			}
			if want == "" {
				if got.status != 404 || other.status != 404 {
					t.Fatalf("got %d %s", got.status, got.body)
				}
				checkShape(t, "/", got, "model_not_found", "")
				checkShape(t, "/v1/messages", other, "", "not_found_error")
				return
			}
			var doc struct{ ID, Object, Type string }
			if err := json.Unmarshal([]byte(got.body), &doc); err != nil || doc.ID != want || doc.Object != "model" {
				t.Errorf("got %d %s", got.status, got.body)
			}
			if err := json.Unmarshal([]byte(other.body), &doc); err != nil || doc.ID != want || doc.Type != "model" {
				t.Errorf("got %d %s", other.status, other.body)
			}
		})
	}
}

// What may not be used and what does not exist look alike, for the list, for
// one model and for a request.
func TestForbiddenIsUnknown(t *testing.T) {
	f, e := modelsFleet(t)
	for _, request := range []struct{ method, path, body string }{
		{"GET", "/v1/models/NAME", ""},
		{"POST", chatPath, `{"model":"NAME"}`},
		{"POST", "/v1/messages", `{"model":"NAME"}`},
	} {
		ask := func(name string) answer {
			got := f.do(request.method, strings.ReplaceAll(request.path, "NAME", name), strings.ReplaceAll(request.body, "NAME", name),
				"Authorization", "Bearer some", "X-Request-Id", "same")
			got.body = strings.ReplaceAll(got.body, name, "NAME")
			got.header.Del("Date")
			got.header.Del("Content-Length")
			return got
		}
		forbidden, unknown := ask("secret"), ask("nobody")
		if diff := cmp.Diff(unknown, forbidden, cmp.AllowUnexported(answer{})); diff != "" || unknown.status != 404 {
			t.Errorf("%s: got %d, -unknown +forbidden:\n%s", request.path, unknown.status, diff)
		}
	}
	if e.calls.Load() != 0 {
		t.Error("an engine was asked")
	}
	// No alias opens what its target does not.
	got := f.do("POST", chatPath, `{"model":"alias"}`, "Authorization", "Bearer none")
	if got.status != 404 || got.code() != "model_not_found" {
		t.Errorf("got %d %s", got.status, got.body)
	}
}
