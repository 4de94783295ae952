package limit

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// collector reads a limiter when metrics are collected.
type collector struct {
	l                              *Limiter
	refused, unavailable, subjects *prometheus.Desc
}

func registerMetrics(reg prometheus.Registerer, l *Limiter) error {
	if reg == nil {
		return nil
	}
	err := reg.Register(&collector{
		l:           l,
		refused:     prometheus.NewDesc("llmgw_limit_refused_total", "Requests refused by a limit, by the limit that refused.", []string{"reason"}, nil),
		unavailable: prometheus.NewDesc("llmgw_limit_unavailable_total", "Requests refused because nobody could say what may be spent of their budget.", nil, nil),
		subjects:    prometheus.NewDesc("llmgw_limit_subjects", "Keys of which something is counted.", nil, nil),
	})
	if err != nil {
		return fmt.Errorf("limit: register metrics: %w", err)
	}
	return nil
}

// Describe implements [prometheus.Collector].
func (c *collector) Describe(to chan<- *prometheus.Desc) {
	to <- c.refused
	to <- c.unavailable
	to <- c.subjects
}

// Collect implements [prometheus.Collector].
func (c *collector) Collect(to chan<- prometheus.Metric) {
	for r := ReasonUnset + 1; r < reasons; r++ {
		to <- prometheus.MustNewConstMetric(c.refused, prometheus.CounterValue, float64(c.l.refused[r].Load()), r.String())
	}
	to <- prometheus.MustNewConstMetric(c.unavailable, prometheus.CounterValue, float64(c.l.unavailable.Load()))
	to <- prometheus.MustNewConstMetric(c.subjects, prometheus.GaugeValue, float64(c.l.subjects()))
}

// subjects returns how many subjects are kept.
func (l *Limiter) subjects() int {
	n := 0
	for i := range l.shards {
		sh := &l.shards[i]
		sh.mu.Lock()
		n += len(sh.subjects)
		sh.mu.Unlock()
	}
	return n
}
