package shared

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmgw/llmgw/auth/limit"
)

// metrics are counted on the request path and read when they are collected.
type metrics struct {
	asked, failed, dropped        atomic.Uint64
	requests, tokens, concurrency atomic.Uint64
}

func (m *metrics) refused(r limit.Reason) {
	switch r {
	case limit.ReasonRequests:
		m.requests.Add(1)
	case limit.ReasonTokens:
		m.tokens.Add(1)
	default:
		m.concurrency.Add(1)
	}
}

type collector struct {
	l                                                 *Limiter
	away, young, calls, dropped, refused, liveRouters *prometheus.Desc
}

func registerMetrics(reg prometheus.Registerer, l *Limiter) error {
	if reg == nil {
		return nil
	}
	err := reg.Register(&collector{
		l:           l,
		away:        prometheus.NewDesc("llmgw_limit_redis_away", "1 while Redis cannot be asked and rates are divided among routers.", nil, nil),
		young:       prometheus.NewDesc("llmgw_limit_redis_young", "1 while Redis was started less than a minute ago and routers keep their parts of the rates beside it.", nil, nil),
		calls:       prometheus.NewDesc("llmgw_limit_redis_calls_total", "Requests whose rates were asked of Redis, by how that went.", []string{"result"}, nil),
		dropped:     prometheus.NewDesc("llmgw_limit_redis_dropped_total", "Ends of requests of which Redis was not told. Their estimates stay charged, what they used beyond does not count, and their places end within 30 s.", nil, nil),
		refused:     prometheus.NewDesc("llmgw_limit_redis_refused_total", "Requests refused by what all routers together use, by the limit that refused.", []string{"reason"}, nil),
		liveRouters: prometheus.NewDesc("llmgw_limit_live_routers", "Routers that live, as the store last said.", nil, nil),
	})
	if err != nil {
		return fmt.Errorf("limit/shared: register metrics: %w", err)
	}
	return nil
}

// Describe implements [prometheus.Collector].
func (c *collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.away, c.young, c.calls, c.dropped, c.refused, c.liveRouters} {
		to <- d
	}
}

// Collect implements [prometheus.Collector].
func (c *collector) Collect(to chan<- prometheus.Metric) {
	counter := func(d *prometheus.Desc, n *atomic.Uint64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n.Load()), labels...)
	}
	to <- prometheus.MustNewConstMetric(c.liveRouters, prometheus.GaugeValue, float64(c.l.live.Load()))
	if c.l.redis == nil {
		return
	}
	is := func(d *prometheus.Desc, yes bool) {
		v := 0.0
		if yes {
			v = 1
		}
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v)
	}
	m := &c.l.metrics
	is(c.away, c.l.breaker.away())
	is(c.young, c.l.young.at(time.Now()))
	counter(c.calls, &m.asked, "ok")
	counter(c.calls, &m.failed, "failed")
	counter(c.dropped, &m.dropped)
	counter(c.refused, &m.requests, limit.ReasonRequests.String())
	counter(c.refused, &m.tokens, limit.ReasonTokens.String())
	counter(c.refused, &m.concurrency, limit.ReasonConcurrency.String())
}
