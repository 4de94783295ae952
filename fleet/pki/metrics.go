package pki

import "github.com/prometheus/client_golang/prometheus"

// collector tells of a Reloader when it is asked: what there is none of is
// absent.
type collector struct {
	reloader          *Reloader
	certificateExpiry *prometheus.Desc
	authorityExpiry   *prometheus.Desc
	unusable          *prometheus.Desc
}

func newCollector(use string, r *Reloader) collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("llmgw_pki_"+name, help, labels, prometheus.Labels{"use": use})
	}
	return collector{
		reloader:          r,
		certificateExpiry: desc("certificate_expiry_timestamp_seconds", "When the certificate in use expires."),
		authorityExpiry:   desc("authority_expiry_timestamp_seconds", "When the first of the authorities in use expires."),
		unusable:          desc("files_unusable", "1 while the files hold something that cannot be used, and what was there before is.", "what"),
	}
}

// Describe sends what Collect may send.
func (c collector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.certificateExpiry
	ch <- c.authorityExpiry
	ch <- c.unusable
}

// Collect sends what there is.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	collectPart(ch, c.reloader.pair, c.certificateExpiry, c.unusable, "certificate")
	collectPart(ch, c.reloader.bundle, c.authorityExpiry, c.unusable, "authority")
}

func collectPart[T any](ch chan<- prometheus.Metric, w *watched[T], expiry, unusable *prometheus.Desc, what string) {
	if w == nil {
		return
	}
	var failing float64
	if w.failing.Load() {
		failing = 1
	}
	ch <- prometheus.MustNewConstMetric(unusable, prometheus.GaugeValue, failing, what)
	if v, ok := w.get(); ok {
		ch <- prometheus.MustNewConstMetric(expiry, prometheus.GaugeValue, float64(w.expires(v).Unix()))
	}
}
