package convert

import (
	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/fleetpb"
)

// NodeStateToWire converts what changes of a node.
func NodeStateToWire(s engines.NodeState) *fleetpb.NodeState {
	return &fleetpb.NodeState{
		MemoryAvailableBytes: optToWire(s.MemoryAvailableBytes),
		Gpus:                 each(s.GPUs, gpuStateToWire),
		GpusAge:              DurationToWire(s.GPUsAge),
		Ports:                each(s.Ports, portStateToWire),
		PortsAge:             DurationToWire(s.PortsAge),
		Fabrics: each(s.Fabrics, func(f engines.FabricState) *fleetpb.FabricState {
			return &fleetpb.FabricState{Name: f.Name, Verdict: string(f.Verdict), Reasons: f.Reasons}
		}),
		Problems: each(s.Problems, warningToWire),
	}
}

// NodeStateFromWire converts what changes of a node. One that is absent says that
// nothing is known.
func NodeStateFromWire(m *fleetpb.NodeState) (engines.NodeState, error) {
	if m == nil {
		return engines.NodeState{}, nil
	}
	gpusAge, err := DurationFromWire("state.gpus_age", m.GetGpusAge())
	if err != nil {
		return engines.NodeState{}, err
	}
	portsAge, err := DurationFromWire("state.ports_age", m.GetPortsAge())
	if err != nil {
		return engines.NodeState{}, err
	}
	return engines.NodeState{
		MemoryAvailableBytes: optFromWire(m.MemoryAvailableBytes),
		GPUs:                 each(m.GetGpus(), gpuStateFromWire),
		GPUsAge:              gpusAge,
		Ports:                each(m.GetPorts(), portStateFromWire),
		PortsAge:             portsAge,
		Fabrics: each(m.GetFabrics(), func(f *fleetpb.FabricState) engines.FabricState {
			return engines.FabricState{Name: f.GetName(), Verdict: engines.Verdict(f.GetVerdict()), Reasons: listOrNil(f.GetReasons())}
		}),
		Problems: each(m.GetProblems(), warningFromWire),
	}, nil
}

func gpuStateToWire(g engines.GPUState) *fleetpb.GPUState {
	return &fleetpb.GPUState{
		Gpu: g.GPU, MemoryUsedBytes: optToWire(g.MemoryUsedBytes), MemoryFreeBytes: optToWire(g.MemoryFreeBytes),
		UtilizationRatio: optToWire(g.UtilizationRatio), TemperatureC: optToWire(g.TemperatureC),
		Corrected: optToWire(g.Memory.Corrected), Uncorrected: optToWire(g.Memory.Uncorrected),
		RemapPending: optToWire(g.Memory.RemapPending), RemapFailed: optToWire(g.Memory.RemapFailed),
		Foreign: each(g.Foreign, func(p engines.GPUProcess) *fleetpb.GPUProcess {
			return &fleetpb.GPUProcess{Pid: int64(p.PID), Name: p.Name, MemoryBytes: optToWire(p.MemoryBytes)}
		}),
		Health: string(g.Health.State),
		HealthReasons: each(g.Health.Reasons, func(r engines.HealthReason) *fleetpb.HealthReason {
			return &fleetpb.HealthReason{Kind: r.Kind, Action: string(r.Action), Detail: r.Detail, Ends: r.Ends}
		}),
	}
}

func gpuStateFromWire(m *fleetpb.GPUState) engines.GPUState {
	return engines.GPUState{
		GPU: m.GetGpu(), MemoryUsedBytes: optFromWire(m.MemoryUsedBytes), MemoryFreeBytes: optFromWire(m.MemoryFreeBytes),
		UtilizationRatio: optFloatFromWire(m.UtilizationRatio), TemperatureC: optFloatFromWire(m.TemperatureC),
		Memory: engines.MemoryErrors{
			Corrected: optFromWire(m.Corrected), Uncorrected: optFromWire(m.Uncorrected),
			RemapPending: optFromWire(m.RemapPending), RemapFailed: optFromWire(m.RemapFailed),
		},
		Foreign: each(m.GetForeign(), gpuProcessFromWire),
		Health:  engines.Health{State: engines.HealthState(m.GetHealth()), Reasons: each(m.GetHealthReasons(), healthReasonFromWire)},
	}
}

func gpuProcessFromWire(m *fleetpb.GPUProcess) engines.GPUProcess {
	return engines.GPUProcess{PID: int(m.GetPid()), Name: m.GetName(), MemoryBytes: optFromWire(m.MemoryBytes)}
}

func healthReasonFromWire(m *fleetpb.HealthReason) engines.HealthReason {
	return engines.HealthReason{Kind: m.GetKind(), Action: engines.HealthState(m.GetAction()), Detail: m.GetDetail(), Ends: m.GetEnds()}
}

func portStateToWire(p engines.PortState) *fleetpb.PortState {
	return &fleetpb.PortState{
		Device: p.Device, Port: int64(p.Port), State: p.State, Physical: p.Physical, RateGbps: optToWire(p.RateGbps),
		GidPrefix: p.GIDPrefix, LinkDowned: optToWire(p.LinkDowned), SymbolErrors: optToWire(p.SymbolErrors),
	}
}

func portStateFromWire(m *fleetpb.PortState) engines.PortState {
	return engines.PortState{
		Device: m.GetDevice(), Port: int(m.GetPort()), State: m.GetState(), Physical: m.GetPhysical(),
		RateGbps: optFloatFromWire(m.RateGbps), GIDPrefix: m.GetGidPrefix(), LinkDowned: optFromWire(m.LinkDowned),
		SymbolErrors: optFromWire(m.SymbolErrors),
	}
}
