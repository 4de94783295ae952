package tei

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/internal/launch"
)

// portMetrics is the port of a second door to the metrics page. Builds for
// HTTP set it aside and leave it shut; those for gRPC open it.
const portMetrics = "metrics"

// longestSocket is how long the path of a Unix socket may be.
const longestSocket = 107

// Adapter launches TEI: one process with one card, or none. The zero value is
// ready for use. The flags are those of every version from 1.5.0 on.
type Adapter struct{}

var _ engines.Adapter = Adapter{}

// Describe says what the adapter is.
func (Adapter) Describe(context.Context) (engines.Description, error) { return description(), nil }

func description() engines.Description {
	metrics := Metrics()
	return engines.Description{
		Engine:  engines.TEI,
		Title:   "TEI",
		Version: "1",
		Tested:  []string{"1.5.0", "1.6.0", "1.9.3"},
		Options: []engines.Option{
			{Key: "pooling", Values: []string{"cls", "mean", "splade", "last-token"}, Doc: "How the vectors of tokens become one. Default: as the model's files say."},
		},
		ReservedFlags: []string{"--hostname", "--port", "-p", "--prometheus-port", "--uds-path", "--api-key"},
		ReservedEnv:   append(launch.CardVariables(), ownVariables()...),
		Capabilities:  Capabilities(),
		Metrics:       &metrics,
		// It prints its arguments, the key among them, in its log.
		Secret: engines.SecretUse{
			Supported: true, By: engines.SecretByEnv,
			OpenPaths: []string{"/", "/health", "/ping", "/metrics", "/docs/", "/api-doc/"},
		},
	}
}

// ownVariables are those by which TEI can be told what the adapter tells it by
// flags, and those that move its port and routes in an image for Google.
func ownVariables() []string {
	return []string{
		"API_KEY", "HOSTNAME", "PORT", "PROMETHEUS_PORT", "UDS_PATH", "SERVED_MODEL_NAME",
		"AIP_HTTP_PORT", "AIP_HEALTH_ROUTE", "AIP_PREDICT_ROUTE",
	}
}

// Validate checks p and returns what a replica of it needs.
func (Adapter) Validate(_ context.Context, p engines.Profile) (engines.Shape, error) {
	fs := description().Faults(p)
	p = p.WithDefaults()
	if p.Model == "" {
		fs.Add("model", "is empty", "name what TEI loads")
	}
	if p.Task == engines.TaskGenerate {
		fs.Add("task", "is generate", "TEI can embed, rerank or classify: say which")
	}
	if p.Options["pooling"] != "" && p.Task != engines.TaskEmbed {
		fs.Add("options.pooling", "is set, and the task is "+string(p.Task), "only what embeds pools")
	}
	launch.Ignored(&fs, "TEI", p, map[string]string{
		"tensor_parallel":     "it takes one card: run several replicas",
		"pipeline_parallel":   "it takes one card: run several replicas",
		"data_parallel":       "it takes one card: run several replicas",
		"expert_parallel":     "",
		"context_tokens":      "the model has it; longer input is cut off or refused, as --auto-truncate says",
		"memory_ratio":        "--max-batch-tokens in extra_args bounds what it takes",
		"kv_cache_dtype":      "",
		"quantization":        "",
		"priority_scheduling": "",
		"kv_events":           "",
	})
	if err := fs.Err(engines.TEI); err != nil {
		return engines.Shape{}, err
	}
	return launch.OneNode(p, portMetrics), nil
}

// Launch builds the launch of the one rank.
func (a Adapter) Launch(ctx context.Context, s engines.Shard) (engines.Launch, error) {
	s, err := launch.Begin(ctx, a, engines.TEI, s)
	if err != nil {
		return engines.Launch{}, err
	}
	socket := filepath.Join(s.Dir, "tei")
	if len(socket) > longestSocket {
		var fs engines.Faults
		fs.Add("dir", fmt.Sprintf("%q is too long for a socket in it", s.Dir), fmt.Sprintf("want at most %d bytes", longestSocket-len("/tei")))
		return engines.Launch{}, fs.Err(engines.TEI)
	}
	p := s.Profile
	fixed, unset := launch.Cards(s.Cards)
	unset = append(unset, ownVariables()...)
	// Their flags are new in 1.7.1 and 1.9.0; older versions do not look at the
	// variables, and write the model's own name in answers.
	fixed["PROMETHEUS_PORT"] = strconv.Itoa(s.Ports[portMetrics])
	fixed["SERVED_MODEL_NAME"] = p.ServedNames[0]
	if s.Keyed {
		fixed["API_KEY"] = engines.SecretPlaceholder
	}
	return engines.Launch{
		Engine: engines.Command{
			Executable: cmp.Or(p.Executable, "text-embeddings-router"),
			Args:       append(arguments(s, socket), p.ExtraArgs...),
			Env:        launch.Environment(nil, p.Env, fixed),
			Unset:      launch.Unset(fixed, unset),
		},
		ServesHTTP: true,
		Ready: engines.Readiness{
			Probe:   &engines.Probe{Port: s.Ports[engines.PortHTTP], Path: "/health", Timeout: 10 * time.Second},
			Timeout: cmp.Or(p.LoadTimeout, 15*time.Minute),
		},
		// It ends what runs first, without a bound of its own.
		Stop: engines.Stop{Signal: engines.SignalTerm, Grace: cmp.Or(p.StopGrace, 30*time.Second)},
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
		"--uds-path", socket,
	)
	args.Text("--dtype", p.DType)
	args.Text("--pooling", p.Options["pooling"])
	args.Number("--max-concurrent-requests", p.MaxRunning)
	return args
}

// Checks returns the one command that there is, with each of its flags.
func (Adapter) Checks(context.Context) ([]engines.Check, error) {
	widest := engines.Shard{
		Profile: engines.Profile{
			Model: "organisation/model", Revision: "main", DType: "float16", MaxRunning: 512,
			Options: map[string]string{"pooling": "cls"},
		},
		Bind: "127.0.0.1", Ports: map[string]int{engines.PortHTTP: 3000},
	}
	return []engines.Check{{
		Name:        "text-embeddings-router",
		Command:     engines.Command{Executable: "text-embeddings-router", Args: arguments(widest, "/run/llmgw/tei"), Env: launch.Widest("API_KEY", "PROMETHEUS_PORT", "SERVED_MODEL_NAME")},
		HelpArgs:    []string{"--help"},
		VersionArgs: []string{"--version"},
		Variables:   []string{"API_KEY"},
		HelpLines:   100,
		Timeout:     30 * time.Second,
	}}, nil
}

// logRules say what TEI prints, the special before the general.
func logRules() []engines.LogRule {
	failed := func(match, reason, advice string) engines.LogRule {
		return engines.LogRule{Match: match, Phase: engines.PhaseFailed, Reason: reason, Advice: advice}
	}
	return []engines.LogRule{
		failed(`CUDA_ERROR_OUT_OF_MEMORY|out of memory`, "the memory of the card is too small for the model and its warm-up", "set --max-batch-tokens lower in extra_args"),
		failed(`Could not bind TCP Listener on (\S+)`, "its address $1 is taken, or is not this node's", "see what listens there, and which address the node has"),
		failed(`Could not download model artifacts`, "the model could not be fetched", "give the node a way to the model, or the path of a folder that holds it"),
		failed("`config.json` not found|Failed to parse `config.json`|tokenizer.json not found", "the model's folder lacks files", "give a folder with config.json, tokenizer.json and weights"),
		failed("The `--pooling` arg is not set", "the model's files do not say how to pool", "set options.pooling"),
		failed(`Could not create backend`, "no backend of this build can run the model", "read the lines behind it, and compare build, card and model"),
		failed(`Model backend is not healthy`, "the backend failed in its warm-up", "read the lines behind it"),
		{Match: `Starting download|Downloading|Starting \d+ tokenization workers|Starting model backend|Starting Bert|Starting Flash`, Phase: engines.PhaseLoading},
		{Match: `Warming up model`, Phase: engines.PhaseWarming},
		{Match: `Starting HTTP server|\bReady\b`, Phase: engines.PhaseListening},
		{Match: `signal received, starting graceful shutdown`, Phase: engines.PhaseStopping},
	}
}
