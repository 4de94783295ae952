package gateway_test

import (
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgw/llmgw/engines/sim"
	"github.com/llmgw/llmgw/router"
	"github.com/llmgw/llmgw/router/openai"
)

var (
	clock   = regexp.MustCompile(`"created(_at|)":\d+`)
	comment = regexp.MustCompile(`(?m)^: keep-alive\r?\n`)
)

// direct is what the engine answers when it is asked without a gateway.
func direct(t testing.TB, e *simEngine, path, body, id string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "POST", e.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Request-Id", id)
	tr := &http.Transport{DisableCompression: true, DisableKeepAlives: true}
	res, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	var r io.Reader = res.Body
	if res.Header.Get("Content-Encoding") == "gzip" {
		if r, err = gzip.NewReader(r); err != nil {
			t.Fatal(err)
		}
	}
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// The client gets byte for byte what the engine would have sent it, and the
// usage is known all the same, however the bytes come.
func TestUsageIsKnownAndUnseen(t *testing.T) {
	t.Parallel()
	const start = `{"model":"m","messages":[{"role":"user","content":"Hello"}],"prompt":"Hello","input":"Hello","max_tokens":8,"max_output_tokens":8`
	requests := []struct {
		name, path, body string
		injected         bool
	}{
		{"stream", chatPath, start + `,"stream":true}`, true},
		{"stream that asked", chatPath, start + `,"stream":true,"stream_options":{"include_usage":true}}`, false},
		{"stream that refused", chatPath, start + `,"stream":true,"stream_options":{"include_usage":false}}`, true},
		{"stream with null options", chatPath, start + `,"stream_options":null,"stream":true}`, true},
		{"stream with empty options", chatPath, start + `,"stream_options":{},"stream":true}`, true},
		{"stream with continuous usage", chatPath, start + `,"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}}`, false},
		{"stream with half of continuous usage", chatPath, start + `,"stream":true,"stream_options":{"continuous_usage_stats":true}}`, true},
		{"completions stream", "/v1/completions", start + `,"stream":true}`, true},
		{"responses stream", "/v1/responses", start + `,"stream":true}`, false},
		{"messages stream", "/v1/messages", start + `,"stream":true}`, false},
		{"document", chatPath, start + `}`, false},
		{"completions document", "/v1/completions", start + `}`, false},
		{"responses document", "/v1/responses", start + `}`, false},
		{"messages document", "/v1/messages", start + `}`, false},
		{"embeddings", "/v1/embeddings", start + `}`, false},
	}
	faults := []string{
		"", "split_bytes=1", "split_bytes=7; crlf=true", "crlf=true", "no_space=true", "comment_every=1",
		"gzip=true", "gzip=true; split_bytes=3", "crlf=true; no_space=true; comment_every=2; split_bytes=5",
	}
	e := newSim(t, func(c *sim.Config) { c.PrefixCaching = false })
	f := newFleet(t, config(at("e", e.url)))
	for _, rq := range requests {
		for _, fault := range faults {
			t.Run(rq.name+"/"+fault, func(t *testing.T) {
				e.faults(t, fault)
				got := f.do("POST", rq.path, rq.body, "X-Request-Id", "same")
				want := direct(t, e, rq.path, rq.body, "same")
				same := func(s string) string {
					if fault != "" && rq.injected {
						s = comment.ReplaceAllString(s, "") // this engine counts events to place them
					}
					return clock.ReplaceAllString(s, `"created":0`)
				}
				if diff := cmp.Diff(same(want), same(got.body)); diff != "" || got.status != 200 || got.err != nil {
					t.Errorf("got %d, %v; the bytes differ (-engine +gateway):\n%s", got.status, got.err, diff)
				}
				if got.header.Get("Content-Encoding") != "" {
					t.Error("it is still encoded")
				}
				o := f.next()
				if o.Result != router.ResultOK || !o.HasUsage || o.Stream != strings.Contains(rq.body, `"stream":true`) {
					t.Fatalf("recorded %v, usage %v, stream %v", o.Result, o.HasUsage, o.Stream)
				}
				count := func(c openai.Count) int64 { n, _ := c.Get(); return n }
				if count(o.Usage.PromptTokens) == 0 || rq.name != "embeddings" && count(o.Usage.CompletionTokens) != 8 {
					t.Errorf("recorded usage %+v", o.Usage)
				}
				if o.BytesOut != int64(len(got.body)) || o.FirstContent.IsZero() {
					t.Errorf("recorded %d bytes of %d, first content %v", o.BytesOut, len(got.body), o.FirstContent)
				}
			})
		}
	}
	if p, c := f.metric("llmgw_router_tokens_total", "kind=prompt"), f.metric("llmgw_router_tokens_total", "kind=completion"); p == 0 ||
		c != float64(8*len(faults)*(len(requests)-1)) {
		t.Errorf("%v prompt and %v completion tokens are counted", p, c)
	}
	if n := f.metric("llmgw_router_ttft_seconds"); n != float64(10*len(faults)) {
		t.Errorf("%v first tokens are observed", n)
	}
	f.idle()
}

// Where usage is not to be injected engines are not asked for it.
func TestUsageIsNotInjected(t *testing.T) {
	var asked string
	e := newRaw(t, func(x *exchange) { asked = string(x.body); good(x) })
	cfg := config(at("e", e.url))
	cfg.Router.Core.InjectUsage = false
	f := newFleet(t, cfg)
	if got := f.stream(); got.body != delta("h")+delta("i")+doneEvent || asked != streamBody {
		t.Errorf("the engine was asked %s and the client got %q", asked, got.body)
	}
	if o := f.next(); o.HasUsage {
		t.Errorf("recorded usage %+v", o.Usage)
	}
}

// Of a stream that the client leaves, what was said so far is known.
func TestUsageOfAnAbandonedStream(t *testing.T) {
	e := newRaw(t, func(x *exchange) {
		x.write(eventHead() + chunk(`data: {"id":"c","choices":[{"index":0,"delta":{"content":"h"}}],"usage":{"prompt_tokens":7,"completion_tokens":1,"total_tokens":8}}`+"\n\n"))
		x.untilLeft()
	})
	f := newFleet(t, config(at("e", e.url)))
	ctx, cancel := context.WithCancel(t.Context())
	res, err := f.send(ctx, "POST", chatPath, strings.NewReader(
		`{"model":"m","stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(res.Body, make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	cancel()
	_ = res.Body.Close()
	o := f.next()
	if n, ok := o.Usage.CompletionTokens.Get(); o.Result != router.ResultCanceled || !ok || n != 1 {
		t.Errorf("recorded %v with usage %+v", o.Result, o.Usage)
	}
	f.idle()
}

// What goes to the engine is the client's body but for what has to change.
func TestBodyIsEditedByBytes(t *testing.T) {
	var sent string
	e := newRaw(t, func(x *exchange) { sent = string(x.body); good(x) })
	renamed := at("e", e.url, "m", "same")
	renamed.Models[0].Upstream = "org/M-8B"
	f := newFleet(t, config(renamed))
	tests := []struct{ name, body, want string }{
		{"rename", `{ "x":1.0e400, "model" : "m", "y":"\ud83d\ude00", "x":[] }`, `{ "x":1.0e400, "model" : "org/M-8B", "y":"\ud83d\ude00", "x":[] }`},
		{"escaped", `{"\u006dodel":"\u006d"}`, `{"\u006dodel":"org/M-8B"}`},
		{"nothing to do", `{"model":"same","metadata":{"model":"m"}}`, `{"model":"same","metadata":{"model":"m"}}`},
		{"usage", `{"model":"same","stream":true}`, `{"stream_options":{"include_usage":true},"model":"same","stream":true}`},
		{"model last in a long body", `{"messages":"` + strings.Repeat("x", 300_000) + `","model":"m"}`, `{"messages":"` + strings.Repeat("x", 300_000) + `","model":"org/M-8B"}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := f.do("POST", chatPath, tt.body); got.status != 200 {
				t.Fatalf("got %d %s", got.status, got.body)
			}
			if sent != tt.want {
				t.Errorf("sent %.200s, want %.200s", sent, tt.want)
			}
		})
	}
}
