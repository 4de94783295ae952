package gateway_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

const bodyGauge = "llmgw_router_body_memory_bytes"

// The memory for bodies is bounded over all requests; what is beyond it is
// refused before it is read, and served again once there is room.
func TestBodyMemoryIsBounded(t *testing.T) {
	arrived, release := make(chan struct{}), make(chan struct{})
	e := newRaw(t, func(x *exchange) {
		arrived <- struct{}{}
		<-release
		good(x)
	})
	cfg := config(at("e", e.url))
	cfg.Router.Core.MaxBodyBytes = 2 << 20
	cfg.Router.Core.BodyMemoryBytes = 16 << 20
	f := newFleet(t, cfg)
	big := `{"model":"m","x":"` + strings.Repeat("x", 1<<20) + `"}` // held in 2 MiB
	ended := make(chan answer)
	for range 8 {
		go func() { ended <- f.do("POST", chatPath, big) }()
		<-arrived
	}
	if held := f.metric(bodyGauge); held != 16<<20 {
		t.Errorf("%v bytes are held", held)
	}
	refused := f.do("POST", chatPath, big)
	if refused.status != 503 || refused.code() != "overloaded" || refused.header.Get("Retry-After") != "1" {
		t.Errorf("got %d %s", refused.status, refused.body)
	}
	if e.calls.Load() != 8 {
		t.Error("it reached the engine")
	}
	close(release)
	for range 8 {
		if got := <-ended; got.status != 200 {
			t.Errorf("got %d %s", got.status, got.body)
		}
	}
	f.idle()
	go func() { <-arrived }()
	if got := f.do("POST", chatPath, big); got.status != 200 {
		t.Errorf("got %d %s", got.status, got.body)
	}
	f.idle()
}

// Once an answer has begun the body is not held any more, however long the
// answer takes.
func TestBodyIsGivenBackWhenTheAnswerBegins(t *testing.T) {
	for _, how := range []string{"stream", "document"} {
		release := make(chan struct{})
		e := newRaw(t, func(x *exchange) {
			if how == "stream" {
				x.write(eventHead() + chunk(delta("h")))
				<-release
				x.write(chunk(doneEvent) + lastChunk)
				return
			}
			x.write(head(200, "Content-Type: application/json", "Transfer-Encoding: chunked") + chunk(completion[:5]))
			<-release
			x.write(chunk(completion[5:]) + lastChunk)
		})
		f := newFleet(t, config(at("e", e.url)))
		body := `{"model":"m","stream":true,"x":"` + strings.Repeat("x", 1<<20) + `"}`
		res, err := f.send(t.Context(), "POST", chatPath, strings.NewReader(body))
		if err != nil {
			close(release)
			t.Fatal(how, err, f.log)
		}
		if _, err := io.ReadFull(res.Body, make([]byte, 5)); err != nil {
			t.Fatal(err)
		}
		if held, running := f.metric(bodyGauge), f.metric("llmgw_router_requests_in_flight"); held != 0 || running != 1 {
			t.Errorf("%s: %v bytes are held while %v requests run", how, held, running)
		}
		close(release)
		if _, err := io.Copy(io.Discard, res.Body); err != nil {
			t.Error(err)
		}
		_ = res.Body.Close()
		f.idle()
	}
}

// A session stays at its endpoint, by header or by the body's user, and
// sessions spread over all.
func TestSessionsStay(t *testing.T) {
	cfg := config()
	for i := range 4 {
		cfg.Endpoints = append(cfg.Endpoints, at(fmt.Sprint("e", i), newRaw(t, good).url))
	}
	f := newFleet(t, cfg)
	for _, by := range []string{"header", "user", "header before user"} {
		used := map[string]bool{}
		for s := range 24 {
			own := map[string]bool{}
			for i := range 4 {
				session, body, header := fmt.Sprint("session ", s), chatBody, ""
				if by != "header" {
					body = `{"model":"m","user":"` + session + `"}`
				}
				if by != "user" {
					header = "X-Session-Id"
				}
				if by == "header before user" {
					body = fmt.Sprintf(`{"model":"m","user":"%d"}`, i)
				}
				if got := f.do("POST", chatPath, body, header, session); got.status != 200 {
					t.Fatalf("got %d", got.status)
				}
				o := f.next()
				if o.Session != session {
					t.Errorf("recorded session %q", o.Session)
				}
				own[o.Endpoint], used[o.Endpoint] = true, true
			}
			if len(own) != 1 {
				t.Errorf("by %s: session %d was on %d endpoints", by, s, len(own))
			}
		}
		if len(used) != 4 {
			t.Errorf("by %s: sessions are on %d of 4 endpoints", by, len(used))
		}
	}
}

// Affinity yields to load: a session whose endpoint is much busier than the
// others goes elsewhere.
func TestSessionYieldsToLoad(t *testing.T) {
	arrived, release := make(chan struct{}), make(chan struct{})
	cfg := config()
	for i := range 3 {
		cfg.Endpoints = append(cfg.Endpoints, at(fmt.Sprint("e", i), newRaw(t, func(x *exchange) {
			arrived <- struct{}{}
			<-release
			good(x)
		}).url))
	}
	f := newFleet(t, cfg)
	ended := make(chan answer)
	for range 30 {
		go func() { ended <- f.do("POST", chatPath, chatBody, "X-Session-Id", "one") }()
		<-arrived
	}
	for i := range 3 {
		if n := f.metric("llmgw_endpoint_inflight_requests", fmt.Sprint("endpoint=e", i)); n < 5 || n > 16 {
			t.Errorf("e%d has %v of 30 requests of one session", i, n)
		}
	}
	close(release)
	for range 30 {
		<-ended
	}
	f.idle()
}

// A client that leaves is noticed at once, before and within the answer.
func TestLeavingIsNoticedAtOnce(t *testing.T) {
	for _, begun := range []bool{false, true} {
		arrived, left := make(chan struct{}), make(chan time.Time)
		e := newRaw(t, func(x *exchange) {
			if begun {
				x.write(eventHead() + chunk(delta("h")))
			}
			arrived <- struct{}{}
			x.untilLeft()
			left <- time.Now()
		})
		f := newFleet(t, config(at("e", e.url)))
		best := time.Hour
		for range 5 {
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				f.doContext(ctx, "POST", chatPath, streamBody)
			}()
			<-arrived
			from := time.Now()
			cancel()
			best = min(best, (<-left).Sub(from))
			<-ended
		}
		if best > 100*time.Millisecond { // the best of five, for machines that are busy
			t.Errorf("begun=%v: the engine's connection was closed after %v", begun, best)
		}
		f.idle()
	}
}
