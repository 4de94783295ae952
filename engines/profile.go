package engines

import "time"

// Profile is how a model is to be run: plain data, the same for every engine.
// The zero value of a field leaves the choice to the engine's own default,
// unless the field says otherwise.
type Profile struct {
	// Engine is the engine's name, such as vllm, sglang, llamacpp or sim. Required.
	Engine Name `yaml:"engine" json:"engine"`
	// Executable is a path, or a name looked up in PATH. Default "": the adapter's
	// own.
	Executable string `yaml:"executable" json:"executable,omitempty"`
	// Mode is one of the ways in which the engine's adapter runs it over several
	// nodes. Default "": the first that the adapter names.
	Mode string `yaml:"mode" json:"mode,omitempty"`

	// Model is what the engine loads: a path on the node, or a name that the
	// engine itself can find. Default "": in a catalog, the model's source.
	Model string `yaml:"model" json:"model,omitempty"`
	// Revision is the revision of a model that is a name. Default "": the newest.
	Revision string `yaml:"revision" json:"revision,omitempty"`
	// ServedNames are the names that the engine answers to, at least one, without
	// spaces and not with a dash at the beginning. Default none: in a catalog, the
	// model's name.
	ServedNames []string `yaml:"served_names" json:"served_names,omitempty"`
	// Task is what the model does: generate, embed, rerank or classify. Default "",
	// which is generate.
	Task Task `yaml:"task" json:"task,omitempty"`

	// Ranks is how many shards a replica has, each one process on one node.
	// Default 0, which is 1.
	Ranks int `yaml:"ranks" json:"ranks,omitempty"`
	// TensorParallel is over how many cards each layer is divided, over all ranks
	// together. Default 0, which is 1. A replica takes as many cards as tensor,
	// pipeline and data parallelism multiplied.
	TensorParallel int `yaml:"tensor_parallel" json:"tensor_parallel,omitempty"`
	// PipelineParallel is into how many stages the layers are divided, over all
	// ranks together. Default 0, which is 1.
	PipelineParallel int `yaml:"pipeline_parallel" json:"pipeline_parallel,omitempty"`
	// DataParallel is how many copies of the weights a replica has, over all ranks
	// together. Default 0, which is 1.
	DataParallel int `yaml:"data_parallel" json:"data_parallel,omitempty"`
	// ExpertParallel spreads the experts of a mixture over all cards. Default false.
	ExpertParallel bool `yaml:"expert_parallel" json:"expert_parallel,omitempty"`
	// CPU runs the engine without cards. Default false.
	CPU bool `yaml:"cpu" json:"cpu,omitempty"`

	// ContextTokens bounds prompt plus output of one request, in tokens. Default 0:
	// the engine's own bound.
	ContextTokens int `yaml:"context_tokens" json:"context_tokens,omitempty"`
	// MaxRunning bounds the requests that run at once. Default 0: the engine's own
	// bound.
	MaxRunning int `yaml:"max_running" json:"max_running,omitempty"`
	// MemoryRatio is the part of a card's memory for weights and KV cache
	// together, in (0,1]. Default 0: the engine's own.
	MemoryRatio float64 `yaml:"memory_ratio" json:"memory_ratio,omitempty"`
	// DType is the type of the weights in memory, in the engine's own words, as the
	// next two. Default "": the engine's own.
	DType string `yaml:"dtype" json:"dtype,omitempty"`
	// KVCacheDType is the type of the KV cache. Default "": the engine's own.
	KVCacheDType string `yaml:"kv_cache_dtype" json:"kv_cache_dtype,omitempty"`
	// Quantization is how the weights are quantized. Default "": as the model says.
	Quantization string `yaml:"quantization" json:"quantization,omitempty"`
	// PriorityScheduling makes the engine heed the priority of a request. Default
	// false.
	PriorityScheduling bool `yaml:"priority_scheduling" json:"priority_scheduling,omitempty"`
	// KVEvents makes the engine publish what its prefix cache holds. Default false.
	KVEvents bool `yaml:"kv_events" json:"kv_events,omitempty"`

	// Sleep launches the engine so that it can give its cards' memory back while nobody
	// uses it and keep the weights in its node's memory. An engine that cannot is a
	// fault. Default false.
	Sleep bool `yaml:"sleep" json:"sleep,omitempty"`

	// Options are the adapter's own keys; the page of the engines lists them. One
	// that it does not know is a fault. Default none.
	Options map[string]string `yaml:"options" json:"options,omitempty"`
	// ExtraArgs go last on the command line of every rank that serves or
	// computes, so that they win. What the adapter sets by itself for safety
	// (address, port, key) is a fault here. Default none.
	ExtraArgs []string `yaml:"extra_args" json:"extra_args,omitempty"`
	// Env are further variables of the engine's process. Those that the
	// adapter sets by itself for safety are a fault here. Default none.
	Env map[string]string `yaml:"env" json:"env,omitempty"`

	// LoadTimeout bounds the time from the start of the last rank until the
	// replica is ready. Default 0s: the adapter's; at most 24h.
	LoadTimeout time.Duration `yaml:"load_timeout" json:"load_timeout,omitempty"`
	// StopGrace is how long the engine has between the signal that asks it to
	// end and the one that ends it. Default 0s: the adapter's; at most 24h.
	StopGrace time.Duration `yaml:"stop_grace" json:"stop_grace,omitempty"`
}

// Task is what a model does.
type Task string

// The tasks of models.
const (
	TaskGenerate Task = "generate"
	TaskEmbed    Task = "embed"
	TaskRerank   Task = "rerank"
	TaskClassify Task = "classify"
)

// WithDefaults returns p with Task, Ranks and the parallel sizes set where they
// were left out. p is unchanged.
func (p Profile) WithDefaults() Profile {
	if p.Task == "" {
		p.Task = TaskGenerate
	}
	for _, n := range []*int{&p.Ranks, &p.TensorParallel, &p.PipelineParallel, &p.DataParallel} {
		if *n == 0 {
			*n = 1
		}
	}
	return p
}

// Cards returns how many cards a replica takes over all ranks.
func (p Profile) Cards() int {
	if p.CPU {
		return 0
	}
	p = p.WithDefaults()
	return p.TensorParallel * p.PipelineParallel * p.DataParallel
}
