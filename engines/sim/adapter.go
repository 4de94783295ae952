package sim

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/internal/launch"
	"github.com/llmgw/llmgw/engines/vllm"
)

// Adapter launches simulated engines, each rank a process of `llmgw sim serve`.
// The zero value is ready for use.
//
// Model may be left out, and nothing is read from it. What means nothing to an
// engine that computes nothing, such as dtype or memory_ratio, is refused.
type Adapter struct {
	// Executable is started where a profile names none. Empty: llmgw, looked up
	// in PATH. A program that has the command itself sets it to its own path.
	Executable string
}

var _ engines.Adapter = Adapter{}

// apiKeyVariable is what llmgw sim reads the key from.
const apiKeyVariable = "LLMGW_SIM_API_KEY"

// Names of the ports of rank 0 beside [engines.PortHTTP].
const (
	portRendezvous = "rendezvous"
	portKVEvents   = "kv_events"
)

// Keys of options.
const (
	optionSpeed        = "speed"
	optionConfig       = "config"
	optionLoadTime     = "load_time"
	optionWakeTime     = "wake_time"
	optionShutdown     = "shutdown_timeout"
	optionFaults       = "faults"
	optionFaultsRank   = "faults_rank"
	optionFaultControl = "fault_control"
)

// stopGrace is the time between the signal and the kill, after what answers may
// take, where the profile says nothing.
const stopGrace = 10 * time.Second

// Metrics returns the simulated engine's metric contract, which is vLLM's.
func Metrics() engines.MetricContract {
	m := vllm.Metrics()
	m.Engine = engines.Sim
	return m
}

// Capabilities returns what the simulated engine does, which is what vLLM does.
func Capabilities() engines.Capabilities { return vllm.Capabilities() }

// sleepTimeout bounds how long an engine may take to fall asleep, and, beyond its
// wake_time, to wake.
const sleepTimeout = 10 * time.Second

// Describe says what the adapter is.
func (Adapter) Describe(context.Context) (engines.Description, error) { return description(), nil }

func description() engines.Description {
	metrics := Metrics()
	return engines.Description{
		Engine:  engines.Sim,
		Title:   "the simulated engine",
		Version: "1",
		Modes: []engines.Mode{
			{Name: "gang", MultiNode: true, Doc: "One process a rank; rank 0 serves when all others have joined, and they serve nothing."},
		},
		Options: []engines.Option{
			{Key: optionSpeed, Doc: "How many times faster than the hardware it simulates. Default 1."},
			{Key: optionConfig, Doc: "Absolute path, on the node, of a file for llmgw sim -c, such as llmgw sim calibrate prints. Default: an 8B model on one card."},
			{Key: optionLoadTime, Doc: "How long each rank loads, such as 40s. Default 0s."},
			{Key: optionWakeTime, Doc: "How long it takes to wake, with sleep, such as 2s. Default 0s."},
			{Key: optionShutdown, Doc: "How long answers may go on after SIGTERM, such as 30s. Default 0s: they are aborted."},
			{Key: optionFaults, Doc: "What goes wrong, as llmgw sim --faults=help explains. Default none."},
			{Key: optionFaultsRank, Doc: "The rank that has the faults alone, from 0. Default: every rank."},
			{Key: optionFaultControl, Values: []string{"false", "true"}, Doc: "Whether clients may cause faults. Default false."},
		},
		ReservedFlags: []string{
			"--listen", "--model", "--alias", "--kv-events", "--shutdown-timeout", "--json", "--enable-sleep-mode",
			"--ranks", "--rank", "--rendezvous", "--replica", "--generation",
		},
		ReservedEnv:  append(launch.CardVariables(), "CUDA_DEVICE_ORDER", apiKeyVariable),
		Capabilities: Capabilities(),
		Metrics:      &metrics,
		Secret: engines.SecretUse{
			Supported: true, By: engines.SecretByEnv,
			OpenPaths: []string{"*"}, ClosedPaths: []string{"/v1/"},
		},
	}
}

// Validate checks p and returns what a replica of it needs.
func (Adapter) Validate(_ context.Context, p engines.Profile) (engines.Shape, error) {
	p = p.WithDefaults()
	fs := description().Faults(p)
	if p.Task == engines.TaskClassify {
		fs.Add("task", "is classify, which is not simulated", "want generate, embed or rerank")
	}
	launch.Ignored(&fs, "the simulated engine", p, map[string]string{
		"revision": "", "expert_parallel": "", "memory_ratio": "", "dtype": "", "kv_cache_dtype": "", "quantization": "",
	})
	optionFaultsOf(&fs, p)
	sizes(&fs, p)
	if err := fs.Err(engines.Sim); err != nil {
		return engines.Shape{}, err
	}
	return shape(p), nil
}

// optionFaultsOf adds what is wrong with values that are no words of a list.
func optionFaultsOf(fs *engines.Faults, p engines.Profile) {
	bad := func(key, problem, advice string) {
		fs.Add("options."+key, fmt.Sprintf("is %q, %s", p.Options[key], problem), advice)
	}
	given := func(key string) (string, bool) {
		v := p.Options[key]
		return v, v != ""
	}
	if v, ok := given(optionSpeed); ok {
		if f, err := strconv.ParseFloat(v, 64); err != nil || !(f >= 1e-6 && f <= 1e9) {
			bad(optionSpeed, "which is no speed", "want 1e-6 to 1e9, e.g. 10")
		}
	}
	if v, ok := given(optionConfig); ok && (!filepath.IsAbs(v) || strings.ContainsRune(v, 0)) {
		bad(optionConfig, "which is no absolute path", "give the file's path on the node, from /")
	}
	for _, key := range []string{optionLoadTime, optionWakeTime, optionShutdown} {
		if v, ok := given(key); ok {
			if d, err := time.ParseDuration(v); err != nil || d < 0 {
				bad(key, "which is no duration", "want e.g. 30s")
			}
		}
	}
	if v, ok := given(optionFaults); ok {
		if _, err := ParseFaults(Faults{}, v); err != nil {
			bad(optionFaults, strings.ReplaceAll(err.Error(), "\n", ", "), "llmgw sim --faults=help explains them")
		}
	}
	if v, ok := given(optionFaultsRank); ok {
		if r, err := strconv.Atoi(v); err != nil || r < 0 || r >= p.Ranks {
			bad(optionFaultsRank, "which is no rank of the profile", fmt.Sprintf("want 0 to %d", p.Ranks-1))
		}
	}
	if grace, shutdown := p.StopGrace, duration(p, optionShutdown); grace > 0 && shutdown >= grace {
		bad(optionShutdown, fmt.Sprintf("and the engine is killed after %v", grace), "raise stop_grace above it")
	}
}

// sizes adds what the engine would refuse when it starts; a file may say
// otherwise.
func sizes(fs *engines.Faults, p engines.Profile) {
	if p.Options[optionConfig] != "" {
		return
	}
	cfg := DefaultConfig()
	if room := cfg.NumGPUBlocks * cfg.BlockSize; p.ContextTokens > room {
		fs.Add("context_tokens", fmt.Sprintf("is %d, and the KV cache holds %d", p.ContextTokens, room), "lower it, or give options.config a file with more num_gpu_blocks")
	}
	if most := cfg.MaxNumBatchedTokens; p.MaxRunning > most {
		fs.Add("max_running", fmt.Sprintf("is %d, and a batch has at most %d tokens", p.MaxRunning, most), "lower it, or give options.config a file with more max_num_batched_tokens")
	}
}

func shape(p engines.Profile) engines.Shape {
	ranks := make([]engines.RankShape, p.Ranks)
	for i := range ranks {
		ranks[i].Cards = p.Cards() / p.Ranks
	}
	leader := &ranks[0]
	leader.ServesHTTP = true
	need := func(name string) {
		leader.Ports = append(leader.Ports, engines.PortNeed{Name: name, Count: 1})
	}
	need(engines.PortHTTP)
	if p.Ranks > 1 {
		need(portRendezvous)
	}
	if p.KVEvents {
		need(portKVEvents)
	}
	return engines.Shape{Ranks: ranks}
}

// Launch builds the launch of one rank.
func (a Adapter) Launch(ctx context.Context, s engines.Shard) (engines.Launch, error) {
	s, err := launch.Begin(ctx, a, engines.Sim, s)
	if err != nil {
		return engines.Launch{}, err
	}
	return a.launch(s), nil
}

func (a Adapter) launch(s engines.Shard) engines.Launch {
	p := s.Profile
	l := engines.Launch{
		Engine:     engines.Command{Executable: cmp.Or(p.Executable, a.Executable, "llmgw"), Args: arguments(s)},
		ServesHTTP: s.Rank == 0,
		Ready:      engines.Readiness{Timeout: cmp.Or(p.LoadTimeout, launch.LoadTimeout), Stalled: launch.Stalled(p)},
		Stop:       engines.Stop{Signal: engines.SignalTerm, Grace: cmp.Or(p.StopGrace, duration(p, optionShutdown)+stopGrace)},
		Logs:       logRules(),
	}
	cards, unset := launch.Cards(s.Cards)
	if s.Rank == 0 {
		l.Ready.Probe = &engines.Probe{Port: s.Ports[engines.PortHTTP], Path: "/health", Timeout: min(5*time.Second, l.Ready.Timeout)}
		if s.Keyed {
			cards[apiKeyVariable] = engines.SecretPlaceholder
		}
		if p.Sleep {
			l.Sleep = vllm.Sleep(s)
			l.Sleep.SleepTimeout, l.Sleep.WakeTimeout = sleepTimeout, duration(p, optionWakeTime)+sleepTimeout
		}
	} else {
		l.Ready.Log = `^Rank \d+ of a simulated engine has joined and loaded`
	}
	l.Engine.Env = launch.Environment(nil, p.Env, cards)
	l.Engine.Unset = unset
	if _, keyed := cards[apiKeyVariable]; !keyed {
		l.Engine.Unset = append(l.Engine.Unset, apiKeyVariable)
	}
	return l
}

func arguments(s engines.Shard) []string {
	p := s.Profile
	args := engines.Args{"sim", "serve"}
	args.Text("--config", p.Options[optionConfig])
	// Values that may begin with a dash are joined to their flags.
	args.Add("--model=" + p.ServedNames[0])
	args.Text("--weights", p.Model)
	for _, name := range p.ServedNames[1:] {
		args.Add("--alias=" + name)
	}
	args.Number("--max-model-len", p.ContextTokens)
	args.Number("--max-num-seqs", p.MaxRunning)
	if p.PriorityScheduling {
		args.Text("--scheduling-policy", PolicyPriority)
	}
	args.Text("--speed", p.Options[optionSpeed])
	args.Text("--load-time", p.Options[optionLoadTime])
	args.Switch("--enable-sleep-mode", p.Sleep)
	args.Text("--wake-time", p.Options[optionWakeTime])
	args.Text("--shutdown-timeout", p.Options[optionShutdown])
	if rank := p.Options[optionFaultsRank]; rank == "" || rank == strconv.Itoa(s.Rank) {
		args.Text("--faults", p.Options[optionFaults])
	}
	args.Switch("--fault-control", p.Options[optionFaultControl] == "true")
	ports := s.LeaderPorts
	if s.Rank == 0 {
		ports = s.Ports
		args.Text("--listen", join(s.Bind, s.Ports[engines.PortHTTP]))
		if p.KVEvents {
			args.Text("--kv-events", "tcp://"+join(s.Bind, s.Ports[portKVEvents]))
		}
	}
	if p.Ranks > 1 {
		args.Text("--ranks", strconv.Itoa(p.Ranks))
		args.Text("--rank", strconv.Itoa(s.Rank))
		args.Text("--rendezvous", join(s.Leader, ports[portRendezvous]))
		args.Add("--replica="+s.Replica, "--generation="+strconv.FormatUint(s.Generation, 10))
	}
	args.Add(p.ExtraArgs...)
	return args
}

func join(host string, port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }

// duration is an option's value; Validate has seen it.
func duration(p engines.Profile, key string) time.Duration {
	d, _ := time.ParseDuration(p.Options[key])
	return d
}

// Checks returns the widest command that the adapter would start.
func (a Adapter) Checks(context.Context) ([]engines.Check, error) {
	ports := map[string]int{engines.PortHTTP: 8000, portRendezvous: 29500, portKVEvents: 5557}
	widest := a.launch(engines.Shard{
		Profile: engines.Profile{
			Engine: engines.Sim, Model: "/models/model", ServedNames: []string{"model", "alias"}, Ranks: 2,
			ContextTokens: 8192, MaxRunning: 64, PriorityScheduling: true, KVEvents: true, Sleep: true,
			Options: map[string]string{
				optionSpeed: "10", optionConfig: "/etc/llmgw/engine.yaml", optionLoadTime: "40s", optionWakeTime: "2s", optionShutdown: "30s",
				optionFaults: "crlf=true", optionFaultControl: "true",
			},
		},
		Replica: "model-1", Generation: 1, Leader: "10.0.0.1", Address: "10.0.0.1", Bind: "10.0.0.1", Ports: ports,
	}).Engine
	widest.Env = launch.Widest(apiKeyVariable)
	return []engines.Check{{
		Name: "serve", Command: widest,
		HelpArgs: []string{"sim", "serve", "--help"}, VersionArgs: []string{"--version"},
		Variables: []string{apiKeyVariable}, HelpLines: 25, Timeout: 10 * time.Second,
	}}, nil
}
