package gateway_test

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/llmgw/llmgw/router"
)

// rawly sends a request as bytes and reads the answer. What is short is
// followed by the end of what the client sends, which to the server means that
// the client has left.
func (f *fleet) rawly(request string, short ...bool) answer {
	f.t.Helper()
	c, err := (&net.Dialer{}).DialContext(f.t.Context(), "tcp", strings.TrimPrefix(f.url, "http://"))
	if err != nil {
		f.t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	// A server that refuses early may close before it has read all.
	_, _ = io.WriteString(c, request)
	if len(short) > 0 && short[0] {
		_ = c.(*net.TCPConn).CloseWrite()
	}
	method, _, _ := strings.Cut(request, " ")
	res, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: method})
	if err != nil {
		return answer{err: err}
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	return answer{res.StatusCode, res.Header, string(b), err}
}

func encoded(t testing.TB, encoding, body string) string {
	t.Helper()
	var buf bytes.Buffer
	var w io.WriteCloser
	var err error
	switch encoding {
	case "gzip":
		w = gzip.NewWriter(&buf)
	case "deflate":
		w = zlib.NewWriter(&buf)
	case "flate":
		w, err = flate.NewWriter(&buf, flate.DefaultCompression)
	case "zstd":
		w, err = zstd.NewWriter(&buf)
	}
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.WriteString(w, body)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return buf.String()
}

// Each mistake is a clear error of the right status in the shape of the API
// that was called, no engine hears of it, and nothing of the request is logged.
func TestBadInput(t *testing.T) {
	const limit = 64 << 10
	const canary = "canary-3f9a"
	long := `{"model":"m","messages":"` + strings.Repeat(canary, limit/len(canary)) + `"}`
	length := func(body string) string { return fmt.Sprint("Content-Length: ", len(body), "\r\n") }
	chunks := func(body string) string { return fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body) }
	coded := func(how, encoding, body string) (string, string) {
		body = encoded(t, encoding, body)
		return "Content-Encoding: " + how + "\r\n" + length(body), body
	}
	type test struct {
		name, method  string // "": POST
		header, body  string // header "": Content-Length alone
		status        int
		code, errType string // of the OpenAI and of the Anthropic shape
	}
	tests := []test{
		{name: "empty", status: 400, code: "invalid_json"},
		{name: "no JSON", body: canary, status: 400, code: "invalid_json"},
		{name: "no object", body: `["` + canary + `"]`, status: 400, code: "invalid_json"},
		{name: "cut JSON", body: `{"model":"m","x":"` + canary, status: 400, code: "invalid_json"},
		{name: "two documents", body: `{"model":"m"}{"model":"` + canary + `"}`, status: 400, code: "invalid_json"},
		{name: "deep", body: `{"model":"m","x":` + strings.Repeat("[", 20_000), status: 400, code: "invalid_json"},
		{name: "no model", body: `{"messages":"` + canary + `","metadata":{"model":"m"}}`, status: 400, code: "model_required"},
		{name: "empty model", body: `{"model":""}`, status: 400, code: "model_required"},
		{name: "null model", body: `{"model":null}`, status: 400, code: "model_not_string"},
		{name: "model is a number", body: `{"model":7}`, status: 400, code: "model_not_string"},
		{name: "model is an object", body: `{"model":{"m":"` + canary + `"}}`, status: 400, code: "model_not_string"},
		{name: "two models", body: `{"model":"m","x":"` + canary + `","model":"m"}`, status: 400, code: "duplicate_model"},
		{name: "two models, one escaped", body: `{"model":"m","\u006d\u006Fdel":"n"}`, status: 400, code: "duplicate_model"},
		{name: "two models, one in capitals", body: `{"model":"m","MODEL":"n"}`, status: 400, code: "duplicate_model"},
		{name: "unknown model", body: `{"model":"gpt-99"}`, status: 404, code: "model_not_found", errType: "not_found_error"},
		{name: "unknown model of hostile text", body: `{"model":"\u001b[31m` + strings.Repeat("x", 5000) + `"}`, status: 404, code: "model_not_found", errType: "not_found_error"},
		{name: "too long, declared", body: long, status: 413, code: "request_too_large", errType: "request_too_large"},
		{name: "too long, in chunks", header: "Transfer-Encoding: chunked\r\n", body: chunks(long), status: 413, code: "request_too_large", errType: "request_too_large"},
		{name: "declared and never sent", header: "Content-Length: 33554433\r\n", status: 413, code: "request_too_large", errType: "request_too_large"},
		{name: "shorter than declared", header: "Content-Length: 500\r\n", body: `{"model":"m","x":"` + canary, status: 400, code: "body_truncated"},
		{name: "chunks without an end", header: "Transfer-Encoding: chunked\r\n", body: "5\r\n{\"mod\r\n", status: 400, code: "body_truncated"},
		{name: "unknown encoding", header: "Content-Encoding: br\r\nContent-Length: 2\r\n", body: "{}", status: 415, code: "unsupported_encoding"},
		{name: "two encodings", header: "Content-Encoding: gzip, gzip\r\nContent-Length: 2\r\n", body: "{}", status: 415, code: "unsupported_encoding"},
		{name: "two lines of encodings", header: "Content-Encoding: gzip\r\nContent-Encoding: zstd\r\nContent-Length: 2\r\n", body: "{}", status: 415, code: "unsupported_encoding"},
		{name: "multipart", header: "Content-Type: multipart/form-data; boundary=x\r\nContent-Length: 2\r\n", body: "{}", status: 415, code: "invalid_request"},
		{name: "GET", method: "GET", status: 405, code: "method_not_allowed"},
		{name: "PUT", method: "PUT", body: `{"model":"m"}`, status: 405, code: "method_not_allowed"},
		{name: "DELETE", method: "DELETE", status: 405, code: "method_not_allowed"},
		{name: "OPTIONS", method: "OPTIONS", status: 405, code: "method_not_allowed"},
		{name: "of its own", method: "BREW", status: 405, code: "method_not_allowed"},
	}
	for _, encoding := range []string{"gzip", "deflate", "zstd"} {
		add := func(name, header, body string, status int, code, errType string) {
			tests = append(tests, test{
				name: encoding + " " + name, header: header, body: body, status: status, code: code, errType: errType,
			})
		}
		whole := encoded(t, encoding, `{"model":"m","x":"`+canary+`"}`)
		as := "Content-Encoding: " + encoding + "\r\n"
		add("of plain text", as+length(canary), canary, 400, "corrupt_encoding", "")
		empty := "corrupt_encoding"
		if encoding == "zstd" {
			empty = "invalid_json" // no frames are none too few
		}
		add("empty in chunks", as+"Transfer-Encoding: chunked\r\n", "0\r\n\r\n", 400, empty, "")
		add("cut short", as+length(whole[:len(whole)-6]), whole[:len(whole)-6], 400, "corrupt_encoding", "")
		add("with something after it", as+length(whole+"{}junkjunk"), whole+"{}junkjunk", 400, "corrupt_encoding", "")
		add("shorter than declared", as+"Content-Length: 9999\r\n", whole, 400, "body_truncated", "")
		h, b := coded(encoding, encoding, encoded(t, encoding, `{"model":"m"}`))
		add("twice", h, b, 400, "invalid_json", "")
		h, b = coded(encoding, encoding, strings.Repeat(" ", 4<<20))
		add("bomb", h, b, 413, "request_too_large", "request_too_large")
		h, b = coded(encoding, encoding, `{"model":"m"`)
		add("of cut JSON", h, b, 400, "invalid_json", "")
	}
	flat := encoded(t, "flate", `{"model":"m"}`)
	tests = append(tests, test{
		name: "deflate without its header", header: "Content-Encoding: deflate\r\n" + length(flat), body: flat,
		status: 400, code: "corrupt_encoding",
	})

	e := newRaw(t, good)
	cfg := config(at("e", e.url))
	cfg.Router.Core.MaxBodyBytes = limit
	f := newFleet(t, cfg)
	for _, tt := range tests {
		for _, path := range []string{chatPath, "/v1/messages"} {
			t.Run(tt.name+path, func(t *testing.T) {
				method, header := tt.method, tt.header
				if method == "" {
					method = "POST"
				}
				if header == "" {
					header = length(tt.body)
				}
				short := tt.code == "body_truncated"
				got := f.rawly(method+" "+path+" HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+canary+"\r\n"+header+"\r\n"+tt.body, short)
				result := router.ResultRefused
				if short {
					result = router.ResultCanceled
				}
				if o := f.next(); o.Status != tt.status || o.Code != tt.code || o.Result != result || o.Attempts != 0 {
					t.Errorf("recorded %+v", o)
				}
				if got.err != nil || got.status != tt.status || got.header.Get("Content-Type") != "application/json" {
					t.Fatalf("got %d %v, %v", got.status, got.header, got.err)
				}
				if method == "BREW" || method == "GET" || method == "OPTIONS" {
					if got.header.Get("Allow") != "POST" {
						t.Errorf("Allow is %q", got.header.Get("Allow"))
					}
				}
				checkShape(t, path, got, tt.code, tt.errType)
				if strings.Contains(got.body, canary) {
					t.Errorf("the answer repeats the request: %s", got.body)
				}
			})
		}
	}
	if e.calls.Load() != 0 || f.metric("llmgw_proxy_dials_total") != 0 {
		t.Error("an engine was dialled")
	}
	if strings.Contains(f.log.String(), canary) {
		t.Errorf("the log has something of a request:\n%s", f.log)
	}
	f.idle()
}

// checkShape fails unless got is an error of ours in the shape of the path's API.
func checkShape(t testing.TB, path string, got answer, code, errType string) {
	t.Helper()
	id := got.header.Get("X-Request-Id")
	if id == "" || got.header.Get("Request-Id") != id {
		t.Errorf("request ids %q and %q", id, got.header.Get("Request-Id"))
	}
	if strings.HasPrefix(path, "/v1/messages") {
		var doc struct {
			Type  string
			ID    string `json:"request_id"`
			Error struct{ Type, Message string }
		}
		if err := json.Unmarshal([]byte(got.body), &doc); err != nil {
			t.Fatal(err)
		}
		if errType == "" {
			errType = "invalid_request_error"
		}
		if doc.Type != "error" || doc.ID != id || doc.Error.Type != errType || len(doc.Error.Message) < 20 {
			t.Errorf("got %s", got.body)
		}
		return
	}
	var doc struct {
		Error struct {
			Message, Type, Code string
			Param               *string
		}
	}
	if err := json.Unmarshal([]byte(got.body), &doc); err != nil {
		t.Fatal(err)
	}
	if doc.Error.Code != code || doc.Error.Type == "" || len(doc.Error.Message) < 20 || len(doc.Error.Message) > 500 {
		t.Errorf("got %s, want code %s", got.body, code)
	}
}

// Paths that engines have and clients have no business with, and paths that two
// servers could read differently, are unknown; a body that would be routed
// changes nothing.
func TestUnknownPaths(t *testing.T) {
	e := newRaw(t, good)
	f := newFleet(t, config(at("e", e.url)))
	for _, path := range []string{
		"/", "/v1", "/v1/", "/v2/chat/completions", "/metrics", "/health", "/sleep", "/start_profile", "/v1x/chat/completions",
		"/v1/load_lora_adapter", "/v1/unload_lora_adapter", "/v1/loads", "/load_lora_adapter", "/v1/../metrics", "/v1/..", "/../v1/chat/completions",
		"/v1/./chat/completions", "//v1/chat/completions", "/v1//chat/completions", "/v1/chat//completions", "/v1/chat/completions/",
		"/v1/chat%2Fcompletions", "/v1%2fchat/completions", "/v1/%63hat/completions", "/v1/%2e%2e/metrics", "/v1/..%2f..%2fmetrics",
		"/v1/load%5flora_adapter", "/v1/%6coad_lora_adapter", "/v1/messages/%2e%2e/x", "/v1/messages/../x", "/v1/x/%00", "/v1/a%20b",
		"/v1/chat/completions;x/..", "/%76%31/chat/completions", "/V1/chat/completions", "/v1/models2/../x",
	} {
		t.Run(path, func(t *testing.T) {
			got := f.rawly("POST " + path + " HTTP/1.1\r\nHost: x\r\nContent-Length: 13\r\n\r\n" + `{"model":"m"}`)
			if path == "/v1/chat/completions;x/.." || path == "/v1/x/%00" {
				// net/http may refuse these itself, which is as good.
				if got.status != 404 && got.status != 400 {
					t.Errorf("got %d %s", got.status, got.body)
				}
				return
			}
			if got.status != 404 {
				t.Fatalf("got %d %s", got.status, got.body)
			}
			checkShape(t, path, got, "unknown_url", "not_found_error")
		})
	}
	got := f.rawly("POST /v2/x HTTP/1.1\r\nHost: x\r\nAnthropic-Version: 2023-06-01\r\nContent-Length: 2\r\n\r\n{}")
	if got.status != 404 {
		t.Errorf("got %d", got.status)
	}
	checkShape(t, "/v1/messages", got, "", "not_found_error")
	if e.calls.Load() != 0 {
		t.Errorf("%d requests reached the engine", e.calls.Load())
	}
}

// Known paths, with and without /v1 and with a query, and any other path of
// that form reach the engine under the engine's own path.
func TestKnownPaths(t *testing.T) {
	var line string
	e := newRaw(t, func(x *exchange) { line = x.req.RequestURI; good(x) })
	base := at("e", e.url+"/engines/a")
	f := newFleet(t, config(base))
	for path, want := range map[string]string{
		"/v1/chat/completions":      "/v1/chat/completions",
		"/chat/completions":         "/v1/chat/completions",
		"/v1/messages?beta=true":    "/v1/messages?beta=true",
		"/messages/count_tokens":    "/v1/messages/count_tokens",
		"/v1/embeddings?a=b&c=%20+": "/v1/embeddings?a=b&c=%20+",
		"/v1/rerank":                "/v1/rerank",
		"/rerank":                   "/v1/rerank",
		"/v2/rerank":                "/v1/rerank",
		"/v1/score":                 "/v1/score",
		"/v1/responses":             "/v1/responses",
		"/tokenize":                 "/tokenize",
		"/v1/classify":              "/v1/classify",
		"/v1/a/b_c-d.e":             "/v1/a/b_c-d.e",
	} {
		if got := f.do("POST", path, chatBody); got.status != 200 || line != "/engines/a"+want {
			t.Errorf("%s: got %d; the engine saw %s", path, got.status, line)
		}
	}
}

// A bomb costs its limit, and with zstd the largest window, and no more.
func TestBombIsDefused(t *testing.T) {
	e := newRaw(t, good)
	cfg := config(at("e", e.url))
	cfg.Router.Core.MaxBodyBytes = 256 << 10
	f := newFleet(t, cfg)
	for _, encoding := range []string{"gzip", "deflate", "zstd"} {
		bomb := encoded(t, encoding, strings.Repeat("\x00", 4<<20))
		if encoding != "deflate" {
			bomb = strings.Repeat(bomb, 16) // members, or frames, one after the other
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got := f.do("POST", chatPath, bomb, "Content-Encoding", encoding)
		runtime.ReadMemStats(&after)
		if got.status != 413 {
			t.Errorf("%s: got %d %s", encoding, got.status, got.body)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 12<<20 {
			t.Errorf("%s: a bomb of %d bytes cost %d MiB", encoding, len(bomb), n>>20)
		}
	}
	f.idle()
}
