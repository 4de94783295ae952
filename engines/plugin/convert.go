package plugin

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/plugin/pluginpb"
)

// Every type of the vocabulary has a pair of functions, to the wire and from it.
// Empty and nil lists are one, except where the vocabulary tells them apart. A
// number of an enum that this version does not know becomes the unset value, which
// whoever checks the answer refuses where one is needed.

// each converts a list; of an empty one it makes nil.
func each[A, B any](list []A, convert func(A) B) []B {
	if len(list) == 0 {
		return nil
	}
	out := make([]B, len(list))
	for i, v := range list {
		out[i] = convert(v)
	}
	return out
}

func duration(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}

// enum converts a number of one side's enum to the other's, which count alike; what
// is beyond most becomes 0.
func enum[B, A ~uint8 | ~int32](v, most A) B {
	if v < 0 || v > most {
		return 0
	}
	return B(v)
}

func faultToWire(f engines.Fault) *pluginpb.Fault {
	return &pluginpb.Fault{Field: f.Field, Problem: f.Problem, Advice: f.Advice}
}

func faultFromWire(f *pluginpb.Fault) engines.Fault {
	return engines.Fault{Field: f.GetField(), Problem: f.GetProblem(), Advice: f.GetAdvice()}
}

func refusalToWire(e *engines.ProfileError) *pluginpb.Refusal {
	return &pluginpb.Refusal{Engine: string(e.Engine), Faults: each(e.Faults, faultToWire)}
}

func refusalFromWire(r *pluginpb.Refusal) *engines.ProfileError {
	return &engines.ProfileError{Engine: engines.Name(r.GetEngine()), Faults: each(r.GetFaults(), faultFromWire)}
}

func descriptionToWire(d engines.Description) *pluginpb.Description {
	out := &pluginpb.Description{
		Engine:        string(d.Engine),
		Title:         d.Title,
		Version:       d.Version,
		Tested:        d.Tested,
		Modes:         each(d.Modes, modeToWire),
		Options:       each(d.Options, optionToWire),
		ReservedFlags: d.ReservedFlags,
		ReservedEnv:   d.ReservedEnv,
		Capabilities: &pluginpb.Capabilities{
			StreamUsage:        d.Capabilities.StreamUsage,
			ContinuousUsage:    d.Capabilities.ContinuousUsage,
			PriorityField:      d.Capabilities.PriorityField,
			PriorityOrder:      enum[pluginpb.PriorityOrder](d.Capabilities.PriorityOrder, engines.PriorityHighFirst),
			ChecksModel:        d.Capabilities.ChecksModel,
			AbortsOnDisconnect: d.Capabilities.AbortsOnDisconnect,
			TokenizePath:       d.Capabilities.TokenizePath,
			KeepAlive:          duration(d.Capabilities.KeepAlive),
			Sleeps:             d.Capabilities.Sleeps,
		},
		Secret: &pluginpb.SecretUse{
			Supported:   d.Secret.Supported,
			By:          enum[pluginpb.SecretDelivery](d.Secret.By, engines.SecretByFile),
			OpenPaths:   d.Secret.OpenPaths,
			ClosedPaths: d.Secret.ClosedPaths,
		},
	}
	if d.Metrics != nil {
		out.Metrics = contractToWire(*d.Metrics)
	}
	return out
}

func descriptionFromWire(d *pluginpb.Description) engines.Description {
	c, s := d.GetCapabilities(), d.GetSecret()
	out := engines.Description{
		Engine:        engines.Name(d.GetEngine()),
		Title:         d.GetTitle(),
		Version:       d.GetVersion(),
		Tested:        d.GetTested(),
		Modes:         each(d.GetModes(), modeFromWire),
		Options:       each(d.GetOptions(), optionFromWire),
		ReservedFlags: d.GetReservedFlags(),
		ReservedEnv:   d.GetReservedEnv(),
		Capabilities: engines.Capabilities{
			StreamUsage:        c.GetStreamUsage(),
			ContinuousUsage:    c.GetContinuousUsage(),
			PriorityField:      c.GetPriorityField(),
			PriorityOrder:      enum[engines.PriorityOrder](c.GetPriorityOrder(), pluginpb.PriorityOrder_PRIORITY_ORDER_HIGH_FIRST),
			ChecksModel:        c.GetChecksModel(),
			AbortsOnDisconnect: c.GetAbortsOnDisconnect(),
			TokenizePath:       c.GetTokenizePath(),
			KeepAlive:          c.GetKeepAlive().AsDuration(),
			Sleeps:             c.GetSleeps(),
		},
		Secret: engines.SecretUse{
			Supported:   s.GetSupported(),
			By:          enum[engines.SecretDelivery](s.GetBy(), pluginpb.SecretDelivery_SECRET_DELIVERY_FILE),
			OpenPaths:   s.GetOpenPaths(),
			ClosedPaths: s.GetClosedPaths(),
		},
	}
	if d.GetMetrics() != nil {
		out.Metrics = new(contractFromWire(d.GetMetrics()))
	}
	return out
}

func modeToWire(m engines.Mode) *pluginpb.Mode {
	return &pluginpb.Mode{Name: m.Name, MultiNode: m.MultiNode, Doc: m.Doc}
}

func modeFromWire(m *pluginpb.Mode) engines.Mode {
	return engines.Mode{Name: m.GetName(), MultiNode: m.GetMultiNode(), Doc: m.GetDoc()}
}

func optionToWire(o engines.Option) *pluginpb.Option {
	return &pluginpb.Option{Key: o.Key, Values: o.Values, Doc: o.Doc}
}

func optionFromWire(o *pluginpb.Option) engines.Option {
	return engines.Option{Key: o.GetKey(), Values: o.GetValues(), Doc: o.GetDoc()}
}

func contractToWire(c engines.MetricContract) *pluginpb.MetricContract {
	return &pluginpb.MetricContract{
		Engine:            string(c.Engine),
		Path:              c.Path,
		Prefix:            c.Prefix,
		NeedsKey:          c.NeedsKey,
		UsuallyRuns:       int64(c.UsuallyRuns),
		Running:           metricToWire(c.Running),
		Waiting:           metricToWire(c.Waiting),
		MaxRunning:        metricToWire(c.MaxRunning),
		KvUsed:            metricToWire(c.KVUsed),
		PrefixQueryTokens: metricToWire(c.PrefixQueryTokens),
		PrefixHitTokens:   metricToWire(c.PrefixHitTokens),
		Preemptions:       metricToWire(c.Preemptions),
		KvCapacityTokens:  metricToWire(c.KVCapacityTokens),
	}
}

func contractFromWire(c *pluginpb.MetricContract) engines.MetricContract {
	return engines.MetricContract{
		Engine:            engines.Name(c.GetEngine()),
		Path:              c.GetPath(),
		Prefix:            c.GetPrefix(),
		NeedsKey:          c.GetNeedsKey(),
		UsuallyRuns:       int(c.GetUsuallyRuns()),
		Running:           metricFromWire(c.GetRunning()),
		Waiting:           metricFromWire(c.GetWaiting()),
		MaxRunning:        metricFromWire(c.GetMaxRunning()),
		KVUsed:            metricFromWire(c.GetKvUsed()),
		PrefixQueryTokens: metricFromWire(c.GetPrefixQueryTokens()),
		PrefixHitTokens:   metricFromWire(c.GetPrefixHitTokens()),
		Preemptions:       metricFromWire(c.GetPreemptions()),
		KVCapacityTokens:  metricFromWire(c.GetKvCapacityTokens()),
	}
}

func metricToWire(m engines.Metric) *pluginpb.Metric {
	return &pluginpb.Metric{
		Names: m.Names, Also: m.Also, Labels: m.Labels, Factors: m.Factors,
		Aggregate: enum[pluginpb.Aggregation](m.Aggregate, engines.AggregateMean),
	}
}

func metricFromWire(m *pluginpb.Metric) engines.Metric {
	return engines.Metric{
		Names: m.GetNames(), Also: m.GetAlso(), Labels: m.GetLabels(), Factors: m.GetFactors(),
		Aggregate: enum[engines.Aggregation](m.GetAggregate(), pluginpb.Aggregation_AGGREGATION_MEAN),
	}
}

func profileToWire(p engines.Profile) *pluginpb.Profile {
	return &pluginpb.Profile{
		Engine:             string(p.Engine),
		Executable:         p.Executable,
		Mode:               p.Mode,
		Model:              p.Model,
		Revision:           p.Revision,
		ServedNames:        p.ServedNames,
		Task:               string(p.Task),
		Ranks:              int64(p.Ranks),
		TensorParallel:     int64(p.TensorParallel),
		PipelineParallel:   int64(p.PipelineParallel),
		DataParallel:       int64(p.DataParallel),
		ExpertParallel:     p.ExpertParallel,
		Cpu:                p.CPU,
		ContextTokens:      int64(p.ContextTokens),
		MaxRunning:         int64(p.MaxRunning),
		MemoryRatio:        p.MemoryRatio,
		Dtype:              p.DType,
		KvCacheDtype:       p.KVCacheDType,
		Quantization:       p.Quantization,
		PriorityScheduling: p.PriorityScheduling,
		KvEvents:           p.KVEvents,
		Options:            p.Options,
		ExtraArgs:          p.ExtraArgs,
		Env:                p.Env,
		LoadTimeout:        duration(p.LoadTimeout),
		StopGrace:          duration(p.StopGrace),
		Sleep:              p.Sleep,
	}
}

func profileFromWire(p *pluginpb.Profile) engines.Profile {
	return engines.Profile{
		Engine:             engines.Name(p.GetEngine()),
		Executable:         p.GetExecutable(),
		Mode:               p.GetMode(),
		Model:              p.GetModel(),
		Revision:           p.GetRevision(),
		ServedNames:        p.GetServedNames(),
		Task:               engines.Task(p.GetTask()),
		Ranks:              int(p.GetRanks()),
		TensorParallel:     int(p.GetTensorParallel()),
		PipelineParallel:   int(p.GetPipelineParallel()),
		DataParallel:       int(p.GetDataParallel()),
		ExpertParallel:     p.GetExpertParallel(),
		CPU:                p.GetCpu(),
		ContextTokens:      int(p.GetContextTokens()),
		MaxRunning:         int(p.GetMaxRunning()),
		MemoryRatio:        p.GetMemoryRatio(),
		DType:              p.GetDtype(),
		KVCacheDType:       p.GetKvCacheDtype(),
		Quantization:       p.GetQuantization(),
		PriorityScheduling: p.GetPriorityScheduling(),
		KVEvents:           p.GetKvEvents(),
		Options:            p.GetOptions(),
		ExtraArgs:          p.GetExtraArgs(),
		Env:                p.GetEnv(),
		LoadTimeout:        p.GetLoadTimeout().AsDuration(),
		StopGrace:          p.GetStopGrace().AsDuration(),
		Sleep:              p.GetSleep(),
	}
}
