package engines

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Aggregation says how the series of one metric become one number, since an
// engine with several data-parallel ranks exports one series a rank.
type Aggregation uint8

const (
	// AggregateUnset is the zero value and valid only in a zero [Metric].
	AggregateUnset Aggregation = iota
	// AggregateSum adds the series: counts.
	AggregateSum
	// AggregateMax takes the greatest: fractions, where the fullest rank is
	// the one that refuses or preempts.
	AggregateMax
	// AggregateMean takes the arithmetic mean.
	AggregateMean
)

// String returns "sum", "max", "mean" or "unset".
func (a Aggregation) String() string {
	switch a {
	case AggregateSum:
		return "sum"
	case AggregateMax:
		return "max"
	case AggregateMean:
		return "mean"
	case AggregateUnset:
	}
	return "unset"
}

// Metric says where one number stands on an engine's metrics page. The zero
// value means that the engine does not export it.
type Metric struct {
	// Names are the candidates, newest first: engines rename metrics from one
	// release to the next. The first one that is on the page wins, however
	// many of the others are there too.
	Names []string
	// Also are further names whose series are added to the result where they
	// are present; they alone make no reading.
	Also []string
	// Labels must hold for a series to count: a label that the series carries
	// must have this value. A label that the series lacks passes, because
	// older versions had fewer labels.
	Labels map[string]string
	// Factors are labels whose numbers, multiplied, count in place of a series'
	// value, for what an engine tells in labels only. A series that lacks one, or
	// has no number of 0 or more there, does not count. Nil: the value counts.
	Factors []string
	// Aggregate joins the series that count.
	Aggregate Aggregation
}

// Exported reports whether the engine has the metric at all.
func (m Metric) Exported() bool { return len(m.Names) > 0 }

// MetricContract says how the load of one engine is read: a page in
// Prometheus text format at Path, and which series on it mean what.
type MetricContract struct {
	// Engine is the engine that exports the page.
	Engine Name
	// Path is the page's path below the engine's base URL, such as
	// "/metrics".
	Path string
	// Prefix is what the name of every series of the contract begins with; a
	// page is recognised by it.
	Prefix string
	// NeedsKey reports that the page is served only to callers with the
	// engine's API key.
	NeedsKey bool

	// UsuallyRuns is how many requests the engine runs at once with its usual
	// settings: an assumption until it is seen to run otherwise. 0: its settings
	// name no number, or it depends on the hardware alone.
	UsuallyRuns int

	// The fields of [Load], in the same units.
	Running, Waiting, MaxRunning       Metric
	KVUsed                             Metric
	PrefixQueryTokens, PrefixHitTokens Metric
	Preemptions                        Metric
	KVCapacityTokens                   Metric
}

// Validate reports every fault of the contract, joined: no path, no prefix,
// nothing to read, a name outside the prefix, an unset aggregation, or a negative
// number of requests.
func (c MetricContract) Validate() error {
	var errs []error
	if !strings.HasPrefix(c.Path, "/") {
		errs = append(errs, fmt.Errorf("path: %q must begin with /", c.Path))
	}
	if c.Prefix == "" {
		errs = append(errs, errors.New("prefix: is empty; want what all names begin with"))
	}
	if c.UsuallyRuns < 0 {
		errs = append(errs, fmt.Errorf("usually_runs: %d is negative; want 0 (unknown) or more", c.UsuallyRuns))
	}
	metrics := []struct {
		key    string
		metric Metric
	}{
		{"running", c.Running},
		{"waiting", c.Waiting},
		{"max_running", c.MaxRunning},
		{"kv_used", c.KVUsed},
		{"prefix_query_tokens", c.PrefixQueryTokens},
		{"prefix_hit_tokens", c.PrefixHitTokens},
		{"preemptions", c.Preemptions},
		{"kv_capacity_tokens", c.KVCapacityTokens},
	}
	exported := 0
	for _, m := range metrics {
		if !m.metric.Exported() {
			continue
		}
		exported++
		if m.metric.Aggregate == AggregateUnset || m.metric.Aggregate > AggregateMean {
			errs = append(errs, fmt.Errorf("%s: aggregation %s; want sum, max or mean", m.key, m.metric.Aggregate))
		}
		for _, name := range slices.Concat(m.metric.Names, m.metric.Also) {
			if !strings.HasPrefix(name, c.Prefix) {
				errs = append(errs, fmt.Errorf("%s: name %q does not begin with %q", m.key, name, c.Prefix))
			}
		}
	}
	if exported == 0 {
		errs = append(errs, errors.New("running: no metric is named; want at least one of them"))
	}
	return errors.Join(errs...)
}
