package kvevents

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are a subscriber's counters. Those with the same registerer share
// them: which engine it was, the log says.
type metrics struct {
	batches, bytes prometheus.Counter
	events         [KindCleared + 1]prometheus.Counter // [0] unknown types
	resets         [reasons]prometheus.Counter
	replays        [outcomes]prometheus.Counter
	connected      prometheus.Gauge
	failures       prometheus.Counter
}

// outcome is how a replay ended.
type outcome uint8

const (
	outcomeFilled outcome = iota // all that was asked for came
	outcomeTooOld                // the first of it was gone
	outcomeFailed                // no connection, no end, or nonsense

	outcomes
)

func (o outcome) String() string { return [outcomes]string{"filled", "too_old", "failed"}[o] }

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "llmgw_kvevents_" + name, Help: help}, labels)
	}
	events := counter("events_total", "Events that engines told of their KV caches.", "kind")
	resets := counter("resets_total", "Times that what was learned of an engine's KV cache was void.", "reason")
	replays := counter("replays_total", "Requests to engines for batches that were missed, by how they ended.", "outcome")
	batches := counter("batches_total", "Batches of KV-cache events that were applied or could not be read.")
	bytes := counter("received_bytes_total", "Payload of these batches.")
	failures := counter("connection_failures_total", "Connections to engines' KV events that ended or could not be made.")
	connected := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "llmgw_kvevents_connected", Help: "Engines and ranks whose KV events are being followed.",
	}, nil)
	if reg != nil {
		for _, v := range []**prometheus.CounterVec{&events, &resets, &replays, &batches, &bytes, &failures} {
			if err := share(reg, v); err != nil {
				return nil, err
			}
		}
		if err := share(reg, &connected); err != nil {
			return nil, err
		}
	}
	m := &metrics{
		batches: batches.WithLabelValues(), bytes: bytes.WithLabelValues(),
		failures: failures.WithLabelValues(), connected: connected.WithLabelValues(),
	}
	m.events[0] = events.WithLabelValues("unknown")
	for k := KindStored; k <= KindCleared; k++ {
		m.events[k] = events.WithLabelValues(k.String())
	}
	for r := ReasonGap; r < reasons; r++ {
		m.resets[r] = resets.WithLabelValues(r.String())
	}
	for o := range outcomes {
		m.replays[o] = replays.WithLabelValues(o.String())
	}
	return m, nil
}

// share registers *c, or takes the one that is registered.
func share[C prometheus.Collector](reg prometheus.Registerer, c *C) error {
	err := reg.Register(*c)
	already, ok := errors.AsType[prometheus.AlreadyRegisteredError](err)
	if !ok {
		return err
	}
	existing, ok := already.ExistingCollector.(C)
	if !ok {
		return fmt.Errorf("kvevents: a metric of another type is registered: %w", err)
	}
	*c = existing
	return nil
}
