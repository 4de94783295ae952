package plugin

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmgw/llmgw/engines"
)

// outcome is how a call ended, as metrics name it.
type outcome uint8

const (
	_ outcome = iota // unset
	// outcomeOK: there is an answer.
	outcomeOK
	// outcomeRefused: the profile cannot run, [engines.ErrProfile].
	outcomeRefused
	// outcomeInvalid: the answer was not valid, [engines.ErrAnswer].
	outcomeInvalid
	// outcomeUnavailable: the adapter was away, [engines.ErrUnavailable].
	outcomeUnavailable
	// outcomeCanceled: the caller gave up.
	outcomeCanceled
	// outcomeFailed: any other error of the adapter's.
	outcomeFailed
)

// String returns the value of the label.
func (o outcome) String() string {
	names := [...]string{"unset", "ok", "refused", "invalid", "unavailable", "canceled", "failed"}
	return names[o]
}

func outcomeOf(ctx context.Context, err error) outcome {
	switch {
	case err == nil:
		return outcomeOK
	case ctx.Err() != nil:
		return outcomeCanceled
	case errors.Is(err, engines.ErrProfile):
		return outcomeRefused
	case errors.Is(err, engines.ErrAnswer):
		return outcomeInvalid
	case errors.Is(err, engines.ErrUnavailable):
		return outcomeUnavailable
	}
	return outcomeFailed
}

// metrics are labelled by adapters' names: those that are built in or have a program.
type metrics struct {
	up       *prometheus.GaugeVec
	restarts *prometheus.CounterVec
	calls    *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		up: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "llmgw_plugin_up",
			Help: "Whether an engine adapter that is in use runs; absent for one that is not in use.",
		}, []string{"adapter"}),
		restarts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "llmgw_plugin_restarts_total",
			Help: "Times that an engine adapter ended by itself, hung or did not start, and was started again.",
		}, []string{"adapter"}),
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "llmgw_plugin_calls_total",
			Help: "Calls of engine adapters by method and outcome: ok, refused, invalid, unavailable, canceled, failed.",
		}, []string{"adapter", "method", "outcome"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "llmgw_plugin_call_duration_seconds",
			Help:    "How long calls of engine adapters took, the wait for a start included.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}, []string{"adapter", "method"}),
	}
	if reg == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.up, m.restarts, m.calls, m.duration} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *metrics) call(adapter, method string, o outcome, took time.Duration) {
	m.calls.WithLabelValues(adapter, method, o.String()).Inc()
	m.duration.WithLabelValues(adapter, method).Observe(took.Seconds())
}
