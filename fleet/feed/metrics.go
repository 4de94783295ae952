package feed

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// publisherMetrics are those of the publishing end.
type publisherMetrics struct {
	versions, snapshots, overflows, resyncs, reports, ignored, ignoredDemands prometheus.Counter

	refused [reasons]prometheus.Counter
}

func newPublisherMetrics(reg prometheus.Registerer, p *Publisher) (*publisherMetrics, error) {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "llmgw_feed_publisher_" + name, Help: help})
	}
	refused := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "llmgw_feed_publisher_refused_total", Help: "Streams and reports of routers that were refused, by reason.",
	}, []string{"reason"})
	m := &publisherMetrics{
		versions:  counter("versions_total", "Versions that were published."),
		snapshots: counter("snapshots_total", "Times that a router was sent everything."),
		overflows: counter("overflows_total", "Times that a router read so slowly that it is sent everything in place of each change."),
		resyncs:   counter("resyncs_total", "Times that a router missed a change and asked for everything."),
		reports:   counter("reports_total", "Reports of routers that were taken."),
		ignored:   counter("ignored_uses_total", "Instances in reports that cannot be, or for which there was no room."),

		ignoredDemands: counter("ignored_demands_total", "Models in reports of demand whose names cannot be."),
	}
	for r := reasonInvalid; int(r) < reasons; r++ {
		m.refused[r] = refused.WithLabelValues(r.String())
	}
	return m, register(reg, refused, m.versions, m.snapshots, m.overflows, m.resyncs, m.reports, m.ignored, m.ignoredDemands, publisherGauges{p})
}

// register registers all, if there is where.
func register(reg prometheus.Registerer, all ...prometheus.Collector) error {
	if reg == nil {
		return nil
	}
	for _, c := range all {
		if err := reg.Register(c); err != nil {
			return err
		}
	}
	return nil
}

// publisherGauges are read from the publisher when they are asked for.
type publisherGauges struct{ publisher *Publisher }

// Describe sends nothing: what is not known has no series.
func (publisherGauges) Describe(chan<- *prometheus.Desc) {}

// Collect sends how many routers there are, and how far the slowest is behind.
func (g publisherGauges) Collect(out chan<- prometheus.Metric) {
	p := g.publisher
	p.mu.Lock()
	connected, silent, entries, leads := 0, 0, len(p.table.entries), p.leads
	var behind, seq uint64 = 0, p.seq
	for _, r := range p.routers {
		if r.session == nil {
			silent++
			continue
		}
		connected++
		lag := seq
		if r.applied.Cluster == p.cluster && r.applied.Term == p.term {
			lag -= min(r.applied.Seq, seq)
		}
		behind = max(behind, lag)
	}
	p.mu.Unlock()
	send := func(name, help string, v float64, labels ...string) {
		var names []string
		if len(labels) > 0 {
			names = []string{"state"}
		}
		out <- prometheus.MustNewConstMetric(prometheus.NewDesc("llmgw_feed_publisher_"+name, help, names, nil), prometheus.GaugeValue, v, labels...)
	}
	const routers = "Routers that live: that have a stream, and that lost theirs and count until their lease is over."
	send("routers", routers, float64(connected), "connected")
	send("routers", routers, float64(silent), "silent")
	if leads && seq > 0 {
		send("entries", "Replicas that are published.", float64(entries))
	}
	if connected > 0 {
		send("versions_behind", "Versions that the slowest router with a stream has not said it goes by.", float64(behind))
	}
}

// followerMetrics are those of a router's end.
type followerMetrics struct {
	frames     [4]prometheus.Counter // by outcome
	bad        [3]prometheus.Counter // stale, foreign, malformed
	lost       prometheus.Counter
	copyErrors prometheus.Counter
}

func newFollowerMetrics(reg prometheus.Registerer, f *Follower) (*followerMetrics, error) {
	frames := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "llmgw_feed_frames_total", Help: "Frames of the feed that were taken, by what came of them.",
	}, []string{"outcome"})
	bad := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "llmgw_feed_refused_frames_total", Help: "Frames of the feed that were refused: of a lower term, of another cluster, or not to be understood.",
	}, []string{"reason"})
	m := &followerMetrics{
		lost:       prometheus.NewCounter(prometheus.CounterOpts{Name: "llmgw_feed_lost_total", Help: "Times that the feed was lost, could not be reached, or was refused."}),
		copyErrors: prometheus.NewCounter(prometheus.CounterOpts{Name: "llmgw_feed_copy_errors_total", Help: "Times that the copy of the feed could not be used or saved."}),
	}
	for o := range m.frames {
		m.frames[o] = frames.WithLabelValues(outcome(o).String()) //nolint:gosec // four of them
	}
	for i, reason := range []string{"stale", "foreign", "malformed"} {
		m.bad[i] = bad.WithLabelValues(reason)
	}
	return m, register(reg, frames, bad, m.lost, m.copyErrors, followerGauges{f})
}

// frame counts a frame.
func (m *followerMetrics) frame(o outcome, err error) {
	switch {
	case err == nil:
		m.frames[o].Inc()
	case errors.Is(err, ErrStale):
		m.bad[0].Inc()
	case errors.Is(err, ErrForeign):
		m.bad[1].Inc()
	default:
		m.bad[2].Inc()
	}
}

// followerGauges are read from the follower when they are asked for.
type followerGauges struct{ follower *Follower }

// Describe sends nothing: what is not known has no series.
func (followerGauges) Describe(chan<- *prometheus.Desc) {}

// Collect sends how the follower stands.
func (g followerGauges) Collect(out chan<- prometheus.Metric) {
	s := g.follower.Stats()
	state, _ := g.follower.State()
	send := func(name, help string, v float64) {
		out <- prometheus.MustNewConstMetric(prometheus.NewDesc("llmgw_feed_"+name, help, nil, nil), prometheus.GaugeValue, v)
	}
	flag := func(b bool) float64 {
		if b {
			return 1
		}
		return 0
	}
	send("connected", "1 while the feed is followed, 0 while this router serves by what it knows.", flag(s.Connected != ""))
	if age, known := s.Age.Get(); known {
		send("age_seconds", "Since the last frame of the feed.", age.Seconds())
	}
	if !state.Known() {
		return
	}
	send("term", "Term of what this router knows.", float64(s.Version.Term))
	send("seq", "Sequence within the term of what this router knows.", float64(s.Version.Seq))
	send("entries", "Replicas that this router knows.", float64(len(state.Entries)))
	send("unverified", "1 while this router serves from its copy, which no control plane has confirmed since its start.", flag(s.Unverified))
}
