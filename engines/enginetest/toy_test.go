package enginetest

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/llmgw/llmgw/engines"
)

// toy launches an engine that does not exist, as its contract asks. Each func
// that is set changes what it answers, which is how tests break it.
type toy struct {
	describe func(*engines.Description)
	validate func(engines.Profile, *engines.Shape, *error)
	launch   func(engines.Shard, *engines.Launch, *error)
	check    func(*[]engines.Check)
}

func (a toy) Describe(context.Context) (engines.Description, error) {
	d := engines.Description{
		Engine: "toy", Title: "Toy", Version: "1", Tested: []string{"1.4"},
		Modes: []engines.Mode{
			{Name: "one", Doc: "One process."},
			{Name: "many", MultiNode: true, Doc: "A process a node, that meet at the leader."},
		},
		Options:       []engines.Option{{Key: "style", Values: []string{"plain", "fancy"}, Doc: "How it plays. Default plain."}},
		ReservedFlags: []string{"--host", "--port", "--join", "--join-port", "--rank"},
		ReservedEnv:   []string{"TOY_KEY", "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"},
		Metrics: &engines.MetricContract{
			Engine: "toy", Path: "/metrics", Prefix: "toy_",
			Running: engines.Metric{Names: []string{"toy_running", "toy_active"}, Aggregate: engines.AggregateSum},
			Waiting: engines.Metric{Names: []string{"toy_waiting"}, Aggregate: engines.AggregateSum},
			KVUsed:  engines.Metric{Names: []string{"toy_cache_ratio"}, Aggregate: engines.AggregateMax},
		},
		Secret: engines.SecretUse{Supported: true, By: engines.SecretByEnv, OpenPaths: []string{"/health", "/metrics"}},
	}
	if a.describe != nil {
		a.describe(&d)
	}
	return d, nil
}

func (a toy) Validate(ctx context.Context, p engines.Profile) (engines.Shape, error) {
	d, _ := a.Describe(ctx)
	p = p.WithDefaults()
	fs := d.Faults(p)
	if p.Model == "" {
		fs.Add("model", "is empty", "name the toy")
	}
	for field, asked := range map[string]bool{
		"expert_parallel": p.ExpertParallel, "memory_ratio": p.MemoryRatio != 0, "dtype": p.DType != "", "kv_cache_dtype": p.KVCacheDType != "",
		"quantization": p.Quantization != "", "priority_scheduling": p.PriorityScheduling, "kv_events": p.KVEvents,
	} {
		if asked {
			fs.Add(field, "is nothing to a toy", "leave it out")
		}
	}
	slices.SortFunc(fs, func(a, b engines.Fault) int { return strings.Compare(a.Field, b.Field) })
	err := fs.Err("toy")
	var shape engines.Shape
	if err == nil {
		shape.Ranks = make([]engines.RankShape, p.Ranks)
		for i := range shape.Ranks {
			shape.Ranks[i].Cards = p.Cards() / p.Ranks
		}
		shape.Ranks[0].ServesHTTP = true
		shape.Ranks[0].Ports = []engines.PortNeed{{Name: engines.PortHTTP, Count: 1}}
		if p.Ranks > 1 {
			shape.Ranks[0].Ports = append(shape.Ranks[0].Ports, engines.PortNeed{Name: "join", Count: 1})
		}
	}
	if a.validate != nil {
		a.validate(p, &shape, &err)
	}
	return shape, err
}

func (a toy) Launch(ctx context.Context, s engines.Shard) (engines.Launch, error) {
	shape, err := a.Validate(ctx, s.Profile)
	if err == nil {
		err = s.Faults(shape).Err("toy")
	}
	var l engines.Launch
	if err == nil {
		l = toyLaunch(s)
	}
	if a.launch != nil {
		a.launch(s, &l, &err)
	}
	return l, err
}

func toyLaunch(s engines.Shard) engines.Launch {
	p := s.Profile.WithDefaults()
	args := engines.Args{"play"}
	args.Text("--toy", p.Model)
	for _, name := range p.ServedNames {
		args.Text("--name", name)
	}
	args.Text("--style", p.Options["style"])
	args.Number("--context", p.ContextTokens)
	if s.EngineVersion != "" && engines.CompareVersions(s.EngineVersion, "1.2") >= 0 {
		args.Number("--crowd", p.MaxRunning)
	}
	l := engines.Launch{
		Ready: engines.Readiness{Log: "joined", Timeout: 10 * time.Minute},
		Stop:  engines.Stop{Signal: engines.SignalTerm, Grace: 30 * time.Second},
		Logs: []engines.LogRule{
			{Match: `^loading (?P<what>\S+)`, Phase: engines.PhaseLoading},
			{Match: `out of (?P<what>\w+)`, Phase: engines.PhaseFailed, Reason: "no ${what} left", Advice: "give it more ${what}"},
		},
	}
	if s.Rank == 0 {
		args.Text("--host", s.Bind)
		args.Number("--port", s.Ports[engines.PortHTTP])
		args.Number("--join-port", s.Ports["join"])
		l.ServesHTTP = true
		l.Ready.Log = ""
		l.Ready.Probe = &engines.Probe{Port: s.Ports[engines.PortHTTP], Path: "/health", Timeout: time.Second}
	} else {
		args.Text("--join", s.Leader+":"+strconv.Itoa(s.LeaderPorts["join"]))
		args.Number("--rank", s.Rank)
	}
	args.Add(p.ExtraArgs...)
	env := make(map[string]string)
	maps.Copy(env, p.Env)
	var cards []string
	for _, c := range s.Cards {
		cards = append(cards, strconv.Itoa(c.Index))
	}
	if len(cards) > 0 {
		name := "CUDA_VISIBLE_DEVICES"
		if s.Cards[0].Vendor == engines.AMD {
			name = "HIP_VISIBLE_DEVICES"
		}
		env[name] = strings.Join(cards, ",")
	}
	if s.Keyed && s.Rank == 0 {
		env["TOY_KEY"] = engines.SecretPlaceholder
	}
	if p.LoadTimeout > 0 {
		l.Ready.Timeout = p.LoadTimeout
	}
	if p.StopGrace > 0 {
		l.Stop.Grace = p.StopGrace
	}
	executable := p.Executable
	if executable == "" {
		executable = "toy"
	}
	l.Engine = engines.Command{Executable: executable, Args: args, Env: env, Unset: []string{"TOY_HOST"}}
	return l
}

func (a toy) Checks(context.Context) ([]engines.Check, error) {
	checks := []engines.Check{{
		Name: "play",
		Command: engines.Command{
			Executable: "toy",
			Args:       strings.Fields("play --toy m --name n --style plain --context 1 --crowd 2 --host h --port 1 --join-port 2 --join h:2 --rank 1"),
			Env:        map[string]string{"TOY_KEY": "k", "CUDA_VISIBLE_DEVICES": "0", "HIP_VISIBLE_DEVICES": "0"},
		},
		HelpArgs:    []string{"play", "--help"},
		VersionArgs: []string{"--version"},
		Since:       map[string]string{"--crowd": "1.2"},
		Timeout:     10 * time.Second,
	}}
	if a.check != nil {
		a.check(&checks)
	}
	return checks, nil
}
