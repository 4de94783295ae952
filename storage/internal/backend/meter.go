package backend

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmgw/llmgw/storage"
)

// Meter counts calls of a store. The zero Meter counts nothing.
type Meter struct {
	calls   *prometheus.CounterVec
	seconds *prometheus.HistogramVec
}

// NewMeter returns a Meter whose metrics reg has; nil counts nothing. up says whether
// calls are let through.
func NewMeter(reg prometheus.Registerer, up func() bool) (Meter, error) {
	if reg == nil {
		return Meter{}, nil
	}
	m := Meter{
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "llmgw_store_operations_total", Help: "Calls of the store, by how they ended.",
		}, []string{"operation", "outcome"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "llmgw_store_operation_seconds", Help: "How long calls of the store took, however they ended.",
			Buckets: []float64{.0005, .001, .005, .01, .05, .1, .5, 1, 5, 15},
		}, []string{"operation"}),
	}
	state := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "llmgw_store_up", Help: "1 while the store is open and reached; 0 while every call is refused.",
	}, func() float64 {
		if up() {
			return 1
		}
		return 0
	})
	var errs []error
	for _, c := range []prometheus.Collector{m.calls, m.seconds, state} {
		errs = append(errs, reg.Register(c))
	}
	if err := errors.Join(errs...); err != nil {
		return Meter{}, fmt.Errorf("register metrics: %w", err)
	}
	return m, nil
}

// Ended enters a call that began then. operation is one of a store's few, in words.
func (m Meter) Ended(operation string, began time.Time, err error) {
	if m.calls == nil {
		return
	}
	operation = names.Replace(operation)
	m.calls.WithLabelValues(operation, outcome(err)).Inc()
	m.seconds.WithLabelValues(operation).Observe(time.Since(began).Seconds())
}

var names = strings.NewReplacer(" ", "_", "-", "") //nolint:gochecknoglobals // a constant

// outcome is what became of a call, as the metric spells it.
func outcome(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, context.Canceled):
		return "canceled"
	case errors.Is(err, storage.ErrNotFound):
		return "not_found"
	case errors.Is(err, storage.ErrExists):
		return "exists"
	case errors.Is(err, storage.ErrFull):
		return "full"
	case errors.Is(err, storage.ErrConflict):
		return "conflict"
	case errors.Is(err, storage.ErrBudgetSpent):
		return "budget_spent"
	case errors.Is(err, storage.ErrSchema):
		return "schema"
	case errors.Is(err, storage.ErrInvalid):
		return "invalid"
	default:
		return "unavailable"
	}
}
