package llamacpp

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/internal/launch"
)

// slots is how many requests run at once where the profile does not say: the
// engine's own number, stated, since the context is sized by it.
const slots = 4

// keyFile holds the secret in the shard's directory.
const keyFile = "api-key"

// Adapter launches llama-server on one node. The zero value is ready for use.
//
// It passes few flags, each known to every build from May 2025 on, and none by
// version: what a build says of its version is the packager's choice, and
// often no number. Spreading a model over nodes by llama.cpp's RPC is not
// built: the protocol has neither keys nor encryption.
type Adapter struct{}

var _ engines.Adapter = Adapter{}

// Describe says what the adapter is.
func (Adapter) Describe(context.Context) (engines.Description, error) { return description(), nil }

func description() engines.Description {
	metrics := Metrics()
	return engines.Description{
		Engine:  engines.LlamaCPP,
		Title:   "llama.cpp",
		Version: "1",
		Tested:  []string{"b10068", "b10092", "b10434"},
		ReservedFlags: []string{
			"--host", "--port", "--reuse-port", "--api-key", "--api-key-file", "--api-prefix", "--metrics", "--ssl-key-file", "--ssl-cert-file",
			"--rpc", "--models-dir", "--models-preset",
		},
		ReservedEnv:  append(launch.CardVariables(), ownVariables()...),
		Capabilities: Capabilities(),
		Metrics:      &metrics,
		Secret: engines.SecretUse{
			Supported: true, By: engines.SecretByFile,
			// The names of models need the key since August 2026; before, they
			// were open.
			OpenPaths: []string{"/health", "/v1/health", "/models", "/v1/models", "/"},
		},
	}
}

// ownVariables are those by which llama-server can be told what the adapter
// tells it by flags.
func ownVariables() []string {
	return []string{
		"LLAMA_API_KEY", "LLAMA_ARG_HOST", "LLAMA_ARG_PORT", "LLAMA_ARG_API_PREFIX", "LLAMA_ARG_ENDPOINT_METRICS", "LLAMA_ARG_RPC",
		"LLAMA_ARG_SSL_KEY_FILE", "LLAMA_ARG_SSL_CERT_FILE", "LLAMA_ARG_MODELS_DIR", "LLAMA_ARG_MODELS_PRESET",
	}
}

// Validate checks p and returns what a replica of it needs.
func (Adapter) Validate(_ context.Context, p engines.Profile) (engines.Shape, error) {
	fs := description().Faults(p)
	p = p.WithDefaults()
	switch {
	case p.Model == "":
		fs.Add("model", "is empty", "give the absolute path of a GGUF file, or user/repository:quantization on Hugging Face")
	case strings.HasSuffix(p.Model, ".gguf") && modelFlag(p.Model) == "--hf-repo":
		fs.Add("model", fmt.Sprintf("%q is relative", p.Model), "give the absolute path of the file")
	}
	if len(p.ServedNames) > 0 && strings.Contains(p.ServedNames[0], ",") {
		fs.Add("served_names[0]", fmt.Sprintf("%q has a comma", p.ServedNames[0]), "newer builds read it as two names; leave it out")
	}
	if p.Task == engines.TaskClassify {
		fs.Add("task", "is classify", "llama.cpp can generate, embed or rerank")
	}
	if p.TensorParallel > 1 && p.PipelineParallel > 1 {
		fs.Add("tensor_parallel", "is set beside pipeline_parallel", "llama.cpp splits a model over cards either by rows (tensor) or by layers (pipeline)")
	}
	if parallel := cmp.Or(p.MaxRunning, slots); p.ContextTokens > 0 && p.ContextTokens > math.MaxInt32/max(parallel, 1) {
		fs.Add("context_tokens", fmt.Sprintf("%d for each of %d requests is more than llama.cpp can count", p.ContextTokens, parallel), "lower it, or max_running")
	}
	launch.Ignored(&fs, "llama.cpp", p, map[string]string{
		"revision":            "name the file, or the quantization behind the model's name",
		"data_parallel":       "run several replicas",
		"expert_parallel":     "",
		"memory_ratio":        "set context_tokens and max_running: they decide what the cache takes",
		"dtype":               "the GGUF file has it",
		"quantization":        "the GGUF file has it; on Hugging Face it stands behind the model's name",
		"priority_scheduling": "",
		"kv_events":           "",
	})
	if err := fs.Err(engines.LlamaCPP); err != nil {
		return engines.Shape{}, err
	}
	return launch.OneNode(p), nil
}

// Launch builds the launch of the one rank.
func (a Adapter) Launch(ctx context.Context, s engines.Shard) (engines.Launch, error) {
	s, err := launch.Begin(ctx, a, engines.LlamaCPP, s)
	if err != nil {
		return engines.Launch{}, err
	}
	p := s.Profile
	env, unset := launch.Cards(s.Cards)
	l := engines.Launch{
		Engine: engines.Command{
			Executable: cmp.Or(p.Executable, "llama-server"),
			Args:       arguments(s),
			Env:        launch.Environment(nil, p.Env, env),
			Unset:      append(unset, ownVariables()...),
		},
		ServesHTTP: true,
		Ready: engines.Readiness{
			// It listens before the model is loaded, and answers 503 until then.
			Probe:   &engines.Probe{Port: s.Ports[engines.PortHTTP], Path: "/health", Contains: `"ok"`, Timeout: 5 * time.Second},
			Timeout: cmp.Or(p.LoadTimeout, 30*time.Minute),
		},
		// It ends within some 10 ms and cuts what it is writing: who stops it
		// lets requests end first.
		Stop: engines.Stop{Signal: engines.SignalTerm, Grace: cmp.Or(p.StopGrace, 10*time.Second)},
		Logs: logRules(),
	}
	if s.Keyed {
		l.Files = []engines.File{{Name: keyFile, Content: engines.SecretPlaceholder + "\n"}}
	}
	return l, nil
}

func arguments(s engines.Shard) []string {
	p := s.Profile
	var args engines.Args
	args.Add("--host", s.Bind, "--port", strconv.Itoa(s.Ports[engines.PortHTTP]), "--metrics")
	if s.Keyed {
		args.Add("--api-key-file", filepath.Join(s.Dir, keyFile))
	}
	// One name: a comma makes a list in newer builds and one odd name in older
	// ones. It stands in answers; what a request asks for is not looked at.
	args.Add(modelFlag(p.Model), p.Model, "--alias", p.ServedNames[0])

	parallel := cmp.Or(p.MaxRunning, slots)
	args.Number("--parallel", parallel)
	args.Number("--ctx-size", p.ContextTokens*parallel) // all slots share it
	switch p.Task {
	case engines.TaskEmbed:
		args.Add("--embedding")
	case engines.TaskRerank:
		args.Add("--reranking")
	case engines.TaskGenerate, engines.TaskClassify:
	}
	if p.Task != engines.TaskGenerate {
		// What is embedded has to fit one batch; the engine's is 512.
		args.Number("--batch-size", p.ContextTokens)
		args.Number("--ubatch-size", p.ContextTokens)
	}
	args.Text("--cache-type-k", p.KVCacheDType)
	args.Text("--cache-type-v", p.KVCacheDType)
	if p.CPU {
		args.Add("--n-gpu-layers", "0")
	} else {
		args.Add("--n-gpu-layers", "999") // all; the word is new in 2026
	}
	switch {
	case p.TensorParallel > 1:
		args.Add("--split-mode", "row")
	case p.PipelineParallel > 1:
		args.Add("--split-mode", "layer")
	}
	return append(args, p.ExtraArgs...)
}

// modelFlag returns the flag for a model: a file on the node, an address, or
// the name of a repository.
func modelFlag(model string) string {
	switch {
	case filepath.IsAbs(model):
		return "--model"
	case strings.Contains(model, "://"):
		return "--model-url"
	}
	return "--hf-repo"
}

// Checks returns the one command that there is, with each of its flags.
func (Adapter) Checks(context.Context) ([]engines.Check, error) {
	return []engines.Check{{
		Name: "llama-server",
		Command: engines.Command{
			Executable: "llama-server",
			Args: []string{
				"--host", "127.0.0.1", "--port", "8080", "--metrics", "--api-key-file", "/run/llmgw/api-key",
				"--model", "/models/model.gguf", "--hf-repo", "user/repository:Q4_K_M", "--model-url", "https://models.example/model.gguf",
				"--alias", "name", "--parallel", "4", "--ctx-size", "32768", "--embedding", "--reranking",
				"--batch-size", "8192", "--ubatch-size", "8192", "--cache-type-k", "q8_0", "--cache-type-v", "q8_0",
				"--n-gpu-layers", "999", "--split-mode", "row",
			},
			Env: launch.Widest(),
		},
		HelpArgs:    []string{"--help"},
		VersionArgs: []string{"--version"},
		HelpLines:   400,
		Timeout:     30 * time.Second,
	}}, nil
}
