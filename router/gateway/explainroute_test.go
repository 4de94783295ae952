package gateway_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/llmgw/llmgw/admission"
	"github.com/llmgw/llmgw/placement/catalog"
	"github.com/llmgw/llmgw/router"
	"github.com/llmgw/llmgw/router/gateway"
	"github.com/llmgw/llmgw/router/openai"
	"github.com/llmgw/llmgw/router/routertest"
	"github.com/llmgw/llmgw/router/schedule"
)

// longPrompt is a request with a prompt that is worth remembering.
func longPrompt(model, tail string) string {
	return fmt.Sprintf(`{"model":%q,"messages":[{"role":"system","content":%q},{"role":"user","content":%q}],"max_tokens":8}`,
		model, strings.Repeat("You are of help. ", 300), tail)
}

func explain(t *testing.T, f *fleet, q router.Question) *gateway.Explanation {
	t.Helper()
	x, err := f.gw.Explain(&q)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// To explain is to do nothing: not a single series of any part moves, no hook is
// asked, nothing is recorded, and what comes after finds everything as it was.
func TestExplainTakesNothing(t *testing.T) {
	failing := newRaw(t, func(x *exchange) { x.write(document(500, `{"error":{"message":"no"}}`)) })
	good := newRaw(t, good)
	cfg := admitting(at("a", good.url), at("b", good.url), at("c", failing.url, "n"), at("d", good.url, "o"))
	cfg.Models = []catalog.Model{{Name: "m", Aliases: []string{"alias"}, Fallbacks: []string{"n", "o"}}, {Name: "n", Fallbacks: []string{"o"}}, {Name: "o"}}
	cfg.Router.Breaker.FailureThreshold, cfg.Router.Breaker.Cooldown = 1, time.Millisecond
	f := newAdmitting(t, cfg)
	for i := range 4 {
		if a := f.do("POST", chatPath, longPrompt("m", fmt.Sprint(i))); a.status != 200 {
			t.Fatal(a.status, a.body)
		}
	}
	f.do("POST", chatPath, `{"model":"n"}`) // c's breaker opens, and soon owes a probe
	f.eventually("a probe is owed", func() bool { return f.metric("llmgw_endpoint_state", "state=half-open", "endpoint=c") == 1 })
	f.idle()
	before, records := f.series(), len(f.records.Outcomes())
	charged := f.meter.Charged()

	for i := range 30 {
		for _, q := range []router.Question{
			{Body: []byte(longPrompt("alias", fmt.Sprint(i)))},
			{Body: []byte(`{"model":"n"}`), Band: "bronze"},
			{Body: []byte(`{"model":"m","input":"x","previous_response_id":"none"}`), Path: "/v1/responses"},
			{Body: []byte(`{"model":"nobody"}`)},
			{Body: []byte(`{"model":"m"}`), Band: "nope"},
			{Body: []byte(`{"model":`)},
			{Path: "/metrics"},
		} {
			_, _ = f.gw.Explain(&q)
		}
	}

	after := f.series()
	for key, was := range before {
		now := after[key]
		if strings.HasPrefix(key, "llmgw_endpoint_recent_failures{") && now < was {
			continue // it fades by itself
		}
		if now != was {
			t.Errorf("%s was %v and is %v", key, was, now)
		}
	}
	if len(after) != len(before) {
		t.Errorf("%d series, before %d", len(after), len(before))
	}
	if n := len(f.records.Outcomes()); n != records {
		t.Errorf("%d records, before %d", n, records)
	}
	if n := f.meter.Charged(); n != charged {
		t.Errorf("%d charges, before %d", n, charged)
	}
	x := explain(t, f, router.Question{Body: []byte(`{"model":"n"}`)})
	if d := x.Turns[0].Decision; len(d.Candidates) != 1 || d.Candidates[0].Endpoint != "c" {
		t.Errorf("the probe was taken: %+v", d)
	}
}

// What is explained with certainty is what then happens.
func TestExplainIsWhatHappens(t *testing.T) {
	t.Parallel()
	e := newRaw(t, good)
	cfg := config(at("a", e.url), at("b", e.url), at("c", e.url))
	cfg.Models = []catalog.Model{{Name: "m", Aliases: []string{"alias"}}}
	f := newFleet(t, cfg)
	certain := 0
	for i := range 24 {
		q := router.Question{Body: []byte(longPrompt("alias", fmt.Sprint(i))), Session: fmt.Sprint("s", i%4)}
		x := explain(t, f, q)
		best := x.Turns[0].Decision.Best()
		a := f.do("POST", chatPath, string(q.Body), "X-Session-Id", q.Session)
		if a.status != 200 {
			t.Fatal(a.status, a.body)
		}
		o := f.next()
		if *best.Chance == 1 {
			certain++
			if o.Endpoint != best.Endpoint {
				t.Errorf("request %d went to %s; explained: %v", i, o.Endpoint, x.Summary)
			}
		}
		f.idle()
	}
	if certain < 20 {
		t.Errorf("%d of 24 were certain", certain)
	}
}

func TestExplainSaysWhy(t *testing.T) {
	e := newRaw(t, good)
	broken := newRaw(t, func(x *exchange) { x.write(document(500, `{"error":{"message":"no"}}`)) })
	cfg := config(first(at("a", e.url)), at("b", e.url), at("c", broken.url, "n"), at("d", e.url, "o"))
	cfg.Models = []catalog.Model{
		{Name: "m", Aliases: []string{"alias"}, Fallbacks: []string{"n", "o"}},
		{Name: "n", Fallbacks: []string{"o"}}, {Name: "o"}, {Name: "empty"},
		{Name: "batchy", RoutingProfile: schedule.Batch, Fallbacks: []string{"m"}},
	}
	cfg.Router.Breaker.FailureThreshold = 1
	f := newFleet(t, cfg, func(d *gateway.Deps) { d.Admitter = nil })
	f.do("POST", chatPath, `{"model":"n"}`) // c's breaker opens

	tests := []struct {
		name    string
		q       router.Question
		verdict gateway.Verdict
		turns   string // models with their conditions
		say     []string
	}{
		{
			"an alias, an endpoint that is ahead", router.Question{Body: []byte(`{"model":"alias"}`)}, gateway.VerdictRuns,
			"m now, n later, o later",
			[]string{"alias is m.", "m goes to a, by the profile chat. It is ", "ahead of b, most of all by the vote of ", "up to 1 further endpoint of its pool, then n, o."},
		},
		{
			"a breaker that is open", router.Question{Body: []byte(`{"model":"n"}`)}, gateway.VerdictRuns, "n now, o now",
			[]string{"n has no endpoint: of 1, 1 dropped by breaker; the first breaker lets one through in 1", "o goes to d, by the profile chat. No other would take it.", "there is nobody else to try"},
		},
		{
			"nothing serves it", router.Question{Body: []byte(`{"model":"empty"}`)}, gateway.VerdictNoEndpoint, "empty now",
			[]string{"empty has no endpoint: nothing serves it.", "The client gets 503."},
		},
		{
			"a fallback that the caller may not use", router.Question{Body: []byte(`{"model":"batchy"}`), Identity: router.Identity{MayUse: routertest.Only("batchy")}},
			gateway.VerdictNoEndpoint, "batchy now, m never", []string{"batchy has no endpoint"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			x := explain(t, f, tt.q)
			if x.Verdict != tt.verdict {
				t.Errorf("verdict %v, want %v", x.Verdict, tt.verdict)
			}
			names := map[gateway.Condition]string{gateway.ConditionNow: "now", gateway.ConditionAfterFailures: "later", gateway.ConditionNever: "never"}
			var turns []string
			for i, turn := range x.Turns {
				turns = append(turns, turn.Model+" "+names[x.Conditions[i]])
				if x.Why(i) == "" {
					t.Errorf("turn %d says not why", i)
				}
			}
			if got := strings.Join(turns, ", "); got != tt.turns {
				t.Errorf("turns %s, want %s", got, tt.turns)
			}
			for _, want := range tt.say {
				if got := strings.Join(x.Summary, " "); !strings.Contains(got, want) {
					t.Errorf("it says %q; want %q", got, want)
				}
			}
		})
	}
}

func TestExplainErrors(t *testing.T) {
	cfg := admitting(at("a", "http://127.0.0.1:9"))
	cfg.Models = []catalog.Model{{Name: "m"}, {Name: "n"}}
	cfg.Router.Core.MaxBodyBytes, cfg.Router.Core.BodyMemoryBytes = 1000, 1000
	f := newAdmitting(t, cfg)
	body := func(s string) router.Question { return router.Question{Body: []byte(s)} }
	tests := []struct {
		name string
		q    router.Question
		is   error // nil: an *openai.Error
		want string
	}{
		{"a model that there is not", body(`{"model":"x"}`), router.ErrUnknownModel, `unknown model "x"; there are m, n`},
		{"one that the caller may not use", router.Question{Body: []byte(`{"model":"m"}`), Identity: router.Identity{MayUse: routertest.Only("n")}}, router.ErrUnknownModel, `"m"; there are n`},
		{"no JSON", body(`{"model":"m",}`), nil, "at byte 13"},
		{"cut short", body(`{"model":"m`), nil, "at byte 9"},
		{"no model", body(`{}`), nil, "model_required"},
		{"nothing", body(``), nil, "at byte 0"},
		{"too long", body(`{"model":"m","pad":"` + strings.Repeat("x", 1000) + `"}`), nil, "request_too_large"},
		{"a path of none", router.Question{Path: "/v1/files", Body: []byte(`{"model":"m"}`)}, router.ErrPath, "want one such as /tokenize"},
		{"a path that asks for models", router.Question{Path: "/v1/models", Body: []byte(`{"model":"m"}`)}, router.ErrPath, "want one such as"},
		{"a whole URL", router.Question{Path: "http://x/v1/completions", Body: []byte(`{"model":"m"}`)}, router.ErrPath, "is no path alone"},
		{"no path at all", router.Question{Path: "v1", Body: []byte(`{"model":"m"}`)}, router.ErrPath, "is no path alone"},
		{"a band that there is not", router.Question{Body: []byte(`{"model":"m"}`), Band: "tin"}, admission.ErrUnknownBand, `"tin"; there are platinum, gold, silver, bronze`},
		{"what the router refuses", router.Question{Path: "/v1/responses", Body: []byte(`{"model":"m","input":"x","background":true}`)}, nil, "background"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			x, err := f.gw.Explain(&tt.q)
			if x != nil || err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("%v, %v; want %q", x, err, tt.want)
			}
			if _, ok := errors.AsType[*openai.Error](err); tt.is == nil && !ok || tt.is != nil && !errors.Is(err, tt.is) {
				t.Errorf("%T", err)
			}
		})
	}
}

// A request that would wait is told for what, and one that would be refused too.
func TestExplainAdmission(t *testing.T) {
	e := newGated(t)
	cfg := narrow(at("a", e.url))
	cfg.Admission.Core.QueueCapacityPerBand = 1
	f := newAdmitting(t, cfg)
	f.run()
	verdict := func(band string) (gateway.Verdict, string) {
		x := explain(t, f, router.Question{Body: []byte(chatBody), Band: band})
		return x.Verdict, strings.Join(x.Summary, " ")
	}
	if v, say := verdict(""); v != gateway.VerdictRuns || !strings.Contains(say, "band gold (priority 300, ceiling 0.85) may run at once, the saturation is 0.00.") {
		t.Errorf("idle: %v, %s", v, say)
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	send := func() { wg.Go(func() { f.chat() }) }
	send()
	<-e.arrived
	if v, say := verdict(""); v != gateway.VerdictWaits || !strings.Contains(say, "waits, at most 30s: the saturation is 1.00, above its ceiling; 0 wait ahead. m goes to a") {
		t.Errorf("full: %v, %s", v, say)
	}
	send()
	f.waiting(1)
	if v, say := verdict(""); v != gateway.VerdictRefused || !strings.Contains(say, "is refused: 1 of its requests wait already") || !strings.Contains(say, "The client gets 503.") {
		t.Errorf("behind a full queue: %v, %s", v, say)
	}
	if v, _ := verdict("platinum"); v != gateway.VerdictRuns {
		t.Errorf("platinum: %v", v)
	}
	for range 2 {
		e.let <- struct{}{}
	}
}

// What an engine has told of its cache is shown as its word, for a prompt whose
// tokens are known; for one whose tokens are not nobody is asked.
func TestExplainKVEvents(t *testing.T) {
	e := newTelling(t, 0, nil)
	f := newFleet(t, config(first(e.at("a")), at("b", newRaw(t, good).url)))
	f.run()
	ask := func(tail string) schedule.CandidateExplanation {
		t.Helper()
		for _, c := range explain(t, f, router.Question{Body: []byte(longPrompt("m", tail))}).Turns[0].Decision.Candidates {
			if c.Endpoint == "a" {
				return c
			}
		}
		t.Fatal("a is no candidate")
		return schedule.CandidateExplanation{}
	}
	f.eventually("the engine's word is shown", func() bool {
		f.do("POST", chatPath, longPrompt("m", "1"))
		return ask("1").PrefixExact
	})
	f.idle()
	f.eventually("no question is under way", func() bool { n := e.tokenized.Load(); f.idle(); return n == e.tokenized.Load() })
	before, asked := f.series(), e.tokenized.Load()
	for range 20 {
		if c := ask("1"); !c.PrefixExact || c.PrefixBytes == 0 {
			t.Errorf("%+v", c)
		}
		ask("some other")
	}
	for key, now := range f.series() {
		// What is scraped meanwhile moves; what requests look up must not.
		if strings.HasPrefix(key, "llmgw_prefix") && !strings.Contains(key, "lag") && now != before[key] {
			t.Errorf("%s was %v and is %v", key, before[key], now)
		}
	}
	if n := e.tokenized.Load(); n != asked {
		t.Errorf("the engine was asked for tokens %d times", n-asked)
	}
}

// What goes on from a stored answer may go to one endpoint only, and to look at it
// keeps nothing remembered.
func TestExplainStored(t *testing.T) {
	k := newKeeper(t, "a")
	cfg := config(first(at("a", k.url, "m", "n")), at("b", k.url, "m", "n"))
	cfg.Models = []catalog.Model{{Name: "m", Fallbacks: []string{"n"}}, {Name: "n"}}
	cfg.Router.Core.ResponsePins = 2
	f := newFleet(t, cfg)
	for range 2 {
		f.do("POST", responsesPath, `{"model":"m","input":"x"}`)
	}
	q := router.Question{Path: responsesPath, Body: []byte(continued("resp_a_1"))}
	for range 3 {
		x := explain(t, f, q)
		if d := x.Turns[0].Decision; x.Pin != "a" || len(d.Candidates) != 1 || d.Candidates[0].Endpoint != "a" {
			t.Errorf("pin %q, %+v", x.Pin, d)
		}
		if x.Turns[1].Skipped != router.SkipPinned || x.Conditions[1] != gateway.ConditionNever {
			t.Errorf("the fallback: %v", x.Turns[1].Skipped)
		}
		if say := strings.Join(x.Summary, " "); !strings.Contains(say, "what endpoint a keeps") || !strings.Contains(say, "nobody else to try") {
			t.Error(say)
		}
	}
	f.do("POST", responsesPath, `{"model":"m","input":"x"}`) // the third, for which the oldest is forgotten
	if x, err := f.gw.Explain(&q); err == nil {
		t.Errorf("to look at it has kept it remembered: %+v", x)
	}
}

// Explanations, requests and reloads at once.
func TestExplainUnderLoad(t *testing.T) {
	e := newRaw(t, good)
	one, two := admitting(at("a", e.url), at("b", e.url)), admitting(at("a", e.url), at("c", e.url))
	f := newAdmitting(t, one)
	f.run()
	var wg sync.WaitGroup
	for i := range 3 {
		wg.Go(func() {
			for range 20 {
				f.do("POST", chatPath, longPrompt("m", fmt.Sprint(i)))
			}
		})
		wg.Go(func() {
			for range 60 {
				x, err := f.gw.Explain(&router.Question{Body: []byte(longPrompt("m", fmt.Sprint(i)))})
				if err != nil {
					t.Error(err)
					return
				}
				if d := x.Turns[0].Decision; d != nil && math.Abs(sum(d)-1) > 1e-9 && len(d.Candidates) > 0 {
					t.Errorf("chances add up to %v", sum(d))
				}
			}
		})
	}
	for i := range 10 {
		if err := f.gw.Reload([]gateway.Config{two, one}[i%2]); err != nil {
			t.Error(err)
		}
	}
	wg.Wait()
	f.idle()
}

func sum(d *schedule.Explanation) (total float64) {
	for _, c := range d.Candidates {
		total += *c.Chance
	}
	return total
}

// Whatever is asked, there is an answer or an error, and never both or a panic.
func FuzzExplain(f *testing.F) {
	for _, path := range []string{"", "/v1/completions", "/v1/responses", "/v1/messages", "/v1/audio/transcriptions", "/tokenize", "/v1/other", "//", "/v1/%2e%2e"} {
		f.Add(path, `{"model":"m","messages":[{"role":"user","content":"x"}]}`, "s", "gold")
	}
	f.Add("/v1/responses", `{"model":"m","input":"x","previous_response_id":"r","conversation":"c"}`, "", "")
	cfg := admitting(at("a", "http://127.0.0.1:9"))
	cfg.Models = []catalog.Model{{Name: "m", Fallbacks: []string{"n"}}, {Name: "n"}}
	g, err := gateway.New(cfg, gateway.Deps{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, path, body, session, band string) {
		x, err := g.Explain(&router.Question{Path: path, Body: []byte(body), Session: session, Band: band})
		switch {
		case (x == nil) == (err == nil):
			t.Errorf("%v and %v", x, err)
		case x != nil && (x.Verdict == gateway.VerdictUnset || len(x.Summary) == 0 || len(x.Conditions) != len(x.Turns)):
			t.Errorf("%+v", x)
		}
	})
}

// The header tells who may know, and nobody else.
func TestExplainHeader(t *testing.T) {
	e := newRaw(t, func(x *exchange) {
		if x.req.Header.Get("X-Llmgw-Explain") != "" {
			x.write(document(400, `{"error":{"message":"an engine was asked to explain"}}`))
			return
		}
		x.write(strings.Replace(document(200, `{"id":"c","choices":[]}`), "Content-Type", "X-Llmgw-Explain: of another\r\nContent-Type", 1))
	})
	stream := newRaw(t, good)
	cfg := config(first(at("a", e.url)), at("b", e.url), at("s", stream.url, "streamed"))
	cfg.Models = []catalog.Model{{Name: "m"}, {Name: "streamed"}, {Name: "empty"}}
	f := newFleet(t, cfg, func(d *gateway.Deps) {
		d.Caller = routertest.Callers{"may": {MayExplain: true, Band: "göld"}, "not": {}}
	})
	const line = `model=m profile=chat band=g?ld pick=a score=0.6`
	tests := []struct {
		name, key, body, ask string
		want                 string // begin of the header; "" for none
	}{
		{"allowed", "may", chatBody, "1", line},
		{"allowed, in words", "may", chatBody, "true", line},
		{"not asked", "may", chatBody, "", ""},
		{"asked not to", "may", chatBody, "0", ""},
		{"not allowed", "not", chatBody, "1", ""},
		{"a stream", "may", strings.Replace(streamBody, `"m"`, `"streamed"`, 1), "1", "model=streamed profile=chat band=g?ld pick=s"},
		{"no endpoint", "may", `{"model":"empty"}`, "1", "model=empty profile=chat band=g?ld pick=none pool=0 attempt=0"},
		{"no model", "may", `{}`, "1", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			header := []string{"Authorization", "Bearer " + tt.key}
			if tt.ask != "" {
				header = append(header, "X-Llmgw-Explain", tt.ask)
			}
			a := f.do("POST", chatPath, tt.body, header...)
			got := a.header.Values("X-Llmgw-Explain")
			if tt.want == "" {
				if len(got) != 0 {
					t.Errorf("%d, header %q", a.status, got)
				}
				return
			}
			if len(got) != 1 || !strings.HasPrefix(got[0], tt.want) {
				t.Fatalf("%d %s, header %q; want %q…", a.status, a.body, got, tt.want)
			}
			if len(got[0]) > 1024 || strings.ContainsFunc(got[0], func(r rune) bool { return r < ' ' || r > '~' }) || strings.Contains(got[0], "127.0.0.1") {
				t.Errorf("header %q", got[0])
			}
		})
	}
	a := f.do("POST", chatPath, chatBody, "Authorization", "Bearer may", "X-Llmgw-Explain", "1")
	for _, want := range []string{"votes=queue:", ",inflight:", "*2", "next=b:0.", "pool=2", "attempt=1"} {
		if got := a.header.Get("X-Llmgw-Explain"); !strings.Contains(got, want) {
			t.Errorf("%q lacks %s", got, want)
		}
	}
}

// Without callers that are told apart nobody may know, unless the configuration
// lets this machine.
func TestExplainHeaderToLoopback(t *testing.T) {
	for _, allow := range []bool{false, true} {
		cfg := config(at("a", newRaw(t, good).url))
		cfg.Router.Core.ExplainToLoopback = allow
		f := newFleet(t, cfg)
		a := f.do("POST", chatPath, chatBody, "X-Llmgw-Explain", "1")
		if got := a.header.Get("X-Llmgw-Explain") != ""; got != allow {
			t.Errorf("allowed %t, explained %t", allow, got)
		}
	}
}

// A pool of many that a filter dropped makes no long header.
func TestExplainHeaderIsBounded(t *testing.T) {
	var list []gateway.Endpoint
	dead := newRaw(t, func(x *exchange) { x.write(document(500, `{"error":{"message":"no"}}`)) })
	for i := range 60 {
		list = append(list, at(fmt.Sprintf("an-endpoint-with-quite-a-long-name-%d", i), dead.url))
	}
	cfg := config(list...)
	cfg.Router.Core.ExplainToLoopback = true
	cfg.Router.Breaker.FailureThreshold = 1
	cfg.Router.Core.Retries = 1000
	cfg.Router.Core.RetryBudgetMin = 1000
	f := newFleet(t, cfg)
	f.chat() // all fail, and are left out
	a := f.do("POST", chatPath, chatBody, "X-Llmgw-Explain", "1")
	got := a.header.Get("X-Llmgw-Explain")
	if a.status != 503 || len(got) != 1024 || !strings.HasSuffix(got, "...") || !strings.Contains(got, "pick=none pool=60") {
		t.Errorf("%d, %d bytes: %q", a.status, len(got), got)
	}
}
