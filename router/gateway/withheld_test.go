package gateway_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A client that announces a body and withholds it gets its answer, and neither
// memory nor a connection for long: whatever the answer is, and whenever the
// router knows it.
func TestWithheldBodies(t *testing.T) {
	e := newRaw(t, good)
	cfg := config(at("e", e.url))
	cfg.Router.Core.BodyTimeout = 200 * time.Millisecond
	f := newFleet(t, cfg)
	for _, tt := range []struct {
		head string
		want int
	}{
		{"POST /nope HTTP/1.1\r\nContent-Length: 1000", 404},
		{"PUT /v1/chat/completions HTTP/1.1\r\nContent-Length: 1000", 405},
		{"GET /v1/models HTTP/1.1\r\nContent-Length: 1000", 200},
		{"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: 1000", 408},
		{"POST /v1/messages HTTP/1.1\r\nContent-Length: 1000", 408},
		{"POST /v1/chat/completions HTTP/1.1\r\nTransfer-Encoding: chunked", 408},
		{"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: 1000\r\nContent-Encoding: br", 415},
		{"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: 1000\r\nContent-Encoding: gzip", 408},
		{"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: 1000\r\nContent-Type: multipart/form-data; boundary=x", 415},
		{"POST /v1/audio/transcriptions HTTP/1.1\r\nContent-Length: 1000\r\nContent-Type: multipart/form-data; boundary=x", 408},
		{"POST /v1/audio/transcriptions HTTP/1.1\r\nContent-Length: 1000\r\nContent-Type: multipart/form-data", 400},
		{"GET /v1/responses/resp_1 HTTP/1.1\r\nContent-Length: 1000", 404},
		{"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: 99999999999", 413},
	} {
		t.Run(fmt.Sprintf("%d", tt.want)+tt.head[:8], func(t *testing.T) {
			t.Parallel()
			conn, err := net.Dial("tcp", strings.TrimPrefix(f.url, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			_, _ = fmt.Fprintf(conn, "%s\r\nHost: x\r\n\r\n", tt.head)
			_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
			answer, err := io.ReadAll(conn)
			if err != nil || !strings.HasPrefix(string(answer), fmt.Sprintf("HTTP/1.1 %d ", tt.want)) {
				t.Errorf("%s: %v, %q; want status %d and the connection's end", tt.head, err, answer, tt.want)
			}
		})
	}
}

// What a client announces costs no memory until it comes.
func TestAnnouncedBodiesHoldNothing(t *testing.T) {
	e := newRaw(t, good)
	f := newFleet(t, config(at("e", e.url)))
	for range 8 {
		conn, err := net.Dial("tcp", strings.TrimPrefix(f.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		_, _ = fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 33554432\r\n\r\n{")
	}
	f.eventually("eight bodies under way", func() bool { return f.metric("llmgw_router_requests_in_flight") == 8 })
	if held := f.metric("llmgw_router_body_memory_bytes"); held > 8*64<<10 {
		t.Errorf("%v bytes are held for bodies of which 8 bytes have come", held)
	}
}

// The head of an error decides; its body is not worth the idle deadline.
func TestErrorWhoseBodyHangs(t *testing.T) {
	t.Parallel()
	bad := newRaw(t, func(x *exchange) {
		x.write("HTTP/1.1 500 X\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{\"err")
		x.untilLeft()
	})
	other := newRaw(t, good)
	f := newFleet(t, config(first(at("bad", bad.url)), at("good", other.url)))
	start := time.Now()
	if got := f.chat(); got.status != http.StatusOK || got.body != completion {
		t.Errorf("got %d %s; want the other engine's answer", got.status, got.body)
	}
	if took := time.Since(start); took > 20*time.Second { // the idle deadline is a minute
		t.Errorf("it took %v", took)
	}
}

// A short document that an engine breaks off has not reached the client yet.
func TestShortDocumentIsRetried(t *testing.T) {
	bad := newRaw(t, func(x *exchange) {
		x.write("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{\"id\":")
		_ = x.Close()
	})
	other := newRaw(t, good)
	f := newFleet(t, config(first(at("bad", bad.url)), at("good", other.url)))
	if got := f.chat(); got.status != http.StatusOK || got.body != completion || got.err != nil {
		t.Errorf("got %d %s, %v; want the other engine's answer", got.status, got.body, got.err)
	}
}
