package gateway_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/llmgw/llmgw/auth"
	"github.com/llmgw/llmgw/auth/limit"
	"github.com/llmgw/llmgw/engines/sim"
	"github.com/llmgw/llmgw/placement/catalog"
	"github.com/llmgw/llmgw/router/gateway"
)

// reserving remembers what was asked for last.
type reserving struct {
	gateway.Limiter
	last atomic.Pointer[limit.Request]
}

func (l *reserving) Acquire(ctx context.Context, now time.Time, s *limit.Subject, r limit.Request) (*limit.Reservation, error) {
	l.last.Store(&r)
	return l.Limiter.Acquire(ctx, now, s, r)
}

// newRanked is a fleet of one simulated engine, and what is reserved in it. A token
// costs 1,000.
func newRanked(t *testing.T, engine string) (*governed, *reserving) {
	cfg := config(at("e", engine))
	m := priced("m")
	m.MaxOutputTokens = 0 // it only reads
	cfg.Models = []catalog.Model{m}
	var l reserving
	return newGoverned(t, cfg, nil, func(d *gateway.Deps) {
		l.Limiter = d.Limiter
		d.Limiter = &l
	}), &l
}

// promptTokens is what an engine says that it has read.
func promptTokens(t interface{ Fatalf(string, ...any) }, a answer) int64 {
	var is struct {
		Usage struct {
			PromptTokens int64 `json:"prompt_tokens"`
		}
	}
	if err := json.Unmarshal([]byte(a.body), &is); err != nil || a.status != 200 || is.Usage.PromptTokens == 0 {
		t.Fatalf("%d %s: %v", a.status, a.body, err)
	}
	return is.Usage.PromptTokens
}

// Whatever is ranked or scored with whatever, an engine charges no more than a budget
// has reserved for it.
func TestPairsCostNoMoreThanReserved(t *testing.T) {
	t.Parallel()
	g, reserved := newRanked(t, newSim(t, nil).url)
	_, key := g.key(auth.Spec{Budget: "100000000/day"})
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.StringMatching(`([0-9]|[a-z]{1,12} |[.,;]|é|\n|"){0,60}`), rapid.StringMatching(`([0-9][a-z]){50,150}`))
		one := func(label string) any {
			s := text.Draw(t, label)
			switch rapid.IntRange(0, 4).Draw(t, "as") {
			case 0:
				return map[string]any{"text": s}
			case 1:
				return map[string]any{"content": []any{map[string]any{"type": "text", "text": s}, map[string]any{"type": "text", "text": s}}}
			}
			return s
		}
		many := func(n int, label string) any {
			if n == 1 && rapid.Bool().Draw(t, "alone") {
				return one(label)
			}
			out := make([]any, n)
			for i := range out {
				out[i] = one(label)
			}
			return out
		}
		n := rapid.IntRange(1, 8).Draw(t, "texts")
		body := map[string]any{"model": "m"}
		path := rapid.SampledFrom([]string{"/v1/rerank", "/v2/rerank", "/rerank", "/v1/score", "/score"}).Draw(t, "path")
		switch names := [][2]string{{"text_1", "text_2"}, {"data_1", "data_2"}, {"queries", "documents"}, {"queries", "items"}}; {
		case strings.HasSuffix(path, "rerank"):
			body["query"], body["documents"], body["top_n"] = one("query"), many(n, "document"), 1
		default:
			k := rapid.IntRange(0, len(names)-1).Draw(t, "names")
			left := 1
			if rapid.Bool().Draw(t, "first with first") {
				left = n
			}
			body[names[k][0]], body[names[k][1]] = many(left, "left"), many(n, "right")
		}
		raw, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		used := promptTokens(t, g.do("POST", path, string(raw), bearer(key)...))
		most := reserved.last.Load()
		if cost := used * 1000; cost > most.CostNanos {
			t.Fatalf("%s: %d tokens cost %d, and %d were reserved", raw, used, cost, most.CostNanos)
		}
		if most.Tokens < 1 || most.Tokens > most.CostNanos/1000 {
			t.Fatalf("%s: an estimate of %d tokens, of at most %d", raw, most.Tokens, most.CostNanos/1000)
		}
	})
}

// A budget for one request to rank, and 20 who want it at the same time: one gets it,
// however often its query is read.
func TestBudgetForOneRanking(t *testing.T) {
	t.Parallel()
	engine, err := sim.New(func() sim.Config { cfg := sim.InstantConfig(); cfg.Model = "m"; return cfg }(), sim.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = engine.Close() })
	var holding atomic.Bool
	entered, hold := make(chan struct{}, 20), make(chan struct{})
	g, reserved := newRanked(t, newServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if holding.Load() {
			entered <- struct{}{}
			<-hold
		}
		engine.ServeHTTP(w, r)
	})))
	// Bytes that are a token each, as far as there are such: the query's alone are
	// more than the whole request has.
	body := `{"model":"m","query":"` + strings.Repeat("1a", 500) + `","documents":["x"` + strings.Repeat(`,"x"`, 99) + `]}`
	_, rich := g.key(auth.Spec{Budget: "100000/day"})
	used := promptTokens(t, g.do("POST", "/v1/rerank", body, bearer(rich)...))
	worst := reserved.last.Load().CostNanos
	if used <= int64(10*len(body)) || worst < used*1000 {
		t.Fatalf("%d bytes are %d tokens; %d are reserved for them", len(body), used, worst)
	}

	holding.Store(true)
	id, key := g.key(auth.Spec{Budget: auth.FormatAmount(worst) + "/day"})
	answers := make(chan answer, 20)
	var wg sync.WaitGroup
	for range cap(answers) {
		wg.Go(func() { answers <- g.do("POST", "/v1/rerank", body, bearer(key)...) })
	}
	for range cap(answers) - 1 {
		if a := <-answers; a.status != 429 {
			t.Errorf("refused with %d %s", a.status, a.body)
		}
	}
	<-entered
	close(hold)
	wg.Wait()
	if a := <-answers; a.status != 200 || len(entered) != 0 {
		t.Errorf("%d %s; %d more were asked", a.status, a.body, len(entered))
	}
	// Nor may one who is left with less than it may cost.
	_, poor := g.key(auth.Spec{Budget: auth.FormatAmount(worst-1) + "/day"})
	if a := g.do("POST", "/v2/rerank", body, bearer(poor)...); a.status != 429 || a.code() != "insufficient_quota" {
		t.Errorf("%d %s", a.status, a.body)
	}
	g.idle()
	g.balanced(id, 20)
}

// An engine that says nothing of what it has read, as SGLang's scores, is paid for
// the query with each text, by the estimate.
func TestPairsThatNobodyCounted(t *testing.T) {
	t.Parallel()
	e := newRaw(t, func(x *exchange) { x.write(document(200, `{"scores":[1]}`)) })
	g, _ := newRanked(t, e.url)
	id, key := g.key(auth.Spec{Budget: "1000/day"})
	if a := g.do("POST", "/v1/score", `{"model":"m","query":"12345678","items":["abcdef","abcdef","abcdef"]}`, bearer(key)...); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	g.idle()
	rows := g.rows(id)
	if want := int64((3*10 + 28 + 3) / 4); len(rows) != 1 || rows[0].Tokens.Input == nil || *rows[0].Tokens.Input != want {
		t.Errorf("%+v; want %d tokens", rows, want)
	}
}
