package fleettest

import (
	"fmt"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/fleetpb"
	"github.com/llmgw/llmgw/fleet/internal/convert"
)

// command does what an order says and returns the answer; a.mu is held.
func (a *Agent) command(c *fleetpb.Command) *fleetpb.Answer {
	out := &fleetpb.Answer{Command: c.GetId()}
	id, generation, do := a.order(c)
	switch {
	case do == nil:
		out.Result, out.Reason = fleetpb.Result_RESULT_REFUSED, "the order says nothing that can be done"
	case c.GetCluster() != a.cluster:
		out.Result, out.Reason = fleetpb.Result_RESULT_REFUSED, fmt.Sprintf("it is of cluster %q, and this node belongs to %q", c.GetCluster(), a.cluster)
	case c.GetTerm() < a.term || generation < a.heard[id]:
		out.Result = fleetpb.Result_RESULT_STALE
	default:
		a.term, a.heard[id] = c.GetTerm(), generation
		out.Result, out.Reason = do()
	}
	out.Term, out.Generation = a.term, a.heard[id]
	if s := a.shards[id]; s != nil {
		out.Status = convert.StatusToWire(s.status)
	}
	a.answers[out.GetResult()]++
	return out
}

// order is what a command is about, and what it does; nil: nothing.
func (a *Agent) order(c *fleetpb.Command) (id engines.ShardID, generation uint64, do func() (fleetpb.Result, string)) {
	switch o := c.GetOrder().(type) {
	case *fleetpb.Command_Start:
		spec, err := convert.SpecFromWire(o.Start)
		if err != nil {
			return id, 0, nil
		}
		return spec.ID, spec.Generation, func() (fleetpb.Result, string) { return a.start(spec) }
	case *fleetpb.Command_Stop:
		id = engines.ShardID{Replica: o.Stop.GetReplica(), Rank: int(o.Stop.GetRank())}
		return id, o.Stop.GetGeneration(), func() (fleetpb.Result, string) { return a.stop(id), "" }
	case *fleetpb.Command_Drain:
		id = engines.ShardID{Replica: o.Drain.GetReplica(), Rank: int(o.Drain.GetRank())}
		return id, o.Drain.GetGeneration(), func() (fleetpb.Result, string) { return a.drain(id), "" }
	case *fleetpb.Command_Sleep:
		id = engines.ShardID{Replica: o.Sleep.GetReplica(), Rank: int(o.Sleep.GetRank())}
		return id, o.Sleep.GetGeneration(), func() (fleetpb.Result, string) { return a.sleep(id) }
	case *fleetpb.Command_Wake:
		id = engines.ShardID{Replica: o.Wake.GetReplica(), Rank: int(o.Wake.GetRank())}
		return id, o.Wake.GetGeneration(), func() (fleetpb.Result, string) { return a.wake(id) }
	}
	return id, 0, nil
}

// start begins a shard, unless it was begun or stopped in that generation.
func (a *Agent) start(spec engines.ShardSpec) (fleetpb.Result, string) {
	old := a.shards[spec.ID]
	switch {
	case old != nil && old.status.Generation == spec.Generation:
		return fleetpb.Result_RESULT_ALREADY, ""
	case old != nil && old.status.State.Runs():
		return fleetpb.Result_RESULT_UNAVAILABLE, fmt.Sprintf("generation %d of the shard runs here; stop it first", old.status.Generation)
	}
	s := &shard{status: engines.ShardStatus{
		ID: spec.ID, Generation: spec.Generation, Start: fmt.Sprintf("%s-%d", a.id, a.starts), Command: "simulated", PID: 1000 + a.starts,
		Cards: spec.Cards,
	}, sleeps: spec.Profile.Sleep}
	if spec.ID.Rank == 0 {
		port := int(a.ports.GetFirst()) + a.starts%int(a.ports.GetLast()-a.ports.GetFirst()+1)
		s.status.Address, s.status.Ports = fmt.Sprintf("%s:%d", a.id, port), map[string]int{engines.PortHTTP: port}
	}
	a.shards[spec.ID] = s
	a.starts++
	a.change(s, engines.ShardLoading, nil)
	a.later(s, a.cfg.LoadTime, func() { a.change(s, engines.ShardReady, idle) })
	return fleetpb.Result_RESULT_BEGUN, ""
}

func idle(st *engines.ShardStatus) { st.Running, st.Waiting = new(0), new(0) }

// stop ends a shard. One that is not there is barred from being started.
func (a *Agent) stop(id engines.ShardID) fleetpb.Result {
	s := a.shards[id]
	if s == nil || s.status.State == engines.ShardStopped || s.status.State == engines.ShardStopping {
		return fleetpb.Result_RESULT_ALREADY
	}
	a.change(s, engines.ShardStopping, nil)
	a.later(s, a.cfg.StopTime, func() {
		a.change(s, engines.ShardStopped, func(st *engines.ShardStatus) { st.PID, st.Running, st.Waiting = 0, nil, nil })
	})
	return fleetpb.Result_RESULT_BEGUN
}

func (a *Agent) drain(id engines.ShardID) fleetpb.Result {
	s := a.shards[id]
	if s == nil || s.status.State != engines.ShardReady {
		return fleetpb.Result_RESULT_ALREADY
	}
	a.change(s, engines.ShardDraining, idle)
	return fleetpb.Result_RESULT_BEGUN
}

// sleep puts a shard to sleep that was started so that it can.
func (a *Agent) sleep(id engines.ShardID) (fleetpb.Result, string) {
	s := a.shards[id]
	switch {
	case s == nil || !s.status.State.Runs() || s.status.State == engines.ShardStopping:
		return fleetpb.Result_RESULT_REFUSED, "there is no such engine here"
	case !s.sleeps:
		return fleetpb.Result_RESULT_REFUSED, "its engine was not launched so that it can sleep"
	case s.status.State == engines.ShardSleeping:
		return fleetpb.Result_RESULT_ALREADY, ""
	case s.status.State != engines.ShardReady && s.status.State != engines.ShardDraining:
		return fleetpb.Result_RESULT_UNAVAILABLE, "it is not ready"
	}
	a.change(s, engines.ShardSleeping, idle)
	return fleetpb.Result_RESULT_BEGUN, ""
}

// wake wakes a shard that sleeps, and undoes a drain.
func (a *Agent) wake(id engines.ShardID) (fleetpb.Result, string) {
	s := a.shards[id]
	switch {
	case s == nil || !s.status.State.Runs() || s.status.State == engines.ShardStopping:
		return fleetpb.Result_RESULT_REFUSED, "there is no such engine here"
	case s.status.State == engines.ShardDraining:
		a.change(s, engines.ShardReady, idle)
		return fleetpb.Result_RESULT_BEGUN, ""
	case s.status.State != engines.ShardSleeping:
		return fleetpb.Result_RESULT_ALREADY, ""
	}
	a.change(s, engines.ShardLoading, nil)
	a.later(s, a.cfg.WakeTime, func() { a.change(s, engines.ShardReady, idle) })
	return fleetpb.Result_RESULT_BEGUN, ""
}

// report sends a shard's status, if there is somebody to send it to; a.mu is held.
func (a *Agent) report(s *shard) {
	a.send(&fleetpb.ConnectRequest{Message: &fleetpb.ConnectRequest_Status{Status: convert.StatusToWire(s.status)}})
}

// beat is a heartbeat; a.mu is held.
func (a *Agent) beat(sequence uint64) *fleetpb.ConnectRequest {
	state := a.inv.State
	if a.cfg.State != nil {
		state = a.cfg.State(a.id, sequence)
	}
	h := &fleetpb.Heartbeat{Sequence: sequence, At: convert.TimeToWire(time.Now()), State: convert.NodeStateToWire(state)}
	for _, s := range a.statuses() {
		h.Shards = append(h.Shards, convert.BriefToWire(s))
	}
	return &fleetpb.ConnectRequest{Message: &fleetpb.ConnectRequest_Heartbeat{Heartbeat: h}}
}

// offers are the engines that the node can launch.
func (a *Agent) offers() (out []*fleetpb.EngineOffer) {
	if len(a.cfg.Engines) == 0 {
		return []*fleetpb.EngineOffer{{Engine: string(engines.Sim)}}
	}
	for _, name := range a.cfg.Engines {
		out = append(out, &fleetpb.EngineOffer{Engine: string(name)})
	}
	return out
}

// hello registers; a.mu is held.
func (a *Agent) hello() *fleetpb.ConnectRequest {
	h := &fleetpb.Hello{
		ProtocolLeast: 1, ProtocolMost: 1, Node: a.id, Instance: a.id + "-instance", Run: a.runName(), AgentVersion: "fleettest",
		Boot: a.inv.Host.BootID, Term: a.term, At: convert.TimeToWire(time.Now()), Address: a.id, PortFirst: a.ports.GetFirst(), PortLast: a.ports.GetLast(),
		Engines:   a.offers(),
		Inventory: convert.InventoryToWire(a.inv), State: convert.NodeStateToWire(a.inv.State),
		LooksForWeights: a.cfg.Weights != nil,
	}
	if a.cluster != "" {
		h.Cluster = &a.cluster
	}
	for _, s := range a.statuses() {
		h.Shards = append(h.Shards, convert.StatusToWire(s))
	}
	for id, generation := range a.heard {
		if s := a.shards[id]; s == nil || s.status.Generation < generation {
			h.Tombstones = append(h.Tombstones, &fleetpb.Tombstone{Replica: id.Replica, Rank: convert.Rank(id), Generation: generation})
		}
	}
	return &fleetpb.ConnectRequest{Message: &fleetpb.ConnectRequest_Hello{Hello: h}}
}
