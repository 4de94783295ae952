package generate_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/llmgw/llmgw/cmd/internal/bench/generate"
	"github.com/llmgw/llmgw/engines/sim"
)

const (
	chunk      = `data: {"id":"1","choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}` + "\n\n"
	finalChunk = `data: {"id":"1","choices":[{"index":0,"delta":{"content":"b"},"finish_reason":"length"}],"usage":{"completion_tokens":%d}}` + "\n\n"
	done       = "data: [DONE]\n\n"
)

// sse answers with a stream of these bytes.
func sse(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, body)
	}
}

// typed answers with a body of a type.
func typed(status int, contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// raw takes over the connection, writes these bytes and closes it, by a reset
// if linger is 0.
func raw(t *testing.T, body string, linger int) http.HandlerFunc {
	t.Helper()
	return func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		if linger == 0 {
			_ = conn.(*net.TCPConn).SetLinger(0)
		}
		_, _ = io.WriteString(conn, body)
	}
}

// endless answers with a piece again and again until the client leaves.
func endless(contentType, first, piece string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		_, err := io.WriteString(w, first)
		for err == nil {
			_, err = io.WriteString(w, piece)
		}
	}
}

// usage ends a stream of two tokens with this usage.
func usage(object string) http.HandlerFunc {
	return sse(chunk + strings.Replace(fmt.Sprintf(finalChunk, 2), `{"completion_tokens":2}`, object, 1) + done)
}

// TestFailures has a target for each kind of failure.
func TestFailures(t *testing.T) {
	const page = "<!DOCTYPE html><html><body>It works!</body></html>"
	const chunked = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
	whole := func(c *generate.Config) { c.Stream = false }
	tests := []struct {
		name   string
		serve  http.HandlerFunc
		change func(*generate.Config)
		want   generate.ErrorCount // without count; Example is a substring
	}{
		{"a page", typed(200, "text/html; charset=utf-8", page), nil, generate.ErrorCount{Kind: generate.KindHTML, Example: "It works!"}},
		{"a page without its type", typed(200, "", page), nil, generate.ErrorCount{Kind: generate.KindHTML}},
		{"a page for a document", typed(200, "text/html", page), whole, generate.ErrorCount{Kind: generate.KindHTML}},
		{"a page with 502", typed(502, "text/html", page), nil, generate.ErrorCount{Kind: generate.KindStatus, Status: 502, Code: "html", Example: "It works!"}},
		{"429 of OpenAI", typed(429, "application/json", `{"error":{"message":"slow down","type":"requests","code":"rate_limit_exceeded"}}`), nil, generate.ErrorCount{Kind: generate.KindStatus, Status: 429, Code: "rate_limit_exceeded", Example: "slow down"}},
		{"400 of vLLM", typed(400, "application/json", `{"error":{"message":"too long","type":"BadRequestError","param":null,"code":400}}`), nil, generate.ErrorCount{Kind: generate.KindStatus, Status: 400, Code: "BadRequestError", Example: "too long"}},
		{"503 of SGLang", typed(503, "application/json", `{"object":"error","message":"queue is full","type":"abort","code":503}`), nil, generate.ErrorCount{Kind: generate.KindStatus, Status: 503, Code: "abort", Example: "queue is full"}},
		{"404 of FastAPI", typed(404, "application/json", `{"detail":"Not Found"}`), nil, generate.ErrorCount{Kind: generate.KindStatus, Status: 404, Example: "Not Found"}},
		{"500 in words", typed(500, "text/plain", "Internal\x1b[31m Server Error\n"), nil, generate.ErrorCount{Kind: generate.KindStatus, Status: 500, Example: "Internal [31m Server Error"}},
		{"a redirect", typed(307, "text/plain", ""), nil, generate.ErrorCount{Kind: generate.KindStatus, Status: 307}},
		{"a document for a stream", typed(200, "application/json", `{"choices":[]}`), nil, generate.ErrorCount{Kind: generate.KindNotStream, Example: "application/json"}},
		{"an error with 200", typed(200, "application/json", `{"error":{"message":"no","type":"server_error"}}`), nil, generate.ErrorCount{Kind: generate.KindErrorEvent, Code: "server_error", Example: "no"}},
		{"an error document with 200", typed(200, "application/json", `{"error":{"message":"no","type":"server_error"}}`), whole, generate.ErrorCount{Kind: generate.KindErrorEvent, Code: "server_error", Example: "no"}},
		{"truncated JSON", typed(200, "application/json", `{"choices":[{"mess`), whole, generate.ErrorCount{Kind: generate.KindNotJSON, Example: `mess`}},
		{"a list", typed(200, "application/json", `[1]`), whole, generate.ErrorCount{Kind: generate.KindNotJSON}},
		{"choices that are none", typed(200, "application/json", `{"choices":7}`), whole, generate.ErrorCount{Kind: generate.KindNotJSON}},
		{"no choices", typed(200, "application/json", `{"choices":[]}`), whole, generate.ErrorCount{Kind: generate.KindEmpty}},
		{"a message that says nothing", typed(200, "application/json", `{"choices":[{"finish_reason":"stop","message":{"role":"assistant","content":""}}]}`), whole, generate.ErrorCount{Kind: generate.KindEmpty}},
		{"a document without an end", typed(200, "application/json", `{"choices":[{"message":{"content":"a"}}]}`), whole, generate.ErrorCount{Kind: generate.KindNoFinish}},
		{"an event that is no JSON", sse(chunk + "data: {oops\n\n"), nil, generate.ErrorCount{Kind: generate.KindBadEvent, Example: "oops"}},
		{"an unfinished event", sse(chunk + `data: {"id"`), nil, generate.ErrorCount{Kind: generate.KindBadEvent, Example: "ends inside an event"}},
		{"an error event", sse(chunk + `data: {"error":{"message":"died","type":"x","code":"engine_gone"}}` + "\n\n" + done), nil, generate.ErrorCount{Kind: generate.KindErrorEvent, Code: "engine_gone", Example: "died"}},
		{"nothing", sse(""), nil, generate.ErrorCount{Kind: generate.KindEmpty}},
		{"only [DONE]", sse(done), nil, generate.ErrorCount{Kind: generate.KindEmpty}},
		{"no [DONE]", sse(chunk + fmt.Sprintf(finalChunk, 2)), nil, generate.ErrorCount{Kind: generate.KindNoDone, Example: "after 2 contents"}},
		{"no finish_reason", sse(chunk + chunk + done), nil, generate.ErrorCount{Kind: generate.KindNoFinish}},
		{"too few tokens", sse(chunk + fmt.Sprintf(finalChunk, 1) + done), nil, generate.ErrorCount{Kind: generate.KindWrongLength, Example: "1 tokens, 2 asked for"}},
		{"too many tokens", sse(chunk + fmt.Sprintf(finalChunk, 3) + done), func(c *generate.Config) { c.ExactLength = false }, generate.ErrorCount{Kind: generate.KindWrongLength, Example: "at most 2"}},
		{"a negative count", usage(`{"completion_tokens":2,"prompt_tokens":-1}`), nil, generate.ErrorCount{Kind: generate.KindBadUsage, Example: "usage.prompt_tokens is"}},
		{"a count that cannot be", usage(`{"completion_tokens":2,"prompt_tokens":7,"prompt_tokens_details":{"cached_tokens":9007199254740992}}`), nil, generate.ErrorCount{Kind: generate.KindBadUsage, Example: "cached_tokens"}},
		{"a count beyond numbers", typed(200, "application/json", `{"choices":[{"finish_reason":"stop","text":"a"}],"usage":{"completion_tokens":1e400}}`), whole, generate.ErrorCount{Kind: generate.KindBadUsage, Example: "1e400"}},
		{"an event without end", endless("text/event-stream", chunk+"data: ", strings.Repeat("x", 1<<16)), nil, generate.ErrorCount{Kind: generate.KindTooLong, Example: "an event of more than 1 MiB"}},
		{"events without end", endless("text/event-stream", "", strings.Repeat(chunk, 16)), nil, generate.ErrorCount{Kind: generate.KindTooLong, Example: "more than 1032 events for 2 tokens asked for"}},
		{"a document without end", endless("application/json", `{"choices":[{"text":"`, strings.Repeat("x", 1<<16)), whole, generate.ErrorCount{Kind: generate.KindTooLong, Example: "more than 1056768 bytes for 2 tokens asked for"}},
		{"a head without end", raw(t, "HTTP/1.1 200 OK\r\n"+strings.Repeat("X: y\r\n", 60_000), 1), nil, generate.ErrorCount{Kind: generate.KindTooLong, Example: "headers exceeded"}},
		{"closed before the head", raw(t, "", 1), nil, generate.ErrorCount{Kind: generate.KindReset}},
		{"reset before the head", raw(t, "", 0), nil, generate.ErrorCount{Kind: generate.KindReset}},
		{"no HTTP", raw(t, "SSH-2.0-OpenSSH_9.6\r\n", 1), nil, generate.ErrorCount{Kind: generate.KindProtocol}},
		{"cut in the answer", raw(t, chunked+"5\r\ndata:\r\n", 1), nil, generate.ErrorCount{Kind: generate.KindCut}},
		{"a chunk with no length", raw(t, chunked+"zz\r\ndata:\r\n", 1), nil, generate.ErrorCount{Kind: generate.KindProtocol}},
		{"no end after [DONE]", raw(t, chunked+fmt.Sprintf("%x\r\n%s\r\n", len(chunk+done), chunk+done), 1), nil, generate.ErrorCount{Kind: generate.KindCut}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			server := httptest.NewServer(tt.serve)
			defer server.Close()
			r := run(t, server.URL, trace(2, 0, 2), func(c *generate.Config) {
				c.Model, c.Timeout, c.Concurrency = "m", time.Minute, 1
				if tt.change != nil {
					tt.change(c)
				}
			})
			if r.Requests.Failed != 2 || r.Requests.Bad() != 2 || len(r.Errors) != 1 {
				t.Fatalf("%+v, errors %+v", r.Requests, r.Errors)
			}
			got := r.Errors[0]
			if got.Kind != tt.want.Kind || got.Status != tt.want.Status || got.Code != tt.want.Code || got.Count != 2 || !strings.Contains(got.Example, tt.want.Example) {
				t.Errorf("got %+v, want 2 of %+v", got, tt.want)
			}
			if strings.ContainsAny(got.Example, "\x1b\n") || got.Example == "" && tt.want.Status == 0 {
				t.Errorf("example %q", got.Example)
			}
			if r.E2E != nil || r.TTFT != nil || r.RequestsPerS != 0 {
				t.Errorf("times of failures: %+v", r)
			}
		})
	}
}

// The engine's own faults reach the report as what they are.
func TestFaultsOfAnEngine(t *testing.T) {
	tests := []struct {
		faults sim.Faults
		want   generate.Kind // "" for complete
	}{
		{sim.Faults{SplitBytes: 1, CRLF: true, CommentEvery: 2}, ""},
		{sim.Faults{CloseAfterEvents: 3}, generate.KindCut},
		{sim.Faults{ResetAfterEvents: 3}, generate.KindCut},
		{sim.Faults{ErrorAfterEvents: 3}, generate.KindErrorEvent},
		{sim.Faults{ResetHeaders: true}, generate.KindReset},
		{sim.Faults{EarlyStatus: 503}, generate.KindStatus},
	}
	for _, tt := range tests {
		t.Run(string(tt.want), func(t *testing.T) {
			r := run(t, engine(t, func(c *sim.Config) { c.Faults = tt.faults }), trace(2, 0, 9), func(c *generate.Config) { c.Model = "sim-8b" })
			switch {
			case tt.want == "" && r.Requests.Complete != 2:
				t.Errorf("%+v", r.Errors)
			case tt.want != "" && (r.Requests.Failed != 2 || r.Errors[0].Kind != tt.want):
				t.Errorf("%+v, errors %+v; want %s", r.Requests, r.Errors, tt.want)
			}
			if tt.want == generate.KindCut && (r.Streams.Content != 2 || r.Streams.Done != 0 || r.Streams.Complete != 0) {
				t.Errorf("streams %+v", r.Streams)
			}
		})
	}
}

// A kept connection that the target closes is its right: the request goes out
// again on a new one, and nothing failed.
func TestConnectionsThatAreNotKept(t *testing.T) {
	r := run(t, engine(t, func(c *sim.Config) { c.Faults.CloseIdle = true }), trace(60, 0, 3), func(c *generate.Config) {
		c.Model, c.Concurrency = "sim-8b", 4
	})
	if r.Requests.Complete != 60 || len(r.Errors) != 0 {
		t.Errorf("%+v, errors %+v", r.Requests, r.Errors)
	}
}

func TestFailuresOfConnections(t *testing.T) {
	secure := httptest.NewUnstartedServer(sse(done))
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	defer secure.Close()
	plain := httptest.NewServer(sse(done))
	defer plain.Close()
	tests := []struct {
		name, url string
		want      generate.Kind
	}{
		{"nobody listens", "http://127.0.0.1:1", generate.KindDial},
		{"a certificate of nobody's", secure.URL, generate.KindTLS},
		{"TLS to a plain server", strings.Replace(plain.URL, "http:", "https:", 1), generate.KindTLS},
		{"plain to a TLS server", strings.Replace(secure.URL, "https:", "http:", 1), generate.KindStatus},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := run(t, tt.url, trace(1, 0, 2), func(c *generate.Config) { c.Model = "m" })
			if len(r.Errors) != 1 || r.Errors[0].Kind != tt.want {
				t.Errorf("%+v, want %s", r.Errors, tt.want)
			}
		})
	}
}

// A given transport is used, and its connections are the caller's.
func TestTransport(t *testing.T) {
	secure := httptest.NewTLSServer(sse(chunk + fmt.Sprintf(finalChunk, 2) + done))
	defer secure.Close()
	pool := secure.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	rt := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}
	defer rt.CloseIdleConnections()
	cfg := generate.DefaultConfig()
	cfg.URL, cfg.Model = secure.URL, "m"
	g, err := generate.New(cfg, generate.Deps{Trace: trace(1, 0, 2), Transport: rt})
	if err != nil {
		t.Fatal(err)
	}
	r, err := g.Run(t.Context())
	if err != nil || r.Requests.Complete != 1 {
		t.Errorf("%v, %+v", err, r)
	}
}

// A target that cannot say which model it has is told by kind, too.
func TestDiscoveryOfNonsense(t *testing.T) {
	tests := []struct {
		name  string
		serve http.HandlerFunc
		kind  generate.Kind // "" for ErrModel
		want  string
	}{
		{"a page", typed(200, "text/html", "<html>hello</html>"), generate.KindHTML, "hello"},
		{"words", typed(200, "text/plain", "hello"), generate.KindNotJSON, "hello"},
		{"an error", typed(500, "application/json", `{"error":{"message":"out of order","type":"server_error"}}`), generate.KindStatus, "status 500 server_error: out of order"},
		{"a reset", raw(t, "", 0), generate.KindReset, "reset"},
		{"cut", raw(t, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{", 1), generate.KindCut, "cut: unexpected EOF"},
		{"without end", endless("application/json", `{"data":[{"id":"`, strings.Repeat("m", 1<<16)), generate.KindTooLong, "too_long: too long: a list of models of more than 4 MiB"},
		{"none", typed(200, "application/json", `{"data":[{"id":""}]}`), "", "lists none"},
		{"many", typed(200, "application/json", `{"data":[{"id":"m"}`+strings.Repeat(`,{"id":"n"}`, 24)+`]}`), "", "m, n, n, n, n, n, n, n, n, n, n, n, n, n, n, n, n, n, n, n and 5 more"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			server := httptest.NewServer(tt.serve)
			defer server.Close()
			cfg := generate.DefaultConfig()
			cfg.URL = server.URL
			g, err := generate.New(cfg, generate.Deps{Trace: trace(1, 0, 1)})
			if err != nil {
				t.Fatal(err)
			}
			_, err = g.Run(t.Context())
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("error %v, want %q", err, tt.want)
			}
			f, ok := errors.AsType[*generate.RequestError](err)
			if ok && f.Kind != tt.kind || !ok && (tt.kind != "" || !errors.Is(err, generate.ErrModel)) {
				t.Errorf("error %v is of the wrong kind", err)
			}
		})
	}
}
