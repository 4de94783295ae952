package prefix

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are an index's counters, and their collector.
type metrics struct {
	index *Index

	// A lookup that misses counts in both. Hits are the more, and a count that all
	// processors share costs as much as much of a lookup.
	lookups, misses atomic.Uint64

	// Guarded by index.mu.
	sends, sendHits, evicted                   uint64
	observed, predicted, cached, agreed, union uint64

	descs [10]*prometheus.Desc
}

func newMetrics(x *Index) *metrics {
	d := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("llmgw_prefix_"+name, help, nil, nil)
	}
	return &metrics{index: x, descs: [...]*prometheus.Desc{
		d("lookups_total", "Prompts that were looked up in the approximate prefix index."),
		d("hits_total", "Lookups that found an endpoint with a beginning of the prompt."),
		d("sends_total", "Prompts that were sent to an endpoint and recorded."),
		d("send_hits_total", "Prompts that were sent to an endpoint believed to hold a beginning of them."),
		d("predicted_tokens_total", "Cached prompt tokens that were believed of the endpoints picked, where they said the real number."),
		d("cached_tokens_total", "Cached prompt tokens that these endpoints said."),
		d("agreed_tokens_total", "The smaller of the two, summed by answer."),
		d("evicted_total", "Parts of prompts forgotten because the index was full."),
		d("index_bytes", "Memory of the approximate prefix index."),
		d("endpoints", "Endpoints in the approximate prefix index."),
	}}
}

// observe counts an answer; index.mu is held.
func (m *metrics) observe(predicted, cached int64) {
	m.observed++
	m.predicted += uint64(predicted)
	m.cached += uint64(cached)
	m.agreed += uint64(min(predicted, cached))
	m.union += uint64(max(predicted, cached))
}

// Describe sends all descriptions.
func (m *metrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range m.descs {
		out <- d
	}
}

// Collect sends the counters and gauges.
func (m *metrics) Collect(out chan<- prometheus.Metric) {
	misses := m.misses.Load() // first: then there are no fewer lookups
	lookups := m.lookups.Load()
	m.index.mu.RLock()
	counters := [...]uint64{lookups, lookups - misses, m.sends, m.sendHits, m.predicted, m.cached, m.agreed, m.evicted}
	m.index.mu.RUnlock()
	for i, c := range counters {
		out <- prometheus.MustNewConstMetric(m.descs[i], prometheus.CounterValue, float64(c))
	}
	s := m.index.Stats()
	out <- prometheus.MustNewConstMetric(m.descs[8], prometheus.GaugeValue, float64(s.Bytes))
	out <- prometheus.MustNewConstMetric(m.descs[9], prometheus.GaugeValue, float64(s.Endpoints))
}

// Agreement is how well predictions met what engines said.
type Agreement struct {
	Answers              uint64 // in which the engine said it
	PredictedTokens      uint64
	CachedTokens         uint64 // as the engines said
	MinTokens, MaxTokens uint64 // the smaller and the larger of the two, summed by answer
}

// Ratio is MinTokens over MaxTokens, in [0,1]: 1 if each prediction was exact.
// It is false if nothing was predicted nor cached.
func (a Agreement) Ratio() (float64, bool) {
	if a.MaxTokens == 0 {
		return 0, false
	}
	return float64(a.MinTokens) / float64(a.MaxTokens), true
}

// Agreement returns the sums since the index was made.
func (x *Index) Agreement() Agreement {
	x.mu.RLock()
	defer x.mu.RUnlock()
	m := x.metrics
	return Agreement{m.observed, m.predicted, m.cached, m.agreed, m.union}
}

// exactMetrics are an exact index's counters, and their collector.
type exactMetrics struct {
	index *Exact

	lookups, hits, orphans, overflows atomic.Uint64

	descs [6]*prometheus.Desc
}

func newExactMetrics(x *Exact) *exactMetrics {
	d := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("llmgw_prefix_exact_"+name, help, nil, nil)
	}
	return &exactMetrics{index: x, descs: [...]*prometheus.Desc{
		d("lookups_total", "Prompts that were looked up in the exact prefix index."),
		d("hits_total", "Lookups that found an endpoint with a beginning of the prompt."),
		d("orphans_total", "Blocks that were not recorded because the block before them was unknown."),
		d("overflows_total", "Blocks that were not recorded because the index was full."),
		d("blocks", "Blocks in the exact prefix index, of all endpoints together."),
		d("endpoints", "Endpoints in the exact prefix index."),
	}}
}

// Describe sends all descriptions.
func (m *exactMetrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range m.descs {
		out <- d
	}
}

// Collect sends the counters and gauges.
func (m *exactMetrics) Collect(out chan<- prometheus.Metric) {
	for i, c := range [...]*atomic.Uint64{&m.lookups, &m.hits, &m.orphans, &m.overflows} {
		out <- prometheus.MustNewConstMetric(m.descs[i], prometheus.CounterValue, float64(c.Load()))
	}
	s := m.index.Stats()
	out <- prometheus.MustNewConstMetric(m.descs[4], prometheus.GaugeValue, float64(s.Blocks))
	out <- prometheus.MustNewConstMetric(m.descs[5], prometheus.GaugeValue, float64(s.Endpoints))
}
