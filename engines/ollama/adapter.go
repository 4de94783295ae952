package ollama

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/internal/launch"
)

// Adapter launches Ollama on one node. The zero value is ready for use.
//
// Ollama takes no flags, only variables, and no model: it loads one when it is
// first asked for, which takes as long as a start elsewhere, and keeps it then
// for as long as it runs. The launch is ready when Ollama answers; who wants
// the model to be in memory before the first request sends one of his own, as
// the documentation says. The variables are those that help names from version
// 0.12.0 on.
type Adapter struct{}

var _ engines.Adapter = Adapter{}

// Describe says what the adapter is.
func (Adapter) Describe(context.Context) (engines.Description, error) { return description(), nil }

func description() engines.Description {
	return engines.Description{
		Engine:  engines.Ollama,
		Title:   "Ollama",
		Version: "1",
		Tested:  []string{"0.12.0", "0.33.0-rc2"},
		Options: []engines.Option{
			{Key: "models_dir", Doc: "The absolute path of the store of models. Default: .ollama/models in the home of the engine's user."},
		},
		ReservedEnv:  append(launch.CardVariables(), "OLLAMA_HOST"),
		Capabilities: Capabilities(),
		// It has no keys at all: a router has to look what is behind the port.
		Secret: engines.SecretUse{},
	}
}

// Validate checks p and returns what a replica of it needs.
func (Adapter) Validate(_ context.Context, p engines.Profile) (engines.Shape, error) {
	fs := description().Faults(p)
	p = p.WithDefaults()
	// A name that is in no store is refused by the engine (404).
	if p.Model != "" && !slices.ContainsFunc(p.ServedNames, func(name string) bool { return tag(name) == tag(p.Model) }) {
		fs.Add("served_names", fmt.Sprintf("%q is not among them", p.Model), "Ollama answers to the names of its store alone: serve the model under its own, and give it others in the gateway")
	}
	if p.Task == engines.TaskRerank || p.Task == engines.TaskClassify {
		fs.Add("task", "is "+string(p.Task), "Ollama can generate or embed")
	}
	if p.Task == engines.TaskGenerate && p.ContextTokens == 0 {
		fs.Add("context_tokens", "is not set", "set it: Ollama's own choice depends on the card and the version, and it drops what does not fit without a word")
	}
	if dir, given := p.Options["models_dir"]; given && !strings.HasPrefix(dir, "/") {
		fs.Add("options.models_dir", fmt.Sprintf("%q is not absolute", dir), "give the absolute path of the store")
	}
	launch.Ignored(&fs, "Ollama", p, map[string]string{
		"revision":            "the name of a model has its tag",
		"tensor_parallel":     "Ollama spreads layers over cards: set pipeline_parallel",
		"data_parallel":       "run several replicas",
		"expert_parallel":     "",
		"memory_ratio":        "OLLAMA_GPU_OVERHEAD in env sets memory aside, in bytes",
		"dtype":               "the name of a model has its tag",
		"quantization":        "the name of a model has its tag",
		"priority_scheduling": "",
		"kv_events":           "",
		"extra_args":          "set variables in env: ollama serve takes no flags",
	})
	if err := fs.Err(engines.Ollama); err != nil {
		return engines.Shape{}, err
	}
	return launch.OneNode(p), nil
}

// tag returns a model's name with its tag, "latest" where there is none.
func tag(model string) string {
	if strings.Contains(model[strings.LastIndex(model, "/")+1:], ":") {
		return model
	}
	return model + ":latest"
}

// Launch builds the launch of the one rank.
func (a Adapter) Launch(ctx context.Context, s engines.Shard) (engines.Launch, error) {
	s, err := launch.Begin(ctx, a, engines.Ollama, s)
	if err != nil {
		return engines.Launch{}, err
	}
	if s.Keyed {
		var fs engines.Faults
		fs.Add("keyed", "is true, and Ollama knows no keys", "let the router look what is behind the port, and keep strangers from it")
		return engines.Launch{}, fs.Err(engines.Ollama)
	}
	cards, unset := launch.Cards(s.Cards)
	cards["OLLAMA_HOST"] = net.JoinHostPort(s.Bind, strconv.Itoa(s.Ports[engines.PortHTTP]))
	p := s.Profile
	return engines.Launch{
		Engine: engines.Command{
			Executable: cmp.Or(p.Executable, "ollama"),
			Args:       []string{"serve"},
			Env:        launch.Environment(variables(p), p.Env, cards),
			Unset:      unset,
		},
		ServesHTTP: true,
		Ready: engines.Readiness{
			Probe:   &engines.Probe{Port: s.Ports[engines.PortHTTP], Path: "/api/version", Contains: `"version"`, Timeout: 5 * time.Second},
			Timeout: cmp.Or(p.LoadTimeout, 2*time.Minute),
		},
		// It cuts what it is writing at once; its runners need a moment.
		Stop: engines.Stop{Signal: engines.SignalTerm, Grace: cmp.Or(p.StopGrace, 15*time.Second)},
		Logs: logRules(),
	}, nil
}

// variables are what a profile leads to. All of them may be changed by the
// profile's own.
func variables(p engines.Profile) map[string]string {
	env := map[string]string{
		"OLLAMA_KEEP_ALIVE": "-1", // for as long as it runs
		// Of those named, none pushes another out.
		"OLLAMA_MAX_LOADED_MODELS": strconv.Itoa(len(p.ServedNames)),
	}
	if dir := p.Options["models_dir"]; dir != "" {
		env["OLLAMA_MODELS"] = dir
	}
	if p.ContextTokens > 0 {
		env["OLLAMA_CONTEXT_LENGTH"] = strconv.Itoa(p.ContextTokens)
	}
	if p.MaxRunning > 0 {
		env["OLLAMA_NUM_PARALLEL"] = strconv.Itoa(p.MaxRunning)
	}
	if p.KVCacheDType != "" {
		env["OLLAMA_KV_CACHE_TYPE"] = p.KVCacheDType
		env["OLLAMA_FLASH_ATTENTION"] = "1" // without it the type is not heeded
	}
	if p.PipelineParallel > 1 {
		env["OLLAMA_SCHED_SPREAD"] = "1"
	}
	if p.LoadTimeout > 0 {
		env["OLLAMA_LOAD_TIMEOUT"] = p.LoadTimeout.String()
	}
	return env
}

// Checks returns the one command that there is. Its help names the variables.
func (Adapter) Checks(context.Context) ([]engines.Check, error) {
	variables := []string{
		"OLLAMA_HOST", "OLLAMA_MODELS", "OLLAMA_KEEP_ALIVE", "OLLAMA_MAX_LOADED_MODELS", "OLLAMA_CONTEXT_LENGTH", "OLLAMA_NUM_PARALLEL",
		"OLLAMA_KV_CACHE_TYPE", "OLLAMA_FLASH_ATTENTION", "OLLAMA_SCHED_SPREAD", "OLLAMA_LOAD_TIMEOUT",
	}
	return []engines.Check{{
		Name:        "serve",
		Command:     engines.Command{Executable: "ollama", Args: []string{"serve"}, Env: launch.Widest(variables...)},
		HelpArgs:    []string{"serve", "--help"},
		VersionArgs: []string{"--version"},
		Variables:   variables,
		HelpLines:   20,
		Timeout:     30 * time.Second,
	}}, nil
}

// logRules say what Ollama prints of itself. What its runners print of a load
// comes long after it is ready.
func logRules() []engines.LogRule {
	return []engines.LogRule{
		{
			Match: `bind: address already in use`, Phase: engines.PhaseFailed,
			Reason: "its port is taken", Advice: "see what listens there: often an Ollama that the system started",
		},
		{
			Match: `bind: cannot assign requested address`, Phase: engines.PhaseFailed,
			Reason: "its address is not this node's", Advice: "give the node's address",
		},
		{
			Match: `\$HOME is not defined`, Phase: engines.PhaseFailed,
			Reason: "it has no home to keep its key in", Advice: "set HOME in env",
		},
		{
			Match: `(?:mkdir|open) (\S+): permission denied`, Phase: engines.PhaseFailed,
			Reason: "it may not write $1", Advice: "give options.models_dir a folder of the engine's user",
		},
		{Match: `Listening on .*\(version`, Phase: engines.PhaseListening},
	}
}
