package proxy

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	dials    *prometheus.CounterVec
	dialOK   prometheus.Counter
	replays  prometheus.Counter
	stale    prometheus.Counter
	failures *prometheus.CounterVec
	kinds    [len(kindNames)]prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		dials: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "llmgw_proxy_dials_total",
			Help: "Connections opened to engines, by result (ok, failed).",
		}, []string{"result"}),
		replays: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "llmgw_proxy_replays_total",
			Help: "Requests sent again on a fresh connection because a reused one was dead.",
		}),
		stale: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "llmgw_proxy_stale_connections_total",
			Help: "Unused engine connections found dead or too old when they were wanted.",
		}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "llmgw_proxy_failures_total",
			Help: "Exchanges with engines that failed, by kind.",
		}, []string{"kind"}),
	}
	m.dialOK = m.dials.WithLabelValues("ok")
	for k := range m.kinds {
		if k > 0 {
			m.kinds[k] = m.failures.WithLabelValues(Kind(k).String())
		}
	}
	if reg == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.dials, m.replays, m.stale, m.failures} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *metrics) failure(k Kind) { m.kinds[k].Inc() }
