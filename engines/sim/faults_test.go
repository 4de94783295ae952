package sim_test

import (
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgw/llmgw/engines/sim"
)

func TestScript(t *testing.T) {
	cfg := sim.InstantConfig()
	cfg.Faults.Script = []sim.Answer{
		{Status: 503, RetryAfter: "1"}, {Status: 429, Body: "flat"}, {Status: 200}, {Status: 500, Body: "string"},
		{Status: 502, Body: "html"}, {Status: 422, Body: "detail"}, {Status: 504, Body: "text"}, {Status: 500, Body: "empty"},
	}
	e := newEngine(t, cfg)
	ask := func() *httptest.ResponseRecorder { return call(t, e, "POST", "/v1/completions", `{"prompt":"a"}`) }
	for i, want := range []struct {
		status     int
		retryAfter string
		kind, body string
	}{
		{503, "1", "application/json", `{"error":{"code":503,`},
		{429, "", "application/json", `{"code":429,"message":"scripted failure","object":"error"`},
		{200, "", "application/json", `{"id":"cmpl-`},
		{500, "", "application/json", `{"error":"scripted failure"}`},
		{502, "", "text/html; charset=utf-8", `<html>`},
		{422, "", "application/json", `{"detail":"scripted failure"}`},
		{504, "", "text/plain; charset=utf-8", "scripted failure"},
		{500, "", "text/plain; charset=utf-8", ""},
		{200, "", "application/json", `{"id":"cmpl-`},
	} {
		w := ask()
		if w.Code != want.status || w.Header().Get("Retry-After") != want.retryAfter ||
			w.Header().Get("Content-Type") != want.kind || !strings.HasPrefix(w.Body.String(), want.body) {
			t.Errorf("answer %d: %d %v %s; want %+v", i, w.Code, w.Header(), w.Body, want)
		}
	}
	// SetFaults starts it again.
	if err := e.SetFaults(sim.Faults{Script: []sim.Answer{{Status: 503}}}); err != nil {
		t.Fatal(err)
	}
	if a, b := ask().Code, ask().Code; a != 503 || b != 200 {
		t.Errorf("got %d, %d", a, b)
	}
}

func TestWedge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, sim.DefaultConfig())
		if err := e.SetFaults(sim.Faults{Wedge: true}); err != nil {
			t.Fatal(err)
		}
		done := make(chan int, 1)
		go func() { done <- call(t, e, "POST", "/v1/completions", `{"prompt":"a"}`).Code }()
		time.Sleep(time.Hour)
		synctest.Wait()
		if s := e.Stats(); s.Waiting != 1 || len(done) != 0 {
			t.Errorf("wedged: %+v", s)
		}
		if err := e.SetFaults(sim.Faults{}); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		if code := <-done; code != 200 || time.Since(begin) > time.Second {
			t.Errorf("status %d %v after the wedge", code, time.Since(begin))
		}
	})
}

func TestCloseEndsWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, sim.DefaultConfig())
		cut := make(chan any, 1)
		go func() {
			defer func() { cut <- recover() }()
			call(t, e, "POST", "/v1/completions", `{"prompt":"a","max_tokens":100,"ignore_eos":true}`)
		}()
		time.Sleep(100 * time.Millisecond)
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		if v := <-cut; v == nil {
			t.Error("the answer was not cut off")
		}
		if s := e.Stats(); s.Running+s.UsedBlocks != 0 {
			t.Errorf("%+v", s)
		}
	})
}

func TestMetricsFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, sim.DefaultConfig())
		get := func(f sim.Faults) (*httptest.ResponseRecorder, time.Duration) {
			if err := e.SetFaults(f); err != nil {
				t.Fatal(err)
			}
			begin := time.Now()
			return call(t, e, "GET", "/metrics", ""), time.Since(begin)
		}
		for _, tt := range []struct {
			fault string
			code  int
			has   string
		}{
			{"absent", 404, "Not Found"}, {"error", 500, "Internal"}, {"empty", 200, ""}, {"garbage", 200, "not-a-number"},
			{"renamed", 200, "\nvllm:gpu_cache_usage_perc{"}, {"nan", 200, `vllm:num_requests_running{engine="0",model_name="sim-8b"} NaN`},
		} {
			if w, _ := get(sim.Faults{Metrics: tt.fault}); w.Code != tt.code || !strings.Contains(w.Body.String(), tt.has) {
				t.Errorf("%s: %d %s", tt.fault, w.Code, w.Body)
			}
		}
		if _, took := get(sim.Faults{MetricsDelay: 3 * time.Second}); took != 3*time.Second {
			t.Errorf("answered after %v", took)
		}
		if err := e.SetFaults(sim.Faults{Unhealthy: true}); err != nil || call(t, e, "GET", "/health", "").Code != 503 {
			t.Error("healthy")
		}
	})
}

func TestParseFaults(t *testing.T) {
	got, err := sim.ParseFaults(sim.Faults{CRLF: true}, "split_bytes = 3; metrics_delay=2s;metrics=block ; wedge=true;script=503 1 flat, 200,429 - html")
	want := sim.Faults{CRLF: true, SplitBytes: 3, MetricsDelay: 2 * time.Second, Metrics: "block", Wedge: true,
		Script: []sim.Answer{{503, "1", "flat"}, {Status: 200}, {429, "", "html"}}}
	if err != nil || !cmp.Equal(got, want) {
		t.Errorf("%v %s", err, cmp.Diff(want, got))
	}
	for text, want := range map[string]string{
		"x=1":             "faults.x: unknown; want one of split_bytes, split_pause, crlf, ",
		"crlf=maybe":      "faults.crlf: ",
		"split_bytes=a":   "faults.split_bytes: ",
		"split_bytes=-1":  "faults.split_bytes: -1",
		"split_pause=5":   "faults.split_pause: ",
		"script=abc":      "faults.script: ",
		"script=99":       "faults.script[0].status: 99",
		"metrics=strange": "faults.metrics: ",
	} {
		if _, err := sim.ParseFaults(sim.Faults{}, text); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s…", text, err, want)
		}
	}
}

func TestFaultControl(t *testing.T) {
	cfg := sim.InstantConfig()
	cfg.FaultControl = true
	e := newEngine(t, cfg)
	if w := call(t, e, "PUT", "/sim/faults", "unhealthy=true"); w.Code != 204 || !e.Faults().Unhealthy {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := call(t, e, "PUT", "/sim/faults", "nonsense=true"); w.Code != 400 || !e.Faults().Unhealthy ||
		!strings.Contains(w.Body.String(), strings.Join(sim.FaultKeys(), ", ")) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestConfigValidate(t *testing.T) {
	if err := sim.DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
	if err := sim.InstantConfig().Validate(); err != nil {
		t.Error(err)
	}
	var keys []string
	for line := range strings.SplitSeq((sim.Config{
		Aliases: []string{""}, NumGPUBlocks: -1, Timing: sim.Timing{Step: -1, PrefillTokensPerSecond: -1},
		Output: sim.Output{Sigma: -1}, Faults: sim.Faults{SplitBytes: -1, EarlyStatus: 99, FailLoad: "x", CrashAfter: -1},
		LoadTime: -1, ShutdownTimeout: -1,
		KVEvents: sim.KVEvents{Endpoint: "udp://a:1", BufferSteps: -1, Topic: strings.Repeat("x", 256)},
	}).Validate().Error(), "\n") {
		key, _, _ := strings.Cut(line, ": ")
		keys = append(keys, key)
	}
	want := []string{
		"model", "aliases[0]", "max_model_len", "max_num_seqs", "max_num_batched_tokens", "block_size", "speed",
		"embedding_dimensions", "scheduling_policy", "load_time", "shutdown_timeout", "keep_alive", "kv_events.endpoint", "kv_events.encoding", "kv_events.topic",
		"kv_events.buffer_steps", "kv_events.hwm", "timing.step", "timing.prefill_tokens_per_second", "output.median_tokens",
		"output.sigma", "faults.split_bytes", "faults.fail_load", "faults.crash_after", "faults.early_status",
	}
	if !slices.Equal(keys, want) {
		t.Error(cmp.Diff(want, keys))
	}
	if _, err := sim.New(sim.Config{}, sim.Deps{}); err == nil {
		t.Error("New accepts the zero Config")
	}
}
