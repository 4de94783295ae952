package record

import "github.com/prometheus/client_golang/prometheus"

// metrics read a log's counts when they are collected, so that Append pays for
// none of them.
type metrics struct {
	log *Log

	appended, dropped, errors, bytes, segments *prometheus.Desc
}

func newMetrics(l *Log) *metrics {
	return &metrics{
		log:      l,
		appended: prometheus.NewDesc("llmgw_record_appended_total", "Records taken.", nil, nil),
		dropped: prometheus.NewDesc("llmgw_record_dropped_total",
			"Records that are not in the log, by reason (full, invalid, closed, lost: taken, and could not be written at the end).", []string{"reason"}, nil),
		errors:   prometheus.NewDesc("llmgw_record_disk_errors_total", "Times that writing the log, or keeping it within its bounds, failed.", nil, nil),
		bytes:    prometheus.NewDesc("llmgw_record_bytes", "Bytes of the log's segments.", nil, nil),
		segments: prometheus.NewDesc("llmgw_record_segments", "Files of the log.", nil, nil),
	}
}

// Describe sends what there is.
func (m *metrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.appended, m.dropped, m.errors, m.bytes, m.segments} {
		out <- d
	}
}

// Collect sends the counts.
func (m *metrics) Collect(out chan<- prometheus.Metric) {
	counter := func(d *prometheus.Desc, v uint64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	gauge := func(d *prometheus.Desc, v int64) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v))
	}
	s := m.log.buffer.counts()
	counter(m.appended, s.Appended)
	counter(m.dropped, s.Full, "full")
	counter(m.dropped, s.Invalid, "invalid")
	counter(m.dropped, s.Closed, "closed")
	counter(m.dropped, s.Lost, "lost")
	counter(m.errors, m.log.diskErrors.Load())
	gauge(m.bytes, m.log.bytes.Load())
	gauge(m.segments, m.log.segments.Load())
}
