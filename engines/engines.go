// Package engines is the vocabulary shared by everything that deals with
// inference engines: their names, what they can do, how one is launched and
// watched, and how its load is read. It holds types and nothing that runs; the
// facts about one engine stand in the package of that name below it, such as
// engines/vllm.
//
// An [Adapter] turns a [Profile], which is how a model is to be run, into the
// [Shape] that a replica needs, and then a [Shard], which is one rank and
// where it runs, into a [Launch]: what to start, when it is ready, how it is
// stopped. Package engines/process does what a Launch says, and
// engines/plugin lets adapters run as programs of their own.
//
// An [Inventory] is what a node has to run them on, and a [NodeState] what
// changes of it from heartbeat to heartbeat.
package engines

import "slices"

// Name is an engine's name as configuration and metrics spell it. The zero
// value means that the engine is not known.
type Name string

// The engines this module knows facts about. Auto stands only in
// configuration: it asks for the engine to be recognised by what it exports.
const (
	Auto     Name = "auto"
	VLLM     Name = "vllm"
	SGLang   Name = "sglang"
	LlamaCPP Name = "llamacpp"
	Ollama   Name = "ollama"
	TGI      Name = "tgi"
	TRTLLM   Name = "trtllm"
	LMDeploy Name = "lmdeploy"
	Triton   Name = "triton"
	TEI      Name = "tei"
	Infinity Name = "infinity"
	MLX      Name = "mlx"
	LMStudio Name = "lmstudio"
)

// Sim is the simulated engine, as profiles name it. It is not of [Names]: what a
// router meets is vLLM.
const Sim Name = "sim"

// Names returns the engine names that configuration may use, sorted, without
// [Auto]. The caller owns the slice.
func Names() []Name {
	names := []Name{
		VLLM, SGLang, LlamaCPP, Ollama, TGI, TRTLLM, LMDeploy, Triton, TEI,
		Infinity, MLX, LMStudio,
	}
	slices.Sort(names)
	return names
}

// Known reports whether n names one engine of [Names]. The empty name and
// [Auto] are not known.
func (n Name) Known() bool { return slices.Contains(Names(), n) }

// Detected reports whether n leaves it to the reader of the engine's metrics
// to find out what runs there: the empty name or [Auto].
func (n Name) Detected() bool { return n == "" || n == Auto }
