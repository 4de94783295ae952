package auth

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are counts that are read when they are collected.
type metrics struct {
	passed                       atomic.Uint64
	refused                      [reasons]atomic.Uint64
	found, notFound, failed      atomic.Uint64 // reads of the store
	stale                        atomic.Uint64
	queueFull                    atomic.Uint64
	evictedKnown, evictedRefused atomic.Uint64
}

type collector struct {
	auth *Authenticator

	requests, reads, stale, full, evictions, held, away *prometheus.Desc
}

func newCollector(a *Authenticator) *collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("llmgw_auth_"+name, help, labels, nil)
	}
	return &collector{
		auth: a,
		requests: desc("requests_total", "Requests by what became of their key: ok, or the reason for which they were refused.",
			"outcome"),
		reads: desc("store_reads_total", "Keys that the store was asked for, by its answer (found, not_found, failed).", "result"),
		stale: desc("stale_total", "Requests of known keys served on a word of the store older than cache_ttl, because it did not answer."),
		full:  desc("lookup_queue_full_total", "Requests that could not be looked up because too many unknown keys waited to be."),
		evictions: desc("evictions_total", "Keys that left memory because there were more than the bound, by kind (known, refused).",
			"kind"),
		held: desc("held_keys", "Keys in memory, by kind (known, refused).", "kind"),
		away: desc("store_away", "1 while the store does not answer."),
	}
}

// Describe sends what there is.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.requests, c.reads, c.stale, c.full, c.evictions, c.held, c.away} {
		out <- d
	}
}

// Collect sends the counts.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	counter := func(d *prometheus.Desc, v *atomic.Uint64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v.Load()), labels...)
	}
	gauge := func(d *prometheus.Desc, v int, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), labels...)
	}
	m := &c.auth.metrics
	counter(c.requests, &m.passed, "ok")
	for r := ReasonMissing; r < reasons; r++ {
		counter(c.requests, &m.refused[r], r.String())
	}
	counter(c.reads, &m.found, "found")
	counter(c.reads, &m.notFound, "not_found")
	counter(c.reads, &m.failed, "failed")
	counter(c.stale, &m.stale)
	counter(c.full, &m.queueFull)
	counter(c.evictions, &m.evictedKnown, "known")
	counter(c.evictions, &m.evictedRefused, "refused")
	c.auth.mu.Lock()
	known, refused := len(c.auth.known.ring), len(c.auth.refused.items)
	c.auth.mu.Unlock()
	gauge(c.held, known, "known")
	gauge(c.held, refused, "refused")
	away := 0
	if c.auth.away.Load() != 0 {
		away = 1
	}
	gauge(c.away, away)
}

// noticeEvery is how often a refusal for one reason is logged at most.
const noticeEvery = 10 * time.Second

// notices bounds what is logged of refusals, whatever comes. ReasonUnset stands
// for records that cannot be read.
type notices struct {
	next [reasons]atomic.Int64  // when one may be logged again, since the authenticator's beginning
	left [reasons]atomic.Uint64 // how many were not logged since the last
}

// allow reports whether a refusal is logged, and how many were not before it.
func (n *notices) allow(r Reason, since time.Duration) (left uint64, ok bool) {
	next := n.next[r].Load()
	// Zero is never: the clock may stand before the beginning in a test.
	if next != 0 && int64(since) < next || !n.next[r].CompareAndSwap(next, int64(since+noticeEvery)) {
		n.left[r].Add(1)
		return 0, false
	}
	return n.left[r].Swap(0), true
}
