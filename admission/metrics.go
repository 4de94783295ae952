package admission

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// bandStats counts what became of one band's requests in one pool.
type bandStats struct {
	waits    waits
	rejected [reasons]uint64
}

// outcomes returns how many requests were granted and how many were not.
func (b *bandStats) outcomes() (admitted, rejected uint64) {
	for _, n := range b.waits.buckets {
		admitted += n
	}
	for _, n := range b.rejected {
		rejected += n
	}
	return admitted, rejected
}

// waitBuckets are the upper bounds of the histogram of waits.
var waitBuckets = [...]time.Duration{ //nolint:gochecknoglobals // constant table
	0, time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond,
	500 * time.Millisecond, time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute,
}

// waits is a histogram of how long granted requests waited.
type waits struct {
	buckets [len(waitBuckets) + 1]uint64 // not cumulative; the last is beyond
	sum     time.Duration
}

func (w *waits) observe(d time.Duration) {
	i := 0
	for i < len(waitBuckets) && d > waitBuckets[i] {
		i++
	}
	w.buckets[i]++
	w.sum += d
}

// cumulative returns the histogram as Prometheus wants it.
func (w *waits) cumulative() (count uint64, sum float64, buckets map[float64]uint64) {
	buckets = make(map[float64]uint64, len(waitBuckets))
	for i, d := range waitBuckets {
		count += w.buckets[i]
		buckets[d.Seconds()] = count
	}
	return count + w.buckets[len(waitBuckets)], w.sum.Seconds(), buckets
}

// poolStats is a copy of what a pool's series are made from.
type poolStats struct {
	leases  int
	waiting []int
	bands   []bandStats
	sat     float64
	explain Saturation
	parts   bool // explain says something
}

// collector reads a controller when metrics are collected: the request path
// only adds to counters that the lock guards anyway.
type collector struct {
	ctl *Controller

	waiting, wait, rejections, unknown         *prometheus.Desc
	saturation, leases, capacity, seen, blinds *prometheus.Desc
}

func newCollector(c *Controller) *collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("llmgw_admission_"+name, help, labels, nil)
	}
	return &collector{
		ctl:        c,
		waiting:    desc("waiting_requests", "Requests that wait to be admitted.", "pool", "band"),
		wait:       desc("wait_seconds", "How long admitted requests had waited; 0 for those that did not.", "pool", "band"),
		rejections: desc("rejections_total", "Requests that were not admitted, by reason.", "pool", "band", "reason"),
		unknown:    desc("unknown_bands_total", "Requests that named a band that is not configured."),
		saturation: desc("saturation_ratio", "How full a pool is: 1 is full, more is possible.", "pool"),
		leases:     desc("leases", "Requests that were admitted and have not ended.", "pool"),
		capacity:   desc("capacity_requests", "Requests that a pool's engines are taken to be able to run at once.", "pool"),
		seen:       desc("learned_requests", "Requests that a pool's engines were seen to run at once.", "pool"),
		blinds:     desc("blind_endpoints", "Endpoints without a fresh measurement, for which only local knowledge speaks.", "pool"),
	}
}

// Describe sends nothing: which pools have series is not known before.
func (*collector) Describe(chan<- *prometheus.Desc) {}

// Collect sends the state of every pool that requests were offered to.
func (m *collector) Collect(out chan<- prometheus.Metric) {
	send := func(d *prometheus.Desc, t prometheus.ValueType, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, t, v, labels...)
	}
	unknown, names := m.ctl.names()
	send(m.unknown, prometheus.CounterValue, float64(unknown))
	for _, pool := range names {
		if m.ctl.enabled {
			m.ctl.refresh(pool)
		}
		s, ok := m.ctl.poolStats(pool)
		if !ok {
			continue
		}
		send(m.leases, prometheus.GaugeValue, float64(s.leases), pool)
		if !math.IsNaN(s.sat) {
			send(m.saturation, prometheus.GaugeValue, s.sat, pool)
		}
		if s.parts {
			send(m.capacity, prometheus.GaugeValue, s.explain.Capacity, pool)
			send(m.seen, prometheus.GaugeValue, s.explain.Learned, pool)
			send(m.blinds, prometheus.GaugeValue, float64(s.explain.Blind), pool)
		}
		for i, b := range m.ctl.core.bands {
			send(m.waiting, prometheus.GaugeValue, float64(s.waiting[i]), pool, b.Name)
			count, sum, buckets := s.bands[i].waits.cumulative()
			out <- prometheus.MustNewConstHistogram(m.wait, count, sum, buckets, pool, b.Name)
			for r := ReasonQueueFull; r < reasons; r++ {
				send(m.rejections, prometheus.CounterValue, float64(s.bands[i].rejected[r]), pool, b.Name, r.String())
			}
		}
	}
}

// names returns the names of all pools, and how many unknown bands were named.
func (c *Controller) names() (unknownBands uint64, pools []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	pools = make([]string, 0, len(c.core.pools))
	for name := range c.core.pools {
		pools = append(pools, name)
	}
	return c.unknownBands, pools
}

// poolStats copies what the pool's series are made from; false if it is gone.
func (c *Controller) poolStats(name string) (poolStats, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, ok := c.core.pools[name]
	if !ok {
		return poolStats{}, false
	}
	s := poolStats{
		leases:  p.leases,
		waiting: make([]int, len(p.queues)),
		bands:   append([]bandStats(nil), p.stats...),
		sat:     p.detector.Saturation(p.leases),
	}
	for i := range p.queues {
		s.waiting[i] = p.queues[i].n
	}
	if e, ok := p.detector.(Explainer); ok {
		s.explain, s.parts = e.Explain(p.leases), true
	}
	return s, true
}
