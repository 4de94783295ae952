package limit_test

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"pgregory.net/rapid"

	"github.com/llmgw/llmgw/auth/limit"
)

// A refusal by any limit takes nothing from the others.
func TestAllOrNothing(t *testing.T) {
	full := limit.Limits{RequestsPerMinute: 10, TokensPerMinute: 1000, Concurrency: 5}
	tests := []struct {
		name    string
		subject limit.Subject
		request limit.Request
		want    limit.LimitedError
	}{
		{"requests", limit.Subject{Limits: limit.Limits{RequestsPerMinute: 1, TokensPerMinute: 1000, Concurrency: 5}}, limit.Request{Tokens: 1}, limit.LimitedError{Reason: limit.ReasonRequests, Limit: 1, Need: 1, Reset: limit.Window, RetryAfter: limit.Window}},
		{"tokens", limit.Subject{Limits: full}, limit.Request{Tokens: 901}, limit.LimitedError{Reason: limit.ReasonTokens, Limit: 1000, Need: 901, Remaining: 900, Reset: limit.Window, RetryAfter: limit.Window}},
		{"too large", limit.Subject{Limits: full}, limit.Request{Tokens: 1001}, limit.LimitedError{Reason: limit.ReasonTooLarge, Limit: 1000, Need: 1001, Remaining: 900, Reset: limit.Window}},
		{"too large, whatever else", limit.Subject{Limits: limit.Limits{RequestsPerMinute: 1, TokensPerMinute: 1000, Concurrency: 1}}, limit.Request{Tokens: 1001}, limit.LimitedError{Reason: limit.ReasonTooLarge, Limit: 1000, Need: 1001, Remaining: 900, Reset: limit.Window}},
		{"concurrency", limit.Subject{Limits: limit.Limits{RequestsPerMinute: 10, TokensPerMinute: 1000, Concurrency: 1}}, limit.Request{Tokens: 1}, limit.LimitedError{Reason: limit.ReasonConcurrency, Limit: 1, Need: 1, RetryAfter: time.Second}},
		{"the longest wait of several", limit.Subject{Limits: limit.Limits{RequestsPerMinute: 1, TokensPerMinute: 1000, Concurrency: 1}}, limit.Request{Tokens: 1}, limit.LimitedError{Reason: limit.ReasonRequests, Limit: 1, Need: 1, Reset: limit.Window, RetryAfter: limit.Window}},
		{"budget", limit.Subject{Limits: full, Budget: budget(t, limit.PeriodDay, "")}, limit.Request{Tokens: 1, CostNanos: 1001}, limit.LimitedError{Reason: limit.ReasonBudget, Limit: 1000, Need: 1001, Remaining: 1000, Reset: 15 * time.Hour}},
		{"a total budget", limit.Subject{Limits: full, Budget: budget(t, limit.PeriodTotal, "")}, limit.Request{Tokens: 1, CostNanos: 1001}, limit.LimitedError{Reason: limit.ReasonBudget, Limit: 1000, Need: 1001, Remaining: 1000}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := newLimiter(t, nil)
			s := tt.subject
			s.ID = "k"
			first, err := l.TryAcquire(monday(), &s, limit.Request{Tokens: 100})
			if err != nil {
				t.Fatal(err)
			}
			before := l.State(monday(), &s)
			_, err = l.TryAcquire(monday(), &s, tt.request)
			e, ok := errors.AsType[*limit.LimitedError](err)
			if !ok || !errors.Is(err, limit.ErrLimited) {
				t.Fatalf("%v; want a LimitedError", err)
			}
			tt.want.Subject, tt.want.Rates = "k", before.Rates
			if diff := cmp.Diff(&tt.want, e); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if !strings.Contains(err.Error(), "k") {
				t.Errorf("%q does not say whose limit it is", err)
			}
			if diff := cmp.Diff(before, l.State(monday(), &s), cmp.AllowUnexported(limit.Budget{})); diff != "" {
				t.Errorf("the refusal took something (-before +after)\n%s", diff)
			}
			first.Undo(monday())
			empty := newLimiter(t, nil).State(monday(), &s)
			if diff := cmp.Diff(empty, l.State(monday(), &s)); diff != "" && s.Budget.Bounded() == false {
				t.Errorf("something is left after all was undone (-new +got)\n%s", diff)
			}
		})
	}
}

// Check and charge are one: of many at once exactly as many pass as may.
func TestConcurrent(t *testing.T) {
	for _, tt := range []struct {
		name   string
		limits limit.Limits
	}{
		{"requests", limit.Limits{RequestsPerMinute: 7}},
		{"tokens", limit.Limits{TokensPerMinute: 79}},
		{"concurrency", limit.Limits{Concurrency: 7}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := newLimiter(t, nil)
			s := &limit.Subject{ID: "k", Limits: tt.limits}
			var passed atomic.Int64
			var wg sync.WaitGroup
			for range 50 {
				wg.Go(func() {
					if _, err := l.Acquire(t.Context(), monday(), s, limit.Request{Tokens: 11}); err == nil {
						passed.Add(1)
					}
				})
			}
			wg.Wait()
			if passed.Load() != 7 {
				t.Errorf("%d passed; want 7", passed.Load())
			}
		})
	}
}

// A request of ten minutes is one request all the time.
func TestConcurrencyDoesNotAge(t *testing.T) {
	l := newLimiter(t, nil)
	s := &limit.Subject{ID: "k", Limits: limit.Limits{Concurrency: 1}}
	res, err := l.TryAcquire(monday(), s, limit.Request{})
	if err != nil || res.Place().Inflight != 1 {
		t.Fatal(res, err)
	}
	now := monday().Add(48 * time.Hour)
	if _, err := l.TryAcquire(now, s, limit.Request{}); reason(err) != limit.ReasonConcurrency {
		t.Errorf("%v; want it refused", err)
	}
	res.Settle(now, limit.Actual{})
	res.Settle(now, limit.Actual{})
	if n := l.State(now, s).Inflight; n != 0 {
		t.Errorf("%d under way", n)
	}
	if _, err := l.TryAcquire(now, s, limit.Request{}); err != nil {
		t.Error(err)
	}
}

// Limits hold as they come with the call.
func TestChangedLimits(t *testing.T) {
	l := newLimiter(t, nil)
	s := &limit.Subject{ID: "k", Limits: limit.Limits{RequestsPerMinute: 10}}
	for range 5 {
		if _, err := l.TryAcquire(monday(), s, limit.Request{Tokens: 10}); err != nil {
			t.Fatal(err)
		}
	}
	lower := &limit.Subject{ID: "k", Limits: limit.Limits{RequestsPerMinute: 5}}
	if _, err := l.TryAcquire(monday(), lower, limit.Request{}); reason(err) != limit.ReasonRequests {
		t.Errorf("lower: %v; want it refused", err)
	}
	other := &limit.Subject{ID: "k", Limits: limit.Limits{TokensPerMinute: 50}}
	if _, err := l.TryAcquire(monday(), other, limit.Request{Tokens: 1}); reason(err) != limit.ReasonTokens {
		t.Errorf("tokens: %v; what was used before there was a limit counts", err)
	}
	if _, err := l.TryAcquire(monday(), s, limit.Request{}); err != nil {
		t.Errorf("as before: %v", err)
	}
	if _, err := l.TryAcquire(monday(), &limit.Subject{ID: "k"}, limit.Request{Tokens: math.MaxInt64, CostNanos: math.MaxInt64}); err != nil {
		t.Errorf("without limits: %v", err)
	}
}

// Nonsense neither passes as less than nothing nor overflows.
func TestAbsurdNumbers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, err := limit.New(limit.DefaultConfig(), limit.Deps{})
		if err != nil {
			t.Fatal(err)
		}
		number := rapid.OneOf(rapid.Int64(), rapid.SampledFrom([]int64{math.MinInt64, -1, 0, 1, limit.MostRate, math.MaxInt64}))
		b, err := limit.NewBudget(math.MaxInt64/4, limit.PeriodTotal, "")
		if err != nil {
			t.Fatal(err)
		}
		s := &limit.Subject{ID: "k", Limits: limit.Limits{RequestsPerMinute: limit.MostRate, TokensPerMinute: limit.MostRate}, Budget: b}
		now := monday()
		var spent float64
		for range rapid.IntRange(1, 30).Draw(t, "n") {
			now = now.Add(time.Duration(number.Draw(t, "step")) % (1 << 40))
			res, err := l.TryAcquire(now, s, limit.Request{Tokens: number.Draw(t, "tokens"), CostNanos: number.Draw(t, "cost")})
			if err == nil && rapid.Bool().Draw(t, "settle") {
				cost := number.Draw(t, "real cost")
				res.Settle(now, limit.Actual{Tokens: number.Draw(t, "real tokens"), CostNanos: cost})
				spent += float64(min(max(cost, 0), math.MaxInt64/8))
			}
			st := l.State(now, s)
			if spent > math.MaxInt64/4 {
				if _, err := l.TryAcquire(now, s, limit.Request{CostNanos: 1}); err == nil {
					t.Fatalf("%v is spent, and more passes: %+v", spent, st.Budget)
				}
			}
			if st.Debt < 0 || st.Inflight < 0 || st.Budget.SpentNanos < 0 || st.Budget.ReservedNanos < 0 || st.Rates.Tokens.Remaining < 0 || st.Rates.Tokens.Remaining > limit.MostRate {
				t.Fatalf("%+v %+v", st, st.Budget)
			}
		}
	})
}

// A subject of which nothing need be remembered is forgotten; one that owes,
// runs or has spent is not.
func TestSubjectsAreForgotten(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	l, err := limit.New(limit.DefaultConfig(), limit.Deps{Registerer: reg})
	if err != nil {
		t.Fatal(err)
	}
	limits := limit.Limits{RequestsPerMinute: 10, TokensPerMinute: 10, Concurrency: 10}
	now := monday()
	runs, owes, spends := &limit.Subject{ID: "runs", Limits: limits}, &limit.Subject{ID: "owes", Limits: limits}, &limit.Subject{ID: "spends", Budget: budget(t, limit.PeriodTotal, "")}
	if _, err := l.TryAcquire(now, runs, limit.Request{}); err != nil {
		t.Fatal(err)
	}
	for i := range 20_000 {
		now = now.Add(100 * time.Millisecond)
		if i%1000 == 0 { // now and then, as a debt lasts for an hour
			if res, err := l.TryAcquire(now, owes, limit.Request{}); err == nil {
				res.Settle(now, limit.Actual{Tokens: 1e6})
			}
			if res, err := l.TryAcquire(now, spends, limit.Request{CostNanos: 10}); err == nil {
				res.Settle(now, limit.Actual{CostNanos: 10})
			}
		}
		s := &limit.Subject{ID: fmt.Sprint("k", i), Limits: limits}
		if i < 1000 {
			s.Budget = budget(t, limit.PeriodDay, "")
		}
		res, err := l.TryAcquire(now, s, limit.Request{Tokens: 1, CostNanos: 1})
		if err != nil {
			t.Fatal(err)
		}
		res.Settle(now, limit.Actual{})
	}
	if st := l.State(now, runs); st.Inflight != 1 {
		t.Errorf("the request under way is forgotten: %+v", st)
	}
	if st := l.State(now, owes); st.Debt == 0 {
		t.Errorf("the debt is forgotten: %+v", st)
	}
	if st := l.State(now, spends); st.Budget.SpentNanos != 200 {
		t.Errorf("%d are spent; want 200", st.Budget.SpentNanos)
	}
	// 600 come in a minute, and 1000 have a budget that is not over; each of the
	// 64 parts of the limiter may wait until it has twice as many, or 64.
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "llmgw_limit_subjects" {
			if n := f.GetMetric()[0].GetGauge().GetValue(); n < 1600 || n > 2*1600+64*64 {
				t.Errorf("%v subjects are kept", n)
			}
		}
	}
}

func TestMetrics(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	l, err := limit.New(limit.DefaultConfig(), limit.Deps{Registerer: reg})
	if err != nil {
		t.Fatal(err)
	}
	s := &limit.Subject{ID: "k", Limits: limit.Limits{RequestsPerMinute: 1, TokensPerMinute: 10}}
	for _, n := range []int64{1, 1, 11} {
		_, _ = l.TryAcquire(monday(), s, limit.Request{Tokens: n})
	}
	want := `
# HELP llmgw_limit_refused_total Requests refused by a limit, by the limit that refused.
# TYPE llmgw_limit_refused_total counter
llmgw_limit_refused_total{reason="budget"} 0
llmgw_limit_refused_total{reason="budget_held"} 0
llmgw_limit_refused_total{reason="concurrency"} 0
llmgw_limit_refused_total{reason="requests"} 1
llmgw_limit_refused_total{reason="tokens"} 0
llmgw_limit_refused_total{reason="too_large"} 1
# HELP llmgw_limit_subjects Keys of which something is counted.
# TYPE llmgw_limit_subjects gauge
llmgw_limit_subjects 1
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "llmgw_limit_refused_total", "llmgw_limit_subjects"); err != nil {
		t.Error(err)
	}
	if _, err := limit.New(limit.DefaultConfig(), limit.Deps{Registerer: reg}); err == nil {
		t.Error("two on one registry: no error")
	}
}

func TestConfig(t *testing.T) {
	if err := limit.DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
	_, err := limit.New(limit.Config{}, limit.Deps{})
	for _, key := range []string{"fund_timeout", "fund_pause", "slice_parts", "slice_lasts", "slice_idle"} {
		if err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%v does not name %s", err, key)
		}
	}
	if err := (limit.Limits{RequestsPerMinute: -1, TokensPerMinute: math.MaxInt64, Concurrency: 1}).Validate(); err == nil ||
		!strings.Contains(err.Error(), "requests per minute is -1") || !strings.Contains(err.Error(), "tokens per minute") || strings.Contains(err.Error(), "concurrency") {
		t.Errorf("%v", err)
	}
}

func TestHeaders(t *testing.T) {
	r := limit.Rates{
		At:       time.Date(2026, 3, 2, 10, 0, 0, 500_000_000, time.FixedZone("", 3600)),
		Requests: limit.Rate{Limit: 60, Remaining: 59, Reset: time.Second},
		Tokens:   limit.Rate{Limit: 150000, Remaining: 0, Reset: 6*time.Minute + 1},
	}
	want := http.Header{
		"X-Ratelimit-Limit-Requests": {"60"}, "X-Ratelimit-Remaining-Requests": {"59"}, "X-Ratelimit-Reset-Requests": {"1s"},
		"X-Ratelimit-Limit-Tokens": {"150000"}, "X-Ratelimit-Remaining-Tokens": {"0"}, "X-Ratelimit-Reset-Tokens": {"6m0.001s"},
	}
	got := http.Header{"X-Ratelimit-Limit-Requests": {"the engine's"}}
	r.OpenAI(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("OpenAI (-want +got)\n%s", diff)
	}
	want = http.Header{
		"Anthropic-Ratelimit-Requests-Limit": {"60"}, "Anthropic-Ratelimit-Requests-Remaining": {"59"}, "Anthropic-Ratelimit-Requests-Reset": {"2026-03-02T09:00:02Z"},
		"Anthropic-Ratelimit-Tokens-Limit": {"150000"}, "Anthropic-Ratelimit-Tokens-Remaining": {"0"}, "Anthropic-Ratelimit-Tokens-Reset": {"2026-03-02T09:06:01Z"},
	}
	got = http.Header{}
	r.Anthropic(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Anthropic (-want +got)\n%s", diff)
	}
	for name := range got {
		if http.CanonicalHeaderKey(name) != name {
			t.Errorf("%s is not canonical", name)
		}
	}
	r.Tokens = limit.Rate{}
	r.Requests.Reset = 6 * time.Minute
	got = http.Header{}
	r.OpenAI(got)
	if len(got) != 3 || got.Get("X-Ratelimit-Reset-Requests") != "6m0s" {
		t.Errorf("without a limit of tokens: %v", got)
	}
}

func TestRetryHeaders(t *testing.T) {
	for _, tt := range []struct {
		reason limit.Reason
		after  time.Duration
		want   map[string]string
	}{
		{limit.ReasonRequests, time.Minute, map[string]string{"Retry-After": "60", "retry-after-ms": "60000"}},
		{limit.ReasonTokens, 1500*time.Millisecond + 1, map[string]string{"Retry-After": "2", "retry-after-ms": "1501"}},
		{limit.ReasonConcurrency, time.Second, map[string]string{"Retry-After": "1", "retry-after-ms": "1000"}},
		{limit.ReasonBudgetHeld, 0, map[string]string{"Retry-After": "1", "retry-after-ms": "1"}},
		{limit.ReasonBudget, 0, map[string]string{"x-should-retry": "false"}},
		{limit.ReasonTooLarge, 0, map[string]string{"x-should-retry": "false"}},
	} {
		e := &limit.LimitedError{Reason: tt.reason, RetryAfter: tt.after}
		if diff := cmp.Diff(tt.want, maps.Collect(e.Retry())); diff != "" {
			t.Errorf("%v (-want +got)\n%s", tt.reason, diff)
		}
		if e.Error() == "" || tt.reason.String() == "unset" {
			t.Errorf("%d has no text", tt.reason)
		}
	}
}
