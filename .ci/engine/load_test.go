package engine_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// long is a request that takes the engine seconds: far longer than what the
// tests that leave it allow for.
var long = fmt.Sprintf(`{"model":"words","messages":[{"role":"user","content":"Go on"}],"max_tokens":%d,"ignore_eos":true`, longTokens)

const longTokens = contextLength - 96

// What the engine runs and holds back stands on the router's metrics page, up
// and down.
func TestLoadIsScraped(t *testing.T) {
	e := theEngine(t)
	for _, name := range []string{"auto", *engineName} {
		t.Run(name, func(t *testing.T) {
			r := newRouter(t, place{id: "e", url: e.url, engine: name})
			r.reads(t)
			load := func(running, waiting, inflight float64) {
				t.Helper()
				eventually(t, func() error {
					page := get(t, r.admin+"/metrics", "").body
					got := [3]float64{-1, -1, -1}
					for i, name := range []string{"engine_running_requests", "engine_waiting_requests", "inflight_requests"} {
						if v, ok := sample(page, "llmgw_endpoint_"+name, `endpoint="e"`); ok {
							got[i] = v
						}
					}
					if want := [3]float64{running, waiting, inflight}; got != want {
						return fmt.Errorf("running, waiting and in flight are %v, want %v", got, want)
					}
					return nil
				})
			}
			load(0, 0, 0)
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			var all sync.WaitGroup
			for range slots + 2 {
				all.Go(func() {
					if a, err := whole(ctx, http.MethodPost, r.client+"/v1/chat/completions", "", long+`,"stream":true}`); err == nil {
						t.Errorf("a request ended by itself: %v", a)
					}
				})
			}
			load(slots, 2, slots+2)
			leave()
			all.Wait()
			load(0, 0, 0)
		})
	}
}

// A prompt that the engine has in its cache counts as found there.
func TestPrefixCacheIsScraped(t *testing.T) {
	e := theEngine(t)
	r := newRouter(t, place{id: "e", url: e.url})
	r.reads(t)
	tokensOf := func(kind string) float64 {
		v, ok := r.metric(t, "llmgw_endpoint_engine_prefix_"+kind+"_tokens_total")
		if !ok {
			t.Fatalf("the router does not know the engine's %s tokens", kind)
		}
		return v
	}
	asked, hit := tokensOf("query"), tokensOf("hit")
	// Several blocks of vLLM's cache, which have 128 tokens on a CPU.
	prompt := strings.Repeat(" now is the time for all good men to come", 40)
	for range 2 {
		if a := post(t, r.client+"/v1/completions", "", `{"model":"words","prompt":"`+prompt+`","max_tokens":1}`); a.status != http.StatusOK {
			t.Fatal(a)
		}
	}
	eventually(t, func() error {
		a, h := tokensOf("query")-asked, tokensOf("hit")-hit
		if a < 800 || h < 256 || h >= a {
			return fmt.Errorf("%v tokens were looked up and %v found; want 800 or more and nearly half of them", a, h)
		}
		return nil
	})
}

// A client that leaves its stream frees its place in the engine, long before
// the answer would have been whole.
func TestLeavingAStreamFreesTheSlot(t *testing.T) {
	e := theEngine(t)
	r := newRouter(t, place{id: "e", url: e.url})
	before := e.metric(t, current().generated)
	s := open(t, r.client+"/v1/chat/completions", long+`,"stream":true}`)
	left := time.Now()
	s.leave()
	e.idle(t)
	took, n := time.Since(left), e.metric(t, current().generated)-before
	if n > longTokens/2 {
		t.Errorf("the engine wrote %v tokens of %d; it was not told", n, longTokens)
	}
	t.Logf("the engine was idle %v later, after %v tokens of %d", took.Round(time.Millisecond), n, longTokens)
}

// A client that leaves before an answer that is not streamed leaves the router
// at once. Whether the engine's work ends, too, is the engine's affair; until it
// does the router reads that the engine is busy.
func TestLeavingAWholeAnswer(t *testing.T) {
	e := theEngine(t)
	r := newRouter(t, place{id: "e", url: e.url})
	before := e.metric(t, current().generated)
	const most = 1000
	ctx, leave := context.WithCancel(t.Context())
	var gone sync.WaitGroup
	gone.Go(func() {
		body := fmt.Sprintf(`{"model":"words","prompt":"Go on","max_tokens":%d,"ignore_eos":true}`, most)
		if a, err := whole(ctx, http.MethodPost, r.client+"/v1/completions", "", body); err == nil {
			t.Errorf("the request ended by itself: %v", a)
		}
	})
	running := func(want float64) {
		t.Helper()
		eventually(t, func() error {
			if n, ok := r.metric(t, "llmgw_endpoint_engine_running_requests"); !ok || n != want {
				return fmt.Errorf("the router has read that the engine runs %v requests, %v; want %v", n, ok, want)
			}
			return nil
		})
	}
	running(1)
	left := time.Now()
	leave()
	gone.Wait()
	eventually(t, func() error {
		if n := r.count(t, "llmgw_endpoint_inflight_requests"); n != 0 {
			return fmt.Errorf("%v requests are in flight", n)
		}
		return nil
	})
	inRouter := time.Since(left)
	running(0)
	n := e.metric(t, current().generated) - before
	if !current().noticesLate && n > most/2 {
		t.Errorf("the engine wrote %v tokens of %d; it was not told", n, most)
	}
	t.Logf("the router was idle %v later and the engine %v later, after %v tokens of %d",
		inRouter.Round(time.Millisecond), time.Since(left).Round(time.Millisecond), n, most)
}
