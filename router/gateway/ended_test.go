package gateway_test

import (
	"strings"
	"testing"

	"github.com/llmgw/llmgw/router"
)

// A stream whose framing ends in good order before the answer does is cut all the
// same: its clients would take it for whole, or send all of it again. Where no
// last event is known, the framing's word holds.
func TestStreamsWithoutTheirEnd(t *testing.T) {
	t.Parallel()
	const (
		created     = "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"r\"},\"sequence_number\":0}\n\n"
		completed   = "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"id\":\"r\",\"usage\":{\"input_tokens\":7,\"output_tokens\":2}},\"sequence_number\":1}\n\n"
		failed      = "event: response.failed\ndata: {\"type\":\"response.failed\",\"response\":{\"id\":\"r\",\"error\":{\"code\":\"server_error\",\"message\":\"m\"}},\"sequence_number\":1}\n\n"
		start       = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":7}}}\n\n"
		stop        = "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
		finish      = `data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
		errorBehind = `data: {"id":"x","error":{"message":"out of memory","type":"server_error"}}` + "\n\n"
		errorOf     = `data: {"error":{"message":"out of memory","type":"server_error"}}` + "\n\n"
	)
	second, secondFinish := strings.Replace(delta("x"), `"index":0`, `"index":1`, 1), strings.Replace(finish, `"index":0`, `"index":1`, 1)
	longCompleted := `data: {"response":{"id":"r","output":"` + strings.Repeat("x", 200<<10) + `","usage":{"input_tokens":7,"output_tokens":2}},"type":"response.completed"}` + "\n\n"
	for _, tt := range []struct {
		name, path, sent string
		result           router.Result
		added            string // what the client gets beside it
		blamed           bool   // beside those that get something added
	}{
		{"chat", chatPath, delta("h"), router.ResultCut, `data: {"error":`, false},
		{"chat with a finish reason", chatPath, delta("h") + finish, router.ResultOK, "", false},
		{"chat with [DONE]", chatPath, delta("h") + doneEvent, router.ResultOK, "", false},
		{"chat with an error", chatPath, delta("h") + errorOf + doneEvent, router.ResultCut, "", false},
		{"chat with one of two choices finished", chatPath, delta("h") + second + finish, router.ResultCut, `data: {"error":`, false},
		{"chat with both choices finished", chatPath, delta("h") + second + finish + secondFinish, router.ResultOK, "", false},
		{"chat with empty finish reasons", chatPath, strings.ReplaceAll(finish, "stop", ""), router.ResultCut, `data: {"error":`, false},
		{"chat with much behind the finish reason", chatPath, strings.ReplaceAll(finish, `"stop"`, `"stop","x":"`+strings.Repeat("x", 3000)+`"`), router.ResultOK, "", false},
		{"chat with a spaced finish reason", chatPath, strings.ReplaceAll(finish, `"finish_reason":`, `"finish_reason" : `), router.ResultOK, "", false},
		{"chat with an error behind an id", chatPath, delta("h") + errorBehind, router.ResultCut, "", false},
		{"completions", "/v1/completions", delta("h"), router.ResultCut, `data: {"error":`, false},
		{"responses", responsesPath, created, router.ResultCut, "event: error\n", false},
		{"responses that ended", responsesPath, created + completed, router.ResultOK, "", false},
		{"responses that failed", responsesPath, created + failed, router.ResultCut, "", true}, // before any content
		{"responses with [DONE] alone", responsesPath, created + doneEvent, router.ResultCut, "event: error\n", false},
		{"responses whose long last event has its type last", responsesPath, created + longCompleted, router.ResultOK, "", false},
		{"messages with [DONE] alone", "/v1/messages", start + doneEvent, router.ResultCut, "event: error\n", false},
		{"messages", "/v1/messages", start, router.ResultCut, "event: error\n", false},
		{"messages that ended", "/v1/messages", start + stop, router.ResultOK, "", false},
		{"another path", "/v1/other", delta("h"), router.ResultOK, "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := newRaw(t, func(x *exchange) { x.write(eventHead() + chunk(tt.sent) + lastChunk) })
			cfg := config(at("a", e.url))
			cfg.Router.Core.InjectUsage = false
			f := newFleet(t, cfg)
			got := f.do("POST", tt.path, streamBody)
			rest, ok := strings.CutPrefix(got.body, tt.sent)
			if !ok || got.err != nil || (rest == "") != (tt.added == "") || !strings.HasPrefix(rest, tt.added) {
				t.Errorf("got %q, %v", got.body, got.err)
			}
			if rest != "" && len(events(t, rest)) != 1 {
				t.Errorf("%q is not one event", rest)
			}
			if o := f.next(); o.Result != tt.result || o.Attempts != 1 {
				t.Errorf("recorded %v after %d attempts", o.Result, o.Attempts)
			}
			if failures := f.metric("llmgw_endpoint_recent_failures"); (failures > 0) != (tt.added != "" || tt.blamed) {
				t.Errorf("%v failures of the engine", failures)
			}
			f.idle()
		})
	}
}

// The end of a stream is seen however badly it is framed, and nothing of an event
// that broke off reaches the client.
func TestFramingOfTheLastEvent(t *testing.T) {
	t.Parallel()
	const (
		done   = "data: [DONE]"
		finish = `data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
		half   = `data: {"id":"c","ch`
	)
	closed := head(200, "Content-Type: text/event-stream", "Connection: close")
	reset := func(x *exchange) { _ = x.Close() }
	for _, tt := range []struct {
		name   string
		head   string // "": chunks
		sent   string // after the first chunk
		end    func(*exchange)
		passed string // of sent
		result router.Result
	}{
		{"until close: finish reason", closed, finish + "\n\n", reset, finish + "\n\n", router.ResultOK},
		{"until close: finish reason without blank line", closed, finish + "\n", reset, finish + "\n", router.ResultOK},
		{"until close: [DONE] with one LF", closed, done + "\n", reset, done + "\n", router.ResultOK},
		{"until close: [DONE] without LF", closed, done, reset, done, router.ResultOK},
		{"until close: no end", closed, delta("i"), reset, delta("i"), router.ResultCut},
		{"until close: half an event", closed, half, reset, "", router.ResultCut},
		{"chunks: [DONE] without LF", "", done, nil, done, router.ResultOK},
		{"chunks: [DONE] without LF, then close", "", done, reset, done, router.ResultOK},
		{"chunks: half an event", "", half, nil, "", router.ResultCut},
		{"chunks: half an event, then close", "", half, reset, "", router.ResultCut},
		{"chunks: a chunk without LF, then close", "", strings.TrimSpace(delta("i")), reset, strings.TrimSpace(delta("i")), router.ResultCut},
	} {
		t.Run(tt.name, func(t *testing.T) {
			began := make(chan struct{})
			e := newRaw(t, func(x *exchange) {
				if tt.head != "" {
					x.write(tt.head + delta("h"))
					<-began
					x.write(tt.sent)
				} else {
					x.write(eventHead() + chunk(delta("h")))
					<-began
					x.write(chunk(tt.sent))
				}
				if tt.end == nil {
					x.write(lastChunk)
					return
				}
				tt.end(x)
			})
			f := newFleet(t, config(at("a", e.url)))
			got := f.doFrom(chatPath, streamBody, began)
			rest, ok := strings.CutPrefix(got.body, delta("h")+tt.passed)
			if !ok || got.err != nil {
				t.Fatalf("got %q, %v", got.body, got.err)
			}
			if tt.result == router.ResultOK && rest != "" {
				t.Errorf("%q is added", rest)
			}
			if tt.result == router.ResultCut {
				if tt.passed != "" && !strings.HasSuffix(tt.passed, "\n\n") {
					if rest, ok = strings.CutPrefix(rest, "\n\n"); !ok {
						t.Errorf("%q is glued to an unfinished event", rest)
					}
				}
				if !strings.HasPrefix(rest, `data: {"error":`) || len(events(t, rest)) != 1 {
					t.Errorf("%q is not one error event", rest)
				}
			}
			if o := f.next(); o.Result != tt.result || o.BytesOut != int64(len(delta("h")+tt.passed)) {
				t.Errorf("recorded %v after %d bytes", o.Result, o.BytesOut)
			}
			f.idle()
		})
	}
}
