package sim

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// metrics are what GET /metrics shows beyond the core's stats. The engine's
// mu guards them.
type metrics struct {
	cfg     Config
	label   string // model_name="…"
	started time.Time

	success    map[string]int64 // by finished_reason
	iterations histogram
	ttft, itl  histogram
	perToken   histogram
	e2e, queue histogram
	inference  histogram
	prefill    histogram
	decode     histogram
	prompt     histogram
	generation histogram
	maxTokens  histogram
	http       map[httpKey]int64
}

type httpKey struct{ handler, method, status string }

// newMetrics makes vLLM's histograms with vLLM's buckets.
func newMetrics(cfg Config) *metrics {
	gap := []float64{.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80}
	request := []float64{.3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680}
	tokens := tokenBuckets(cfg.MaxModelLen)
	return &metrics{
		cfg:        cfg,
		label:      `model_name="` + escapeLabel(cfg.Model) + `"`,
		success:    map[string]int64{"stop": 0, "length": 0, "abort": 0, "error": 0, "repetition": 0},
		iterations: newHistogram([]float64{1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384}),
		ttft: newHistogram([]float64{.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10,
			20, 40, 80, 160, 640, 2560}),
		itl: newHistogram(gap), perToken: newHistogram(gap),
		e2e: newHistogram(request), queue: newHistogram(request), inference: newHistogram(request),
		prefill: newHistogram(request), decode: newHistogram(request),
		prompt: newHistogram(tokens), generation: newHistogram(tokens), maxTokens: newHistogram(tokens),
		http: make(map[httpKey]int64),
	}
}

// tokenBuckets is 1 2 5 10 20 50 … up to limit.
func tokenBuckets(limit int) []float64 {
	var out []float64
	for base := 1; ; base *= 10 {
		for _, m := range []int{1, 2, 5} {
			if base*m > limit {
				return out
			}
			out = append(out, float64(base*m))
		}
	}
}

func escapeLabel(s string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s)
}

func (m *metrics) iteration(b *Batch) {
	m.iterations.observe(float64(b.PrefillTokens + b.DecodeTokens))
}

func (m *metrics) token(s *Sequence) {
	if s.generated == 1 {
		m.ttft.seconds(s.TTFT())
		return
	}
	m.itl.seconds(s.ITL())
}

func (m *metrics) finished(s *Sequence, c *choice) {
	reason := c.finish
	if reason == "tool_calls" {
		reason = "stop" // the parser's word, not the engine's
	}
	m.success[reason]++
	m.e2e.seconds(s.Elapsed())
	m.queue.seconds(s.Queued())
	m.inference.seconds(s.Elapsed() - s.Queued())
	m.prefill.seconds(s.TTFT() - s.Queued())
	m.decode.seconds(s.Elapsed() - s.TTFT())
	m.prompt.observe(float64(s.prompt))
	m.generation.observe(float64(s.generated))
	if c.maxTokens > 0 {
		m.maxTokens.observe(float64(c.maxTokens))
	}
	if s.generated > 1 {
		m.perToken.seconds((s.Elapsed() - s.TTFT()) / time.Duration(s.generated-1))
	}
}

func (m *metrics) aborted() { m.success["abort"]++ }

// request counts one HTTP request under its route's pattern.
func (m *metrics) request(mux *http.ServeMux, r *http.Request, status int) {
	if m.started.IsZero() {
		m.started = time.Now()
	}
	_, pattern := mux.Handler(r)
	if pattern == "/" || pattern == "" {
		pattern = "none"
	}
	method := r.Method
	if !slices.Contains([]string{"GET", "POST", "HEAD", "PUT", "OPTIONS", "DELETE"}, method) {
		method = "other"
	}
	m.http[httpKey{pattern, method, strconv.Itoa(status/100) + "xx"}]++
}

// page writes the exposition; s are the core's stats, asleep the level at which the
// engine sleeps.
func (m *metrics) page(s Stats, asleep int, fault string) []byte {
	p := &page{b: make([]byte, 0, 24<<10), label: m.label, nan: fault == "nan"}
	p.gauge("vllm:num_requests_running", "Number of requests in model execution batches.", "", float64(s.Running))
	p.gauge("vllm:num_requests_waiting", "Number of requests waiting to be processed.", "", float64(s.Waiting))
	p.gauge("vllm:num_requests_waiting_by_reason", "Number of requests waiting, by reason.", `reason="capacity"`, float64(s.Waiting))
	p.sample("vllm:num_requests_waiting_by_reason", `reason="deferred"`, 0)
	var levels [3]float64
	levels[asleep] = 1
	p.gauge("vllm:engine_sleep_state", "Engine sleep state.", `sleep_state="awake"`, levels[0])
	p.sample("vllm:engine_sleep_state", `sleep_state="weights_offloaded"`, levels[1])
	p.sample("vllm:engine_sleep_state", `sleep_state="discard_all"`, levels[2])
	p.gauge("vllm:kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.", "", s.KVUsedRatio())
	p.counter("vllm:prefix_cache_queries", "Prefix cache queries, in terms of number of queried tokens.", s.PrefixQueryTokens)
	p.counter("vllm:prefix_cache_hits", "Prefix cache hits, in terms of number of cached tokens.", s.PrefixHitTokens)
	p.counter("vllm:num_preemptions", "Cumulative number of preemption from the engine.", s.Preemptions)
	p.counter("vllm:prompt_tokens", "Number of prefill tokens processed.", s.PromptTokens)
	p.counter("vllm:generation_tokens", "Number of generation tokens processed.", s.GenerationTokens)
	p.counter("vllm:prompt_tokens_cached", "Number of prompt tokens from the cache.", s.CachedPromptTokens)
	p.head("vllm:prompt_tokens_by_source_total", "counter", "Number of prompt tokens by source.")
	for _, src := range []struct {
		name string
		n    int64
	}{
		{"local_compute", s.PromptTokens - s.CachedPromptTokens},
		{"local_cache_hit", s.CachedPromptTokens}, {"external_kv_transfer", 0},
	} {
		p.b = appendSample(p.b, "vllm:prompt_tokens_by_source_total", `engine="0",`+m.label+`,source="`+src.name+`"`, float64(src.n))
	}
	p.head("vllm:request_success_total", "counter", "Count of successfully processed requests.")
	for _, reason := range []string{"stop", "length", "abort", "error", "repetition"} {
		p.b = appendSample(p.b, "vllm:request_success_total", `engine="0",finished_reason="`+reason+`",`+m.label, float64(m.success[reason]))
	}
	for _, h := range []struct {
		name, help string
		h          *histogram
	}{
		{"vllm:iteration_tokens_total", "Histogram of number of tokens per engine_step.", &m.iterations},
		{"vllm:time_to_first_token_seconds", "Histogram of time to first token in seconds.", &m.ttft},
		{"vllm:inter_token_latency_seconds", "Histogram of inter-token latency in seconds.", &m.itl},
		{"vllm:request_time_per_output_token_seconds", "Histogram of time_per_output_token_seconds per request.", &m.perToken},
		{"vllm:e2e_request_latency_seconds", "Histogram of e2e request latency in seconds.", &m.e2e},
		{"vllm:request_queue_time_seconds", "Histogram of time spent in WAITING phase for request.", &m.queue},
		{"vllm:request_inference_time_seconds", "Histogram of time spent in RUNNING phase for request.", &m.inference},
		{"vllm:request_prefill_time_seconds", "Histogram of time spent in PREFILL phase for request.", &m.prefill},
		{"vllm:request_decode_time_seconds", "Histogram of time spent in DECODE phase for request.", &m.decode},
		{"vllm:request_prompt_tokens", "Number of prefill tokens processed.", &m.prompt},
		{"vllm:request_generation_tokens", "Number of generation tokens processed.", &m.generation},
		{"vllm:request_params_max_tokens", "Histogram of the max_tokens request parameter.", &m.maxTokens},
	} {
		p.head(h.name, "histogram", h.help)
		p.b = h.h.append(p.b, h.name, m.label)
	}
	p.head("vllm:cache_config_info", "gauge", "Information of the LLMEngine CacheConfig")
	caching := "False"
	if m.cfg.PrefixCaching {
		caching = "True"
	}
	p.b = appendSample(p.b, "vllm:cache_config_info", fmt.Sprintf(`block_size="%d",cache_dtype="auto",`+
		`enable_prefix_caching="%s",engine="0",gpu_memory_utilization="0.9",num_cpu_blocks="None",num_gpu_blocks="%d",`+
		`prefix_caching_hash_algo="sha256"`, m.cfg.BlockSize, caching, m.cfg.NumGPUBlocks), 1)
	p.head("http_requests_total", "counter", "Total number of requests by method, status and handler.")
	keys := make([]httpKey, 0, len(m.http))
	for k := range m.http {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b httpKey) int {
		return strings.Compare(a.handler+a.method+a.status, b.handler+b.method+b.status)
	})
	for _, k := range keys {
		p.b = appendSample(p.b, "http_requests_total", `handler="`+k.handler+`",method="`+k.method+`",status="`+k.status+`"`, float64(m.http[k]))
	}
	if !m.started.IsZero() {
		p.head("process_start_time_seconds", "gauge", "Start time of the process since unix epoch in seconds.")
		p.b = appendSample(p.b, "process_start_time_seconds", "", float64(m.started.UnixMilli())/1000)
	}
	if fault == "renamed" {
		return renamed(p.b)
	}
	return p.b
}

// renamed turns names into those of before v0.12 (engines' name history).
func renamed(b []byte) []byte {
	return []byte(strings.NewReplacer(
		"vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc",
		"vllm:prefix_cache_queries", "vllm:gpu_prefix_cache_queries",
		"vllm:prefix_cache_hits", "vllm:gpu_prefix_cache_hits",
		"vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds",
	).Replace(string(b)))
}

// page builds an exposition.
type page struct {
	b     []byte
	label string
	nan   bool // gauges are NaN
}

func (p *page) head(name, kind, help string) {
	p.b = append(p.b, "# HELP "+name+" "+help+"\n# TYPE "+name+" "+kind+"\n"...)
}

// gauge writes a gauge; extra is a label after model_name in order, or "".
func (p *page) gauge(name, help, extra string, v float64) {
	p.head(name, "gauge", help)
	p.sample(name, extra, v)
}

func (p *page) sample(name, extra string, v float64) {
	if p.nan {
		v = math.NaN()
	}
	labels := `engine="0",` + p.label
	if extra != "" {
		labels += "," + extra
	}
	p.b = appendSample(p.b, name, labels, v)
}

// counter writes a counter and the _created series Python's client adds.
func (p *page) counter(name, help string, v int64) {
	p.head(name+"_total", "counter", help)
	p.b = appendSample(p.b, name+"_total", `engine="0",`+p.label, float64(v))
	p.head(name+"_created", "gauge", help)
	p.b = appendSample(p.b, name+"_created", `engine="0",`+p.label, 1.7e9)
}

// serveMetrics serves GET /metrics, open even when the API needs a key.
func (e *Engine) serveMetrics(w http.ResponseWriter, r *http.Request) {
	f := &e.faults.Load().Faults
	if f.MetricsDelay > 0 {
		select {
		case <-time.After(f.MetricsDelay):
		case <-r.Context().Done():
			return
		case <-e.done:
		}
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	switch f.Metrics {
	case "absent":
		writeJSON(w, http.StatusNotFound, map[string]any{"detail": "Not Found"})
		return
	case "error":
		writeJSON(w, http.StatusInternalServerError, map[string]any{"detail": "Internal Server Error"})
		return
	case "block":
		select {
		case <-r.Context().Done():
		case <-e.done:
		}
		panic(http.ErrAbortHandler)
	case "empty":
		return
	case "garbage":
		_, _ = w.Write([]byte("<!doctype html>\x00\xff{{vllm:num_requests_running}} not-a-number\nvllm:num_requests_running{engine=\"0\" eleven\n"))
		return
	}
	e.mu.Lock()
	page := e.metrics.page(e.core.Stats(), e.sleep.level, f.Metrics)
	e.mu.Unlock()
	_, _ = w.Write(page)
}
