package gateway

import (
	"context"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/llmgw/llmgw/auth"
	"github.com/llmgw/llmgw/auth/limit"
	"github.com/llmgw/llmgw/auth/usage"
	"github.com/llmgw/llmgw/placement/catalog"
	"github.com/llmgw/llmgw/router"
	"github.com/llmgw/llmgw/router/openai"
	"github.com/llmgw/llmgw/storage"
)

// oneKey answers every hash with one key.
type oneKey struct{ storage.Key }

func (k oneKey) KeyByHash(_ context.Context, h storage.KeyHash) (storage.Key, error) {
	k.Hash = h
	return k.Key, nil
}

// noStore is a store of usage that keeps nothing.
type noStore struct{ storage.UsageLog }

func (noStore) InsertUsage(_ context.Context, rows []storage.Usage) (int, error) {
	return len(rows), nil
}

// governed returns what takes a request through all that a key, its limits and
// accounting do on its way, without the router between.
func governed(tb testing.TB) (request func()) {
	must := func(err error) {
		if err != nil {
			tb.Fatal(err)
		}
	}
	secret, err := auth.Mint(nil)
	must(err)
	rate, many := int64(1e12), int64(1e6)
	authCfg := auth.DefaultConfig()
	authCfg.Enabled = true
	authn, err := auth.New(authCfg, auth.Deps{Keys: oneKey{storage.Key{
		ID: "key_z2lxbb3r3mypxa2iiyqc", Owner: "ada", CreatedAt: time.Unix(1, 0), Revision: 1,
		Limits: storage.Limits{RequestsPerMinute: &rate, TokensPerMinute: &rate, Concurrency: &many},
		Budget: &storage.Budget{Nanos: 1e18, Period: storage.PeriodMonth},
	}}})
	must(err)
	limiter, err := limit.New(limit.DefaultConfig(), limit.Deps{})
	must(err)
	usageCfg := usage.DefaultConfig()
	recorder, err := usage.New(usageCfg, usage.Deps{Log: noStore{}})
	must(err)
	cfg := DefaultConfig()
	cfg.Models = []catalog.Model{{Name: "m", MaxOutputTokens: 1000, Prices: []catalog.Price{{Input: 150_000_000, Output: new(catalog.Money(600_000_000))}}}}
	g, err := New(cfg, Deps{Authenticator: authn, Limiter: limiter, Usage: recorder, RouterID: "router-1"})
	must(err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{}, 2)
	go func() { _ = authn.Run(ctx); done <- struct{}{} }()
	go func() { _ = recorder.Run(ctx); done <- struct{}{} }()
	tb.Cleanup(func() { cancel(); <-done; <-done })

	v := g.governor
	rec := v.recording(nil)
	out := router.Outcome{
		ID: "req_0123456789abcdef0123456789abcdef", Path: "/v1/chat/completions", Work: router.WorkAnswer, Model: "m", Served: "m", Endpoint: "engine-0",
		Status: 200, Result: router.ResultOK, Attempts: 1, PromptBytes: 1024, HasUsage: true,
		Usage: openai.Usage{PromptTokens: openai.CountOf(300), CompletionTokens: openai.CountOf(200)},
	}
	header := make(http.Header, 16)
	h := authn.Middleware(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		who, err := v.Identify(r)
		must(err)
		o := out
		o.Identity, o.Start = &who, time.Now()
		c, err := v.Charge(r.Context(), router.Estimate{Identity: &who, Work: router.WorkAnswer, Model: "m", PromptBytes: 1024, BodyBytes: 1200, Answers: 1})
		must(err)
		o.Charge = c
		clear(header)
		c.(router.Headers).AnswerHeader(header) //nolint:forcetypeassert // it does
		o.End = time.Now()
		c.Settle(&o)
		rec.Record(&o)
	}), auth.DefaultExempt(), func(http.ResponseWriter, *http.Request, *auth.RefusedError) { tb.Fatal("refused") })
	r := (&http.Request{
		Method: "POST", URL: &url.URL{Path: "/v1/chat/completions"},
		Header: http.Header{"Authorization": {"Bearer " + secret.Reveal()}, "Content-Type": {"application/json"}, "User-Agent": {"x"}, "Accept": {"*/*"}},
	}).WithContext(context.Background())
	return func() { h.ServeHTTP(nil, r) }
}

// What keys, every limit and accounting take of a request's own time, the store
// left out.
func BenchmarkGovern(b *testing.B) {
	request := governed(b)
	b.ReportAllocs()
	for b.Loop() {
		request()
	}
}
