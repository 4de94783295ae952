package engines

import "time"

// Profile is how a model is to be run: plain data, the same for every engine.
// The zero value of a field leaves the choice to the engine's own default,
// unless the field says otherwise.
type Profile struct {
	// Engine is the engine's name. Required.
	Engine Name `yaml:"engine" json:"engine"`
	// Executable is a path, or a name looked up in PATH. Empty: the adapter's
	// own.
	Executable string `yaml:"executable" json:"executable,omitempty"`
	// Mode is one of [Description.Modes]. Empty: the first of them.
	Mode string `yaml:"mode" json:"mode,omitempty"`

	// Model is what the engine loads: a path on the node, or a name that the
	// engine itself can find. Required, but for engines that load no model at
	// their start.
	Model string `yaml:"model" json:"model,omitempty"`
	// Revision is the revision of a model that is a name.
	Revision string `yaml:"revision" json:"revision,omitempty"`
	// ServedNames are the names that the engine answers to, at least one.
	ServedNames []string `yaml:"served_names" json:"served_names,omitempty"`
	// Task is what the model does. Default [TaskGenerate].
	Task Task `yaml:"task" json:"task,omitempty"`

	// Ranks is how many shards a replica has, each one process on one node.
	// Default 1.
	Ranks int `yaml:"ranks" json:"ranks,omitempty"`
	// TensorParallel, PipelineParallel and DataParallel are over all ranks
	// together. Default 1 each. Cards of a replica: their product.
	TensorParallel   int `yaml:"tensor_parallel" json:"tensor_parallel,omitempty"`
	PipelineParallel int `yaml:"pipeline_parallel" json:"pipeline_parallel,omitempty"`
	DataParallel     int `yaml:"data_parallel" json:"data_parallel,omitempty"`
	// ExpertParallel spreads the experts of a mixture over all cards.
	ExpertParallel bool `yaml:"expert_parallel" json:"expert_parallel,omitempty"`
	// CPU runs the engine without cards.
	CPU bool `yaml:"cpu" json:"cpu,omitempty"`

	// ContextTokens bounds prompt plus output of one request, in tokens.
	ContextTokens int `yaml:"context_tokens" json:"context_tokens,omitempty"`
	// MaxRunning bounds the requests that run at once.
	MaxRunning int `yaml:"max_running" json:"max_running,omitempty"`
	// MemoryRatio is the part of a card's memory for weights and KV cache
	// together, in (0,1].
	MemoryRatio float64 `yaml:"memory_ratio" json:"memory_ratio,omitempty"`
	// DType, KVCacheDType and Quantization are in the engine's own words.
	DType        string `yaml:"dtype" json:"dtype,omitempty"`
	KVCacheDType string `yaml:"kv_cache_dtype" json:"kv_cache_dtype,omitempty"`
	Quantization string `yaml:"quantization" json:"quantization,omitempty"`
	// PriorityScheduling makes the engine heed the priority of a request.
	PriorityScheduling bool `yaml:"priority_scheduling" json:"priority_scheduling,omitempty"`
	// KVEvents makes the engine publish what its prefix cache holds.
	KVEvents bool `yaml:"kv_events" json:"kv_events,omitempty"`

	// Options are the adapter's own keys, [Description.Options]. One that it
	// does not know is a fault.
	Options map[string]string `yaml:"options" json:"options,omitempty"`
	// ExtraArgs go last on the command line of every rank that serves or
	// computes, so that they win. What the adapter sets by itself for safety
	// (address, port, key) is a fault here.
	ExtraArgs []string `yaml:"extra_args" json:"extra_args,omitempty"`
	// Env are further variables of the engine's process. Those that the
	// adapter sets by itself for safety are a fault here.
	Env map[string]string `yaml:"env" json:"env,omitempty"`

	// LoadTimeout bounds the time from the start of the last rank until the
	// replica is ready. Default: the adapter's.
	LoadTimeout time.Duration `yaml:"load_timeout" json:"load_timeout,omitempty"`
	// StopGrace is how long the engine has between the signal that asks it to
	// end and the one that ends it. Default: the adapter's.
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
