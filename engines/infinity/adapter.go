package infinity

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/internal/launch"
)

// prefix is where OpenAI's paths begin: without it Infinity serves /embeddings
// and not /v1/embeddings.
const prefix = "/v1"

// Adapter launches Infinity on one node. The zero value is ready for use.
//
// Several cards of a replica hold one copy of the model each
// (data_parallel).
type Adapter struct{}

var _ engines.Adapter = Adapter{}

// Describe says what the adapter is.
func (Adapter) Describe(context.Context) (engines.Description, error) { return description(), nil }

func description() engines.Description {
	return engines.Description{
		Engine:  engines.Infinity,
		Title:   "Infinity",
		Version: "1",
		Tested:  []string{"0.0.78"},
		Options: []engines.Option{
			{Key: "backend", Values: []string{"torch", "optimum", "ctranslate2"}, Doc: "What computes. Default: torch."},
		},
		ReservedFlags: []string{"--host", "--port", "--api-key", "--url-prefix", "--proxy-root-path", "--preload-only"},
		ReservedEnv:   append(launch.CardVariables(), ownVariables()...),
		Capabilities:  Capabilities(),
		Secret: engines.SecretUse{
			Supported: true, By: engines.SecretByEnv,
			OpenPaths: []string{"/", "/health", "/metrics", prefix + "/docs", prefix + "/openapi.json"},
		},
	}
}

// ownVariables are those by which Infinity can be told what the adapter tells
// it by flags.
func ownVariables() []string {
	return []string{"INFINITY_API_KEY", "INFINITY_HOST", "INFINITY_PORT", "INFINITY_URL_PREFIX", "INFINITY_PRELOAD_ONLY"}
}

// Validate checks p and returns what a replica of it needs.
func (Adapter) Validate(_ context.Context, p engines.Profile) (engines.Shape, error) {
	fs := description().Faults(p)
	p = p.WithDefaults()
	if p.Model == "" {
		fs.Add("model", "is empty", "name what Infinity loads; without it, it would load a model of its own choice")
	}
	if len(p.ServedNames) > 1 {
		fs.Add("served_names", fmt.Sprintf("are %d", len(p.ServedNames)), "give one: Infinity loads the model once for each name; the gateway can have more names for it")
	}
	if p.Task == engines.TaskGenerate {
		fs.Add("task", "is generate", "Infinity can embed, rerank or classify: say which")
	}
	launch.Ignored(&fs, "Infinity", p, map[string]string{
		"tensor_parallel":     "set data_parallel: each card has a copy of the model",
		"pipeline_parallel":   "set data_parallel: each card has a copy of the model",
		"expert_parallel":     "",
		"context_tokens":      "the model has it",
		"max_running":         "INFINITY_QUEUE_SIZE in env bounds what waits, --batch-size in extra_args what is computed at once",
		"memory_ratio":        "--batch-size in extra_args bounds what it takes",
		"kv_cache_dtype":      "",
		"quantization":        "set dtype: int8 or fp8",
		"priority_scheduling": "",
		"kv_events":           "",
	})
	if err := fs.Err(engines.Infinity); err != nil {
		return engines.Shape{}, err
	}
	return launch.OneNode(p), nil
}

// Launch builds the launch of the one rank.
func (a Adapter) Launch(ctx context.Context, s engines.Shard) (engines.Launch, error) {
	s, err := launch.Begin(ctx, a, engines.Infinity, s)
	if err != nil {
		return engines.Launch{}, err
	}
	p := s.Profile
	s.Interface, s.HCAs = "", nil // its ranks are all on this node
	// Without the variable it tells its makers what it runs.
	env, unset := launch.Torch(s, map[string]string{"DO_NOT_TRACK": "1"}, ownVariables()...)
	if s.Keyed {
		env["INFINITY_API_KEY"] = engines.SecretPlaceholder
	}
	return engines.Launch{
		Engine: engines.Command{
			Executable: cmp.Or(p.Executable, "infinity_emb"),
			Args:       append(arguments(s), p.ExtraArgs...),
			Env:        env,
			Unset:      launch.Unset(env, unset),
		},
		ServesHTTP: true,
		Ready: engines.Readiness{
			// Beside the prefix, and open with a key too.
			Probe:   &engines.Probe{Port: s.Ports[engines.PortHTTP], Path: "/health", Contains: `"unix"`, Timeout: 10 * time.Second},
			Timeout: cmp.Or(p.LoadTimeout, 15*time.Minute),
		},
		// It ends what runs first, without a bound of its own.
		Stop: engines.Stop{Signal: engines.SignalTerm, Grace: cmp.Or(p.StopGrace, 30*time.Second)},
		Logs: logRules(),
	}, nil
}

func arguments(s engines.Shard) engines.Args {
	p := s.Profile
	var args engines.Args
	args.Add("v2", "--model-id", p.Model)
	args.Text("--revision", p.Revision)
	args.Add(
		"--served-model-name", p.ServedNames[0],
		"--host", s.Bind, "--port", strconv.Itoa(s.Ports[engines.PortHTTP]), "--url-prefix", prefix,
	)
	if len(s.Cards) == 0 {
		args.Add("--device", "cpu")
	} else {
		// Of those that it sees, counted from 0.
		ids := make([]string, len(s.Cards))
		for i := range ids {
			ids[i] = strconv.Itoa(i)
		}
		args.Add("--device", "cuda", "--device-id", strings.Join(ids, ","))
	}
	args.Text("--engine", p.Options["backend"])
	args.Text("--dtype", p.DType)
	return args
}

// Checks returns the one command that there is, with each of its flags. The
// help is a table as wide as COLUMNS says, and cuts flags off in one that is
// narrow.
func (Adapter) Checks(context.Context) ([]engines.Check, error) {
	env := launch.Widest("INFINITY_API_KEY", "DO_NOT_TRACK", "HF_HUB_OFFLINE")
	env["COLUMNS"] = "200"
	widest := engines.Shard{
		Profile: engines.Profile{
			Model: "organisation/model", Revision: "main", ServedNames: []string{"name"}, DType: "float16",
			Options: map[string]string{"backend": "torch"},
		},
		Bind: "127.0.0.1", Ports: map[string]int{engines.PortHTTP: 7997}, Cards: make([]engines.Card, 2),
	}
	return []engines.Check{{
		Name:      "v2",
		Command:   engines.Command{Executable: "infinity_emb", Args: arguments(widest), Env: env},
		HelpArgs:  []string{"v2", "--help"},
		Variables: []string{"INFINITY_API_KEY"},
		HelpLines: 60,
		Timeout:   2 * time.Minute, // it imports torch
	}}, nil
}

// logRules say what Infinity prints, the special before the general.
func logRules() []engines.LogRule {
	failed := func(match, reason, advice string) engines.LogRule {
		return engines.LogRule{Match: match, Phase: engines.PhaseFailed, Reason: reason, Advice: advice}
	}
	return slices.Concat(
		[]engines.LogRule{
			failed(`(\S+) is not available\. install via`, "the Python package $1 is missing", "install infinity_emb with what the backend needs, such as infinity_emb[torch,server]"),
			failed(`cannot assign requested address`, "its address is not this node's", "give the node's address"),
		},
		launch.PythonFaults(),
		[]engines.LogRule{
			failed(`Application startup failed`, "it did not start", "read the lines before it"),
			{Match: `Creating \d+ engines|model=.* selected, using engine=`, Phase: engines.PhaseLoading},
			{Match: `Getting timings for batch_size`, Phase: engines.PhaseWarming},
			{Match: `Application startup complete|Uvicorn running on`, Phase: engines.PhaseListening},
			{Match: `^INFO: +Shutting down`, Phase: engines.PhaseStopping},
		},
	)
}
