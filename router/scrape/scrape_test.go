package scrape_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/llamacpp"
	"github.com/llmgw/llmgw/engines/trtllm"
	"github.com/llmgw/llmgw/engines/vllm"
	"github.com/llmgw/llmgw/router/endpoint"
	"github.com/llmgw/llmgw/router/scrape"
)

const vllmPage = "vllm:num_requests_running{engine=\"0\"} 3\nvllm:num_requests_waiting{engine=\"0\"} 1\n"

// engine is a fake: what it answers, by path, and what it was asked.
type engine struct {
	mu       sync.Mutex
	answer   func(*http.Request) (*http.Response, error) // nil: refuses
	asked    []time.Time
	requests []*http.Request
	now, top int // scrapes in flight, and the most there were
}

func (e *engine) set(answer func(*http.Request) (*http.Response, error)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.answer = answer
}

func (e *engine) Do(req *http.Request) (*http.Response, error) {
	e.mu.Lock()
	e.asked = append(e.asked, time.Now())
	e.requests = append(e.requests, req)
	e.now++
	e.top = max(e.top, e.now)
	answer := e.answer
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		e.now--
		e.mu.Unlock()
	}()
	if answer == nil {
		return nil, errors.New("connection refused")
	}
	return answer(req)
}

func (e *engine) count() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.asked)
}

func page(status int, text string) func(*http.Request) (*http.Response, error) {
	return func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(text))}, nil
	}
}

func hang(req *http.Request) (*http.Response, error) {
	<-req.Context().Done()
	return nil, req.Context().Err()
}

// rig is a scraper over fake engines, by endpoint ID.
type rig struct {
	set     *endpoint.Set
	engines map[string]*engine
	logs    *bytes.Buffer
	reg     *prometheus.Registry
	scraper *scrape.Scraper
}

func newRig(t *testing.T, contracts ...engines.MetricContract) *rig {
	t.Helper()
	set, err := endpoint.NewSet(endpoint.DefaultConfig(), endpoint.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{set: set, engines: make(map[string]*engine), logs: new(bytes.Buffer), reg: prometheus.NewRegistry()}
	r.scraper, err = scrape.New(scrape.DefaultConfig(), scrape.Deps{
		Set:       set,
		Contracts: contracts,
		Client:    func(e *endpoint.Endpoint) scrape.Doer { return r.engines[e.ID()] },
		Logger: slog.New(slog.NewTextHandler(r.logs, &slog.HandlerOptions{
			ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
				if a.Key == slog.TimeKey {
					return slog.Attr{}
				}
				return a
			},
		})),
		Registerer: r.reg,
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func spec(id string, name engines.Name) endpoint.Spec {
	return endpoint.Spec{ID: id, URL: "http://" + id, Engine: name, Models: []endpoint.Model{{Name: "m"}}, Secret: "canary-key"}
}

// run runs the scraper until the test's end, inside its bubble.
func (r *rig) run(t *testing.T) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.scraper.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
}

func (r *rig) replace(t *testing.T, specs ...endpoint.Spec) {
	t.Helper()
	if err := r.set.Replace(specs); err != nil {
		t.Fatal(err)
	}
}

// outcomes lists the counted outcomes that are not zero.
func (r *rig) outcomes(t *testing.T) map[string]int {
	t.Helper()
	families, err := r.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]int)
	for _, f := range families {
		if f.GetName() != "llmgw_scrape_scrapes_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			if v := m.GetCounter().GetValue(); v > 0 {
				got[m.GetLabel()[0].GetValue()] = int(v)
			}
		}
	}
	return got
}

// wait lets virtual time pass.
func wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestScrapesAtOnceThenEachInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, vllm.Metrics())
		r.engines["a"], r.engines["b"] = &engine{answer: page(200, vllmPage)}, &engine{answer: page(200, vllmPage)}
		r.replace(t, spec("a", engines.VLLM))
		defer r.run(t)()
		synctest.Wait()
		a := r.set.Snapshot().All()[0]
		if l := a.Load(); l == nil || l.Running != engines.Read(3) || l.Waiting != engines.Read(1) || l.Engine != engines.VLLM || !l.At.Equal(time.Now()) {
			t.Fatalf("load right after the start: %+v", l)
		}
		wait(20 * time.Second)
		if n := r.engines["a"].count(); n < 10 || n > 12 {
			t.Errorf("%d scrapes in 20s; want about 11", n)
		}
		r.replace(t, spec("a", engines.VLLM), spec("b", engines.VLLM))
		synctest.Wait()
		if n := r.engines["b"].count(); n != 1 {
			t.Errorf("a new endpoint had %d scrapes at once; want 1", n)
		}
		r.replace(t, spec("b", engines.VLLM))
		synctest.Wait()
		before := r.engines["a"].count()
		wait(20 * time.Second)
		if n := r.engines["a"].count(); n != before {
			t.Errorf("an endpoint that is gone was scraped %d times", n-before)
		}
		if n := r.engines["b"].count(); n < 10 {
			t.Errorf("the one that stayed was scraped %d times in 20s", n)
		}
	})
}

// Engines that hang are more than the lane for all has slots. Once the first
// round has found them out they wait in a lane of their own, and the healthy ones
// are scraped at every interval; in one lane, one second of hanging would come
// before each scrape. In real time: hundreds of deadlines at one instant of
// virtual time are more than the race detector bears.
func TestHungEnginesDelayNobody(t *testing.T) {
	const each, enough = 150, 20
	r := newRig(t, vllm.Metrics())
	var specs []endpoint.Spec
	var served sync.WaitGroup
	for i := range 2 * each {
		id := fmt.Sprintf("e%d", i)
		r.engines[id] = &engine{answer: hang}
		specs = append(specs, spec(id, engines.VLLM))
		if i%2 == 1 {
			continue
		}
		served.Add(1)
		left := enough
		r.engines[id].answer = func(req *http.Request) (*http.Response, error) {
			if left--; left == 0 { // one scrape at a time
				served.Done()
			}
			return page(200, vllmPage)(req)
		}
	}
	var err error
	r.scraper, err = scrape.New(scrape.Config{Interval: 100 * time.Millisecond, Timeout: time.Second}, scrape.Deps{
		Set: r.set, Contracts: []engines.MetricContract{vllm.Metrics()},
		Client: func(e *endpoint.Endpoint) scrape.Doer { return r.engines[e.ID()] },
	})
	if err != nil {
		t.Fatal(err)
	}
	r.replace(t, specs...)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- r.scraper.Run(ctx) }()
	start := time.Now()
	served.Wait()
	if took := time.Since(start); took > enough*time.Second/2 {
		t.Errorf("%d scrapes of each healthy engine took %v", enough, took)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	for id, e := range r.engines {
		if e.top > 1 {
			t.Errorf("%s had %d scrapes in flight", id, e.top)
		}
	}
}

func TestOutcomes(t *testing.T) {
	tests := []struct {
		name   string
		answer func(*http.Request) (*http.Response, error)
		engine engines.Name
		want   string
		logged string
	}{
		{"ok", page(200, vllmPage), engines.VLLM, "ok", ""},
		{"of 100,000 buckets", page(200, strings.Repeat("te_batch_next_tokens_bucket{le=\"10000\"} 3334\n", 100_000)+vllmPage), engines.VLLM, "ok", ""},
		{"renamed", page(200, "vllm:num_requests_running 3\nvllm:queue_length 1\n"), engines.VLLM, "partial", "lack running or waiting"},
		{"hung", hang, engines.VLLM, "timeout", "outcome=timeout"},
		{"hung body", hungBody, engines.VLLM, "timeout", "outcome=timeout"},
		{"refused", nil, engines.VLLM, "unreachable", "connection refused"},
		{"no metrics", page(404, "not found"), engines.VLLM, "status", "404 at /metrics"},
		{"redirected", page(302, ""), engines.VLLM, "status", "302 at /metrics"},
		{"json", page(200, `[{"iter":1}]`), engines.VLLM, "unrecognised", "not a metrics page"},
		{"another engine", page(200, vllmPage), engines.LlamaCPP, "unrecognised", "begin with"},
		{"endless", endless, engines.VLLM, "too_large", "too large"},
		{"nobody's", page(200, "http_requests_total 1\n"), engines.Auto, "unrecognised", "no engine of the contracts"},
		{"exports none", page(200, vllmPage), engines.Ollama, "unsupported", "exports no metrics"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, vllm.Metrics(), llamacpp.Metrics())
				r.engines["a"] = &engine{answer: tt.answer}
				r.replace(t, spec("a", tt.engine))
				stop := r.run(t)
				wait(9 * time.Second)
				stop()
				got := r.outcomes(t)
				if len(got) != 1 || got[tt.want] == 0 {
					t.Errorf("outcomes %v; want only %s", got, tt.want)
				}
				lines := strings.Count(r.logs.String(), "\n")
				if tt.logged == "" && lines != 0 || tt.logged != "" && (lines != 1 || !strings.Contains(r.logs.String(), tt.logged)) {
					t.Errorf("want %q logged once, got:\n%s", tt.logged, r.logs)
				}
				if strings.Contains(r.logs.String(), "canary-key") {
					t.Error("the key is in the log")
				}
				measured := r.set.Snapshot().All()[0].Load() != nil
				if want := tt.want == "ok" || tt.want == "partial"; measured != want {
					t.Errorf("measured = %t, want %t", measured, want)
				}
				if n := testutil.CollectAndCount(r.reg, "llmgw_scrape_scrapes_total"); n != 8 {
					t.Errorf("%d outcome series; want all 8 from the start", n)
				}
			})
		})
	}
}

func hungBody(req *http.Request) (*http.Response, error) {
	reader, writer := io.Pipe()
	go func() {
		_, _ = io.WriteString(writer, vllmPage)
		<-req.Context().Done()
		_ = writer.CloseWithError(req.Context().Err())
	}()
	return &http.Response{StatusCode: 200, Body: reader}, nil
}

func endless(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 200, Body: io.NopCloser(zeros{})}, nil
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestFailureKeepsTheLastMeasurement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, vllm.Metrics())
		fake := &engine{answer: page(200, vllmPage)}
		r.engines["a"] = fake
		r.replace(t, spec("a", engines.VLLM))
		defer r.run(t)()
		wait(time.Second)
		e := r.set.Snapshot().All()[0]
		first := e.Load()
		fake.set(hang)
		wait(30 * time.Second)
		if e.Load() != first {
			t.Errorf("the measurement changed to %+v", e.Load())
		}
		fake.set(page(200, "vllm:num_requests_running 4\n"))
		wait(5 * time.Second)
		if l := e.Load(); l.Running != engines.Read(4) || l.Waiting != (engines.Reading{}) {
			t.Errorf("a metric that went is %v; want unknown", l.Waiting)
		}
		fake.set(page(200, vllmPage))
		wait(5 * time.Second)
		want := []string{"cannot be read", "lack running", "measured again"}
		lines := strings.Split(strings.TrimSpace(r.logs.String()), "\n")
		if len(lines) != len(want) {
			t.Fatalf("want one line a change, got:\n%s", r.logs)
		}
		for i := range want {
			if !strings.Contains(lines[i], want[i]) {
				t.Errorf("line %d is %q; want %q", i, lines[i], want[i])
			}
		}
	})
}

func TestFindsOutTheEngine(t *testing.T) {
	trt := func(req *http.Request) (*http.Response, error) {
		if req.URL.Path == "/base/prometheus/metrics" {
			return page(200, "trtllm_num_requests_running 2\ntrtllm_num_requests_waiting 0\n")(req)
		}
		return page(200, `[{"iter":1}]`)(req)
	}
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, vllm.Metrics(), llamacpp.Metrics(), trtllm.Metrics())
		fake := &engine{answer: trt}
		r.engines["a"] = fake
		s := spec("a", "")
		s.URL = "http://a/base/"
		r.replace(t, s)
		defer r.run(t)()
		wait(21 * time.Second)
		e := r.set.Snapshot().All()[0]
		if l := e.Load(); l == nil || l.Engine != engines.TRTLLM {
			t.Fatalf("load %+v; want trtllm's", l)
		}
		asked := make(map[string]int)
		for _, req := range fake.requests {
			asked[req.URL.Path]++
		}
		if asked["/base/metrics"] != 1 || asked["/base/prometheus/metrics"] < 10 {
			t.Errorf("asked %v; want /metrics once and then the one that has it", asked)
		}
		// Another engine at the same address is recognised too, once the path
		// that had none may be asked again.
		fake.set(func(req *http.Request) (*http.Response, error) {
			if req.URL.Path == "/base/metrics" {
				return page(200, vllmPage)(req)
			}
			return page(200, "other 1\n")(req)
		})
		wait(time.Minute)
		if l := e.Load(); l.Engine != engines.VLLM {
			t.Errorf("engine %q; want vllm", l.Engine)
		}
	})
}

// An engine that loads answers every path alike; what is told is of the path
// that most engines have.
func TestTellsOfTheUsualPath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, vllm.Metrics(), trtllm.Metrics())
		r.engines["a"] = &engine{answer: page(503, "loading")}
		r.replace(t, spec("a", engines.Auto))
		defer r.run(t)()
		wait(time.Second)
		if log := r.logs.String(); !strings.Contains(log, "/metrics") || strings.Contains(log, "/prometheus/metrics") {
			t.Errorf("want a line about /metrics, got:\n%s", log)
		}
	})
}

func TestForeignPathIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, vllm.Metrics(), trtllm.Metrics())
		fake := &engine{answer: func(req *http.Request) (*http.Response, error) {
			if req.URL.Path == "/metrics" {
				return page(200, `[{"iter":1}]`)(req)
			}
			return page(404, "")(req)
		}}
		r.engines["a"] = fake
		r.replace(t, spec("a", engines.Auto))
		defer r.run(t)()
		wait(4 * time.Minute)
		n := 0
		for _, req := range fake.requests {
			if req.URL.Path == "/metrics" {
				n++
			}
		}
		if n < 3 || n > 5 {
			t.Errorf("the page that is eaten by reading was asked %d times in 4 minutes; want one a minute", n)
		}
	})
}

func TestKeyGoesOnlyWhereItIsNeeded(t *testing.T) {
	tests := []struct {
		engine engines.Name
		page   string
		first  string
		then   string
	}{
		{engines.VLLM, vllmPage, "", ""},
		{engines.LlamaCPP, "llamacpp:requests_processing 1\n", "Bearer canary-key", "Bearer canary-key"},
		{engines.Auto, vllmPage, "Bearer canary-key", ""},
	}
	for _, tt := range tests {
		t.Run(string(tt.engine), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, vllm.Metrics(), llamacpp.Metrics())
				fake := &engine{answer: page(200, tt.page)}
				r.engines["a"] = fake
				r.replace(t, spec("a", tt.engine))
				stop := r.run(t)
				wait(2500 * time.Millisecond)
				stop()
				if len(fake.requests) < 2 {
					t.Fatalf("%d scrapes", len(fake.requests))
				}
				for i, req := range fake.requests {
					want := tt.then
					if i == 0 {
						want = tt.first
					}
					if got := req.Header.Get("Authorization"); got != want {
						t.Errorf("scrape %d has Authorization %q; want %q", i, got, want)
					}
					if accept := req.Header.Get("Accept"); accept != "text/plain; version=0.0.4" {
						t.Errorf("Accept: %s", accept)
					}
				}
			})
		})
	}
}

// Requests that begin or end while a page is fetched are counted as seen.
func TestInFlightAtTheMeasurementIsABound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, vllm.Metrics())
		fake := &engine{}
		r.engines["a"] = fake
		r.replace(t, spec("a", engines.VLLM))
		e := r.set.Snapshot().All()[0]
		measured := func() int64 { // next
			for e.Load() == nil {
				wait(10 * time.Millisecond)
			}
			return e.Load().InFlight
		}
		places := []endpoint.Reservation{e.Reserve(), e.Reserve()}
		fake.set(func(req *http.Request) (*http.Response, error) {
			for _, p := range places {
				p.Release()
			}
			places = nil
			return page(200, vllmPage)(req)
		})
		defer r.run(t)()
		if n := measured(); n != 2 {
			t.Errorf("in flight %d; want the 2 that ended while the page came", n)
		}
		fake.set(func(req *http.Request) (*http.Response, error) {
			if places == nil {
				places = append(places, e.Reserve())
			}
			return page(200, vllmPage)(req)
		})
		e.SetLoad(nil)
		if n := measured(); n != 1 {
			t.Errorf("in flight %d; want the 1 that began while the page came", n)
		}
	})
}

func TestConfig(t *testing.T) {
	if err := scrape.DefaultConfig().Validate(); err != nil {
		t.Errorf("the defaults: %v", err)
	}
	err := scrape.Config{Interval: time.Millisecond, Timeout: -1}.Validate()
	want := "scrape_interval: 1ms is too short; want 100ms or more, e.g. 2s\nscrape_timeout: -1ns is not positive; want e.g. 1s"
	if err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
	if _, err := scrape.New(scrape.DefaultConfig(), scrape.Deps{}); err == nil {
		t.Error("no set and no contracts are accepted")
	}
}
