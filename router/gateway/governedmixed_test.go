package gateway_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/llmgw/llmgw/auth"
	"github.com/llmgw/llmgw/auth/usage"
	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/placement/catalog"
	"github.com/llmgw/llmgw/router"
	"github.com/llmgw/llmgw/router/gateway"
	"github.com/llmgw/llmgw/storage"
)

func decimal(n int) string { return strconv.Itoa(n) }

func engineName(s string) engines.Name { return engines.Name(s) }

// knownPaths are the paths with a name of their own, as a question about another one
// lists them.
func knownPaths(t testing.TB, g *gateway.Gateway) []string {
	t.Helper()
	_, err := g.Explain(&router.Question{Path: "/nowhere", Body: []byte(`{"model":"m"}`)})
	_, list, ok := strings.Cut(fmt.Sprint(err), "want one such as ")
	if !ok {
		t.Fatalf("no list: %v", err)
	}
	return strings.Split(list, ", ")
}

// Requests that end in every way there is leave the budget's counter, the rows and
// the store agreed to the last unit, and nothing reserved.
func governedMixed(t *testing.T, requests int) {
	e := newEngine(t, mixedEngine)
	cfg := config(at("e0", e.url, "m", "n"), at("e1", e.url, "m", "n"))
	cfg.Models = []catalog.Model{priced("m", "n"), {Name: "n", Prices: priced("n").Prices, ContextTokens: 4096}}
	cfg.Router.Breaker.FailureThreshold = 1 << 20
	cfg.Router.Breaker.Cooldown = time.Millisecond
	cfg.Router.Core.RetryBudgetMin = 0
	cfg.Router.Relay.Timeouts.ResponseHeader = 40 * time.Millisecond
	cfg.Router.Relay.Timeouts.FirstToken = 40 * time.Millisecond
	cfg.Router.Relay.Timeouts.Idle = 40 * time.Millisecond
	g := newGoverned(t, cfg, func(c *usage.Config) { c.BufferRows = requests + 1000 }, func(d *gateway.Deps) { d.Logger, d.Recorder = nil, nil })
	maintained := running(t, func(ctx context.Context) error {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
				_ = g.limiter.Maintain(ctx, time.Now())
			}
		}
	})
	defer maintained()
	id, text := g.key(auth.Spec{Budget: "1000/day"})
	h := g.gw.Protect(g.gw, auth.DefaultExempt())

	modes := []string{"400", "500", "429", "503", "reset", "close", "cut", "cut document", "silent", "leave"}
	request := func(rng *rand.Rand) {
		mode, body := "", chatBody
		switch n := rng.IntN(120); {
		case n < len(modes):
			mode = modes[n]
		case n < 50:
			body = streamBody
		case n < 55:
			body = `{"model":"nobody"}`
		case n < 60:
			body = `{"model":`
		case n < 80:
			body = strings.Replace(chatBody, `"m"`, `"n"`, 1)
		}
		if mode == "cut" || mode == "leave" {
			body = streamBody
		}
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		w := &client{header: http.Header{}}
		if mode == "leave" {
			w.leave = cancel
		}
		r := (&http.Request{
			Method: "POST", URL: &url.URL{Path: chatPath}, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			// One client names all its requests alike; that makes no row of another's.
			Header: http.Header{"X-Mode": {mode}, "Authorization": {"Bearer " + text}, "X-Request-Id": {"same"}},
			Body:   io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
		}).WithContext(ctx)
		defer func() {
			if p := recover(); p != nil && p != http.ErrAbortHandler { //nolint:errorlint // a sentinel that is never wrapped
				panic(p)
			}
		}()
		h.ServeHTTP(w, r)
	}
	var left atomic.Int64
	left.Store(int64(requests))
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(5, uint64(i)))
			for left.Add(-1) >= 0 {
				request(rng)
			}
		})
	}
	wg.Wait()
	maintained()
	g.idle()
	g.balanced(id, requests)
	sources := map[string]int{}
	for _, u := range g.rows(id) {
		sources[u.Source.String()]++
	}
	if sources["engine"] == 0 || sources["none"] == 0 || sources["counted"]+sources["estimated"]+sources["partial"] == 0 {
		t.Errorf("sources %v", sources)
	}
	if err := g.limiter.Drain(context.Background(), time.Now()); err != nil {
		t.Error(err)
	}
	if st, err := g.store.Budget(context.Background(), dayOf(g, id)); err != nil || st.GrantedNanos != st.SpentNanos {
		t.Errorf("after the end %d are granted, %d spent, %v", st.GrantedNanos, st.SpentNanos, err)
	}
}

// dayOf is the period of a key's daily budget that holds now.
func dayOf(g *governed, id string) storage.BudgetPeriod {
	return storage.BudgetPeriod{KeyID: id, Period: storage.PeriodDay, Start: g.state(id).Budget.ID.Start}
}
