package feed

import (
	"crypto/sha256"
	"encoding/hex"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/apipb"
)

// factsPool gathers the facts that entries refer to: thousands of replicas run a
// handful of engines.
type factsPool struct {
	ids  map[*Facts]string
	all  []*apipb.FeedFacts
	byID map[string]*apipb.FeedFacts
}

// id returns the name of facts on the wire, which follows from what they say.
func (p *factsPool) id(f *Facts) string {
	if f == nil {
		return ""
	}
	if id, known := p.ids[f]; known {
		return id
	}
	w := factsToWire(f)
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(w)
	if err != nil {
		return "" // text that is not UTF-8; nothing is known of the engine then
	}
	sum := sha256.Sum256(body)
	w.Id = hex.EncodeToString(sum[:8])
	if p.ids == nil {
		p.ids, p.byID = make(map[*Facts]string), make(map[string]*apipb.FeedFacts)
	}
	p.ids[f] = w.GetId()
	if p.byID[w.GetId()] == nil {
		p.byID[w.GetId()] = w
		p.all = append(p.all, w)
	}
	return w.GetId()
}

func (p *factsPool) wire() []*apipb.FeedFacts { return p.all }

func factsToWire(f *Facts) *apipb.FeedFacts {
	c := &f.Capabilities
	w := &apipb.FeedFacts{ChecksSecret: f.ChecksSecret, Capabilities: &apipb.FeedCapabilities{
		StreamUsage: c.StreamUsage, ContinuousUsage: c.ContinuousUsage,
		PriorityField: c.PriorityField, PriorityOrder: apipb.FeedPriorityOrder(c.PriorityOrder),
		ChecksModel: c.ChecksModel, AbortsOnDisconnect: c.AbortsOnDisconnect, TokenizePath: c.TokenizePath,
		Sleeps: c.Sleeps,
	}}
	if c.KeepAlive > 0 {
		w.Capabilities.KeepAlive = durationpb.New(c.KeepAlive)
	}
	if m := f.Metrics; m != nil {
		w.Metrics = &apipb.FeedMetricContract{
			Engine: string(m.Engine), Path: m.Path, Prefix: m.Prefix, NeedsKey: m.NeedsKey,
			UsuallyRuns: uint32(max(m.UsuallyRuns, 0)), //nolint:gosec // Validate wants 0 or more, and nothing runs four billion requests
			Running:     metricToWire(m.Running), Waiting: metricToWire(m.Waiting), MaxRunning: metricToWire(m.MaxRunning),
			KvUsed: metricToWire(m.KVUsed), PrefixQueryTokens: metricToWire(m.PrefixQueryTokens), PrefixHitTokens: metricToWire(m.PrefixHitTokens),
			Preemptions: metricToWire(m.Preemptions), KvCapacityTokens: metricToWire(m.KVCapacityTokens),
		}
	}
	return w
}

func factsFromWire(w *apipb.FeedFacts) *Facts {
	c := w.GetCapabilities()
	f := &Facts{ChecksSecret: w.GetChecksSecret(), Capabilities: engines.Capabilities{
		StreamUsage: c.GetStreamUsage(), ContinuousUsage: c.GetContinuousUsage(),
		PriorityField: c.GetPriorityField(), PriorityOrder: enum[engines.PriorityOrder](c.GetPriorityOrder(), apipb.FeedPriorityOrder_FEED_PRIORITY_ORDER_HIGH_FIRST),
		ChecksModel: c.GetChecksModel(), AbortsOnDisconnect: c.GetAbortsOnDisconnect(), TokenizePath: c.GetTokenizePath(),
		KeepAlive: max(c.GetKeepAlive().AsDuration(), 0), Sleeps: c.GetSleeps(),
	}}
	if m := w.GetMetrics(); m != nil {
		f.Metrics = &engines.MetricContract{
			Engine: engines.Name(m.GetEngine()), Path: m.GetPath(), Prefix: m.GetPrefix(), NeedsKey: m.GetNeedsKey(),
			UsuallyRuns: int(m.GetUsuallyRuns()),
			Running:     metricFromWire(m.GetRunning()), Waiting: metricFromWire(m.GetWaiting()), MaxRunning: metricFromWire(m.GetMaxRunning()),
			KVUsed: metricFromWire(m.GetKvUsed()), PrefixQueryTokens: metricFromWire(m.GetPrefixQueryTokens()), PrefixHitTokens: metricFromWire(m.GetPrefixHitTokens()),
			Preemptions: metricFromWire(m.GetPreemptions()), KVCapacityTokens: metricFromWire(m.GetKvCapacityTokens()),
		}
	}
	return f
}

func metricToWire(m engines.Metric) *apipb.FeedMetric {
	if !m.Exported() {
		return nil
	}
	return &apipb.FeedMetric{Names: m.Names, Also: m.Also, Labels: m.Labels, Factors: m.Factors, Aggregate: apipb.FeedAggregation(m.Aggregate)}
}

func metricFromWire(w *apipb.FeedMetric) engines.Metric {
	return engines.Metric{
		Names: w.GetNames(), Also: w.GetAlso(), Labels: w.GetLabels(), Factors: w.GetFactors(),
		Aggregate: enum[engines.Aggregation](w.GetAggregate(), apipb.FeedAggregation_FEED_AGGREGATION_MEAN),
	}
}

// enum converts a number of the wire's enum, which counts as ours does; what is
// beyond most is not known here and becomes 0.
func enum[B ~uint8, A ~int32](v, most A) B {
	if v < 0 || v > most {
		return 0
	}
	return B(v)
}
