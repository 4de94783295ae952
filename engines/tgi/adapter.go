package tgi

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/internal/launch"
)

// Names of the ports beside [engines.PortHTTP].
const (
	portMetrics = "metrics" // a second door to the metrics page; it cannot be shut
	portMaster  = "master"  // rendezvous of the shards of one node
)

// longestSocket is how long the path of a Unix socket may be, less what the
// engine puts behind it.
const longestSocket = 107 - len("-00")

// Adapter launches TGI on one node. The zero value is ready for use.
//
// TGI answers to every name: what a request asks for is taken for that of a
// LoRA, and an unknown one gets the base model. So no name is passed to it, and
// whoever sends it requests has to know the names. The flags are those of every
// version from 2.4.0 on.
type Adapter struct{}

var _ engines.Adapter = Adapter{}

// Describe says what the adapter is.
func (Adapter) Describe(context.Context) (engines.Description, error) { return description(), nil }

func description() engines.Description {
	metrics := Metrics()
	return engines.Description{
		Engine:  engines.TGI,
		Title:   "TGI",
		Version: "1",
		Tested:  []string{"2.4.0", "3.3.7"},
		ReservedFlags: []string{
			"--hostname", "--port", "-p", "--prometheus-port", "--master-addr", "--master-port", "--shard-uds-path", "--api-key", "--ngrok",
		},
		ReservedEnv:  append(launch.CardVariables(), ownVariables()...),
		Capabilities: Capabilities(),
		Metrics:      &metrics,
		// The launcher hands the key to its web server as an argument, and
		// prints it in its log: whoever has a login on the node can see it.
		Secret: engines.SecretUse{
			Supported: true, By: engines.SecretByEnv,
			OpenPaths: []string{"/", "/health", "/ping", "/info", "/metrics", "/v1/models", "/chat_tokenize", "/docs/", "/api-doc/"},
		},
	}
}

// ownVariables are those by which TGI can be told what the adapter tells it by
// flags, and those that move its port and routes in an image for Google.
func ownVariables() []string {
	return []string{
		"API_KEY", "HOSTNAME", "PORT", "PROMETHEUS_PORT", "MASTER_ADDR", "MASTER_PORT", "SHARD_UDS_PATH", "NGROK",
		"AIP_HTTP_PORT", "AIP_HEALTH_ROUTE", "AIP_PREDICT_ROUTE",
	}
}

// Validate checks p and returns what a replica of it needs.
func (Adapter) Validate(_ context.Context, p engines.Profile) (engines.Shape, error) {
	fs := description().Faults(p)
	p = p.WithDefaults()
	if p.Model == "" {
		fs.Add("model", "is empty", "name what TGI loads; without it, it would load a model of its own choice")
	}
	if p.Task != engines.TaskGenerate {
		fs.Add("task", "is "+string(p.Task), "TGI can only generate; TEI embeds, ranks and classifies")
	}
	if p.ContextTokens == 1 {
		fs.Add("context_tokens", "is 1", "a prompt and an answer need one each")
	}
	launch.Ignored(&fs, "TGI", p, map[string]string{
		"pipeline_parallel":   "set tensor_parallel",
		"data_parallel":       "run several replicas",
		"expert_parallel":     "",
		"priority_scheduling": "",
		"kv_events":           "",
	})
	if err := fs.Err(engines.TGI); err != nil {
		return engines.Shape{}, err
	}
	return launch.OneNode(p, portMetrics, portMaster), nil
}

// Launch builds the launch of the one rank.
func (a Adapter) Launch(ctx context.Context, s engines.Shard) (engines.Launch, error) {
	s, err := launch.Begin(ctx, a, engines.TGI, s)
	if err != nil {
		return engines.Launch{}, err
	}
	socket := filepath.Join(s.Dir, "tgi")
	if len(socket) > longestSocket {
		var fs engines.Faults
		fs.Add("dir", fmt.Sprintf("%q is too long for sockets in it", s.Dir), fmt.Sprintf("want at most %d bytes", longestSocket-len("/tgi")))
		return engines.Launch{}, fs.Err(engines.TGI)
	}
	p := s.Profile
	s.Interface, s.HCAs = "", nil // its ranks are all on this node
	// Versions that do not know the variable tell nobody anything.
	env, unset := launch.Torch(s, map[string]string{"USAGE_STATS": "off"}, ownVariables()...)
	// Its flag is new in 3.3.0; older versions open no such port and do not
	// look at the variable.
	env["PROMETHEUS_PORT"] = strconv.Itoa(s.Ports[portMetrics])
	if s.Keyed {
		env["API_KEY"] = engines.SecretPlaceholder
	}
	return engines.Launch{
		Engine: engines.Command{
			Executable: cmp.Or(p.Executable, "text-generation-launcher"),
			Args:       append(arguments(s, socket), p.ExtraArgs...),
			Env:        env,
			Unset:      launch.Unset(env, unset),
		},
		ServesHTTP: true,
		Ready: engines.Readiness{
			Probe:   &engines.Probe{Port: s.Ports[engines.PortHTTP], Path: "/health", Timeout: 10 * time.Second},
			Timeout: cmp.Or(p.LoadTimeout, 30*time.Minute),
		},
		// It ends what runs first, for 90 s by default.
		Stop: engines.Stop{Signal: engines.SignalTerm, Grace: cmp.Or(p.StopGrace, 100*time.Second)},
		Logs: logRules(),
	}, nil
}

func arguments(s engines.Shard, socket string) engines.Args {
	p := s.Profile
	var args engines.Args
	args.Add("--model-id", p.Model)
	args.Text("--revision", p.Revision)
	args.Add(
		"--hostname", s.Bind, "--port", strconv.Itoa(s.Ports[engines.PortHTTP]),
		"--master-addr", "localhost", "--master-port", strconv.Itoa(s.Ports[portMaster]),
		"--shard-uds-path", socket,
		"--num-shard", strconv.Itoa(p.TensorParallel),
	)
	args.Text("--dtype", p.DType)
	args.Text("--kv-cache-dtype", p.KVCacheDType)
	args.Text("--quantize", p.Quantization)
	if p.ContextTokens > 1 {
		args.Add("--max-input-tokens", strconv.Itoa(p.ContextTokens-1), "--max-total-tokens", strconv.Itoa(p.ContextTokens))
	}
	args.Number("--max-concurrent-requests", p.MaxRunning)
	args.Ratio("--cuda-memory-fraction", p.MemoryRatio)
	return args
}

// Checks returns the one command that there is, with each of its flags.
func (Adapter) Checks(context.Context) ([]engines.Check, error) {
	widest := engines.Shard{
		Profile: engines.Profile{
			Model: "organisation/model", Revision: "main", TensorParallel: 2, DType: "bfloat16", KVCacheDType: "fp8_e4m3fn", Quantization: "fp8",
			ContextTokens: 32768, MaxRunning: 128, MemoryRatio: 0.9,
		},
		Bind: "127.0.0.1", Ports: map[string]int{engines.PortHTTP: 3000, portMaster: 29500},
	}
	return []engines.Check{{
		Name:        "text-generation-launcher",
		Command:     engines.Command{Executable: "text-generation-launcher", Args: arguments(widest, "/run/llmgw/tgi"), Env: launch.Widest("API_KEY", "USAGE_STATS", "PROMETHEUS_PORT", "HF_HUB_OFFLINE")},
		HelpArgs:    []string{"--help"},
		VersionArgs: []string{"--version"},
		Variables:   []string{"API_KEY"},
		HelpLines:   200,
		Timeout:     time.Minute,
	}}, nil
}

// logRules say what TGI prints, the special before the general.
func logRules() []engines.LogRule {
	failed := func(match, reason, advice string) engines.LogRule {
		return engines.LogRule{Match: match, Phase: engines.PhaseFailed, Reason: reason, Advice: advice}
	}
	return slices.Concat(
		[]engines.LogRule{
			failed(`NotEnoughCUDADevices|not enough cuda devices`, "it sees fewer cards than tensor_parallel", "see what CUDA_VISIBLE_DEVICES of the launch names, and what the node has"),
			failed(`text-generation-(server|router) not found in PATH`, "the program text-generation-$1 is not in PATH", "install it beside the launcher"),
			failed(`ArgumentValidation\("(.*)"\)`, "it refuses its arguments: $1", "change the profile"),
			failed(`Not enough memory to handle`, "the card has no room for a batch as large as it may become", "lower context_tokens, or --max-batch-prefill-tokens in extra_args"),
		},
		launch.PythonFaults(),
		[]engines.LogRule{
			failed(`DownloadError|Download encountered an error`, "the model could not be fetched", "give the node a way to the model, or the path of a folder that holds it"),
			failed(`ShardCannotStart|Shard cannot start|Shard \d+ failed to start|Shard \d+ crashed`, "a shard did not start", "read the lines before it"),
			failed(`Webserver Crashed|WebserverFailed|WebserverCannotStart|Failed to start webserver`, "its web server did not start", "read the lines before it"),
			{Match: `Starting (?:check and )?download|Starting shard|Waiting for shard to be ready`, Phase: engines.PhaseLoading},
			{Match: `Shard ready in|Warming up model`, Phase: engines.PhaseWarming},
			{Match: `\bConnected\b`, Phase: engines.PhaseListening},
			{Match: `Terminating webserver|Shutting down shards`, Phase: engines.PhaseStopping},
		},
	)
}
