package scrape

import (
	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the scraper's counters, each label resolved once.
type metrics struct {
	scrapes  [outcomes]prometheus.Counter
	duration prometheus.Histogram
	waiting  prometheus.Histogram
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	scrapes := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "llmgw_scrape_scrapes_total",
		Help: "Scrapes of engines' metrics, by how they ended.",
	}, []string{"outcome"})
	m := &metrics{
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "llmgw_scrape_duration_seconds",
			Help:    "How long scrapes of engines' metrics took.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5},
		}),
		waiting: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "llmgw_scrape_slot_wait_seconds",
			Help:    "How long scrapes waited because too many others ran.",
			Buckets: []float64{.001, .01, .1, .5, 1, 2.5, 5, 10},
		}),
	}
	for o := OutcomeOK; o < outcomes; o++ {
		m.scrapes[o] = scrapes.WithLabelValues(o.String())
	}
	if reg == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{scrapes, m.duration, m.waiting} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}
