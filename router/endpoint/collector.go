package endpoint

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// collector reads a set when metrics are collected, so that the series of an
// endpoint go when it goes. What was not measured has no series.
type collector struct {
	set *Set
	now func() time.Time
}

// desc describes one family with the labels that every endpoint has.
func desc(name, help string, more ...string) *prometheus.Desc {
	return prometheus.NewDesc("llmgw_endpoint_"+name, help, append([]string{"endpoint", "pool"}, more...), nil)
}

// Describe sends nothing: the families are unchecked, since which of them
// appear depends on what the engines export.
func (collector) Describe(chan<- *prometheus.Desc) {}

// Collect sends the state of every endpoint in the set.
func (c collector) Collect(out chan<- prometheus.Metric) {
	var (
		inflight = desc("inflight_requests", "Requests of this router that are in flight.")
		weight   = desc("weight_ratio", "Configured share of the load beside other endpoints of a model.")
		state    = desc("state", "1 for the state that the endpoint's breaker is in.", "state")
		openings = desc("breaker_openings_total", "Times that the breaker opened.")
		cools    = desc("cooldowns_total", "Times that the engine asked for time by 429 or 503.")
		failures = desc("recent_failures", "Failures that weigh on the endpoint, each halved every cooldown.")
		used     = desc("last_used_timestamp_seconds", "When a request was last sent there.")
		running  = desc("engine_running_requests", "Requests that the engine runs, as it said.")
		waiting  = desc("engine_waiting_requests", "Requests that the engine holds back, as it said.")
		kv       = desc("engine_kv_used_ratio", "Used share of the engine's KV cache, as it said.")
		asked    = desc("engine_prefix_query_tokens_total", "Prompt tokens the engine looked up in its prefix cache, as it said.")
		hit      = desc("engine_prefix_hit_tokens_total", "Prompt tokens the engine found in its prefix cache, as it said.")
		preempt  = desc("engine_preemptions_total", "Requests the engine threw out of its batch, as it said.")
		room     = desc("engine_kv_capacity_tokens", "Tokens that the engine's KV cache has room for, as it said.")
		measured = desc("load_timestamp_seconds", "When the engine's load was last read.")
	)
	now := c.now()
	for _, e := range c.set.Snapshot().All() {
		send := func(d *prometheus.Desc, t prometheus.ValueType, v float64, more ...string) {
			labels := append([]string{e.spec.ID, e.spec.Pool}, more...)
			out <- prometheus.MustNewConstMetric(d, t, v, labels...)
		}
		send(inflight, prometheus.GaugeValue, float64(e.InFlight()))
		send(weight, prometheus.GaugeValue, e.Weight())
		send(state, prometheus.GaugeValue, 1, e.State(now).String())
		send(failures, prometheus.GaugeValue, e.RecentFailures(now))
		e.breaker.mu.Lock()
		opened, cooled := e.breaker.openings, e.breaker.cools
		e.breaker.mu.Unlock()
		send(openings, prometheus.CounterValue, float64(opened))
		send(cools, prometheus.CounterValue, float64(cooled))
		if at, ok := e.LastUsed(); ok {
			send(used, prometheus.GaugeValue, seconds(at))
		}
		l := e.Load()
		if l == nil {
			continue
		}
		send(measured, prometheus.GaugeValue, seconds(l.At))
		if v, ok := l.Running.Get(); ok {
			send(running, prometheus.GaugeValue, v)
		}
		if v, ok := l.Waiting.Get(); ok {
			send(waiting, prometheus.GaugeValue, v)
		}
		if v, ok := l.KVUsedRatio.Get(); ok {
			send(kv, prometheus.GaugeValue, v)
		}
		if v, ok := l.PrefixQueryTokens.Get(); ok {
			send(asked, prometheus.CounterValue, v)
		}
		if v, ok := l.PrefixHitTokens.Get(); ok {
			send(hit, prometheus.CounterValue, v)
		}
		if v, ok := l.Preemptions.Get(); ok {
			send(preempt, prometheus.CounterValue, v)
		}
		if v, ok := l.KVCapacityTokens.Get(); ok {
			send(room, prometheus.GaugeValue, v)
		}
	}
}

func seconds(t time.Time) float64 { return float64(t.UnixNano()) / 1e9 }
