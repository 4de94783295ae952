package openai_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgw/llmgw/router/openai"
)

// errorBody is the shape that SDKs read, with nothing else beside it.
type errorBody struct {
	Error struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    *string `json:"code"`
	} `json:"error"`
}

func decodeError(t *testing.T, body []byte) errorBody {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(string(body)))
	dec.DisallowUnknownFields()
	var doc errorBody
	if err := dec.Decode(&doc); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return doc
}

func TestErrors(t *testing.T) {
	tests := []struct {
		name   string
		err    *openai.Error
		status int
		kind   string
		code   string
		param  string
	}{
		{"not JSON", openai.PeekFailed(openai.ErrNotJSON), 400, "invalid_request_error", "invalid_json", ""},
		{"no model", openai.PeekFailed(openai.ErrNoModel), 400, "invalid_request_error", "model_required", "model"},
		{"model no string", openai.PeekFailed(openai.ErrModelNotString), 400, "invalid_request_error", "model_not_string", "model"},
		{"two models", openai.PeekFailed(openai.ErrDuplicateModel), 400, "invalid_request_error", "duplicate_model", "model"},
		{"too deep", openai.PeekFailed(openai.ErrTooDeep), 400, "invalid_request_error", "invalid_json", ""},
		{"no object", openai.PeekFailed(openai.ErrNotObject), 400, "invalid_request_error", "invalid_json", ""},
		{"cut JSON", openai.PeekFailed(openai.ErrTruncated), 400, "invalid_request_error", "invalid_json", ""},
		{"anything else", openai.PeekFailed(errors.New("x")), 400, "invalid_request_error", "invalid_json", ""},
		{"unknown model", openai.UnknownModel("m"), 404, "invalid_request_error", "model_not_found", "model"},
		{"no endpoint", openai.NoEndpoint("m", time.Second), 503, "server_error", "no_endpoint", ""},
		{"loading", openai.ModelLoading("m", time.Minute), 503, "server_error", "model_loading", ""},
		{"overloaded", openai.Overloaded(0), 503, "server_error", "overloaded", ""},
		{"timeout", openai.UpstreamTimeout("its first token"), 504, "server_error", "upstream_timeout", ""},
		{"failed", openai.UpstreamFailed(), 502, "server_error", "upstream_failed", ""},
		{"too large", openai.BodyTooLarge(33554432), 413, "invalid_request_error", "request_too_large", ""},
		{"no room on the disk", openai.FormDoesNotFit(), 413, "invalid_request_error", "request_too_large", ""},
		{"no room for a moment", openai.SpoolFull(time.Second), 503, "server_error", "overloaded", ""},
		{"truncated", openai.BodyTruncated(), 400, "invalid_request_error", "body_truncated", ""},
		{"slow", openai.BodyTimeout(), 408, "invalid_request_error", "request_timeout", ""},
		{"headers", openai.HeadersTooLarge(), 431, "invalid_request_error", "headers_too_large", ""},
		{"encoding", openai.UnsupportedEncoding("lzma", "gzip, zstd"), 415, "invalid_request_error", "unsupported_encoding", ""},
		{"corrupt", openai.CorruptEncoding("gzip"), 400, "invalid_request_error", "corrupt_encoding", ""},
		{"path", openai.NotFound("GET", "/v2/x"), 404, "invalid_request_error", "unknown_url", ""},
		{"method", openai.MethodNotAllowed("PUT", "GET, HEAD"), 405, "invalid_request_error", "method_not_allowed", ""},
		{"internal", openai.Internal(), 500, "server_error", "internal_error", ""},
		{"unsupported", openai.UnsupportedParam("x", "Leave it out."), 400, "invalid_request_error", "unsupported_parameter", "x"},
		{"unauthorized", openai.Unauthorized(""), 401, "invalid_request_error", "invalid_api_key", ""},
		{"unauthorized, in own words", openai.Unauthorized("Ask the operator for a key, which begins with gw-."), 401, "invalid_request_error", "invalid_api_key", ""},
		{"limited", openai.RateLimited(time.Second, ""), 429, "rate_limit_error", "rate_limit_exceeded", ""},
		{"limited, in own words", openai.RateLimited(time.Second, "Your limit is 10 requests a minute."), 429, "rate_limit_error", "rate_limit_exceeded", ""},
		{"type by status", &openai.Error{Status: 429, Message: "x"}, 429, "rate_limit_error", "", ""},
		{"type by status 403", &openai.Error{Status: 403, Message: "x"}, 403, "permission_error", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := httptest.NewRecorder()
			openai.WriteError(w, tt.err, "req-1")
			if w.Code != tt.status {
				t.Errorf("status %d, want %d", w.Code, tt.status)
			}
			doc := decodeError(t, w.Body.Bytes())
			code, param := "", ""
			if doc.Error.Code != nil {
				code = *doc.Error.Code
			}
			if doc.Error.Param != nil {
				param = *doc.Error.Param
			}
			if doc.Error.Type != tt.kind || code != tt.code || param != tt.param {
				t.Errorf("got %s, want type %q, code %q, param %q", w.Body, tt.kind, tt.code, tt.param)
			}
			if len(doc.Error.Message) < 30 && !strings.HasPrefix(tt.name, "type") {
				t.Errorf("message %q does not say what to do", doc.Error.Message)
			}
			if !strings.Contains(tt.err.Error(), doc.Error.Message) {
				t.Errorf("Error() is %q", tt.err.Error())
			}
			for _, h := range []string{"X-Request-Id", "Request-Id"} {
				if got := w.Header().Get(h); got != "req-1" {
					t.Errorf("%s is %q", h, got)
				}
			}
			if got := w.Header().Get("Content-Type"); got != "application/json" {
				t.Errorf("content type %q", got)
			}
		})
	}
}

func TestErrorHeaders(t *testing.T) {
	tests := []struct {
		name string
		err  *openai.Error
		want http.Header
	}{
		{"retry", &openai.Error{Status: 503, RetryAfter: 1200 * time.Millisecond}, http.Header{
			"Retry-After": {"2"}, "Retry-After-Ms": {"1200"}, "X-Should-Retry": {"true"}}},
		{"no retry", &openai.Error{Status: 429, RetryAfter: time.Second, NoRetry: true}, http.Header{"X-Should-Retry": {"false"}}},
		{"neither", &openai.Error{Status: 502}, http.Header{}},
		{"loading is capped", openai.ModelLoading("m", time.Hour), http.Header{
			"Retry-After": {"8"}, "Retry-After-Ms": {"8000"}, "X-Should-Retry": {"true"}}},
		{"never at once", openai.NoEndpoint("m", 0), http.Header{
			"Retry-After": {"1"}, "Retry-After-Ms": {"1000"}, "X-Should-Retry": {"true"}}},
		{"unauthorized", openai.Unauthorized(""), http.Header{"X-Should-Retry": {"false"}}},
		{"limited", openai.RateLimited(90*time.Second, ""), http.Header{
			"Retry-After": {"90"}, "Retry-After-Ms": {"90000"}, "X-Should-Retry": {"true"}}},
		{"limited, never at once", openai.RateLimited(0, ""), http.Header{
			"Retry-After": {"1"}, "Retry-After-Ms": {"1000"}, "X-Should-Retry": {"true"}}},
		{"method", openai.MethodNotAllowed("PUT", "GET, HEAD"), http.Header{"Allow": {"GET, HEAD"}, "X-Should-Retry": {"false"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := httptest.NewRecorder()
			openai.WriteError(w, tt.err, "")
			got := w.Header().Clone()
			for _, h := range []string{"Content-Type", "Content-Length", "Cache-Control"} {
				got.Del(h)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestErrorEcho shows that what a request said comes back short and tame.
func TestErrorEcho(t *testing.T) {
	long := strings.Repeat("ü", 500)
	for name, model := range map[string]string{"long": long, "control": "a\x1b[31m\r\nb", "not UTF-8": "a\xff", "spaces": "a\u2028b"} {
		for _, e := range []*openai.Error{openai.UnknownModel(model), openai.NotFound(model, model), openai.UnsupportedEncoding(model, "gzip")} {
			if len(e.Message) > 500 || !utf8.ValidString(e.Message) || strings.ContainsAny(e.Message, "\x1b\r\n\u2028") {
				t.Errorf("%s: %q", name, e.Message)
			}
		}
	}
}

func TestErrorEvents(t *testing.T) {
	e := &openai.Error{Status: 502, Code: "upstream_failed", Message: "a \"quoted\"\nmessage"}
	want := "data: " + `{"error":{"message":"a \"quoted\"\nmessage","type":"server_error","param":null,"code":"upstream_failed"}}` + "\n\n"
	if got := string(openai.ChatErrorEvent(e)); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	want = "event: error\ndata: " + `{"type":"error","code":"upstream_failed","message":"a \"quoted\"\nmessage","param":null,"sequence_number":7}` + "\n\n"
	if got := string(openai.ResponsesErrorEvent(e, 7)); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for d, event := range map[openai.Dialect][]byte{
		openai.DialectChat: openai.ChatErrorEvent(e), openai.DialectResponses: openai.ResponsesErrorEvent(e, 0),
	} {
		var s openai.Stream
		s.Reset(openai.StreamOptions{Dialect: d})
		s.Feed([]byte(`data: {"choices":[{"delta":{"con`))
		if !s.MidEvent() {
			t.Error("not in an event")
		}
		s.Feed([]byte(openai.EventSeparator))
		s.Feed(event)
		if !s.Failed() || s.MidEvent() {
			t.Errorf("%v: the error event is not one", d)
		}
	}
}

func TestNormalizeError(t *testing.T) {
	kept := []string{
		`{"error":{"message":"m","type":"t","param":null,"code":"symbolic"}}`,
		` {"error":{"code":null,"message":"m","type":"t","extra":12345678901234567890}, "x":1} `,
		`{"error":{"message":"m","type":"t"}}`,
	}
	for _, body := range kept {
		if got := openai.NormalizeError(400, "application/json", []byte(body)); string(got) != body {
			t.Errorf("%s became %s", body, got)
		}
	}
	tests := []struct {
		name   string
		status int
		kind   string // content type
		body   string
		want   string // message|type|param|code
	}{
		{"vLLM", 400, "", `{"error":{"message":"This model's maximum context length is 10 tokens.","type":"BadRequestError","param":"input_tokens","code":400}}`,
			"This model's maximum context length is 10 tokens.|BadRequestError|input_tokens|context_length_exceeded"},
		{"vLLM unknown model", 404, "", `{"error":{"message":"The model x does not exist.","type":"NotFoundError","param":"model","code":404}}`,
			"The model x does not exist.|NotFoundError|model|model_not_found"},
		{"code in a string, param None", 429, "", `{"error":{"message":"slow","type":"t","param":"None","code":"429"}}`, "slow|t||rate_limit_exceeded"},
		{"no type", 500, "", `{"error":{"message":"m"}}`, "m|server_error||internal_error"},
		{"SGLang", 400, "", `{"object":"error","message":"m","type":"BadRequestError","param":null,"code":400}`, "m|BadRequestError||invalid_request"},
		{"llama.cpp", 400, "", `{"error":{"code":400,"message":"request (9 tokens) exceeds the available context size (8 tokens), try increasing it","type":"exceed_context_size_error","n_prompt_tokens":9,"n_ctx":8}}`,
			"request (9 tokens) exceeds the available context size (8 tokens), try increasing it|exceed_context_size_error||context_length_exceeded"},
		{"llama.cpp loading", 503, "", `{"error":{"message":"Loading model","type":"unavailable_error","code":503}}`, "Loading model|unavailable_error||model_loading"},
		{"string", 503, "", `{"error":"scaling"}`, "scaling|server_error||overloaded"},
		{"TGI", 422, "", `{"error":"Input validation error","error_type":"validation"}`, "Input validation error|validation||invalid_request"},
		{"TEI", 413, "", `{"message":"m","code":413,"type":"overloaded"}`, "m|overloaded||request_too_large"},
		{"Anthropic", 529, "", `{"type":"error","error":{"type":"overloaded_error","message":"m"}}`, ""},
		{"FastAPI", 404, "", `{"detail":"Not Found"}`, "Not Found|invalid_request_error||not_found"},
		{"FastAPI list", 422, "", `{"detail":[{"loc":["body","messages",0],"msg":"field required","type":"x"},{"msg":"y"}]}`,
			"body.messages.0: field required; y|invalid_request_error||invalid_request"},
		{"FastAPI object", 400, "", `{"detail":{"error":"e"}}`, "e|invalid_request_error||invalid_request"},
		{"FastAPI object with message", 400, "", `{"detail":{"message":"m"}}`, "m|invalid_request_error||invalid_request"},
		{"FastAPI number", 400, "", `{"detail":5}`, "5|invalid_request_error||invalid_request"},
		{"JSON string", 500, "", `"boom"`, "boom|server_error||internal_error"},
		{"text", 502, "text/plain", "upstream\nreset ", "upstream\nreset|server_error||upstream_failed"},
		{"HTML", 504, "text/html", "<html><head><TITLE>504 Gateway Time-out</TITLE></head><body>x", "504 Gateway Time-out|server_error||upstream_timeout"},
		{"HTML without title", 504, "", "<p>x", "The engine answered 504 Gateway Timeout without saying why. Try again, or ask the operator with the id of this request.|server_error||upstream_timeout"},
		{"empty", 500, "", "", "The engine answered 500 Internal Server Error without saying why. Try again, or ask the operator with the id of this request.|server_error||internal_error"},
		{"binary", 500, "", "\x1f\x8b\x08\x00", "The engine answered 500 Internal Server Error without saying why. Try again, or ask the operator with the id of this request.|server_error||internal_error"},
		{"cut JSON", 400, "", `{"error":{"mess`, "The engine answered 400 Bad Request without saying why. Try again, or ask the operator with the id of this request.|invalid_request_error||invalid_request"},
		{"null", 400, "", `null`, "The engine answered 400 Bad Request without saying why. Try again, or ask the operator with the id of this request.|invalid_request_error||invalid_request"},
		{"error null", 400, "", `{"error":null,"message":"m"}`, "m|invalid_request_error||invalid_request"},
		{"strange fields", 400, "", `{"error":{"message":["m"],"msg":"n","type":5,"code":{},"param":[]}}`, "n|invalid_request_error||invalid_request"},
		{"not UTF-8", 400, "", "{\"error\":\"a\xffb\"}", "a\ufffdb|invalid_request_error||invalid_request"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := openai.NormalizeError(tt.status, tt.kind, []byte(tt.body))
			if tt.want == "" {
				if string(got) != tt.body {
					t.Errorf("%s became %s", tt.body, got)
				}
				return
			}
			doc := decodeError(t, got).Error
			flat := doc.Message + "|" + doc.Type + "|"
			if doc.Param != nil {
				flat += *doc.Param
			}
			flat += "|"
			if doc.Code != nil {
				flat += *doc.Code
			}
			if diff := cmp.Diff(tt.want, flat); diff != "" {
				t.Error(diff)
			}
		})
	}
	long := openai.NormalizeError(500, "", []byte(`{"error":"`+strings.Repeat("ü", 5000)+`"}`))
	if doc := decodeError(t, long); len(doc.Error.Message) > 4096 || !strings.HasSuffix(doc.Error.Message, "ü…") {
		t.Errorf("%d bytes of message", len(doc.Error.Message))
	}
}

func FuzzNormalizeError(f *testing.F) {
	for _, body := range []string{
		`{"error":{"message":"m","type":"t","param":null,"code":"c"}}`, `{"object":"error","message":"m","code":400}`,
		`{"detail":[{"loc":["body",0],"msg":"m"}]}`, `{"error":"e","error_type":"t"}`, `<title>x</title>`, `{"detail":null}`,
	} {
		f.Add(400, "application/json", []byte(body))
	}
	f.Fuzz(func(t *testing.T, status int, contentType string, body []byte) {
		got := openai.NormalizeError(status, contentType, body)
		var doc struct {
			Error struct {
				Message string
				Type    string
				Param   *string
				Code    *string
			}
		}
		if err := json.Unmarshal(got, &doc); err != nil {
			t.Fatalf("%q became %q: %v", body, got, err)
		}
		if doc.Error.Message == "" || string(got) != string(body) && doc.Error.Type == "" {
			t.Fatalf("%q became %q", body, got)
		}
		if again := openai.NormalizeError(status, "application/json", got); string(again) != string(got) {
			t.Fatalf("%q became %q", got, again)
		}
	})
}
