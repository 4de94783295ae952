package sim_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/llmgw/llmgw/engines/sim"
)

// scrape parses the page with Prometheus's own parser and returns the samples
// that are not histograms by name, labels in order.
func scrape(t *testing.T, page string) (samples map[string]float64, histograms map[string]uint64) {
	t.Helper()
	p := expfmt.NewTextParser(model.UTF8Validation)
	families, err := p.TextToMetricFamilies(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	samples, histograms = map[string]float64{}, map[string]uint64{}
	for name, f := range families {
		for _, m := range f.Metric {
			var labels []string
			for _, l := range m.Label {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			switch key := name + "{" + strings.Join(labels, ",") + "}"; {
			case m.Gauge != nil:
				samples[key] = m.Gauge.GetValue()
			case m.Counter != nil:
				samples[key] = m.Counter.GetValue()
			case m.Histogram != nil:
				histograms[key] = m.Histogram.GetSampleCount()
			}
		}
	}
	return samples, histograms
}

// TestMetricsContract: the names, labels and values that routers and
// dashboards read of a vLLM (engines' facts, from v0.26).
func TestMetricsContract(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := sim.DefaultConfig()
		cfg.MaxNumSeqs = 1
		e := newEngine(t, cfg)
		body := `{"prompt":"` + strings.Repeat("word ", 100) + `","max_tokens":200,"ignore_eos":true}`
		call(t, e, "POST", "/v1/completions", body)
		done := make(chan struct{}, 2)
		for range 2 {
			go func() {
				call(t, e, "POST", "/v1/completions", body)
				done <- struct{}{}
			}()
		}
		time.Sleep(500 * time.Millisecond)
		synctest.Wait()
		w := call(t, e, "GET", "/metrics", "")
		if ct := w.Header().Get("Content-Type"); ct != "text/plain; version=0.0.4; charset=utf-8" {
			t.Error(ct)
		}
		got, histograms := scrape(t, w.Body.String())
		const own = "engine=0,model_name=sim-8b"
		generated := got["vllm:generation_tokens_total{"+own+"}"]
		if generated < 250 || generated > 300 {
			t.Errorf("%v tokens generated after 200 and half a second", generated)
		}
		delete(got, "vllm:generation_tokens_total{"+own+"}")
		kv := got["vllm:kv_cache_usage_perc{"+own+"}"]
		if want := 12. / 25600; kv < want*0.8 || kv > want*1.2 {
			t.Errorf("KV usage %v, want about %v", kv, want)
		}
		delete(got, "vllm:kv_cache_usage_perc{"+own+"}")
		want := map[string]float64{
			"vllm:num_requests_running{" + own + "}":                                            1,
			"vllm:num_requests_waiting{" + own + "}":                                            1,
			"vllm:num_requests_waiting_by_reason{" + own + ",reason=capacity}":                  1,
			"vllm:num_requests_waiting_by_reason{" + own + ",reason=deferred}":                  0,
			"vllm:engine_sleep_state{" + own + ",sleep_state=awake}":                            1,
			"vllm:engine_sleep_state{" + own + ",sleep_state=weights_offloaded}":                0,
			"vllm:engine_sleep_state{" + own + ",sleep_state=discard_all}":                      0,
			"vllm:prefix_cache_queries_total{" + own + "}":                                      202,
			"vllm:prefix_cache_hits_total{" + own + "}":                                         96,
			"vllm:num_preemptions_total{" + own + "}":                                           0,
			"vllm:prompt_tokens_total{" + own + "}":                                             202,
			"vllm:prompt_tokens_cached_total{" + own + "}":                                      96,
			"vllm:prompt_tokens_by_source_total{" + own + ",source=local_compute}":              106,
			"vllm:prompt_tokens_by_source_total{" + own + ",source=local_cache_hit}":            96,
			"vllm:prompt_tokens_by_source_total{" + own + ",source=external_kv_transfer}":       0,
			"vllm:request_success_total{engine=0,finished_reason=stop,model_name=sim-8b}":       0,
			"vllm:request_success_total{engine=0,finished_reason=length,model_name=sim-8b}":     1,
			"vllm:request_success_total{engine=0,finished_reason=abort,model_name=sim-8b}":      0,
			"vllm:request_success_total{engine=0,finished_reason=error,model_name=sim-8b}":      0,
			"vllm:request_success_total{engine=0,finished_reason=repetition,model_name=sim-8b}": 0,
			"http_requests_total{handler=/v1/completions,method=POST,status=2xx}":               1,
			"process_start_time_seconds{}":                                                      got["process_start_time_seconds{}"],
			"vllm:cache_config_info{block_size=16,cache_dtype=auto,enable_prefix_caching=True,engine=0," +
				"gpu_memory_utilization=0.9,num_cpu_blocks=None,num_gpu_blocks=25600,prefix_caching_hash_algo=sha256}": 1,
		}
		for name := range got {
			if strings.Contains(name, "_created{") {
				delete(got, name)
			}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
		for name, want := range map[string]uint64{
			"time_to_first_token_seconds": 2, "e2e_request_latency_seconds": 1, "request_queue_time_seconds": 1,
			"request_inference_time_seconds": 1, "request_prefill_time_seconds": 1, "request_decode_time_seconds": 1,
			"request_prompt_tokens": 1, "request_generation_tokens": 1, "request_params_max_tokens": 1,
			"request_time_per_output_token_seconds": 1, "inter_token_latency_seconds": uint64(generated) - 2,
		} {
			if got := histograms["vllm:"+name+"{"+own+"}"]; got != want {
				t.Errorf("%s has %d observations, want %d", name, got, want)
			}
		}
		<-done
		<-done
		got, _ = scrape(t, call(t, e, "GET", "/metrics", "").Body.String())
		if got["vllm:kv_cache_usage_perc{"+own+"}"] != 0 || got["vllm:num_requests_running{"+own+"}"] != 0 {
			t.Error("not empty in the end")
		}
	})
}
