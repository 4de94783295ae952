package models

import (
	"github.com/prometheus/client_golang/prometheus"
)

// collector counts the models of the current catalog when it is asked.
type collector struct {
	models *Models
	count  *prometheus.Desc
	aside  *prometheus.Desc
}

func registerMetrics(reg prometheus.Registerer, m *Models) error {
	if reg == nil {
		return nil
	}
	return reg.Register(&collector{
		models: m,
		count:  prometheus.NewDesc("llmgw_models_catalog_entries", "Models of the catalog, by where their entry is: in the configuration, or in the store.", []string{"origin"}, nil),
		aside:  prometheus.NewDesc("llmgw_models_set_aside_entries", "Models in the store that are not in the catalog, since they cannot stand beside the others or are not accepted.", nil, nil),
	})
}

// Describe implements [prometheus.Collector].
func (c *collector) Describe(ch chan<- *prometheus.Desc) { ch <- c.count; ch <- c.aside }

// Collect implements [prometheus.Collector]. What the store holds is not told before
// it was read.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	s := c.models.Current()
	ch <- prometheus.MustNewConstMetric(c.count, prometheus.GaugeValue, float64(len(s.configured)), "configuration")
	if !s.read {
		return
	}
	aside := 0
	for _, r := range s.rows {
		if r.aside != nil {
			aside++
		}
	}
	ch <- prometheus.MustNewConstMetric(c.count, prometheus.GaugeValue, float64(len(s.rows)-aside), "store")
	ch <- prometheus.MustNewConstMetric(c.aside, prometheus.GaugeValue, float64(aside))
}
