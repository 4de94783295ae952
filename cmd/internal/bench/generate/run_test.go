package generate_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgw/llmgw/cmd/internal/bench/generate"
	"github.com/llmgw/llmgw/engines/sim"
	"github.com/llmgw/llmgw/engines/sim/workload"
)

// engine serves a simulated engine and returns its root URL.
func engine(t *testing.T, change func(*sim.Config)) string {
	t.Helper()
	cfg := sim.InstantConfig()
	if change != nil {
		change(&cfg)
	}
	e, err := sim.New(cfg, sim.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- e.Serve(ctx, l) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return "http://" + l.Addr().String()
}

// trace has n requests, gap apart, each with a prompt of its own and an answer
// of tokens.
func trace(n int, gap time.Duration, tokens int) *workload.Trace {
	t := &workload.Trace{Name: "test", Format: workload.Synthesized}
	for i := range n {
		t.Requests = append(t.Requests, workload.Request{
			At: time.Duration(i) * gap, PromptTokens: 4, OutputTokens: tokens, Text: fmt.Sprintf("say it %d times", i), Seq: uint64(i),
		})
	}
	return t
}

// run sends a trace to a target and returns the report.
func run(t *testing.T, url string, tr *workload.Trace, change func(*generate.Config)) *generate.Report {
	t.Helper()
	cfg := generate.DefaultConfig()
	cfg.URL = url
	if change != nil {
		change(&cfg)
	}
	g, err := generate.New(cfg, generate.Deps{Trace: tr})
	if err != nil {
		t.Fatal(err)
	}
	r, err := g.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	q := r.Requests
	if sum := q.WarmUp + q.Complete + q.Failed + q.Cancelled + q.Unfinished + q.Unsent; sum != q.Planned {
		t.Errorf("%+v: the parts make %d", q, sum)
	}
	return r
}

func TestOpenLoop(t *testing.T) {
	r := run(t, engine(t, nil), trace(20, time.Millisecond, 7), func(c *generate.Config) { c.SLO.E2E = time.Hour })
	if r.Requests.Complete != 20 || len(r.Errors) != 0 {
		t.Fatalf("requests %+v, errors %+v", r.Requests, r.Errors)
	}
	if r.Model != "sim-8b" || r.Loop != "open" || r.Concurrency != nil {
		t.Errorf("model %q, loop %q, concurrency %v", r.Model, r.Loop, r.Concurrency)
	}
	for name, l := range map[string]*generate.Latency{"ttft": r.TTFT, "ttft due": r.TTFTFromDue, "e2e": r.E2E, "e2e due": r.E2EFromDue, "tpot": r.TPOT, "lag": r.Lag} {
		if l == nil || l.Count != 20 {
			t.Errorf("%s: %+v, want 20", name, l)
		}
	}
	if r.ITL == nil || r.ITL.Count != 20*6 {
		t.Errorf("gaps %+v, want 120", r.ITL)
	}
	if r.E2EFromDue != nil && r.E2EFromDue.MeanMS < r.E2E.MeanMS {
		t.Errorf("from due %v ms, from sent %v ms", r.E2EFromDue.MeanMS, r.E2E.MeanMS)
	}
	if s := r.Streams; s == nil {
		t.Error("no streams")
	} else if diff := cmp.Diff(generate.Streams{Begun: 20, Content: 20, FinishReason: 20, Done: 20, Usage: 20, LengthAsAsked: new(int64(20)), Complete: 20}, *s); diff != "" {
		t.Error(diff)
	}
	if g := r.Goodput; g == nil || g.Met != 20 || *g.Share != 1 || g.RequestsPerS != r.RequestsPerS {
		t.Errorf("goodput %+v of %v/s", g, r.RequestsPerS)
	}
	if n := r.Tokens; *n.Output != 140 || n.OutputAsked != 140 || *n.ContentEvents != 140 || n.Cached == nil || n.PromptPlanned != 80 || *n.Prompt <= 80 {
		t.Errorf("tokens %+v", n)
	}
	if r.DurationS < .019 {
		t.Errorf("took %v s, less than the trace", r.DurationS)
	}
}

func TestClosedLoop(t *testing.T) {
	r := run(t, engine(t, nil)+"/v1/", trace(30, time.Hour, 1), func(c *generate.Config) {
		c.Concurrency, c.API, c.Model, c.SLO.TPOT = 4, generate.Completions, "sim-8b", 1
	})
	if r.Requests.Complete != 30 || r.Loop != "closed" || *r.Concurrency != 4 {
		t.Fatalf("%+v, errors %+v", r, r.Errors)
	}
	if r.TTFTFromDue != nil || r.E2EFromDue != nil || r.Lag != nil || r.Requests.Late != nil || r.Workload.SpanS != nil {
		t.Errorf("an open loop's figures in a closed one: %+v", r)
	}
	if r.TPOT != nil || r.ITL != nil || r.Goodput.Met != 30 {
		t.Errorf("answers of one token: TPOT %+v, gaps %+v, goodput %+v", r.TPOT, r.ITL, r.Goodput)
	}
}

func TestUnstreamed(t *testing.T) {
	for _, api := range []generate.API{generate.Chat, generate.Completions} {
		r := run(t, engine(t, nil), trace(5, 0, 3), func(c *generate.Config) { c.Stream, c.API = false, api })
		if r.Requests.Complete != 5 || r.TTFT != nil || r.ITL != nil || r.Streams != nil || r.Tokens.ContentEvents != nil || r.E2E.Count != 5 || *r.Tokens.Output != 15 {
			t.Errorf("%s: %+v, errors %+v", api, r, r.Errors)
		}
	}
}

func TestUsageThatIsNotReported(t *testing.T) {
	url := engine(t, func(c *sim.Config) { c.PromptTokensDetails = false })
	r := run(t, url, trace(3, 0, 3), nil)
	if r.Tokens.Cached != nil || r.Tokens.CachedShare != nil || r.Tokens.CachedAnswers != 0 || r.Tokens.Prompt == nil {
		t.Errorf("cached tokens that were not reported: %+v", r.Tokens)
	}
	r = run(t, url, trace(3, 0, 3), func(c *generate.Config) { c.IncludeUsage = false })
	if r.Tokens.Prompt != nil || r.Tokens.Output != nil || r.OutputTokensPerS != nil || r.Streams.Usage != 0 || r.Streams.LengthAsAsked != nil || r.Requests.Complete != 3 || r.TPOT.Count != 3 {
		t.Errorf("usage that was not asked for: %+v, %+v", r.Tokens, r.Requests)
	}
}

func TestCachedShare(t *testing.T) {
	tr := trace(2, 0, 2)
	for i := range tr.Requests {
		tr.Requests[i].Text = strings.Repeat("the same words ", 200)
	}
	r := run(t, engine(t, nil), tr, func(c *generate.Config) { c.Concurrency = 1 })
	if s := r.Tokens.CachedShare; s == nil || *s < .4 || *s > .5 {
		t.Errorf("cached share %v, want almost half", s)
	}
}

// A second run with the same seed finds its prompts in the engine's cache and
// says so; one with another seed finds nothing.
func TestSeedAndCache(t *testing.T) {
	drawn := workload.DefaultSynthetic()
	drawn.Requests = 5
	synthetic, err := workload.Synthesize(drawn)
	if err != nil {
		t.Fatal(err)
	}
	blocks := &workload.Trace{Name: "test", Format: workload.Mooncake, BlockTokens: 512}
	for i := range uint64(4) {
		blocks.Requests = append(blocks.Requests, workload.Request{PromptTokens: 1024, OutputTokens: 2, Blocks: []uint64{7, i}, Seq: i})
	}
	for _, tt := range []struct {
		name  string
		trace *workload.Trace
		best  float64
	}{{"synthetic", synthetic, 0}, {"blocks of a trace", blocks, 3. / 8}} {
		t.Run(tt.name, func(t *testing.T) {
			url := engine(t, nil)
			share := func(seed uint64) (float64, []string) {
				r := run(t, url, tt.trace, func(c *generate.Config) { c.Concurrency, c.Seed, c.MaxTokens = 1, seed, 2 })
				if r.Seed != seed || *r.Workload.BestHitShare != tt.best {
					t.Errorf("seed %d, at best %v; want %d and %v", r.Seed, *r.Workload.BestHitShare, seed, tt.best)
				}
				return *r.Tokens.CachedShare, r.Warnings
			}
			for _, seed := range []uint64{1, 2} {
				if got, warnings := share(seed); got > tt.best+.03 || len(warnings) > 0 {
					t.Errorf("seed %d for the first time: %v cached, %q", seed, got, warnings)
				}
			}
			if got, warnings := share(2); got < .9 || len(warnings) != 1 {
				t.Errorf("a seed again: %v cached, warnings %q", got, warnings)
			}
		})
	}
}

func TestWarmup(t *testing.T) {
	r := run(t, engine(t, nil), trace(10, 5*time.Millisecond, 2), func(c *generate.Config) { c.Warmup = 25 * time.Millisecond })
	if r.Requests.WarmUp != 5 || r.Requests.Complete != 5 || r.E2E.Count != 5 {
		t.Errorf("%+v, want half in the warm-up", r.Requests)
	}
	if r.NothingMeasured() {
		t.Error("half was measured")
	}
	r = run(t, engine(t, nil), trace(3, 0, 2), func(c *generate.Config) { c.Warmup = time.Hour })
	if !r.NothingMeasured() || r.Requests.WarmUp != 3 {
		t.Errorf("%+v, want all in the warm-up", r.Requests)
	}
}

func TestDuration(t *testing.T) {
	r := run(t, engine(t, nil), trace(10, 10*time.Millisecond, 2), func(c *generate.Config) { c.Duration = 45 * time.Millisecond })
	if r.Requests.Complete != 5 || r.Requests.Unsent != 5 {
		t.Errorf("open loop: %+v", r.Requests)
	}
	r = run(t, engine(t, nil), trace(100_000, 0, 2), func(c *generate.Config) { c.Duration, c.Concurrency = 30*time.Millisecond, 2 })
	if r.Requests.Complete == 0 || r.Requests.Complete != r.Requests.Planned || r.Requests.Planned == 100_000 || int64(r.Workload.Requests) != r.Requests.Planned {
		t.Errorf("closed loop: %+v in %v s", r.Requests, r.DurationS)
	}
}

func TestCancelled(t *testing.T) {
	r := run(t, engine(t, nil), trace(40, 0, 50), func(c *generate.Config) { c.CancelRatio = .5 })
	if r.Requests.Cancelled < 8 || r.Requests.Complete < 8 || r.Requests.Failed != 0 || r.Streams.Begun != r.Requests.Complete {
		t.Errorf("%+v, streams %+v, errors %+v", r.Requests, r.Streams, r.Errors)
	}
	again := run(t, engine(t, nil), trace(40, 0, 50), func(c *generate.Config) { c.CancelRatio = .5 })
	if again.Requests.Cancelled != r.Requests.Cancelled {
		t.Errorf("the same seed left %d streams, then %d", r.Requests.Cancelled, again.Requests.Cancelled)
	}
}

func TestInterrupted(t *testing.T) {
	url := engine(t, func(c *sim.Config) { c.Timing.Step = time.Hour })
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	cfg := generate.DefaultConfig()
	cfg.URL, cfg.Concurrency = url, 3
	g, err := generate.New(cfg, generate.Deps{Trace: trace(10, 0, 2)})
	if err != nil {
		t.Fatal(err)
	}
	if p := g.Progress(); p != (generate.Progress{Planned: 10}) {
		t.Errorf("before it runs: %+v", p)
	}
	type ended struct {
		r   *generate.Report
		err error
	}
	done := make(chan ended, 1)
	go func() {
		r, err := g.Run(ctx)
		done <- ended{r, err}
	}()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for g.Progress().InFlight < 3 { // nothing answers, so it stays at 3
		<-tick.C
	}
	stop()
	e := <-done
	if e.err != nil {
		t.Fatal(e.err)
	}
	if q := e.r.Requests; !e.r.Interrupted || q.Unfinished != 3 || q.Unsent != 7 || len(e.r.Errors) != 0 || e.r.E2E != nil {
		t.Errorf("interrupted %v, %+v, errors %+v", e.r.Interrupted, q, e.r.Errors)
	}
	if _, err := g.Run(t.Context()); !errors.Is(err, generate.ErrRunTwice) {
		t.Errorf("second run: %v", err)
	}
}

func TestKeyAndHeaders(t *testing.T) {
	url := engine(t, func(c *sim.Config) { c.APIKey = "secret" })
	r := run(t, url, trace(2, 0, 2), func(c *generate.Config) { c.APIKey = "secret" })
	if r.Requests.Complete != 2 {
		t.Errorf("%+v", r.Errors)
	}
	r = run(t, url, trace(2, 0, 2), func(c *generate.Config) { c.Model = "sim-8b" })
	if r.Requests.Failed != 2 || r.Errors[0].Kind != generate.KindStatus || r.Errors[0].Status != 401 {
		t.Errorf("%+v", r.Errors)
	}
}

func TestModelDiscovery(t *testing.T) {
	tests := []struct {
		name   string
		change func(*sim.Config)
		url    string // "" for the engine's
		want   string
		target error // nil: a *RequestError
	}{
		{"several", func(c *sim.Config) { c.Aliases = []string{"other"} }, "", "lists several, name one of them: sim-8b, other", generate.ErrModel},
		{"no key", func(c *sim.Config) { c.APIKey = "k" }, "", "status 401", nil},
		{"not there", nil, "http://127.0.0.1:1", "dial: ", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := generate.DefaultConfig()
			if cfg.URL = tt.url; cfg.URL == "" {
				cfg.URL = engine(t, tt.change)
			}
			g, err := generate.New(cfg, generate.Deps{Trace: trace(1, 0, 1)})
			if err != nil {
				t.Fatal(err)
			}
			_, err = g.Run(t.Context())
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("error %v, want %q", err, tt.want)
			}
			_, isFailure := errors.AsType[*generate.RequestError](err)
			if tt.target != nil && !errors.Is(err, tt.target) || tt.target == nil && !isFailure {
				t.Errorf("error %v is of the wrong class", err)
			}
		})
	}
}
