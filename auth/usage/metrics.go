package usage

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	kept, failures, pruned prometheus.Counter
	full, refused, ended   prometheus.Counter // dropped, by reason
	write                  prometheus.Histogram
}

func newMetrics(reg prometheus.Registerer, b *buffer) (*metrics, error) {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "llmgw_usage_" + name, Help: help})
	}
	dropped := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "llmgw_usage_dropped_total",
		Help: "Usage rows that were not kept: the buffer was full, the store refused them for what they are, or the process ended first.",
	}, []string{"reason"})
	m := &metrics{
		kept:     counter("kept_total", "Usage rows that the store has kept."),
		failures: counter("write_failures_total", "Batches of usage that the store did not keep; they are sent again."),
		pruned:   counter("pruned_total", "Usage rows and sums that were forgotten for their age."),
		full:     dropped.WithLabelValues("full"),
		refused:  dropped.WithLabelValues("refused"),
		ended:    dropped.WithLabelValues("ended"),
		write: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "llmgw_usage_write_seconds", Help: "How long the store took for a batch of usage.",
			Buckets: []float64{.001, .005, .01, .05, .1, .5, 1, 5, 10},
		}),
	}
	if reg == nil {
		return m, nil
	}
	waiting := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "llmgw_usage_waiting_rows", Help: "Usage rows that wait for the store.",
	}, func() float64 { return float64(b.len()) })
	var errs []error
	for _, c := range []prometheus.Collector{m.kept, m.failures, m.pruned, dropped, m.write, waiting} {
		errs = append(errs, reg.Register(c))
	}
	return m, errors.Join(errs...)
}
