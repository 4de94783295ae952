package gateway_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgw/llmgw/router"
)

// event is one server-sent event.
type event struct{ name, data string }

func events(t testing.TB, body string) []event {
	t.Helper()
	var out []event
	for block := range strings.SplitSeq(strings.TrimSuffix(body, "\n\n"), "\n\n") {
		var e event
		for line := range strings.SplitSeq(block, "\n") {
			if v, ok := strings.CutPrefix(line, "event: "); ok {
				e.name = v
			}
			if v, ok := strings.CutPrefix(line, "data: "); ok {
				e.data += v
			}
		}
		out = append(out, e)
	}
	return out
}

// After the first byte nobody else is asked: what the client gets is what the
// first engine sent and one error event in the form of the API.
func TestStreamCutAfterTheFirstByte(t *testing.T) {
	t.Parallel()
	const (
		askedBody    = `{"model":"m","messages":[],"stream":true,"stream_options":{"include_usage":true}}`
		created      = "event: response.created\ndata: {\"type\":\"response.created\",\"sequence_number\":0}\n\n"
		outputDelta  = "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"h\",\"sequence_number\":1}\n\n"
		messageStart = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":7}}}\n\n"
		blockDelta   = "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"text_delta\",\"text\":\"h\"}}\n\n"
		half         = `data: {"id":"c","choi`
	)
	apis := []struct {
		name, path, body, sent string
		passed                 string // "": all of sent
		name2, kind            string // of the event, and of its data
	}{
		{name: "chat", path: chatPath, body: askedBody, sent: delta("h") + delta("i")},
		{name: "chat in the middle of an event", path: chatPath, body: askedBody, sent: delta("h") + half},
		{name: "chat in the middle of an event that is held back", path: chatPath, body: streamBody, sent: delta("h") + half, passed: delta("h")},
		{name: "chat in the middle of a comment", path: chatPath, body: streamBody, sent: delta("h") + ": keep"},
		{name: "completions", path: "/v1/completions", body: streamBody, sent: delta("h")},
		{name: "another path", path: "/v1/other", body: streamBody, sent: delta("h")},
		{name: "responses", path: "/v1/responses", body: streamBody, sent: created + outputDelta, name2: "error", kind: "error"},
		{name: "messages", path: "/v1/messages", body: streamBody, sent: messageStart + blockDelta, name2: "error", kind: "error"},
	}
	ends := []struct {
		name string
		end  func(*exchange)
		code string
	}{
		{"closes", func(x *exchange) { _ = x.Close() }, "upstream_failed"},
		{"hangs", func(x *exchange) { x.untilLeft() }, "upstream_timeout"},
		{"breaks the chunks", func(x *exchange) { x.write("zz\r\n"); x.untilLeft() }, "upstream_failed"},
	}
	for _, api := range apis {
		for _, end := range ends {
			t.Run(api.name+"/"+end.name, func(t *testing.T) {
				began := make(chan struct{})
				e := newRaw(t, func(x *exchange) { x.write(eventHead() + chunk(api.sent)); <-began; end.end(x) })
				other := newRaw(t, good)
				cfg := config(first(at("a", e.url)), at("b", other.url))
				cfg.Router.Relay.Timeouts.FirstToken = 100 * time.Millisecond
				cfg.Router.Relay.Timeouts.Idle = 100 * time.Millisecond
				f := newFleet(t, cfg)
				got := f.doFrom(api.path, api.body, began)
				if got.status != 200 || got.err != nil {
					t.Fatalf("got %d, %v", got.status, got.err)
				}
				passed := api.passed
				if passed == "" {
					passed = api.sent
				}
				rest, ok := strings.CutPrefix(got.body, passed)
				if !ok {
					t.Fatalf("got %q; want it to begin with %q", got.body, passed)
				}
				if !strings.HasSuffix(passed, "\n\n") {
					if rest, ok = strings.CutPrefix(rest, "\n\n"); !ok {
						t.Fatalf("%q is glued to an unfinished event", rest)
					}
				}
				all := events(t, rest)
				if len(all) != 1 || !strings.HasSuffix(rest, "\n\n") {
					t.Fatalf("%q is not one event", rest)
				}
				var doc struct {
					Type     string
					Sequence int    `json:"sequence_number"`
					Code     string // of responses
					ID       string `json:"request_id"`
					Error    struct{ Type, Message, Code string }
				}
				if err := json.Unmarshal([]byte(all[0].data), &doc); err != nil {
					t.Fatal(err)
				}
				if all[0].name != api.name2 || doc.Type != api.kind {
					t.Errorf("event %q of type %q", all[0].name, doc.Type)
				}
				switch api.name {
				case "responses":
					if doc.Code != end.code || doc.Sequence != 2 {
						t.Errorf("code %q, sequence number %d", doc.Code, doc.Sequence)
					}
				case "messages":
					if doc.Error.Type == "" || doc.Error.Message == "" || doc.ID != got.header.Get("Request-Id") {
						t.Errorf("%+v", doc)
					}
				default:
					if doc.Error.Code != end.code || doc.Error.Message == "" {
						t.Errorf("%+v", doc)
					}
				}
				o := f.next()
				if o.Result != router.ResultCut || o.Attempts != 1 || o.Endpoint != "a" || o.Code != end.code || o.Status != 200 {
					t.Errorf("recorded %v after %d attempts on %q, code %q", o.Result, o.Attempts, o.Endpoint, o.Code)
				}
				if other.calls.Load() != 0 || f.metric("llmgw_router_retries_total") != 0 {
					t.Error("another engine was asked after the first byte")
				}
				f.idle()
			})
		}
	}
}

// An engine that says itself what went wrong is not talked over, and one that
// has said all is whole, whatever its framing.
func TestStreamsThatSpeakForThemselves(t *testing.T) {
	const failed = `data: {"error":{"message":"out of memory","type":"server_error","code":null,"param":null}}` + "\n\n"
	tests := []struct {
		name, sent string
		head       string
		result     router.Result
	}{
		{"error event", delta("h") + failed, eventHead(), router.ResultCut},
		{"[DONE] without the last chunk", delta("h") + doneEvent, eventHead(), router.ResultOK},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := newRaw(t, func(x *exchange) { x.write(tt.head + chunk(tt.sent)); _ = x.Close() })
			f := newFleet(t, config(at("a", e.url)))
			if got := f.stream(); got.body != tt.sent || got.err != nil {
				t.Errorf("got %q, %v", got.body, got.err)
			}
			if o := f.next(); o.Result != tt.result {
				t.Errorf("recorded %v", o.Result)
			}
		})
	}
	t.Run("until the connection's end", func(t *testing.T) {
		e := newRaw(t, func(x *exchange) {
			x.write(head(200, "Content-Type: text/event-stream") + delta("h"))
			if x.n == 1 {
				x.write(doneEvent)
			}
			_ = x.Close()
		})
		f := newFleet(t, config(at("a", e.url)))
		if got := f.stream(); got.body != delta("h")+doneEvent || got.err != nil {
			t.Errorf("whole: got %q, %v", got.body, got.err)
		}
		if got := f.stream(); !strings.Contains(got.body, "upstream_failed") {
			t.Errorf("cut: got %q, %v", got.body, got.err)
		}
	})
}

// A document that breaks off must not look like a short whole one, whatever was
// asked for and however it is framed.
func TestDocumentCutAfterTheFirstByte(t *testing.T) {
	part := completion[:40]
	long := part + strings.Repeat(" ", 8<<10) // too long to be held until it is whole
	framings := []struct{ name, sent string }{
		{"of known length", head(200, "Content-Type: application/json", fmt.Sprint("Content-Length: ", len(long)+1)) + long},
		{"in chunks", head(200, "Content-Type: application/json", "Transfer-Encoding: chunked") + chunk(part)},
		{"until the connection's end", head(200, "Content-Type: application/json") + part},
	}
	for _, framing := range framings {
		for _, body := range []string{chatBody, streamBody} {
			t.Run(fmt.Sprintf("%s/stream=%v", framing.name, body == streamBody), func(t *testing.T) {
				e := newRaw(t, func(x *exchange) { x.write(framing.sent); _ = x.Close() })
				other := newRaw(t, good)
				f := newFleet(t, config(first(at("a", e.url)), at("b", other.url)))
				got := f.do("POST", chatPath, body)
				if got.err == nil {
					t.Errorf("the client takes %q for all of it", got.body)
				} else if got.body != "" && !errors.Is(got.err, io.ErrUnexpectedEOF) {
					t.Error(got.err)
				}
				if o := f.next(); o.Result != router.ResultCut || o.Attempts != 1 {
					t.Errorf("recorded %v after %d attempts", o.Result, o.Attempts)
				}
				if other.calls.Load() != 0 {
					t.Error("another engine was asked")
				}
				f.idle()
			})
		}
	}
	t.Run("a whole one passes however it is framed", func(t *testing.T) {
		all := []string{
			document(200, completion),
			head(200, "Content-Type: application/json", "Transfer-Encoding: chunked") + chunk(completion[:9]) + chunk(completion[9:]) + lastChunk,
			head(200, "Content-Type: application/json") + completion + "\n",
		}
		e := newRaw(t, func(x *exchange) {
			x.write(all[(x.n-1)%3])
			if x.n == 3 {
				_ = x.Close()
			}
		})
		f := newFleet(t, config(at("a", e.url)))
		for i := range all {
			got := f.chat()
			if diff := cmp.Diff(completion, strings.TrimSpace(got.body)); diff != "" || got.err != nil {
				t.Errorf("%d: %v %s", i, got.err, diff)
			}
			if o := f.next(); o.Result != router.ResultOK {
				t.Errorf("%d: recorded %v", i, o.Result)
			}
		}
	})
}
