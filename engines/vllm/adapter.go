package vllm

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/internal/launch"
)

// Names of the ways in which a replica is spread over ranks.
const (
	modeMP  = "mp"
	modeRay = "ray"
	modeDP  = "dp"
)

// Names of the ports of a rank beside [engines.PortHTTP].
const (
	portMaster   = "master" // where ranks find each other, or data-parallel engines their leader
	portRay      = "ray"    // of Ray: see rayPorts
	portKVEvents = "kv_events"
	portKVReplay = "kv_replay"
)

// Versions from which on vLLM has what not every version has.
const (
	oldest            = "0.11" // all flags that are passed to any version
	sinceOwnMultiNode = "0.12" // --nnodes
	sinceShutdown     = "0.18" // --shutdown-timeout
)

// stopGrace is the time between the signal and the kill where the profile says
// nothing; requests have until headroom before that.
const (
	stopGrace = 45 * time.Second
	headroom  = 15 * time.Second
)

// Adapter launches vLLM, 0.11 and later. The zero value is ready for use.
type Adapter struct{}

var _ engines.Adapter = Adapter{}

// Describe says what the adapter is.
func (Adapter) Describe(context.Context) (engines.Description, error) { return description(), nil }

func description() engines.Description {
	metrics := Metrics()
	return engines.Description{
		Engine:  engines.VLLM,
		Title:   "vLLM",
		Version: "1",
		Tested:  []string{"0.12.0", "0.32.0", "0.33.0"},
		Modes: []engines.Mode{
			{Name: modeMP, MultiNode: true, Doc: "Tensor and pipeline parallel; over nodes by vLLM's own launcher, which is there since 0.12."},
			{Name: modeRay, MultiNode: true, Doc: "Tensor and pipeline parallel; over nodes by Ray, which has to be installed beside vLLM."},
			{Name: modeDP, MultiNode: true, Doc: "Data parallel engines, the same number on each node, behind the leader, which balances over them."},
		},
		Options: []engines.Option{
			{Key: optionTools, Doc: "How calls of tools are found in the output, such as hermes; turns automatic tool choice on. Default: they come as text."},
			{Key: optionReasoning, Doc: "How thinking is told from the answer, such as qwen3. Default: it is not."},
		},
		ReservedFlags: []string{
			"--host", "--port", "--uds", "--grpc", "--grpc-port", "--config", "--model", "--served-model-name",
			"--api-key", "--root-path", "--ssl-keyfile", "--ssl-certfile", "--ssl-ca-certs", "--middleware",
			"--nnodes", "-n", "--node-rank", "-r", "--master-addr", "--master-port", "--headless", "--api-server-count", "-asc",
			"--distributed-executor-backend", "--device-ids",
			"--tensor-parallel-size", "-tp", "--pipeline-parallel-size", "-pp", "--data-parallel-size", "-dp",
			"--data-parallel-size-local", "-dpl", "--data-parallel-start-rank", "-dpr", "--data-parallel-rank", "-dpn",
			"--data-parallel-address", "-dpa", "--data-parallel-rpc-port", "-dpp", "--data-parallel-backend", "-dpb",
			"--data-parallel-hybrid-lb", "-dph", "--data-parallel-external-lb", "-dpe",
			"--data-parallel-multi-port-external-lb", "-dpm", "--data-parallel-supervisor-port",
			"--kv-events-config", "--disable-log-stats", "--shutdown-timeout", "--enable-sleep-mode",
		},
		ReservedEnv: append(launch.CardVariables(),
			"CUDA_DEVICE_ORDER", "PROMETHEUS_MULTIPROC_DIR", "PYTHONHASHSEED", "RAY_ADDRESS", "VLLM_API_KEY", "VLLM_HOST_IP", "VLLM_PORT",
			variableDevMode),
		Capabilities: Capabilities(),
		Metrics:      &metrics,
		// Later versions close /v2, /inference and /cohere as well; the native
		// routes, such as /tokenize, /score and /pooling, are open in all.
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
	if p.Model == "" {
		fs.Add("model", "is empty", "name what vLLM loads; without it, it loads a model of its own choice")
	}
	switch mode := modeOf(p); {
	case mode != modeDP && p.DataParallel > 1:
		fs.Add("data_parallel", fmt.Sprintf("is %d in mode %s", p.DataParallel, mode), "choose mode dp, or run several replicas")
	case mode == modeDP && p.DataParallel == 1:
		fs.Add("data_parallel", "is 1 in mode dp", "set it to the number of engines, 2 or more, or leave the mode out")
	case mode == modeDP && p.Ranks > 0 && p.DataParallel%p.Ranks != 0:
		fs.Add("data_parallel", fmt.Sprintf("is %d over %d ranks", p.DataParallel, p.Ranks), "make it a multiple of ranks: an engine lies within one node in mode dp")
	}
	if p.CPU && p.Ranks > 1 {
		fs.Add("cpu", fmt.Sprintf("is true over %d ranks", p.Ranks), "run vLLM without cards on one node")
	}
	if err := fs.Err(engines.VLLM); err != nil {
		return engines.Shape{}, err
	}
	return shape(p), nil
}

func modeOf(p engines.Profile) string { return cmp.Or(p.Mode, modeMP) }

// byRay reports whether the ranks of p are joined by Ray; one rank needs none.
func byRay(p engines.Profile) bool { return modeOf(p) == modeRay && p.Ranks > 1 }

func shape(p engines.Profile) engines.Shape {
	ranks := make([]engines.RankShape, p.Ranks)
	for i := range ranks {
		r := &ranks[i]
		r.Cards = p.Cards() / p.Ranks
		need := func(name string, count int) {
			r.Ports = append(r.Ports, engines.PortNeed{Name: name, Count: count})
		}
		if i == 0 {
			r.ServesHTTP = true
			need(engines.PortHTTP, 1)
		}
		switch {
		case byRay(p):
			need(portRay, rayPorts)
		case i == 0 && p.Ranks > 1:
			need(portMaster, 1)
		}
		if p.KVEvents && (i == 0 || modeOf(p) == modeDP) {
			need(portKVEvents, p.DataParallel/dataRanks(p))
			need(portKVReplay, p.DataParallel/dataRanks(p))
		}
	}
	return engines.Shape{Ranks: ranks}
}

// dataRanks is over how many ranks the data-parallel engines are spread.
func dataRanks(p engines.Profile) int {
	if modeOf(p) == modeDP {
		return p.Ranks
	}
	return 1
}

// Launch builds the launch of one rank.
func (a Adapter) Launch(ctx context.Context, s engines.Shard) (engines.Launch, error) {
	s, err := launch.Begin(ctx, a, engines.VLLM, s)
	if err != nil {
		return engines.Launch{}, err
	}
	if err := versionFaults(s).Err(engines.VLLM); err != nil {
		return engines.Launch{}, err
	}
	if byRay(s.Profile) {
		return rayLaunch(s), nil
	}
	return serveLaunch(s), nil
}

// serveLaunch is a rank that runs vLLM itself.
func serveLaunch(s engines.Shard) engines.Launch {
	p := s.Profile
	l := engines.Launch{
		Engine:     engines.Command{Executable: cmp.Or(p.Executable, "vllm"), Args: serveArgs(s)},
		ServesHTTP: s.Rank == 0,
		Ready:      engines.Readiness{Timeout: cmp.Or(p.LoadTimeout, launch.LoadTimeout), Stalled: launch.Stalled(p)},
		Stop:       engines.Stop{Signal: engines.SignalTerm, Grace: cmp.Or(p.StopGrace, stopGrace)},
		Logs:       logRules(),
	}
	l.Engine.Env, l.Engine.Unset = environment(s)
	if s.Rank == 0 {
		// The port is bound before the model is loaded, but refuses until then.
		// A rank without HTTP cannot be asked: it is ready as long as it runs,
		// and the leader is ready only when all ranks are.
		l.Ready.Probe = &engines.Probe{Port: s.Ports[engines.PortHTTP], Path: "/health", Timeout: 5 * time.Second}
		if p.Sleep {
			l.Sleep = Sleep(s)
		}
	}
	return l
}

// versionFaults is what a version that is known rules out.
func versionFaults(s engines.Shard) (fs engines.Faults) {
	v := s.EngineVersion
	is := fmt.Sprintf("is %s", v)
	switch {
	case v == "":
	case engines.CompareVersions(v, oldest) < 0:
		fs.Add("engine_version", is, "install vLLM "+oldest+" or later")
	case modeOf(s.Profile) == modeMP && s.Profile.Ranks > 1 && engines.CompareVersions(v, sinceOwnMultiNode) < 0:
		fs.Add("engine_version", is+", whose own launcher knows one node only", "install vLLM "+sinceOwnMultiNode+" or later, or choose mode ray")
	}
	return fs
}

// has reports whether the engine is known to be as new as since.
func has(s engines.Shard, since string) bool {
	return s.EngineVersion != "" && engines.CompareVersions(s.EngineVersion, since) >= 0
}

// beside returns the program of that name from the installation that the
// executable belongs to.
func beside(executable, name string) string {
	if strings.ContainsRune(executable, filepath.Separator) {
		return filepath.Join(filepath.Dir(executable), name)
	}
	return name
}
