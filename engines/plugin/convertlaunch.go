package plugin

import (
	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/plugin/pluginpb"
)

func shapeToWire(s engines.Shape) *pluginpb.Shape {
	return &pluginpb.Shape{Ranks: each(s.Ranks, func(r engines.RankShape) *pluginpb.RankShape {
		return &pluginpb.RankShape{
			Cards: int64(r.Cards), ServesHttp: r.ServesHTTP,
			Ports: each(r.Ports, func(p engines.PortNeed) *pluginpb.PortNeed {
				return &pluginpb.PortNeed{Name: p.Name, Count: int64(p.Count)}
			}),
		}
	})}
}

func shapeFromWire(s *pluginpb.Shape) engines.Shape {
	return engines.Shape{Ranks: each(s.GetRanks(), func(r *pluginpb.RankShape) engines.RankShape {
		return engines.RankShape{
			Cards: int(r.GetCards()), ServesHTTP: r.GetServesHttp(),
			Ports: each(r.GetPorts(), func(p *pluginpb.PortNeed) engines.PortNeed {
				return engines.PortNeed{Name: p.GetName(), Count: int(p.GetCount())}
			}),
		}
	})}
}

func shardToWire(s engines.Shard) *pluginpb.Shard {
	return &pluginpb.Shard{
		Profile:    profileToWire(s.Profile),
		Replica:    s.Replica,
		Generation: s.Generation,
		Rank:       int64(s.Rank),
		Leader:     s.Leader,
		Address:    s.Address,
		Bind:       s.Bind,
		Interface:  s.Interface,
		Hcas:       s.HCAs,
		Cards: each(s.Cards, func(c engines.Card) *pluginpb.Card {
			return &pluginpb.Card{Vendor: string(c.Vendor), Index: int64(c.Index), Uuid: c.UUID}
		}),
		Ports:         ports[int64](s.Ports),
		LeaderPorts:   ports[int64](s.LeaderPorts),
		Dir:           s.Dir,
		Keyed:         s.Keyed,
		EngineVersion: s.EngineVersion,
	}
}

func shardFromWire(s *pluginpb.Shard) engines.Shard {
	return engines.Shard{
		Profile:    profileFromWire(s.GetProfile()),
		Replica:    s.GetReplica(),
		Generation: s.GetGeneration(),
		Rank:       int(s.GetRank()),
		Leader:     s.GetLeader(),
		Address:    s.GetAddress(),
		Bind:       s.GetBind(),
		Interface:  s.GetInterface(),
		HCAs:       s.GetHcas(),
		Cards: each(s.GetCards(), func(c *pluginpb.Card) engines.Card {
			return engines.Card{Vendor: engines.Vendor(c.GetVendor()), Index: int(c.GetIndex()), UUID: c.GetUuid()}
		}),
		Ports:         ports[int](s.GetPorts()),
		LeaderPorts:   ports[int](s.GetLeaderPorts()),
		Dir:           s.GetDir(),
		Keyed:         s.GetKeyed(),
		EngineVersion: s.GetEngineVersion(),
	}
}

func ports[B, A int | int64](in map[string]A) map[string]B {
	if in == nil {
		return nil
	}
	out := make(map[string]B, len(in))
	for name, port := range in {
		out[name] = B(port)
	}
	return out
}

func launchToWire(l engines.Launch) *pluginpb.Launch {
	return &pluginpb.Launch{
		Engine: commandToWire(l.Engine),
		Files: each(l.Files, func(f engines.File) *pluginpb.File {
			return &pluginpb.File{Name: f.Name, Content: []byte(f.Content)}
		}),
		Sidecars: each(l.Sidecars, func(s engines.Sidecar) *pluginpb.Sidecar {
			return &pluginpb.Sidecar{
				Name: s.Name, Command: commandToWire(s.Command), Ready: readyToWire(s.Ready),
				RunsOnce: s.RunsOnce, Stop: stopToWire(s.Stop), Logs: each(s.Logs, ruleToWire),
			}
		}),
		ServesHttp: l.ServesHTTP,
		Ready:      readyToWire(l.Ready),
		Stop:       stopToWire(l.Stop),
		Logs:       each(l.Logs, ruleToWire),
		Sleep:      sleepToWire(l.Sleep),
	}
}

func launchFromWire(l *pluginpb.Launch) engines.Launch {
	return engines.Launch{
		Engine: commandFromWire(l.GetEngine()),
		Files: each(l.GetFiles(), func(f *pluginpb.File) engines.File {
			return engines.File{Name: f.GetName(), Content: string(f.GetContent())}
		}),
		Sidecars: each(l.GetSidecars(), func(s *pluginpb.Sidecar) engines.Sidecar {
			return engines.Sidecar{
				Name: s.GetName(), Command: commandFromWire(s.GetCommand()), Ready: readyFromWire(s.GetReady()),
				RunsOnce: s.GetRunsOnce(), Stop: stopFromWire(s.GetStop()), Logs: each(s.GetLogs(), ruleFromWire),
			}
		}),
		ServesHTTP: l.GetServesHttp(),
		Ready:      readyFromWire(l.GetReady()),
		Stop:       stopFromWire(l.GetStop()),
		Logs:       each(l.GetLogs(), ruleFromWire),
		Sleep:      sleepFromWire(l.GetSleep()),
	}
}

func sleepToWire(s *engines.Sleep) *pluginpb.Sleep {
	if s == nil {
		return nil
	}
	return &pluginpb.Sleep{
		Port: int64(s.Port), Keyed: s.Keyed, Sleep: s.Sleep, Wake: s.Wake, Check: s.Check, Asleep: s.Asleep, Awake: s.Awake,
		SleepTimeout: duration(s.SleepTimeout), WakeTimeout: duration(s.WakeTimeout),
	}
}

func sleepFromWire(s *pluginpb.Sleep) *engines.Sleep {
	if s == nil {
		return nil
	}
	return &engines.Sleep{
		Port: int(s.GetPort()), Keyed: s.GetKeyed(), Sleep: s.GetSleep(), Wake: s.GetWake(), Check: s.GetCheck(), Asleep: s.GetAsleep(), Awake: s.GetAwake(),
		SleepTimeout: s.GetSleepTimeout().AsDuration(), WakeTimeout: s.GetWakeTimeout().AsDuration(),
	}
}

func commandToWire(c engines.Command) *pluginpb.Command {
	return &pluginpb.Command{Executable: c.Executable, Args: c.Args, Env: c.Env, Unset: c.Unset}
}

func commandFromWire(c *pluginpb.Command) engines.Command {
	return engines.Command{Executable: c.GetExecutable(), Args: c.GetArgs(), Env: c.GetEnv(), Unset: c.GetUnset()}
}

func readyToWire(r engines.Readiness) *pluginpb.Readiness {
	out := &pluginpb.Readiness{Log: r.Log, Timeout: duration(r.Timeout), Stalled: duration(r.Stalled)}
	if p := r.Probe; p != nil {
		out.Probe = &pluginpb.Probe{Port: int64(p.Port), Path: p.Path, Contains: p.Contains, Keyed: p.Keyed, Timeout: duration(p.Timeout)}
	}
	return out
}

func readyFromWire(r *pluginpb.Readiness) engines.Readiness {
	out := engines.Readiness{Log: r.GetLog(), Timeout: r.GetTimeout().AsDuration(), Stalled: r.GetStalled().AsDuration()}
	if p := r.GetProbe(); p != nil {
		out.Probe = &engines.Probe{Port: int(p.GetPort()), Path: p.GetPath(), Contains: p.GetContains(), Keyed: p.GetKeyed(), Timeout: p.GetTimeout().AsDuration()}
	}
	return out
}

func stopToWire(s engines.Stop) *pluginpb.Stop {
	return &pluginpb.Stop{Signal: enum[pluginpb.Signal](s.Signal, engines.SignalQuit), Grace: duration(s.Grace)}
}

func stopFromWire(s *pluginpb.Stop) engines.Stop {
	return engines.Stop{Signal: enum[engines.Signal](s.GetSignal(), pluginpb.Signal_SIGNAL_QUIT), Grace: s.GetGrace().AsDuration()}
}

func ruleToWire(r engines.LogRule) *pluginpb.LogRule {
	return &pluginpb.LogRule{Match: r.Match, Phase: enum[pluginpb.Phase](r.Phase, engines.PhaseFailed), Reason: r.Reason, Advice: r.Advice}
}

func ruleFromWire(r *pluginpb.LogRule) engines.LogRule {
	return engines.LogRule{Match: r.GetMatch(), Phase: enum[engines.Phase](r.GetPhase(), pluginpb.Phase_PHASE_FAILED), Reason: r.GetReason(), Advice: r.GetAdvice()}
}

func checkToWire(c engines.Check) *pluginpb.Check {
	out := &pluginpb.Check{
		Name: c.Name, Command: commandToWire(c.Command), HelpArgs: c.HelpArgs, Variables: c.Variables,
		Since: c.Since, HelpLines: int64(c.HelpLines), Timeout: duration(c.Timeout),
	}
	if c.VersionArgs != nil {
		out.VersionArgs = &pluginpb.Words{Words: c.VersionArgs}
	}
	return out
}

func checkFromWire(c *pluginpb.Check) engines.Check {
	out := engines.Check{
		Name: c.GetName(), Command: commandFromWire(c.GetCommand()), HelpArgs: c.GetHelpArgs(), Variables: c.GetVariables(),
		Since: c.GetSince(), HelpLines: int(c.GetHelpLines()), Timeout: c.GetTimeout().AsDuration(),
	}
	if c.GetVersionArgs() != nil {
		out.VersionArgs = append([]string{}, c.GetVersionArgs().GetWords()...)
	}
	return out
}
