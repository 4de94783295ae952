package schedule

import (
	"math"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// Outcome is how a decision ended.
type Outcome uint8

const (
	// OutcomeUnset is the zero value and no outcome.
	OutcomeUnset Outcome = iota
	// OutcomePicked: an endpoint was chosen and its place reserved.
	OutcomePicked
	// OutcomeNoEndpoint: the filters left none; ErrNoEndpoint, status 503.
	OutcomeNoEndpoint
	// OutcomeBadScore: a scorer or picker misbehaved; ErrBadScore, status 500.
	OutcomeBadScore
	outcomes
)

// String returns the outcome as metrics spell it.
func (o Outcome) String() string {
	switch o {
	case OutcomePicked:
		return "picked"
	case OutcomeNoEndpoint:
		return "no_endpoint"
	case OutcomeBadScore:
		return "bad_score"
	}
	return "unset"
}

// prefixOutcome is what a decision made of what is known of its prompt's prefix.
type prefixOutcome uint8

const (
	prefixNone     prefixOutcome = iota // no candidate holds any of it
	prefixFollowed                      // the pick holds as much as any candidate
	prefixYielded                       // the one that holds most is too busy
	prefixOutvoted                      // another was better all the same
	prefixOutcomes
)

// String returns the outcome as metrics spell it.
func (o prefixOutcome) String() string {
	return [prefixOutcomes]string{"none", "followed", "yielded", "outvoted"}[o]
}

// voteBuckets is how many equal buckets the votes of [0,1] are counted in.
const voteBuckets = 10

// voteStats counts the votes that one scorer gave to picked endpoints.
type voteStats struct {
	buckets [voteBuckets]atomic.Uint64
	nanos   atomic.Uint64 // sum of the votes, in 10^-9
}

func (s *voteStats) observe(vote float64) {
	s.buckets[max(int(math.Ceil(vote*voteBuckets))-1, 0)].Add(1)
	s.nanos.Add(uint64(vote * 1e9))
}

// profileStats counts one profile's decisions. The request path only adds to
// atomics that it reaches by index; labels meet them when metrics are read.
type profileStats struct {
	outcomes [outcomes]atomic.Uint64
	again    atomic.Uint64
	drops    []atomic.Uint64 // by filter
	votes    []voteStats     // by scorer
	prefixes [prefixOutcomes]atomic.Uint64
}

func newProfileStats(filters, scorers int) *profileStats {
	return &profileStats{
		drops: make([]atomic.Uint64, filters),
		votes: make([]voteStats, scorers),
	}
}

// collector reads a scheduler's counters when metrics are collected.
type collector struct {
	profiles []*compiled

	decisions, again, drops, votes, prefixes *prometheus.Desc
}

func newCollector(profiles []*compiled) *collector {
	return &collector{
		profiles: profiles,
		decisions: prometheus.NewDesc("llmgw_schedule_decisions_total",
			"Decisions, by how they ended.", []string{"profile", "outcome"}, nil),
		again: prometheus.NewDesc("llmgw_schedule_reconsidered_total",
			"Times that a decision was made again because another took its pick.", []string{"profile"}, nil),
		drops: prometheus.NewDesc("llmgw_schedule_filter_drops_total",
			"Endpoints that a filter took out of a decision, of those that were looked at.", []string{"profile", "filter"}, nil),
		votes: prometheus.NewDesc("llmgw_schedule_vote_ratio",
			"A scorer's votes on the endpoints that were picked.", []string{"profile", "scorer"}, nil),
		prefixes: prometheus.NewDesc("llmgw_schedule_prefix_decisions_total",
			"Decisions on prompts whose prefix was looked up, by what came of it: none held it, the pick did, the one that held most yielded for being busy or was outvoted.",
			[]string{"profile", "result"}, nil),
	}
}

// Describe sends nothing, so that several schedulers with profiles of their own
// can share a registry.
func (*collector) Describe(chan<- *prometheus.Desc) {}

// Collect sends the counters.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	counter := func(d *prometheus.Desc, v uint64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	for _, p := range c.profiles {
		for o := OutcomePicked; o < outcomes; o++ {
			counter(c.decisions, p.stats.outcomes[o].Load(), p.Name, o.String())
		}
		counter(c.again, p.stats.again.Load(), p.Name)
		for o := range prefixOutcomes {
			counter(c.prefixes, p.stats.prefixes[o].Load(), p.Name, o.String())
		}
		for i, name := range p.blames {
			counter(c.drops, p.stats.drops[i].Load(), p.Name, name)
		}
		for i, s := range p.Scorers {
			stats := &p.stats.votes[i]
			var count uint64
			buckets := make(map[float64]uint64, voteBuckets)
			for b := range stats.buckets {
				count += stats.buckets[b].Load()
				buckets[float64(b+1)/voteBuckets] = count
			}
			sum := float64(stats.nanos.Load()) / 1e9
			out <- prometheus.MustNewConstHistogram(c.votes, count, sum, buckets, p.Name, s.Scorer.Name())
		}
	}
}
