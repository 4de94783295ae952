package provider

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmgw/llmgw/storage"
)

// What became of a registration, as the metric's label.
const (
	registrationLeased = iota
	registrationWarned
	registrationStatic
	registrationRefused

	registrationOutcomes
)

type metrics struct {
	registrations [registrationOutcomes]prometheus.Counter
	changes       [changes]prometheus.Counter
	probes        [reasons]prometheus.Counter // 0: answered
	seconds       prometheus.Histogram
	writeErrors   prometheus.Counter
}

func newMetrics(reg prometheus.Registerer, r *Registry) (*metrics, error) {
	m := &metrics{
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "llmgw_provider_probe_seconds", Help: "How long providers took to say what they serve, or not to.",
			Buckets: []float64{.005, .025, .1, .25, .5, 1, 2.5, 5, 10},
		}),
		writeErrors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "llmgw_provider_write_errors_total", Help: "Changes of providers that the store did not take at the first try.",
		}),
	}
	registrations := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "llmgw_provider_registrations_total", Help: "Registrations of agents, by what became of them.",
	}, []string{"outcome"})
	for i, outcome := range [registrationOutcomes]string{"leased", "warned", "static", "refused"} {
		m.registrations[i] = registrations.WithLabelValues(outcome)
	}
	happened := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "llmgw_provider_changes_total", Help: "What happened to providers.",
	}, []string{"change"})
	for c := ChangeRegistered; int(c) < changes; c++ {
		m.changes[c] = happened.WithLabelValues(c.String())
	}
	probes := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "llmgw_provider_probes_total", Help: "How often providers were asked what they serve, by what came of it.",
	}, []string{"outcome"})
	m.probes[0] = probes.WithLabelValues("ok")
	for i := ReasonUnreached; int(i) < reasons; i++ {
		m.probes[i] = probes.WithLabelValues(i.String())
	}
	if reg == nil {
		return m, nil
	}
	var errs []error
	for _, c := range []prometheus.Collector{registrations, happened, probes, m.seconds, m.writeErrors, collector{r}} {
		errs = append(errs, reg.Register(c))
	}
	return m, errors.Join(errs...)
}

func (m *metrics) registered(r Registration, err error) {
	switch {
	case err != nil:
		m.registrations[registrationRefused].Inc()
	case !r.Leased:
		m.registrations[registrationStatic].Inc()
	case r.Warning != "":
		m.registrations[registrationWarned].Inc()
	default:
		m.registrations[registrationLeased].Inc()
	}
}

func (m *metrics) probed(began time.Time, err error) {
	m.seconds.Observe(time.Since(began).Seconds())
	if e, ok := errors.AsType[*ProbeError](err); ok {
		m.probes[e.Reason].Inc()
		return
	}
	m.probes[0].Inc()
}

// collector tells of the providers when it is asked.
type collector struct{ r *Registry }

//nolint:gochecknoglobals // constants
var (
	descProviders = prometheus.NewDesc("llmgw_provider_providers",
		"Providers by kind and state: well; degraded, which serve nothing; drifted, which serve less than they did; failing, whose failure is advice.", []string{"kind", "state"}, nil)
	descLate = prometheus.NewDesc("llmgw_provider_sweep_late_seconds",
		"How long the provider is due that waits longest to be asked.", nil, nil)
	descWaiting = prometheus.NewDesc("llmgw_provider_writes_waiting",
		"Changes that wait for the store.", nil, nil)
)

// Describe implements [prometheus.Collector].
func (c collector) Describe(ch chan<- *prometheus.Desc) {
	ch <- descProviders
	ch <- descLate
	ch <- descWaiting
}

// Collect implements [prometheus.Collector].
func (c collector) Collect(ch chan<- prometheus.Metric) {
	s := c.r.Snapshot()
	type series struct {
		kind  storage.ProviderKind
		state string
	}
	n := make(map[series]int)
	for kind := storage.ProviderDynamic; kind <= storage.ProviderCloud; kind++ {
		n[series{kind, "well"}], n[series{kind, "drifted"}] = 0, 0
		if kind == storage.ProviderDynamic {
			n[series{kind, "degraded"}] = 0
		} else {
			n[series{kind, "failing"}] = 0
		}
	}
	for i := range s.Providers {
		n[series{s.Providers[i].Kind, s.Providers[i].State()}]++
	}
	for k, count := range n {
		ch <- prometheus.MustNewConstMetric(descProviders, prometheus.GaugeValue, float64(count), k.kind.String(), k.state)
	}
	ch <- prometheus.MustNewConstMetric(descLate, prometheus.GaugeValue, s.Late.Seconds())
	ch <- prometheus.MustNewConstMetric(descWaiting, prometheus.GaugeValue, float64(c.r.queue.waiting()))
}
