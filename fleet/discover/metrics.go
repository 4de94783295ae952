package discover

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are those of one agent.
type metrics struct {
	probes        *prometheus.CounterVec
	registrations *prometheus.CounterVec
	probeSeconds  prometheus.Histogram
	scanSeconds   prometheus.Histogram
	candidates    prometheus.Gauge
	engines       prometheus.Gauge
	listFailures  prometheus.Counter
}

// newMetrics makes them and registers them with reg, unless that is nil.
func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		probes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "llmgw_discover_probes_total", Help: "Candidates that were asked for their models, by what came of it: engine, silent, locked, loading, no_engine, forbidden.",
		}, []string{"outcome"}),
		registrations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "llmgw_discover_registrations_total", Help: "Registrations of engines, by what came of it: ok, unauthorized, refused, unavailable.",
		}, []string{"outcome"}),
		probeSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "llmgw_discover_probe_seconds", Help: "How long candidates took to be asked.", Buckets: []float64{.005, .02, .1, .5, 1, 2, 5, 10},
		}),
		scanSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "llmgw_discover_scan_seconds", Help: "How long a look at all candidates took.", Buckets: []float64{.1, .5, 1, 5, 10, 30, 60, 120, 300},
		}),
		candidates: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "llmgw_discover_candidates", Help: "Candidates of the last scan.",
		}),
		engines: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "llmgw_discover_engines", Help: "Engines that the last scan found.",
		}),
		listFailures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "llmgw_discover_list_failures_total", Help: "Times that a source could not list its candidates, so that those of before were looked at.",
		}),
	}
	if reg == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.probes, m.registrations, m.probeSeconds, m.scanSeconds, m.candidates, m.engines, m.listFailures} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *metrics) probed(o outcome, took time.Duration) {
	m.probes.WithLabelValues(o.String()).Inc()
	m.probeSeconds.Observe(took.Seconds())
}
