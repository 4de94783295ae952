package gateway_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/llmgw/llmgw/placement/catalog"
	"github.com/llmgw/llmgw/router"
	"github.com/llmgw/llmgw/router/gateway"
	"github.com/llmgw/llmgw/router/routertest"
)

// A failure before the first byte is somebody else's turn: the client sees the
// second engine's answer and nothing of the first.
func TestRetryBeforeTheFirstByte(t *testing.T) {
	tests := []struct {
		name   string
		answer func(*exchange) // nil: nobody listens
	}{
		{"nobody listens", nil},
		{"closes", func(x *exchange) { _ = x.Close() }},
		{"resets", func(x *exchange) { x.reset() }},
		{"breaks off in the head", func(x *exchange) { x.write("HTTP/1.1 200 OK\r\nContent-"); _ = x.Close() }},
		{"speaks no HTTP", func(x *exchange) { x.write("SSH-2.0-OpenSSH_9.9\r\n\r\n"); _ = x.Close() }},
		{"says two lengths", func(x *exchange) { x.write(head(200, "Content-Length: 2", "Content-Length: 3") + "{}"); _ = x.Close() }},
		{"closes after the head", func(x *exchange) { x.write(eventHead()); _ = x.Close() }},
		{"streams nothing", func(x *exchange) { x.write(eventHead() + lastChunk) }},
		{"streams nothing, of length 0", func(x *exchange) { x.write(head(200, "Content-Type: text/event-stream", "Content-Length: 0")) }},
		{"streams nothing until it closes", func(x *exchange) { x.write(head(200, "Content-Type: text/event-stream")); _ = x.Close() }},
		{"streams half an event", func(x *exchange) { x.write(eventHead() + chunk(`data: {"id":"c","cho`) + lastChunk) }},
		{"streams an event without its end", func(x *exchange) { x.write(eventHead() + chunk(strings.TrimSpace(delta("x"))) + lastChunk) }},
		{"streams half an event until it closes", func(x *exchange) {
			x.write(head(200, "Content-Type: text/event-stream") + `data: {"id":"c","cho`)
			_ = x.Close()
		}},
		{"answers nothing", func(x *exchange) { x.write(document(200, "")) }},
		{"answers nothing in chunks", func(x *exchange) {
			x.write(head(200, "Content-Type: application/json", "Transfer-Encoding: chunked") + lastChunk)
		}},
		{"streams an error", func(x *exchange) { x.write(eventHead() + chunk(errorEvent(500)) + chunk(doneEvent) + lastChunk) }},
		{"streams an error and hangs", func(x *exchange) { x.write(eventHead() + chunk(errorEvent(500))); x.untilLeft() }},
		{"streams an error in pieces", func(x *exchange) {
			x.write(eventHead() + chunk(errorEvent(500)[:20]) + chunk(errorEvent(500)[20:]) + lastChunk)
		}},
		{"streams an error without its end", func(x *exchange) { x.write(eventHead() + chunk(strings.TrimSpace(errorEvent(500))) + lastChunk) }},
		{"streams that it is overloaded", func(x *exchange) { x.write(eventHead() + chunk(errorEvent(503)) + lastChunk) }},
		{"is silent", func(x *exchange) { x.untilLeft() }},
		{"is silent after the head", func(x *exchange) { x.write(eventHead()); x.untilLeft() }},
		{"500", func(x *exchange) { x.write(document(500, `{"error":"out of memory"}`)) }},
		{"502", func(x *exchange) { x.write(document(502, "<html>")) }},
		{"503", func(x *exchange) { x.write(document(503, `{}`)) }},
		{"503 with Retry-After", func(x *exchange) { x.write(document(503, `{}`, "Retry-After: 7")) }},
		{"429", func(x *exchange) { x.write(document(429, `{}`)) }},
		{"redirects", func(x *exchange) { x.write(document(307, `{}`, "Location: http://example.org/")) }},
	}
	for _, tt := range tests {
		for _, body := range []string{chatBody, streamBody} {
			t.Run(fmt.Sprintf("%s/stream=%v", tt.name, body == streamBody), func(t *testing.T) {
				bad := deadURL(t)
				if tt.answer != nil {
					bad = newRaw(t, tt.answer).url
				}
				other := newRaw(t, good)
				cfg := config(first(at("bad", bad)), at("good", other.url))
				cfg.Router.Relay.Timeouts.ResponseHeader = 50 * time.Millisecond
				cfg.Router.Relay.Timeouts.FirstToken = 50 * time.Millisecond
				f := newFleet(t, cfg)
				got := f.do("POST", chatPath, body)
				want := completion
				if body == streamBody {
					want = delta("h") + delta("i") + doneEvent
				}
				if got.status != 200 || got.err != nil || got.body != want {
					t.Errorf("got %d %q, %v; want %q", got.status, got.body, got.err, want)
				}
				o := f.next()
				if o.Attempts != 2 || o.Endpoint != "good" || o.Result != router.ResultOK || o.Status != 200 {
					t.Errorf("recorded %d attempts at last on %q, %v, status %d", o.Attempts, o.Endpoint, o.Result, o.Status)
				}
				if n := f.metric("llmgw_router_retries_total", "model=m"); n != 1 {
					t.Errorf("%v retries are counted", n)
				}
				f.idle()
			})
		}
	}
}

// Retries is the number of further endpoints.
func TestRetriesAreBounded(t *testing.T) {
	for _, retries := range []int{0, 1, 2, 4, 9} {
		t.Run(fmt.Sprint(retries), func(t *testing.T) {
			var calls atomic.Int64
			cfg := config()
			for i := range 6 {
				e := newRaw(t, func(x *exchange) { calls.Add(1); x.write(document(500, `{"detail":"broken"}`)) })
				cfg.Endpoints = append(cfg.Endpoints, at(fmt.Sprint("e", i), e.url))
			}
			cfg.Router.Core.Retries = retries
			f := newFleet(t, cfg)
			got := f.chat()
			want := int64(min(retries+1, 6))
			if got.status != 500 || !strings.Contains(got.body, "broken") || calls.Load() != want {
				t.Errorf("got %d %s after %d calls, want %d", got.status, got.body, calls.Load(), want)
			}
			if o := f.next(); int64(o.Attempts) != want || o.Result != router.ResultEngineRefused {
				t.Errorf("recorded %d attempts, %v", o.Attempts, o.Result)
			}
		})
	}
}

// A sick fleet is not hit harder than a healthy one.
func TestRetryBudget(t *testing.T) {
	const requests, least = 400, 10
	var calls atomic.Int64
	cfg := config()
	for i := range 4 {
		e := newRaw(t, func(x *exchange) { calls.Add(1); x.write(document(500, `{}`)) })
		cfg.Endpoints = append(cfg.Endpoints, at(fmt.Sprint("e", i), e.url))
	}
	cfg.Router.Core.RetryBudgetMin = least
	cfg.Router.Breaker.FailureThreshold = 1 << 20
	f := newFleet(t, cfg)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range requests / 8 {
				if got := f.chat(); got.status != 500 {
					t.Errorf("got %d %s", got.status, got.body)
				}
			}
		})
	}
	wg.Wait()
	if n := calls.Load(); n > requests*12/10+least || n < requests+least {
		t.Errorf("%d requests made %d calls; want at most %d", requests, n, requests*12/10+least)
	}
	if f.metric("llmgw_router_retry_budget_exhausted_total") == 0 {
		t.Error("the budget's end is not counted")
	}
	f.idle()
}

// What is wrong with a request is no fault of the engine, and no reason to ask
// another one.
func TestClientMistakesAreNobodysFault(t *testing.T) {
	for _, status := range []int{400, 401, 403, 404, 413, 422} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			body := fmt.Sprintf(`{"error":{"message":"no %d","type":"invalid_request_error","param":null,"code":"some_code"}}`, status)
			e := newRaw(t, func(x *exchange) { x.write(document(status, body)) })
			other := newRaw(t, good)
			f := newFleet(t, config(first(at("a", e.url)), at("b", other.url)))
			for range 10 {
				if got := f.chat(); got.status != status || got.body != body {
					t.Fatalf("got %d %s, want the engine's own", got.status, got.body)
				}
			}
			if e.calls.Load() != 10 || other.calls.Load() != 0 {
				t.Errorf("%d and %d calls", e.calls.Load(), other.calls.Load())
			}
			if n := f.metric("llmgw_endpoint_recent_failures"); n != 0 {
				t.Errorf("%v failures weigh on the engine", n)
			}
			if f.metric("llmgw_endpoint_state", "endpoint=a", "state=closed") != 1 {
				t.Error("the breaker is not closed")
			}
		})
	}
}

// A 401 to a secret of ours is a disagreement between us and the engine: the
// client hears nothing of it.
func TestMismatchOfOurSecret(t *testing.T) {
	const secret = "sk-engine-canary"
	for _, status := range []int{401, 403} {
		e := newRaw(t, func(x *exchange) {
			x.write(document(status, `{"error":"bad key `+x.req.Header.Get("Authorization")+`"}`))
		})
		withKey := first(at("a", e.url))
		withKey.Secret = secret
		f := newFleet(t, config(withKey))
		got := f.do("POST", chatPath, chatBody, "Authorization", "Bearer sk-client-canary")
		if got.status != 502 || got.code() != "upstream_failed" {
			t.Errorf("got %d %s", got.status, got.body)
		}
		if again := f.chat(); again.status != 503 || e.calls.Load() != 1 {
			t.Errorf("the endpoint stays in the pool: %d after %d calls", again.status, e.calls.Load())
		}
		for _, canary := range []string{secret, "sk-client-canary"} {
			if strings.Contains(got.body, canary) || strings.Contains(f.log.String(), canary) {
				t.Errorf("%s leaks: %s\n%s", canary, got.body, f.log)
			}
		}

		other := newRaw(t, good)
		f = newFleet(t, config(withKey, at("b", other.url)))
		if got := f.chat(); got.status != 200 || got.body != completion {
			t.Errorf("got %d %s, want the other endpoint's answer", got.status, got.body)
		}
	}
}

// One endpoint that is rate limited gets at most one attempt per cooldown, and
// it is load, not failure.
func TestRateLimitedEndpointRests(t *testing.T) {
	tests := []struct{ name, answer string }{
		{"429", document(429, `{"error":"slow down"}`)},
		{"429 with Retry-After", document(429, `{"error":"slow down"}`, "Retry-After: 3600")},
		{"503 with Retry-After", document(503, `{"error":"loading"}`, "Retry-After: 3600")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			limited := newRaw(t, func(x *exchange) { x.write(tt.answer) })
			other := newRaw(t, good)
			cfg := config(first(at("limited", limited.url)), at("other", other.url))
			f := newFleet(t, cfg)
			for range 30 {
				if got := f.chat(); got.status != 200 {
					t.Fatalf("got %d %s", got.status, got.body)
				}
			}
			if limited.calls.Load() != 1 || other.calls.Load() != 30 {
				t.Errorf("%d and %d calls", limited.calls.Load(), other.calls.Load())
			}
			if f.metric("llmgw_endpoint_state", "endpoint=limited", "state=cooling") != 1 || f.metric("llmgw_endpoint_recent_failures") != 0 {
				t.Error("it counts as a failure")
			}
		})
	}
	t.Run("alone", func(t *testing.T) {
		limited := newRaw(t, func(x *exchange) { x.write(document(429, `{"error":"slow down"}`, "Retry-After: 3")) })
		f := newFleet(t, config(at("limited", limited.url)))
		if got := f.chat(); got.status != 429 || got.header.Get("Retry-After") != "3" || !strings.Contains(got.body, "slow down") {
			t.Errorf("got %d %v %s", got.status, got.header, got.body)
		}
		for range 20 {
			got := f.chat()
			if got.status != 503 || got.code() != "no_endpoint" || got.header.Get("Retry-After") != "3" {
				t.Fatalf("got %d, Retry-After %q, %s", got.status, got.header.Get("Retry-After"), got.body)
			}
		}
		if limited.calls.Load() != 1 {
			t.Errorf("%d calls", limited.calls.Load())
		}
	})
}

// The third failure in a row opens the breaker; a success starts the row anew.
func TestBreaker(t *testing.T) {
	var fail atomic.Bool
	e := newRaw(t, func(x *exchange) {
		if fail.Load() {
			x.write(document(500, `{}`))
			return
		}
		good(x)
	})
	cfg := config(at("e", e.url))
	cfg.Router.Core.Retries = 0
	f := newFleet(t, cfg)
	want := func(fails bool, statuses ...int) {
		t.Helper()
		fail.Store(fails)
		for i, status := range statuses {
			if got := f.chat(); got.status != status {
				t.Fatalf("request %d: got %d %s, want %d", i, got.status, got.body, status)
			}
		}
	}
	want(true, 500, 500)
	want(false, 200)
	want(true, 500, 500)
	want(false, 200)
	want(true, 500, 500, 500)
	calls := e.calls.Load()
	want(false, 503, 503)
	if e.calls.Load() != calls {
		t.Error("an open breaker lets requests through")
	}
	if f.metric("llmgw_endpoint_state", "state=open") != 1 || f.metric("llmgw_endpoint_breaker_openings_total") != 1 {
		t.Error("the breaker is not seen open")
	}
}

// An engine that begins every answer and ends none is not healthy in between.
func TestBreakerSeesWhatComesAfterTheHead(t *testing.T) {
	tests := []struct {
		name   string
		answer func(*exchange)
		status int
	}{
		{"cuts streams", func(x *exchange) { x.write(eventHead() + chunk(delta("h"))); _ = x.Close() }, 200},
		{"sends heads only", func(x *exchange) { x.write(eventHead()); x.untilLeft() }, 504},
		{"hangs within", func(x *exchange) { x.write(eventHead() + chunk(delta("h"))); x.untilLeft() }, 200},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := newRaw(t, tt.answer)
			cfg := config(at("e", e.url))
			cfg.Router.Core.Retries = 0
			cfg.Router.Relay.Timeouts.FirstToken = 30 * time.Millisecond
			cfg.Router.Relay.Timeouts.Idle = 30 * time.Millisecond
			f := newFleet(t, cfg)
			for range 3 {
				if got := f.stream(); got.status != tt.status {
					t.Fatalf("got %d %s", got.status, got.body)
				}
			}
			f.idle() // the breaker is told a moment after the client has its answer
			if got := f.stream(); got.status != 503 || e.calls.Load() != 3 {
				t.Errorf("got %d after %d calls", got.status, e.calls.Load())
			}
		})
	}
}

// After the cooldown one request probes; its answer opens the endpoint for all.
func TestBreakerHeals(t *testing.T) {
	var fail atomic.Bool
	fail.Store(true)
	e := newRaw(t, func(x *exchange) {
		if fail.Load() {
			x.reset()
			return
		}
		good(x)
	})
	cfg := config(at("e", e.url))
	cfg.Router.Core.Retries = 0
	cfg.Router.Breaker.Cooldown = 20 * time.Millisecond
	f := newFleet(t, cfg)
	for range 3 {
		f.chat()
	}
	fail.Store(false)
	f.eventually("the endpoint is back", func() bool { return f.chat().status == 200 })
	for range 10 {
		if got := f.chat(); got.status != 200 {
			t.Errorf("got %d %s", got.status, got.body)
		}
	}
	f.idle()
}

func TestFallbacks(t *testing.T) {
	named := func(name string) *rawEngine {
		return newRaw(t, func(x *exchange) { x.write(document(200, `{"by":"`+name+`","got":`+string(x.body)+`}`)) })
	}
	b, c := named("b"), named("c")
	models := []catalog.Model{
		{Name: "A", Fallbacks: []string{"see", "B"}, Aliases: []string{"ay"}},
		{Name: "B"},
		{Name: "C", Aliases: []string{"see"}},
		{Name: "D", Fallbacks: []string{"B"}},
		{Name: "E"},
	}
	var fleets []*fleet
	for _, caller := range []routertest.Callers{
		nil,
		{"k": {MayUse: routertest.Only("A", "B", "D")}},
		{"k": {MayUse: routertest.Only("A")}},
	} {
		upstreamB := at("b", b.url, "B")
		upstreamB.Models[0].Upstream = "org/b-8b"
		cfg := config(at("a1", deadURL(t), "A"), at("a2", deadURL(t), "A"), upstreamB, at("c", c.url, "C"))
		cfg.Models = models
		fleets = append(fleets, newFleet(t, cfg, func(d *gateway.Deps) {
			if caller != nil {
				d.Caller = caller
			}
		}))
	}
	tests := []struct {
		name, model string
		fleet       int
		status      int
		by, sent    string
		served      string
		attempts    int
	}{
		{"the first in the list, by its alias", "A", 0, 200, "c", "C", "C", 3},
		{"asked for by alias", "ay", 0, 200, "c", "C", "C", 1}, // the breakers are open by now
		{"the next that the caller may use, under the engine's name", "A", 1, 200, "b", "org/b-8b", "B", 3},
		{"none that the caller may use", "A", 2, 502, "", "", "", 2},
		{"no endpoint at all", "D", 0, 200, "b", "org/b-8b", "B", 1},
		{"no fallback", "E", 0, 503, "", "", "", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := fleets[tt.fleet]
			if tt.name == "asked for by alias" {
				for range 2 { // one failure each stands from before
					f.do("POST", chatPath, `{"model":"A","n":1}`)
					f.next()
				}
			}
			got := f.do("POST", chatPath, `{"model":"`+tt.model+`","n":1}`, "Authorization", "Bearer k")
			want := ""
			if tt.by != "" {
				want = `{"by":"` + tt.by + `","got":{"model":"` + tt.sent + `","n":1}}`
			}
			if got.status != tt.status || want != "" && got.body != want {
				t.Errorf("got %d %s, want %d %s", got.status, got.body, tt.status, want)
			}
			o := f.next()
			if o.Served != tt.served || o.Attempts != tt.attempts {
				t.Errorf("recorded served by %q after %d attempts", o.Served, o.Attempts)
			}
			f.idle()
		})
	}
	if n := fleets[0].metric("llmgw_router_fallbacks_total", "model=A", "served=C"); n != 4 {
		t.Errorf("%v fallbacks from A to C are counted, want 4", n)
	}
}
