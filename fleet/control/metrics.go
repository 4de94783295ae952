package control

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// result is what became of an order, as metrics name it.
type result uint8

const (
	_ result = iota // unset
	resultDone
	resultAlready
	resultStale
	resultRefused
	resultUnsent // see ErrNotLeader, ErrNotConnected, ErrBusy, ErrOrder
	resultUnanswered

	results = int(resultUnanswered) + 1
)

// String returns the value of the label.
func (r result) String() string {
	return [...]string{"unset", "done", "already", "stale", "refused", "unsent", "unanswered"}[r]
}

func resultOf(a Answer, err error) result {
	switch {
	case err == nil && a.Already:
		return resultAlready
	case err == nil:
		return resultDone
	case errors.Is(err, ErrStale):
		return resultStale
	case errors.Is(err, ErrRefused):
		return resultRefused
	case errors.Is(err, ErrUnanswered):
		return resultUnanswered
	}
	return resultUnsent
}

// metrics are the plane's, each label resolved once.
type metrics struct {
	registrations [3]prometheus.Counter // new, reconnect, takeover
	refused       [reasons]prometheus.Counter
	heartbeats    prometheus.Histogram
	stalls        prometheus.Counter
	dropped       prometheus.Counter
	overflows     prometheus.Counter
	journalErrors prometheus.Counter
	commands      [orderKinds][results]prometheus.Counter
	commandTime   prometheus.Histogram
}

func newMetrics(reg prometheus.Registerer, p *Plane) (*metrics, error) {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "llmgw_control_" + name, Help: help})
	}
	registrations := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "llmgw_control_registrations_total", Help: "Streams that began: of new nodes, of nodes that came back, and over streams that had not ended.",
	}, []string{"kind"})
	refused := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "llmgw_control_refused_total", Help: "Streams of agents that were refused or ended, by reason.",
	}, []string{"reason"})
	commands := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "llmgw_control_commands_total", Help: "Orders to nodes, by what became of them.",
	}, []string{"order", "result"})
	m := &metrics{
		heartbeats: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "llmgw_control_heartbeat_seconds", Help: "How long it took to take in a heartbeat.",
			Buckets: []float64{.00001, .000025, .00005, .0001, .00025, .0005, .001, .005, .025, .1, .5},
		}),
		stalls:        counter("stalls_seconds_total", "Time in which this process stood still, and no silence was counted."),
		dropped:       counter("dropped_statuses_total", "Statuses of shards for which a node had no room."),
		overflows:     counter("watch_overflows_total", "Watchers that were told that everything may have changed, for want of room."),
		journalErrors: counter("journal_errors_total", "Failures to read or save which nodes there are."),
		commandTime: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "llmgw_control_command_seconds", Help: "From an order until its answer, or until it was given up.",
			Buckets: []float64{.001, .005, .025, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}),
	}
	for i, kind := range []string{"new", "reconnect", "takeover"} {
		m.registrations[i] = registrations.WithLabelValues(kind)
	}
	for r := reasonInvalid; int(r) < reasons; r++ {
		m.refused[r] = refused.WithLabelValues(r.String())
	}
	for k := orderStart; int(k) < orderKinds; k++ {
		for r := resultDone; int(r) < results; r++ {
			m.commands[k][r] = commands.WithLabelValues(k.String(), r.String())
		}
	}
	if reg == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{
		registrations, refused, commands, m.heartbeats, m.stalls, m.dropped, m.overflows, m.journalErrors, m.commandTime, newGauges(p),
	} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *metrics) registered(comesBack, over bool) {
	switch {
	case over:
		m.registrations[2].Inc()
	case comesBack:
		m.registrations[1].Inc()
	default:
		m.registrations[0].Inc()
	}
}

func (m *metrics) heartbeat(took time.Duration) { m.heartbeats.Observe(took.Seconds()) }

func (m *metrics) ordered(k orderKind, r result, took time.Duration) {
	m.commands[k][r].Inc()
	m.commandTime.Observe(took.Seconds())
}

// gauges are read from the table when they are asked for.
type gauges struct {
	plane                   *Plane
	nodes, streams, waiting *prometheus.Desc
}

func newGauges(p *Plane) *gauges {
	return &gauges{
		plane:   p,
		nodes:   prometheus.NewDesc("llmgw_control_nodes", "Nodes, by what their silence amounts to.", []string{"state"}, nil),
		streams: prometheus.NewDesc("llmgw_control_streams", "Streams of agents that registered.", nil, nil),
		waiting: prometheus.NewDesc("llmgw_control_commands_waiting", "Orders that have no answer yet.", nil, nil),
	}
}

// Describe is for prometheus.
func (g *gauges) Describe(ch chan<- *prometheus.Desc) {
	ch <- g.nodes
	ch <- g.streams
	ch <- g.waiting
}

// Collect is for prometheus.
func (g *gauges) Collect(ch chan<- prometheus.Metric) {
	p := g.plane
	var nodes [states]int
	p.mu.Lock()
	for _, n := range p.fleet.order {
		nodes[n.state]++
	}
	streams, waiting := len(p.streams)-p.unregistered, len(p.calls)
	p.mu.Unlock()
	for s := Expected; int(s) < states; s++ {
		ch <- prometheus.MustNewConstMetric(g.nodes, prometheus.GaugeValue, float64(nodes[s]), s.String())
	}
	ch <- prometheus.MustNewConstMetric(g.streams, prometheus.GaugeValue, float64(streams))
	ch <- prometheus.MustNewConstMetric(g.waiting, prometheus.GaugeValue, float64(waiting))
}
