package gateway

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// wakeMetrics are those of requests for models that nothing serves. A model has series
// from the first such request on.
type wakeMetrics struct {
	outcomes *prometheus.CounterVec
	waits    *prometheus.HistogramVec
}

func newWakeMetrics(reg prometheus.Registerer, k *wakes) (*wakeMetrics, error) {
	m := &wakeMetrics{
		outcomes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "llmgw_gateway_wakes_total",
			Help: "Requests for a model that nothing served when they came, by model and outcome.",
		}, []string{"model", "outcome"}),
		waits: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "llmgw_gateway_wake_wait_seconds", Buckets: []float64{.1, .5, 1, 2, 3, 5, 7.5, 10, 15, 25},
			Help: "How long requests waited for a model to be served, whatever became of them, by model.",
		}, []string{"model"}),
	}
	if reg == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.outcomes, m.waits, wakeGauges{k}} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// waited counts a wait.
func (m *wakeMetrics) waited(model string, d time.Duration) {
	m.waits.WithLabelValues(model).Observe(d.Seconds())
}

// ended counts what became of a request; nil: there was an endpoint.
func (m *wakeMetrics) ended(model string, why *refused) {
	o := wakeReady
	if why != nil {
		o = why.outcome
	}
	m.outcomes.WithLabelValues(model, o.String()).Inc()
}

// forget drops the series of a model that the catalog does not have any more.
func (m *wakeMetrics) forget(model string) {
	m.outcomes.DeletePartialMatch(prometheus.Labels{"model": model})
	m.waits.DeletePartialMatch(prometheus.Labels{"model": model})
}

// wakeGauges are read when they are asked for.
type wakeGauges struct{ *wakes }

// Describe sends nothing: which models are waited for is not known before.
func (wakeGauges) Describe(chan<- *prometheus.Desc) {}

// Collect sends how many requests wait.
func (g wakeGauges) Collect(out chan<- prometheus.Metric) {
	desc := prometheus.NewDesc("llmgw_gateway_wake_waiting_requests", "Requests that wait for a model to be served, by model; absent where none does.", []string{"model"}, nil)
	for model, n := range g.waiting() {
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(n), model)
	}
}
