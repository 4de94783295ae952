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
	const (
		created   = "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"r\"},\"sequence_number\":0}\n\n"
		completed = "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"id\":\"r\",\"usage\":{\"input_tokens\":7,\"output_tokens\":2}},\"sequence_number\":1}\n\n"
		failed    = "event: response.failed\ndata: {\"type\":\"response.failed\",\"response\":{\"id\":\"r\",\"error\":{\"code\":\"server_error\",\"message\":\"m\"}},\"sequence_number\":1}\n\n"
		start     = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":7}}}\n\n"
		stop      = "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
		finish    = `data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
		errorOf   = `data: {"error":{"message":"out of memory","type":"server_error"}}` + "\n\n"
	)
	for _, tt := range []struct {
		name, path, sent string
		result           router.Result
		added            string // what the client gets beside it
	}{
		{"chat", chatPath, delta("h"), router.ResultCut, `data: {"error":`},
		{"chat with a finish reason", chatPath, delta("h") + finish, router.ResultOK, ""},
		{"chat with [DONE]", chatPath, delta("h") + doneEvent, router.ResultOK, ""},
		{"chat with an error", chatPath, delta("h") + errorOf + doneEvent, router.ResultCut, ""},
		{"completions", "/v1/completions", delta("h"), router.ResultCut, `data: {"error":`},
		{"responses", responsesPath, created, router.ResultCut, "event: error\n"},
		{"responses that ended", responsesPath, created + completed, router.ResultOK, ""},
		{"responses that failed", responsesPath, created + failed, router.ResultCut, ""},
		{"messages", "/v1/messages", start, router.ResultCut, "event: error\n"},
		{"messages that ended", "/v1/messages", start + stop, router.ResultOK, ""},
		{"another path", "/v1/other", delta("h"), router.ResultOK, ""},
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
			if failures := f.metric("llmgw_endpoint_recent_failures"); (failures > 0) != (tt.added != "") {
				t.Errorf("%v failures of the engine", failures)
			}
			f.idle()
		})
	}
}
