package gateway_test

import (
	"strings"
	"testing"
)

// Every answer names its request under both APIs' names, the engine and the
// record know it by the same id, and a client's own id stays if it is one that
// can stand in a log.
func TestRequestID(t *testing.T) {
	var engineID []string
	status := 200
	e := newRaw(t, func(x *exchange) {
		engineID = x.req.Header["X-Request-Id"]
		x.write(document(status, completion, "X-Request-Id: the-engines-own", "Request-Id: the-engines-own"))
	})
	f := newFleet(t, config(at("e", e.url)))
	tests := []struct {
		name, header, id string
		kept             bool
	}{
		{"none", "", "", false},
		{"plain", "X-Request-Id", "abc-DEF_1.2:3", true},
		{"under the other name", "Request-Id", "abc", true},
		{"longest", "X-Request-Id", strings.Repeat("a", 128), true},
		{"too long", "X-Request-Id", strings.Repeat("a", 129), false},
		{"empty", "X-Request-Id", "", false},
		{"of two words", "X-Request-Id", "a b", false},
		{"quoted", "X-Request-Id", `a"b`, false},
		{"not ASCII", "X-Request-Id", "a\u00e9", false},
		{"markup", "X-Request-Id", "<script>", false},
		{"list", "X-Request-Id", "a,b", false},
		{"a key", "X-Request-Id", "id-llmgw_" + strings.Repeat("0aZ", 16) + "x", false},
		{"a name that begins as keys do", "X-Request-Id", "llmgw_job-17", true},
	}
	for _, tt := range tests {
		for _, body := range []string{chatBody, `{"model":"nobody"}`, "no JSON", `{"model":"m","fail":1}`} {
			status = 200
			if strings.Contains(body, "fail") {
				status = 400
			}
			got := f.do("POST", chatPath, body, tt.header, tt.id)
			id := got.header.Get("X-Request-Id")
			if len(got.header["X-Request-Id"]) != 1 || len(got.header["Request-Id"]) != 1 || got.header.Get("Request-Id") != id {
				t.Errorf("%s: got %q and %q", tt.name, got.header["X-Request-Id"], got.header["Request-Id"])
			}
			if tt.kept != (id == tt.id) || id == "" {
				t.Errorf("%s: got %q", tt.name, id)
			}
			if o := f.next(); o.ID != id {
				t.Errorf("%s: recorded as %q", tt.name, o.ID)
			}
			if o := strings.Contains(body, `"m"`); o && (len(engineID) != 1 || engineID[0] != id) {
				t.Errorf("%s: the engine knows it as %q", tt.name, engineID)
			}
		}
	}
	first, second := f.chat(), f.chat()
	if first.header.Get("X-Request-Id") == second.header.Get("X-Request-Id") {
		t.Error("two requests have one id")
	}
	twice := f.rawly("POST " + chatPath + " HTTP/1.1\r\nHost: x\r\nX-Request-Id: a\r\nX-Request-Id: b\r\nContent-Length: 13\r\n\r\n" + `{"model":"m"}`)
	if id := twice.header.Get("X-Request-Id"); id == "a" || id == "b" || id == "" {
		t.Errorf("of two ids %q is kept", id)
	}
}

// Nothing that is between the client and us reaches an engine, and what an
// engine's web server says of itself reaches no client.
func TestHeaders(t *testing.T) {
	seen := map[string][]string{}
	e := newRaw(t, func(x *exchange) {
		seen = x.req.Header
		x.write(document(200, completion, "Server: uvicorn", "Set-Cookie: a=b", "Access-Control-Allow-Origin: *", "X-Engine: yes", "X-Gone: 1", "Connection: x-gone"))
	})
	keyed := at("e", e.url)
	keyed.Secret = "sk-engine"
	f := newFleet(t, config(keyed))
	got := f.do("POST", chatPath, chatBody, "Authorization", "Bearer sk-client", "X-Api-Key", "sk-client", "Cookie", "a=b",
		"X-Forwarded-For", "10.0.0.1", "X-Data-Parallel-Rank", "3", "X-Llmgw-Debug", "1", "Anthropic-Beta", "b1,b2", "X-Own", "kept")
	for _, name := range []string{"X-Api-Key", "Cookie", "X-Forwarded-For", "X-Data-Parallel-Rank", "X-Llmgw-Debug"} {
		if seen[name] != nil {
			t.Errorf("%s reaches the engine", name)
		}
	}
	for name, want := range map[string]string{
		"Authorization": "Bearer sk-engine", "Anthropic-Beta": "b1,b2", "X-Own": "kept", "Content-Type": "application/json",
	} {
		if len(seen[name]) != 1 || seen[name][0] != want {
			t.Errorf("%s reaches the engine as %q", name, seen[name])
		}
	}
	for _, name := range []string{"Server", "Set-Cookie", "Access-Control-Allow-Origin", "X-Gone"} {
		if got.header[name] != nil {
			t.Errorf("%s reaches the client", name)
		}
	}
	if got.header.Get("X-Engine") != "yes" {
		t.Error("a header of the engine's own is lost")
	}
}
