package gateway

import (
	"github.com/prometheus/client_golang/prometheus"
)

// exactMetrics are the metrics of exact prefix affinity, and of whose word was taken.
type exactMetrics struct {
	picks                     [sources]prometheus.Counter
	tokens                    [tokensOutcomes]prometheus.Counter
	tokenize                  prometheus.Histogram
	lag                       prometheus.Histogram
	predicted, cached, agreed prometheus.Counter
}

func newExactMetrics(x *exacts, reg prometheus.Registerer) (*exactMetrics, error) {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "llmgw_prefix_" + name, Help: help})
	}
	gauge := func(name, help string, labels prometheus.Labels, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "llmgw_prefix_" + name, Help: help, ConstLabels: labels}, value)
	}
	picks := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "llmgw_prefix_picks_total",
		Help: "Prompts that were sent to an endpoint, by from where it was known to hold a beginning of them.",
	}, []string{"source"})
	outcomes := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "llmgw_prefix_tokens_total",
		Help: "Prompts for models of which an engine tells its cache, by how their tokens were come by.",
	}, []string{"outcome"})
	m := &exactMetrics{
		tokenize: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "llmgw_prefix_tokenize_seconds",
			Help:    "How long engines took to say the tokens of a prompt.",
			Buckets: []float64{.0005, .001, .002, .003, .005, .01, .025, .05, .1, .25, .5, 1},
		}),
		lag: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "llmgw_prefix_event_lag_seconds",
			Help:    "How old KV-cache events were when they were applied, by the engines' clocks.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}),
		predicted: counter("exact_predicted_tokens_total", "Cached prompt tokens that events promised of the endpoints picked, where these then said the real number."),
		cached:    counter("exact_cached_tokens_total", "Cached prompt tokens that these endpoints said."),
		agreed:    counter("exact_agreed_tokens_total", "The smaller of the two, summed by answer."),
	}
	for s := range sources {
		m.picks[s] = picks.WithLabelValues(s.String())
	}
	for o := range tokensOutcomes {
		m.tokens[o] = outcomes.WithLabelValues(o.String())
	}
	if reg == nil {
		return m, nil
	}
	const followed = "followed_endpoints"
	const followedHelp = "Endpoints that publish KV-cache events, by whether all of their caches is known."
	all := []prometheus.Collector{
		picks, outcomes, m.tokenize, m.lag, m.predicted, m.cached, m.agreed,
		gauge(followed, followedHelp, prometheus.Labels{"known": "all"}, func() float64 { live, _ := x.followed(); return float64(live) }),
		gauge(followed, followedHelp, prometheus.Labels{"known": "part"}, func() float64 { _, rest := x.followed(); return float64(rest) }),
		gauge("tokens_bytes", "Memory of the prompts' tokens that are remembered.", nil, func() float64 { return float64(x.tokens.used()) }),
		gauge("underway", "Beginnings of prompts that are being computed.", nil, func() float64 { n, _ := x.underway.Stats(); return float64(n) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "llmgw_prefix_underway_overflows_total", Help: "Beginnings of prompts that there was no room for.",
		}, func() float64 { _, lost := x.underway.Stats(); return float64(lost) }),
	}
	for _, c := range all {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// followed returns how many followers know all of their caches, and how many do not.
func (x *exacts) followed() (live, rest int) {
	for _, f := range x.all.Load().by {
		if f.live.Load() {
			live++
		} else {
			rest++
		}
	}
	return live, rest
}
