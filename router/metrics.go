package router

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmgw/llmgw/router/openai"
)

type metrics struct {
	requests  *prometheus.CounterVec
	duration  *prometheus.HistogramVec
	ttft      *prometheus.HistogramVec
	tpot      *prometheus.HistogramVec
	tokens    *prometheus.CounterVec
	attempts  *prometheus.CounterVec
	fallbacks *prometheus.CounterVec
	refusals  *prometheus.CounterVec
	exhausted prometheus.Counter
	pinned    *prometheus.CounterVec
	inFlight  prometheus.Gauge
	panics    prometheus.Counter

	models sync.Map // canonical name → *modelMetrics
	nobody *modelMetrics
}

// modelMetrics are one model's series, looked up once.
type modelMetrics struct {
	results   [len(resultNames)]prometheus.Counter
	duration  prometheus.Observer
	ttft      prometheus.Observer
	tpot      prometheus.Observer
	prompt    prometheus.Counter
	cached    prometheus.Counter
	generated prometheus.Counter
	retries   prometheus.Counter
}

func newMetrics(reg prometheus.Registerer, rt *Router) (*metrics, error) {
	mem := &rt.memory
	// TTFT is judged between tens of milliseconds and tens of seconds, whole
	// requests up to half an hour, the time of one token in milliseconds.
	ttft := []float64{.01, .025, .05, .1, .2, .4, .8, 1.5, 3, 6, 12, 25, 60, 120}
	duration := []float64{.05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800}
	tpot := []float64{.002, .005, .01, .015, .02, .03, .05, .075, .1, .15, .25, .5, 1, 2.5}
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "llmgw_router_requests_total",
			Help: "Requests ended, by canonical model (empty: the request named none that may be used) and result.",
		}, []string{"model", "result"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "llmgw_router_request_duration_seconds", Buckets: duration,
			Help: "Time from a request's arrival to its last byte, by model.",
		}, []string{"model"}),
		ttft: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "llmgw_router_ttft_seconds", Buckets: ttft,
			Help: "Time from a streamed request's arrival to its first content, by model.",
		}, []string{"model"}),
		tpot: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "llmgw_router_tpot_seconds", Buckets: tpot,
			Help: "Time per output token after the first of a streamed answer whose usage is known, by model.",
		}, []string{"model"}),
		tokens: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "llmgw_router_tokens_total",
			Help: "Tokens as engines counted them, by model and kind (prompt, cached, completion); cached ones are part of prompt.",
		}, []string{"model", "kind"}),
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "llmgw_router_retries_total",
			Help: "Requests sent to a further endpoint after one failed, by model asked for.",
		}, []string{"model"}),
		fallbacks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "llmgw_router_fallbacks_total",
			Help: "Requests answered by a fallback, by model asked for and model that served.",
		}, []string{"model", "served"}),
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "llmgw_router_errors_total",
			Help: "Error answers of the router's own, by code.",
		}, []string{"code"}),
		exhausted: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "llmgw_router_retry_budget_exhausted_total",
			Help: "Retries not made because the retry budget was spent.",
		}),
		pinned: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "llmgw_router_stored_lookups_total",
			Help: "Requests that refer to a stored response, by what the router knew (known, unknown, gone: its endpoint serves the model no more).",
		}, []string{"result"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "llmgw_router_requests_in_flight",
			Help: "Requests under way, waiting ones included.",
		}),
		panics: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "llmgw_router_panics_total",
			Help: "Requests that ended in a fault of the router's own.",
		}),
	}
	for _, result := range []string{storedKnown, storedUnknown, storedGone} {
		m.pinned.WithLabelValues(result)
	}
	m.nobody = m.newModel("")
	if reg == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{
		m.requests, m.duration, m.ttft, m.tpot, m.tokens, m.attempts, m.fallbacks, m.refusals, m.exhausted, m.pinned, m.inFlight, m.panics,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "llmgw_router_body_memory_bytes",
			Help: "Memory that request bodies hold.",
		}, func() float64 { return float64(mem.held.Load()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "llmgw_router_body_memory_limit_bytes",
			Help: "Memory that request bodies may hold before requests are refused.",
		}, func() float64 { return float64(mem.limit) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "llmgw_router_spool_bytes",
			Help: "Bytes of forms in temporary files.",
		}, func() float64 { return float64(rt.spools.held.Load()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "llmgw_router_spool_limit_bytes",
			Help: "Bytes that forms may have in temporary files before requests are refused.",
		}, func() float64 { return float64(rt.spools.limit) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "llmgw_router_response_pins",
			Help: "Stored responses whose endpoint is remembered.",
		}, func() float64 { known, _ := rt.pins.counts(); return float64(known) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "llmgw_router_response_pins_evicted_total",
			Help: "Stored responses whose endpoint was forgotten before its time, for want of room.",
		}, func() float64 { _, evicted := rt.pins.counts(); return float64(evicted) }),
	} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// model returns the series of a canonical model. Names come from the catalog
// only, so there are no more of them than it has.
func (m *metrics) model(name string) *modelMetrics {
	if v, ok := m.models.Load(name); ok {
		return v.(*modelMetrics)
	}
	v, _ := m.models.LoadOrStore(name, m.newModel(name))
	return v.(*modelMetrics)
}

func (m *metrics) newModel(name string) *modelMetrics {
	mm := &modelMetrics{
		duration:  m.duration.WithLabelValues(name),
		ttft:      m.ttft.WithLabelValues(name),
		tpot:      m.tpot.WithLabelValues(name),
		prompt:    m.tokens.WithLabelValues(name, "prompt"),
		cached:    m.tokens.WithLabelValues(name, "cached"),
		generated: m.tokens.WithLabelValues(name, "completion"),
		retries:   m.attempts.WithLabelValues(name),
	}
	for r := range mm.results {
		if Result(r) != ResultUnset {
			mm.results[r] = m.requests.WithLabelValues(name, Result(r).String())
		}
	}
	return mm
}

// ended counts one request.
func (mm *modelMetrics) ended(o *Outcome) {
	mm.results[o.Result].Inc()
	mm.duration.Observe(o.End.Sub(o.Start).Seconds())
	if o.Stream && !o.FirstContent.IsZero() {
		mm.ttft.Observe(o.FirstContent.Sub(o.Start).Seconds())
	}
	if !o.HasUsage {
		return
	}
	add(mm.prompt, o.Usage.PromptTokens)
	add(mm.cached, o.Usage.CachedTokens)
	add(mm.generated, o.Usage.CompletionTokens)
	if n, ok := o.Usage.CompletionTokens.Get(); ok && n > 1 && o.Result == ResultOK && o.Stream && !o.FirstContent.IsZero() {
		mm.tpot.Observe(o.End.Sub(o.FirstContent).Seconds() / float64(n-1))
	}
}

func add(c prometheus.Counter, n openai.Count) {
	if v, ok := n.Get(); ok && v > 0 {
		c.Add(float64(v))
	}
}
