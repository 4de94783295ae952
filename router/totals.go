package router

import (
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// ModelTotals are what the requests for one model came to since the router was made.
type ModelTotals struct {
	// Model is the canonical name; empty: of requests that named no model that may be
	// used.
	Model string
	// Results count the requests that have ended, by [Result].
	Results [len(resultNames)]uint64
	// PromptTokens and OutputTokens are those that engines counted. An engine that
	// counts none adds none.
	PromptTokens, OutputTokens uint64
}

// Totals returns the totals of all models for which a request has ended, in no order.
// They are read from the metrics' own counters: the request path does nothing for them.
// Counters of one model may be some requests apart.
func (rt *Router) Totals() []ModelTotals {
	var out []ModelTotals
	read := counterReader{}
	add := func(name string, m *modelMetrics) {
		t := ModelTotals{Model: name, PromptTokens: read.counter(m.prompt), OutputTokens: read.counter(m.generated)}
		ended := uint64(0)
		for r, c := range m.results {
			if c != nil {
				t.Results[r] = read.counter(c)
				ended += t.Results[r]
			}
		}
		if ended > 0 {
			out = append(out, t)
		}
	}
	add("", rt.metrics.nobody)
	rt.metrics.models.Range(func(name, m any) bool {
		if name != "" {
			add(name.(string), m.(*modelMetrics))
		}
		return true
	})
	return out
}

// counterReader reads counters.
type counterReader struct{ metric dto.Metric }

// counter returns the value of one that counts whole numbers.
func (r *counterReader) counter(c prometheus.Counter) uint64 {
	r.metric.Reset()
	if c.Write(&r.metric) != nil {
		return 0 // a counter can always be read
	}
	return uint64(r.metric.GetCounter().GetValue())
}
