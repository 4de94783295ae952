package reconcile

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	passes prometheus.Histogram
	orders *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		passes: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "llmgw_reconcile_pass_duration_seconds",
			Help:    "How long it took to hold what runs against what is wanted once.",
			Buckets: []float64{0.0001, 0.001, 0.005, 0.025, 0.1, 0.5, 2.5},
		}),
		orders: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "llmgw_reconcile_orders_total",
			Help: "Orders by kind (put-row, remove-row, start, drain, stop) and outcome (done, again, refused, unknown, fenced).",
		}, []string{"kind", "outcome"}),
	}
	if reg != nil {
		reg.MustRegister(m.passes, m.orders)
	}
	return m
}

func (m *metrics) passed(d time.Duration) { m.passes.Observe(d.Seconds()) }

func (m *metrics) ordered(k Kind, o Outcome) {
	m.orders.WithLabelValues(k.String(), o.String()).Inc()
}
