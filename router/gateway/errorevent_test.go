package gateway_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/llmgw/llmgw/router"
)

// errorEvent is how vLLM tells of an error in a stream.
func errorEvent(code int) string {
	return fmt.Sprintf(`data: {"error":{"message":"because of %d","type":"SomeError","param":null,"code":%d}}`, code, code) + "\n\n"
}

// failing answers every stream with 200 and an error event.
func failing(ev string) func(*exchange) {
	return func(x *exchange) { x.write(eventHead() + chunk(ev) + chunk(doneEvent) + lastChunk) }
}

// An engine that begins every answer and fails each before its first content is
// the least loaded of all; it must not draw the traffic.
func TestErrorEventsAreNoBlackHole(t *testing.T) {
	t.Parallel()
	bad := newRaw(t, failing(errorEvent(500)))
	other := newRaw(t, good)
	f := newFleet(t, config(at("bad", bad.url), at("good", other.url)))
	var wg sync.WaitGroup
	var failed atomic.Int64
	for range 8 {
		wg.Go(func() {
			for range 50 {
				if got := f.stream(); got.status != 200 || got.body != delta("h")+delta("i")+doneEvent {
					failed.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if failed.Load() != 0 {
		t.Errorf("%d of 400 requests failed", failed.Load())
	}
	if n := bad.calls.Load(); n > 40 {
		t.Errorf("the failing engine was asked %d times; its breaker must open", n)
	}
	f.idle()
}

// An error event that comes first is what its words say: the client's mistake,
// load, or a failure.
func TestErrorEventThatComesFirst(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, ev string
		retried  bool
		status   int // if nobody else answers
		code     string
		blamed   bool // as a failure
	}{
		{"mistake", errorEvent(400), false, 400, "invalid_request", false},
		{"prompt too long", `data: {"error":{"message":"m","type":"invalid_request_error","param":null,"code":"context_length_exceeded"}}` + "\n\n", false, 400, "context_length_exceeded", false},
		{"mistake by type", `data: {"object":"error","message":"m","type":"BadRequestError","code":null}` + "\n\n", false, 400, "", false},
		{"model that is denied", `data: {"error":{"message":"The model m does not exist.","type":"NotFoundError","param":null,"code":404}}` + "\n\n", true, 404, "model_not_found", false},
		{"limit", errorEvent(429), true, 429, "rate_limit_exceeded", false},
		{"overload", `data: {"error":"busy","error_type":"overloaded"}` + "\n\n", true, 503, "", false},
		{"failure", errorEvent(500), true, 500, "", true},
		{"failure in words", `data: {"error":"boom"}` + "\n\n", true, 500, "", true},
		{"failure behind an id", `data: {"id":"x","error":{"message":"boom"}}` + "\n\n", true, 500, "", true},
		{"failure by name", "event: error\ndata: boom\n\n", true, 500, "", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bad := newRaw(t, failing(tt.ev))
			other := newRaw(t, good)
			f := newFleet(t, config(first(at("bad", bad.url)), at("good", other.url)))
			got := f.stream()
			if tt.retried {
				if got.body != delta("h")+delta("i")+doneEvent {
					t.Errorf("got %d %q; want the other engine's answer", got.status, got.body)
				}
			} else if got.status != tt.status || other.calls.Load() != 0 {
				t.Errorf("got %d %q after %d calls of another engine", got.status, got.body, other.calls.Load())
			}
			o := f.next()
			if want := map[bool]int{false: 1, true: 2}[tt.retried]; o.Attempts != want {
				t.Errorf("recorded %d attempts", o.Attempts)
			}
			if failures := f.metric("llmgw_endpoint_recent_failures", "endpoint=bad"); (failures > 0) != tt.blamed {
				t.Errorf("%v failures of the engine", failures)
			}

			alone := newFleet(t, config(at("bad", bad.url)))
			got = alone.stream()
			if got.status != tt.status || !strings.HasPrefix(got.header.Get("Content-Type"), "application/json") ||
				got.header.Get("Cache-Control") == "no-cache" || !strings.Contains(got.body, `"message":`) || tt.code != "" && got.code() != tt.code {
				t.Errorf("alone: got %d %v %s", got.status, got.header, got.body)
			}
			if o := alone.next(); o.Result != router.ResultEngineRefused || o.Status != tt.status {
				t.Errorf("alone: recorded %v, status %d", o.Result, o.Status)
			}
			f.idle()
		})
	}
}

// In the shape of the API that was called, whatever the shape of the event.
func TestErrorEventOfOtherAPIs(t *testing.T) {
	for _, tt := range []struct{ path, ev, want string }{
		{"/v1/messages", "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"m\"}}\n\n", `{"type":"error","error":{"type":"invalid_request_error"`},
		{"/v1/messages", errorEvent(400), `{"type":"error","error":{"type":"invalid_request_error"`},
		{responsesPath, "event: error\ndata: {\"type\":\"error\",\"code\":\"invalid_prompt\",\"message\":\"m\",\"param\":null,\"sequence_number\":0}\n\n", `{"error":{"message":"m"`},
		{responsesPath, "event: response.failed\ndata: {\"type\":\"response.failed\",\"response\":{\"id\":\"r\",\"error\":{\"code\":\"context_length_exceeded\",\"message\":\"m\"}}}\n\n", `{"error":{"message":"m"`},
	} {
		e := newRaw(t, failing(tt.ev))
		f := newFleet(t, config(at("e", e.url)))
		if got := f.do("POST", tt.path, streamBody); got.status != 400 || !strings.HasPrefix(got.body, tt.want) {
			t.Errorf("%s, %q: got %d %s; want 400 %s…", tt.path, tt.ev, got.status, got.body, tt.want)
		}
	}
}

// Where the client has got something before the error but no content, nobody else
// can be asked; but the engine's breaker hears of it.
func TestErrorEventBeforeContent(t *testing.T) {
	const role = `data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}` + "\n\n"
	for _, tt := range []struct {
		code   int
		blamed bool
	}{{500, true}, {400, false}, {503, false}} {
		e := newRaw(t, failing(role+errorEvent(tt.code)))
		f := newFleet(t, config(at("e", e.url)))
		if got := f.stream(); got.body != role+errorEvent(tt.code)+doneEvent {
			t.Errorf("%d: got %q", tt.code, got.body)
		}
		if o := f.next(); o.Result != router.ResultCut || o.Attempts != 1 {
			t.Errorf("%d: recorded %v after %d attempts", tt.code, o.Result, o.Attempts)
		}
		if failures := f.metric("llmgw_endpoint_recent_failures"); (failures > 0) != tt.blamed {
			t.Errorf("%d: %v failures of the engine", tt.code, failures)
		}
	}
}

// A stream in a coding that nobody here can read passes as it is: what is added
// to it would be no event.
func TestOpaqueStreams(t *testing.T) {
	const coded = "\x1b\x10\x00\xf8opaque"
	for _, tt := range []struct {
		name  string
		ends  bool
		whole bool
	}{{"whole", true, true}, {"cut", false, false}} {
		t.Run(tt.name, func(t *testing.T) {
			began := make(chan struct{})
			e := newRaw(t, func(x *exchange) {
				x.write(head(200, "Content-Type: text/event-stream", "Content-Encoding: br", "Transfer-Encoding: chunked") + chunk(coded))
				<-began
				if !tt.ends {
					_ = x.Close()
					return
				}
				x.write(chunk(coded) + lastChunk)
			})
			cfg := config(at("a", e.url))
			cfg.Router.Relay.Timeouts.Idle = 10 * time.Second
			f := newFleet(t, cfg)
			got := f.doFrom(chatPath, streamBody, began)
			want := coded
			if tt.whole {
				want += coded
			}
			if got.body != want || (got.err == nil) != tt.whole || got.header.Get("Content-Encoding") != "br" {
				t.Errorf("got %q, %v", got.body, got.err)
			}
			if o := f.next(); (o.Result == router.ResultOK) != tt.whole {
				t.Errorf("recorded %v", o.Result)
			}
			f.idle()
		})
	}
}
