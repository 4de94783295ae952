package convert

import (
	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/fleetpb"
)

// mostRank bounds a rank on the wire: far above every gang, and an int
// everywhere.
const mostRank = 1<<16 - 1

// ShardIDFromWire reads the id of a shard. The error wraps [ErrMessage] and
// [engines.ErrID].
func ShardIDFromWire(replica string, rank uint32) (engines.ShardID, error) {
	if err := engines.ValidID(replica); err != nil {
		return engines.ShardID{}, faulty("replica", "%w", err)
	}
	if rank > mostRank {
		return engines.ShardID{}, faulty("rank", "%w: %d; want 0 to %d", engines.ErrID, rank, mostRank)
	}
	return engines.ShardID{Replica: replica, Rank: int(rank)}, nil
}

// Rank converts a rank to the wire.
func Rank(id engines.ShardID) uint32 { return uint32(id.Rank) } //nolint:gosec // a rank is small and not below zero

// SpecToWire converts the wish for a shard.
func SpecToWire(s engines.ShardSpec) *fleetpb.ShardSpec {
	return &fleetpb.ShardSpec{
		Replica:     s.ID.Replica,
		Rank:        Rank(s.ID),
		Generation:  s.Generation,
		Profile:     profileToWire(s.Profile),
		Cards:       s.Cards,
		Fabric:      s.Fabric,
		Leader:      s.Leader,
		LeaderPorts: portsToWire(s.LeaderPorts),
		Ports:       portsToWire(s.Ports),
		Secret:      s.Secret,
	}
}

// SpecFromWire converts the wish for a shard. The profile is as it was sent: its
// engine's adapter checks it.
func SpecFromWire(m *fleetpb.ShardSpec) (engines.ShardSpec, error) {
	id, err := ShardIDFromWire(m.GetReplica(), m.GetRank())
	if err != nil {
		return engines.ShardSpec{}, err
	}
	profile, err := profileFromWire(m.GetProfile())
	if err != nil {
		return engines.ShardSpec{}, err
	}
	leaderPorts, err := portsFromWire("leader_ports", m.GetLeaderPorts())
	if err != nil {
		return engines.ShardSpec{}, err
	}
	ports, err := portsFromWire("ports", m.GetPorts())
	if err != nil {
		return engines.ShardSpec{}, err
	}
	return engines.ShardSpec{
		ID:          id,
		Generation:  m.GetGeneration(),
		Profile:     profile,
		Cards:       listOrNil(m.GetCards()),
		Fabric:      m.GetFabric(),
		Leader:      m.GetLeader(),
		LeaderPorts: leaderPorts,
		Ports:       ports,
		Secret:      m.GetSecret(),
	}, nil
}

func portsToWire(ports map[string]int) map[string]uint32 {
	if len(ports) == 0 {
		return nil
	}
	out := make(map[string]uint32, len(ports))
	for need, port := range ports {
		out[need] = uint32(port) //nolint:gosec // a port
	}
	return out
}

func portsFromWire(field string, ports map[string]uint32) (map[string]int, error) {
	if len(ports) == 0 {
		return nil, nil
	}
	out := make(map[string]int, len(ports))
	for need, port := range ports {
		if port < 1 || port > 65535 {
			return nil, faulty(field, "%s has port %d; want 1 to 65535", need, port)
		}
		out[need] = int(port)
	}
	return out, nil
}

func profileToWire(p engines.Profile) *fleetpb.Profile {
	return &fleetpb.Profile{
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
		LoadTimeout:        DurationToWire(p.LoadTimeout),
		StopGrace:          DurationToWire(p.StopGrace),
		Sleep:              p.Sleep,
	}
}

func profileFromWire(m *fleetpb.Profile) (engines.Profile, error) {
	load, err := DurationFromWire("profile.load_timeout", m.GetLoadTimeout())
	if err != nil {
		return engines.Profile{}, err
	}
	grace, err := DurationFromWire("profile.stop_grace", m.GetStopGrace())
	if err != nil {
		return engines.Profile{}, err
	}
	return engines.Profile{
		Engine:             engines.Name(m.GetEngine()),
		Executable:         m.GetExecutable(),
		Mode:               m.GetMode(),
		Model:              m.GetModel(),
		Revision:           m.GetRevision(),
		ServedNames:        listOrNil(m.GetServedNames()),
		Task:               engines.Task(m.GetTask()),
		Ranks:              int(m.GetRanks()),
		TensorParallel:     int(m.GetTensorParallel()),
		PipelineParallel:   int(m.GetPipelineParallel()),
		DataParallel:       int(m.GetDataParallel()),
		ExpertParallel:     m.GetExpertParallel(),
		CPU:                m.GetCpu(),
		ContextTokens:      int(m.GetContextTokens()),
		MaxRunning:         int(m.GetMaxRunning()),
		MemoryRatio:        m.GetMemoryRatio(),
		DType:              m.GetDtype(),
		KVCacheDType:       m.GetKvCacheDtype(),
		Quantization:       m.GetQuantization(),
		PriorityScheduling: m.GetPriorityScheduling(),
		KVEvents:           m.GetKvEvents(),
		Options:            orNil(m.GetOptions()),
		ExtraArgs:          listOrNil(m.GetExtraArgs()),
		Env:                orNil(m.GetEnv()),
		LoadTimeout:        load,
		StopGrace:          grace,
		Sleep:              m.GetSleep(),
	}, nil
}

// StateToWire converts where a shard is in its life.
func StateToWire(s engines.ShardState) fleetpb.ShardState {
	return enum[fleetpb.ShardState](s, engines.ShardSleeping)
}

// StateFromWire converts where a shard is in its life.
func StateFromWire(s fleetpb.ShardState) engines.ShardState {
	return enum[engines.ShardState](s, fleetpb.ShardState_SHARD_STATE_SLEEPING)
}

// StatusToWire converts what an agent knows of a shard.
func StatusToWire(s engines.ShardStatus) *fleetpb.ShardStatus {
	return &fleetpb.ShardStatus{
		Replica:    s.ID.Replica,
		Rank:       Rank(s.ID),
		Generation: s.Generation,
		Revision:   s.Revision,
		State:      StateToWire(s.State),
		Since:      TimeToWire(s.Since),
		Phase:      enum[fleetpb.Phase](s.Phase, engines.PhaseFailed),
		PhaseSince: TimeToWire(s.PhaseSince),
		Start:      s.Start,
		Command:    s.Command,
		Pid:        pidToWire(s.PID),
		Address:    s.Address,
		Ports:      portsToWire(s.Ports),
		Cards:      s.Cards,
		Adopted:    s.Adopted,
		Running:    CountToWire(s.Running),
		Waiting:    CountToWire(s.Waiting),
		Reason:     s.Reason,
		Advice:     s.Advice,
		Exit:       s.Exit,
		Lines:      s.Lines,
		MemoryHeld: s.MemoryHeld,
	}
}

// StatusFromWire converts what an agent knows of a shard.
func StatusFromWire(m *fleetpb.ShardStatus) (engines.ShardStatus, error) {
	id, err := ShardIDFromWire(m.GetReplica(), m.GetRank())
	if err != nil {
		return engines.ShardStatus{}, err
	}
	since, err := TimeFromWire("since", m.GetSince())
	if err != nil {
		return engines.ShardStatus{}, err
	}
	phaseSince, err := TimeFromWire("phase_since", m.GetPhaseSince())
	if err != nil {
		return engines.ShardStatus{}, err
	}
	ports, err := portsFromWire("ports", m.GetPorts())
	if err != nil {
		return engines.ShardStatus{}, err
	}
	if m.Pid != nil && *m.Pid < 1 {
		return engines.ShardStatus{}, faulty("pid", "%d; want 1 or more, or none", *m.Pid)
	}
	return engines.ShardStatus{
		ID:         id,
		Generation: m.GetGeneration(),
		Revision:   m.GetRevision(),
		State:      StateFromWire(m.GetState()),
		Since:      since,
		Phase:      enum[engines.Phase](m.GetPhase(), fleetpb.Phase_PHASE_FAILED),
		PhaseSince: phaseSince,
		Start:      m.GetStart(),
		Command:    m.GetCommand(),
		PID:        int(m.GetPid()),
		Address:    m.GetAddress(),
		Ports:      ports,
		Cards:      listOrNil(m.GetCards()),
		Adopted:    m.GetAdopted(),
		Running:    CountFromWire(m.Running),
		Waiting:    CountFromWire(m.Waiting),
		Reason:     m.GetReason(),
		Advice:     m.GetAdvice(),
		Exit:       m.GetExit(),
		Lines:      listOrNil(m.GetLines()),
		MemoryHeld: m.GetMemoryHeld(),
	}, nil
}

// BriefToWire converts a status to what a heartbeat says of the shard.
func BriefToWire(s engines.ShardStatus) *fleetpb.ShardBrief {
	return &fleetpb.ShardBrief{
		Replica:    s.ID.Replica,
		Rank:       Rank(s.ID),
		Generation: s.Generation,
		Revision:   s.Revision,
		State:      StateToWire(s.State),
		Running:    CountToWire(s.Running),
		Waiting:    CountToWire(s.Waiting),
	}
}

func pidToWire(pid int) *int32 {
	if pid < 1 {
		return nil
	}
	return new(int32(pid)) //nolint:gosec // Linux gives none above 4 million
}

// CountToWire converts a count that may not be known.
func CountToWire(n *int) *uint32 {
	if n == nil || *n < 0 {
		return nil
	}
	return new(uint32(min(*n, 1<<31-1))) //nolint:gosec // bounded
}

// CountFromWire converts a count that may not be known.
func CountFromWire(n *uint32) *int {
	if n == nil {
		return nil
	}
	return new(int(*n))
}
