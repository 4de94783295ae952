package llamacpp

import "github.com/llmgw/llmgw/engines"

// logRules say what llama-server prints, the special before the general. The
// words are those of builds b10068 to b10434 (seen), with older ones beside
// them.
func logRules() []engines.LogRule {
	failed := func(match, reason, advice string) engines.LogRule {
		return engines.LogRule{Match: match, Phase: engines.PhaseFailed, Reason: reason, Advice: advice}
	}
	return []engines.LogRule{
		failed(`failed to open GGUF file '([^']*)' \(([^)]*)\)`, "the model's file $1 cannot be opened: $2",
			"see that the path is right on this node and that the engine's user may read it"),
		failed(`invalid magic characters`, "the model's file is no GGUF file",
			"convert it, or fetch it again: a file that was cut off or a page with an error looks like this"),
		failed(`unknown model architecture: '([^']*)'`, "this build does not know the architecture $1", "run a newer build of llama-server"),
		failed(`couldn't bind (?:HTTP )?server socket`, "its address is taken, or is not this node's", "see what listens there, and which address the node has"),
		failed(`V cache quantization requires flash_attn`, "the cache type of values needs flash attention, which this build does not turn on by itself",
			"add --flash-attn to extra_args, or leave kv_cache_dtype out"),
		// A failed allocation alone says nothing: some are tried again, smaller.
		failed(`error loading model: unable to allocate|failed to initialize the context: failed to allocate`, "the memory of the card or the node is too small for model and cache",
			"lower context_tokens or max_running, set kv_cache_dtype, or take a smaller quantization or more cards"),
		failed(`failed to create[ _](?:llama_)?context`, "the cache for context_tokens × max_running could not be made",
			"read the line before it: a cache type that the model cannot have, or too little memory"),
		failed(`failed to open file '([^']*)'`, "the file $1 cannot be opened", "see that it is there and that the engine's user may read it"),
		failed(`(?i)failed to download|HTTPLIB failed|could not resolve host`, "the model could not be fetched", "give the node a way to the model's address, or the file itself"),
		failed(`error loading model|failed to load model|exiting due to model loading error`, "the model could not be loaded", "read the lines before it"),
		failed(`exiting due to HTTP server error`, "it could not listen", "read the lines before it"),
		{Match: `loading model|llama_model_loader:`, Phase: engines.PhaseLoading},
		{Match: `warming up the model|initializing(?: slots)?, n_slots`, Phase: engines.PhaseWarming},
		{Match: `listening on http|server is listening on|all slots are idle`, Phase: engines.PhaseListening},
		{Match: `cleaning up before exit`, Phase: engines.PhaseStopping},
	}
}
