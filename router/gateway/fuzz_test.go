package gateway_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/llmgw/llmgw/router/gateway"
)

// Whatever a client sends, the answer is an error of ours in a known shape, a
// list of ours, or the engine's answer to a request that it could read.
func FuzzServeHTTP(f *testing.F) {
	f.Add("POST", "/v1/chat/completions", "", "", "", []byte(chatBody))
	f.Add("POST", "/v1/messages", "beta=true", "Anthropic-Version", "2023-06-01", []byte(streamBody))
	f.Add("POST", "/v1/responses", "", "Content-Encoding", "gzip", []byte(encoded(f, "gzip", streamBody)))
	f.Add("POST", "/v1/embeddings", "", "Content-Encoding", "zstd", []byte(encoded(f, "zstd", chatBody)))
	f.Add("POST", "/v1/x", "a b\x00", "X-Request-Id", "\x01", []byte(`{"model":"m","stream_options":{"continuous_usage_stats":true},"stream":true}`))
	f.Add("GET", "/v1/models/org%2Fm", "limit=0", "Content-Type", "multipart/form-data", []byte(nil))
	f.Add("HEAD", "/v1/models", "", "Connection", "content-type", []byte(nil))
	f.Add("BREW", "/../\x00//", "%", "Transfer-Encoding", "chunked", []byte(`{"model":"m","model":"m"}`))

	e := newRaw(f, good)
	cfg := config(at("e", e.url))
	cfg.Router.Core.MaxBodyBytes = 64 << 10
	cfg.Router.Breaker.FailureThreshold = 1 << 20 // each input for itself
	gw, err := gateway.New(cfg, gateway.Deps{})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = gw.Reload(config()) })
	f.Fuzz(func(t *testing.T, method, path, query, name, value string, body []byte) {
		u := &url.URL{Path: path, RawQuery: query}
		if p, err := url.PathUnescape(path); err == nil {
			u.Path, u.RawPath = p, path
		}
		r := (&http.Request{
			Method: method, URL: u, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{},
			Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), Host: "x",
		}).WithContext(t.Context())
		// net/http lets only fields through that are valid.
		if field(name, value) {
			r.Header[http.CanonicalHeaderKey(name)] = []string{value}
		}
		w := httptest.NewRecorder()
		gw.ServeHTTP(w, r)
		if w.Code == http.StatusBadGateway || w.Code == http.StatusServiceUnavailable {
			t.Fatalf("the engine could not read what we sent: %d %s", w.Code, w.Body)
		}
		if w.Header().Get("X-Request-Id") == "" || w.Header().Get("X-Request-Id") != w.Header().Get("Request-Id") {
			t.Error("no request id")
		}
		if w.Code == 200 && strings.HasPrefix(w.Header().Get("Content-Type"), "text/event-stream") {
			if got := w.Body.String(); !strings.HasPrefix(got, delta("h")) && got != messageEvents {
				t.Errorf("got %s", w.Body)
			}
			return
		}
		if method == http.MethodHead && w.Code == 200 {
			return
		}
		var doc struct {
			Error *struct{ Message, Type string }
		}
		if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil {
			t.Fatalf("got %d %q: %v", w.Code, w.Body, err)
		}
		if w.Code != 200 && (doc.Error == nil || doc.Error.Message == "" || doc.Error.Type == "") {
			t.Errorf("got %d %s", w.Code, w.Body)
		}
	})
}

// field reports whether net/http would take a header field from a connection.
func field(name, value string) bool {
	for _, c := range []byte(name) {
		if c <= ' ' || c >= 0x7f || strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) >= 0 {
			return false
		}
	}
	for _, c := range []byte(value) {
		if c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return name != ""
}
